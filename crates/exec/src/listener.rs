//! The data port: who dials in says which edge of which flow it brings, and gets it only with the edge's token.

use crate::connection::{Abort, Link, Origin};
use crate::lock;
use crate::threads::Threads;
use flow::bound::EdgeEnd;
use model::{Fault, FlowId, Token};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use wire::call::{Head, MAX_CALL_BYTES};
use wire::frame::{HELLO_BYTES, Hello, Reply};
use wire::{limits, proto};

/// Connections that may wait for a Hello at once; more are closed at once, so that nobody can exhaust the process.
const MAX_WAITING: usize = 1024;

/// … of them those whose flow has ended and that may bring another. Closed, they are made anew; they must not take the
/// place of new ones.
const MAX_IDLE: usize = 512;

/// A new connection says its Hello within this time.
const FIRST_HELLO: Duration = Duration::from_secs(5);

/// A pooled connection may be silent this long before it is closed.
const NEXT_HELLO: Duration = Duration::from_secs(60);

/// From so many calls on one after another a connection is attended ([`Attendants`]); after a flow at once.
const CALLS_TO_ATTEND: u32 = 2;

/// Connections that are attended at most, by a thread each; the runtime serves the others.
const MAX_ATTENDED: usize = 64;

/// A connection is attended so long after its flow or its last call.
const ATTENDED_FOR: Duration = Duration::from_secs(1);

/// A call that has begun comes in so many reads at most, each as long as that …
const CALL_READS: usize = 16;

/// … and its answer is taken within this time.
const ANSWER_TAKEN: Duration = Duration::from_secs(5);

/// Most calls come with the first read.
const FIRST_READ_BYTES: usize = 4096;

/// Who calls for an edge that nobody expects yet is kept waiting so long: stages start when they are prepared, some
/// before their neighbours are. Less than a caller waits for its answer.
const EARLY_HELLO: Duration = Duration::from_millis(limits::ANSWER_TIMEOUT_MS / 2);

/// Edges that prepared stages expect somebody to dial in for.
#[derive(Debug, Default)]
pub struct Expected {
    edges: Mutex<HashMap<EdgeKey, Slot>>,
    announced: Notify,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct EdgeKey {
    flow: FlowId,
    attempt: u32,
    lane: u16,
    edge: u16,
}

#[derive(Debug)]
struct Slot {
    token: Token,
    dialer_sends: bool,
    deliver: mpsc::SyncSender<Link>,
}

impl Expected {
    /// Announces an edge; the link arrives on the receiver.
    pub fn announce(
        &self,
        flow: FlowId,
        attempt: u32,
        end: &EdgeEnd,
        dialer_sends: bool,
    ) -> mpsc::Receiver<Link> {
        let (deliver, receiver) = mpsc::sync_channel(1);
        let slot = Slot { token: end.token, dialer_sends, deliver };
        lock(&self.edges).insert(EdgeKey { flow, attempt, lane: end.lane, edge: end.edge }, slot);
        self.announced.notify_waiters();
        receiver
    }

    /// Forgets what is left of an attempt; whoever waits for a link wakes.
    pub fn withdraw(&self, flow: FlowId, attempt: u32) {
        lock(&self.edges).retain(|key, _| key.flow != flow || key.attempt != attempt);
    }

    /// The edge that a Hello is for, if it shows the edge's token; waits a while for an edge that is not yet expected.
    async fn claim(&self, hello: &Hello) -> Option<Slot> {
        let deadline = tokio::time::Instant::now() + EARLY_HELLO;
        loop {
            // Listens before it looks, or an announcement in between would be missed.
            let mut announced = pin!(self.announced.notified());
            announced.as_mut().enable();
            if let Some(answer) = self.look_up(hello) {
                return answer;
            }
            tokio::time::timeout_at(deadline, announced).await.ok()?;
        }
    }

    /// `None`: not expected, or not yet; `Some(None)`: not with this token.
    fn look_up(&self, hello: &Hello) -> Option<Option<Slot>> {
        let key = EdgeKey { flow: hello.flow, attempt: hello.attempt, lane: hello.lane, edge: hello.edge };
        let mut edges = lock(&self.edges);
        let slot = edges.get(&key)?;
        if slot.token != hello.token || slot.dialer_sends != hello.dialer_sends {
            return Some(None);
        }
        Some(edges.remove(&key))
    }
}

/// Waits for Hellos, on new connections and on those whose flow has ended.
#[derive(Clone)]
pub struct Greeter {
    expected: Arc<Expected>,
    waiting: Arc<Semaphore>,
    idle: Arc<Semaphore>,
    runtime: tokio::runtime::Handle,
    answerer: Answerer,
    attendants: Attendants,
}

impl Greeter {
    /// For the current runtime.
    pub(crate) fn new(expected: Arc<Expected>, answerer: Answerer, threads: Threads) -> Greeter {
        Greeter {
            attendants: Attendants::new(answerer.clone(), threads),
            answerer,
            expected,
            waiting: Arc::new(Semaphore::new(MAX_WAITING - MAX_IDLE)),
            idle: Arc::new(Semaphore::new(MAX_IDLE)),
            runtime: tokio::runtime::Handle::current(),
        }
    }

    /// Waits for what comes next on a connection whose flow has ended well. From any thread.
    pub fn again(&self, stream: TcpStream) {
        match self.attendants.place() {
            Some(place) => self.attend(place, stream),
            None => self.go_on(stream, None),
        }
    }

    fn attend(&self, place: OwnedSemaphorePermit, stream: TcpStream) {
        let greeter = self.clone();
        self.attendants.attend(place, stream, move |stream, hello| {
            let hello_of = |bytes| Hello::decode(bytes).ok().filter(|_| is_silent(&stream));
            let slot = hello.as_ref().and_then(hello_of).and_then(|hello| greeter.expected.look_up(&hello));
            match slot {
                Some(slot) => introduce(stream, slot),
                None => greeter.go_on(stream, hello),
            }
        });
    }

    /// Waits in the runtime, for what a Hello is for if one has come already.
    fn go_on(&self, stream: TcpStream, hello: Option<[u8; HELLO_BYTES]>) {
        let greeter = self.clone();
        self.runtime.spawn(async move {
            if stream.set_nonblocking(true).is_ok()
                && let Ok(stream) = tokio::net::TcpStream::from_std(stream)
                && let Ok(idle) = greeter.idle.clone().try_acquire_owned()
            {
                match hello {
                    Some(hello) => greeter.introduce(stream, &hello).await,
                    None => greeter.greet(stream, NEXT_HELLO, idle).await,
                }
            }
        });
    }

    async fn greet(&self, mut stream: tokio::net::TcpStream, first: Duration, room: OwnedSemaphorePermit) {
        let (mut bytes, mut patience, mut _room, mut calls) = ([0; HELLO_BYTES], first, room, 0);
        loop {
            match tokio::time::timeout(patience, stream.read_exact(&mut bytes)).await {
                Ok(Ok(_)) => {}
                _ => return,
            }
            if Head::parse(&bytes).is_none() {
                return self.introduce(stream, &bytes).await;
            }
            match tokio::time::timeout(FIRST_HELLO, self.answer(&mut stream, &bytes)).await {
                Ok(Some(())) => patience = NEXT_HELLO,
                _ => return,
            }
            calls += 1;
            if calls >= CALLS_TO_ATTEND
                && let Some(place) = self.attendants.place()
            {
                if let Ok(stream) = stream.into_std() {
                    self.attend(place, stream);
                }
                return;
            }
            let Ok(idle) = self.idle.clone().try_acquire_owned() else { return };
            _room = idle;
        }
    }

    /// Gives the connection to the edge that its Hello names.
    async fn introduce(&self, stream: tokio::net::TcpStream, bytes: &[u8; HELLO_BYTES]) {
        let Ok(stream) = stream.into_std() else { return };
        if !is_silent(&stream) {
            return;
        }
        match Hello::decode(bytes) {
            Ok(hello) => introduce(stream, self.expected.claim(&hello).await),
            Err(e) => tracing::debug!("a stranger on the data port: {e}"),
        }
    }

    /// Answers a call. `None`: the connection is of no further use.
    async fn answer(&self, stream: &mut tokio::net::TcpStream, head: &[u8; HELLO_BYTES]) -> Option<()> {
        let Some(Ok((Head::Call, length))) = Head::parse(head) else { return None };
        let mut message = vec![0; length];
        stream.read_exact(&mut message).await.ok()?;
        let (head, answerer) = (*head, self.answerer.clone());
        let answer =
            tokio::task::spawn_blocking(move || answer_to(&answerer, &head, &message)).await.ok()??;
        stream.write_all(&answer).await.ok()
    }
}

/// Whether nothing came after a Hello. Whoever has waited long for an answer has gone, and has said it again by another connection.
fn is_silent(stream: &TcpStream) -> bool {
    let next = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    matches!(next, Err(e) if e.kind() == ErrorKind::WouldBlock)
}

/// Answers a Hello, and gives its connection to the edge that it showed the token of. Never waits.
fn introduce(mut stream: TcpStream, slot: Option<Slot>) {
    let reply = if slot.is_some() { Reply::Accepted } else { Reply::Refused };
    let answered = stream.set_nonblocking(true).and_then(|()| stream.write_all(&reply.encode()));
    if let Some(slot) = slot
        && answered.and_then(|()| stream.set_nonblocking(false)).is_ok()
    {
        // The stage may have ended meanwhile; then the connection just closes.
        let _ = slot.deliver.try_send(Link::new(Arc::new(stream), Origin::Accepted));
    }
}

/// Answers a call: statistics and frames, or why not. May block on the disk.
type Answerer = Arc<dyn Fn(&proto::Prepare) -> Result<(proto::StageStats, Vec<u8>), Fault> + Send + Sync>;

/// Connections that bring one call or flow after another have a thread each, for as long as they do: it waits for the next in
/// the kernel, and answers it there and then. A call that the runtime takes wakes the runtime, a thread that may block, and the
/// runtime again; of a star each of k helpers pays that.
#[derive(Clone)]
struct Attendants {
    answerer: Answerer,
    threads: Threads,
    places: Arc<Semaphore>,
    /// Shuts down what is attended.
    end: Arc<Abort>,
}

/// What came after the last call.
enum Next {
    /// Nothing for a while.
    Quiet,
    /// A Hello, perhaps.
    Hello([u8; HELLO_BYTES]),
    /// The connection is of no further use.
    End,
}

impl Attendants {
    fn new(answerer: Answerer, threads: Threads) -> Attendants {
        Attendants { answerer, threads, places: Arc::new(Semaphore::new(MAX_ATTENDED)), end: Arc::default() }
    }

    /// Room for a further one, if there is any.
    fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Answers the calls of a connection. Who takes it up afterwards gets it with the Hello that has come, if one has.
    fn attend(
        &self,
        place: OwnedSemaphorePermit,
        stream: TcpStream,
        go_on: impl FnOnce(TcpStream, Option<[u8; HELLO_BYTES]>) + Send + 'static,
    ) {
        let (answerer, end, stream) = (Arc::clone(&self.answerer), Arc::clone(&self.end), Arc::new(stream));
        let attend = move || {
            let watched = end.watch(&stream);
            let next = answer_calls(&answerer, &stream);
            drop(place);
            if !end.forget(watched) {
                return;
            }
            let Some(stream) = Arc::into_inner(stream) else { return };
            // Flows wait as long as they have to.
            let free = || stream.set_read_timeout(None).and_then(|()| stream.set_write_timeout(None)).is_ok();
            match next {
                Ok(Next::Quiet) if free() => go_on(stream, None),
                Ok(Next::Hello(hello)) if free() => go_on(stream, Some(hello)),
                // Closed, a connection is made anew.
                _ => {}
            }
        };
        // Without a further thread it is closed.
        let _ = self.threads.run(Box::new(attend));
    }
}

/// The answer to a call, as it is sent; `None` to what is none. May block on the disk.
fn answer_to(answerer: &Answerer, head: &[u8; HELLO_BYTES], message: &[u8]) -> Option<Vec<u8>> {
    let prepare: proto::Prepare = Head::open(head, message).ok()?;
    Some(match answerer(&prepare) {
        Ok((stats, frames)) => [Head::Done.seal(&stats), frames].concat(),
        Err(fault) => {
            tracing::info!("refused a call: {fault}");
            Head::Failed.seal(&proto::Fault::from(fault))
        }
    })
}

fn answer_calls(answerer: &Answerer, mut stream: &TcpStream) -> std::io::Result<Next> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ATTENDED_FOR))?;
    stream.set_write_timeout(Some(ANSWER_TAKEN))?;
    let mut bytes = vec![0; FIRST_READ_BYTES];
    loop {
        let mut filled = match stream.read(&mut bytes) {
            Ok(0) => return Ok(Next::End),
            Ok(first) => first,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Next::Quiet),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        fill(stream, &mut bytes, &mut filled, HELLO_BYTES)?;
        let Some(&head) = bytes.first_chunk::<HELLO_BYTES>() else { return Ok(Next::End) };
        let length = match Head::parse(&head) {
            None if filled == HELLO_BYTES => return Ok(Next::Hello(head)),
            Some(Ok((Head::Call, length))) if length <= MAX_CALL_BYTES => length,
            _ => return Ok(Next::End),
        };
        let end = HELLO_BYTES + length;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        fill(stream, &mut bytes, &mut filled, end)?;
        // Who calls waits for the answer before he says anything else.
        let answer = (filled == end).then(|| answer_to(answerer, &head, &bytes[HELLO_BYTES..end])).flatten();
        let Some(answer) = answer else { return Ok(Next::End) };
        stream.write_all(&answer)?;
    }
}

/// Reads until so many bytes are there of a call that has begun.
fn fill(mut stream: &TcpStream, bytes: &mut [u8], filled: &mut usize, wanted: usize) -> std::io::Result<()> {
    for _ in 0..CALL_READS {
        if *filled >= wanted {
            return Ok(());
        }
        match stream.read(&mut bytes[*filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(more) => *filled += more,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) => return Err(error),
        }
    }
    if *filled < wanted { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
}

/// The bound data port of a node. Ends when dropped.
pub struct DataListener {
    addr: SocketAddr,
    attended: Arc<Abort>,
    task: tokio::task::JoinHandle<()>,
}

impl DataListener {
    /// Binds `addr` and serves it.
    pub async fn bind(addr: SocketAddr, greeter: Greeter) -> std::io::Result<DataListener> {
        let listener = tokio::net::TcpListener::bind(addr).await?;
        let (addr, attended) = (listener.local_addr()?, Arc::clone(&greeter.attendants.end));
        let task = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let greeter = greeter.clone();
                        let _ = stream.set_nodelay(true);
                        let Ok(room) = greeter.waiting.clone().try_acquire_owned() else { continue };
                        tokio::spawn(async move { greeter.greet(stream, FIRST_HELLO, room).await });
                    }
                    Err(e) => {
                        // Out of file descriptors, most likely: give others time to close theirs.
                        tracing::warn!("data port: {e}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        });
        Ok(DataListener { addr, attended, task })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for DataListener {
    fn drop(&mut self) {
        self.task.abort();
        self.attended.fire();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// An attended connection, and what becomes of it afterwards.
    fn attended() -> (Attendants, TcpStream, mpsc::Receiver<Option<[u8; HELLO_BYTES]>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        caller.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let answerer: Answerer = Arc::new(|prepare: &proto::Prepare| {
            let stats = proto::StageStats { stage: prepare.grants.len() as u32, ..Default::default() };
            Ok((stats, vec![7; 3]))
        });
        let attendants = Attendants::new(answerer, Threads::default());
        let place = attendants.place().unwrap();
        let (tell, told) = mpsc::channel();
        let go_on = move |stream: TcpStream, hello| {
            assert_eq!((stream.read_timeout().unwrap(), stream.write_timeout().unwrap()), (None, None));
            tell.send(hello).unwrap();
        };
        attendants.attend(place, listener.accept().unwrap().0, go_on);
        (attendants, caller, told)
    }

    fn call(mut caller: &TcpStream, grants: usize, in_parts_of: usize) -> u32 {
        let prepare = proto::Prepare { grants: vec![proto::Grant::default(); grants], ..Default::default() };
        for part in Head::Call.seal(&prepare).chunks(in_parts_of) {
            caller.write_all(part).unwrap();
        }
        let mut head = [0; HELLO_BYTES];
        caller.read_exact(&mut head).unwrap();
        let (kind, length) = Head::parse(&head).unwrap().unwrap();
        assert_eq!(kind, Head::Done);
        let mut rest = vec![0; length + 3];
        caller.read_exact(&mut rest).unwrap();
        assert_eq!(rest[length..], [7; 3]);
        Head::open::<proto::StageStats>(&head, &rest[..length]).unwrap().stage
    }

    #[test]
    fn calls_are_answered_until_a_hello_comes_or_nothing_does() {
        let (attendants, caller, told) = attended();
        assert_eq!(attendants.places.available_permits(), MAX_ATTENDED - 1);
        assert_eq!((call(&caller, 1, 4096), call(&caller, 2, 10), call(&caller, 3000, 4096)), (1, 2, 3000));
        (&caller).write_all(&[9; HELLO_BYTES]).unwrap();
        assert_eq!(told.recv().unwrap(), Some([9; HELLO_BYTES]));
        assert_eq!(attendants.places.available_permits(), MAX_ATTENDED);

        let (_attendants, caller, told) = attended();
        assert_eq!(call(&caller, 3, 4096), 3);
        assert_eq!(told.recv().unwrap(), None, "it was quiet for a while");
    }

    #[test]
    fn who_is_attended_hears_of_the_end_at_once_and_is_nobody_elses_then() {
        let (attendants, mut caller, told) = attended();
        assert_eq!(call(&caller, 1, 4096), 1);
        attendants.end.fire();
        assert_eq!(caller.read(&mut [0]).unwrap(), 0);
        assert!(told.recv().is_err(), "nobody takes it up");
    }

    #[test]
    fn who_does_not_keep_to_the_protocol_is_attended_no_more() {
        for wrong in [&[9; HELLO_BYTES + 1][..], &Head::Done.seal(&proto::StageStats::default())] {
            let (_attendants, mut caller, told) = attended();
            caller.write_all(wrong).unwrap();
            assert!(told.recv().is_err(), "it is closed");
            assert!(matches!(caller.read(&mut [0]), Ok(0) | Err(_)));
        }
    }
}
