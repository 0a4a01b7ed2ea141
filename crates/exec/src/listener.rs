//! The data port: who dials in says which edge of which flow it brings, and gets it only with the edge's token.

use crate::connection::{Link, Origin};
use crate::lock;
use flow::bound::EdgeEnd;
use model::{Fault, FlowId, Token};
use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore};
use wire::call::Head;
use wire::frame::{FrameError, HELLO_BYTES, Hello, Reply};
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
}

/// Answers a call: statistics and frames, or why not. May block on the disk.
pub type Answerer = Arc<dyn Fn(&proto::Prepare) -> Result<(proto::StageStats, Vec<u8>), Fault> + Send + Sync>;

impl Greeter {
    /// For the current runtime.
    pub fn new(expected: Arc<Expected>, answerer: Answerer) -> Greeter {
        Greeter {
            answerer,
            expected,
            waiting: Arc::new(Semaphore::new(MAX_WAITING - MAX_IDLE)),
            idle: Arc::new(Semaphore::new(MAX_IDLE)),
            runtime: tokio::runtime::Handle::current(),
        }
    }

    /// Waits for the next Hello on a connection whose flow has ended well. From any thread.
    pub fn again(&self, stream: TcpStream) {
        let greeter = self.clone();
        self.runtime.spawn(async move {
            if stream.set_nonblocking(true).is_ok()
                && let Ok(stream) = tokio::net::TcpStream::from_std(stream)
            {
                greeter.greet(stream, NEXT_HELLO, &greeter.idle).await;
            }
        });
    }

    async fn greet(&self, mut stream: tokio::net::TcpStream, patience: Duration, room: &Semaphore) {
        let Ok(mut _permit) = room.try_acquire() else { return };
        let mut bytes = [0; HELLO_BYTES];
        let mut patience = patience;
        loop {
            match tokio::time::timeout(patience, stream.read_exact(&mut bytes)).await {
                Ok(Ok(_)) => {}
                _ => return,
            }
            let Some(head) = Head::parse(&bytes) else { break };
            match tokio::time::timeout(FIRST_HELLO, self.answer(&mut stream, &bytes, head)).await {
                Ok(Some(())) => patience = NEXT_HELLO,
                _ => return,
            }
            let Ok(idle) = self.idle.try_acquire() else { return };
            _permit = idle;
        }
        // Whoever has waited long for an answer has gone, and has said it again by another connection.
        if !matches!(stream.try_read(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock) {
            return;
        }
        let slot = match Hello::decode(&bytes) {
            Ok(hello) => self.expected.claim(&hello).await,
            Err(e) => {
                tracing::debug!("a stranger on the data port: {e}");
                return;
            }
        };
        let reply = if slot.is_some() { Reply::Accepted } else { Reply::Refused };
        if stream.write_all(&reply.encode()).await.is_err() {
            return;
        }
        if let Some(slot) = slot
            && let Ok(stream) = stream.into_std()
            && stream.set_nonblocking(false).is_ok()
        {
            // The stage may have ended meanwhile; then the connection just closes.
            let _ = slot.deliver.try_send(Link {
                stream,
                origin: Origin::Accepted,
                released: false,
                answered: None,
            });
        }
    }
}

impl Greeter {
    /// Answers a call. `None`: the connection is of no further use.
    async fn answer(
        &self,
        stream: &mut tokio::net::TcpStream,
        head: &[u8; HELLO_BYTES],
        parsed: Result<(Head, usize), FrameError>,
    ) -> Option<()> {
        let Ok((Head::Call, length)) = parsed else { return None };
        let mut message = vec![0; length];
        stream.read_exact(&mut message).await.ok()?;
        let prepare: proto::Prepare = Head::open(head, &message).ok()?;
        let answerer = self.answerer.clone();
        let answered = tokio::task::spawn_blocking(move || answerer(&prepare)).await.ok()?;
        let bytes = match answered {
            Ok((stats, frames)) => [Head::Done.seal(&stats), frames].concat(),
            Err(fault) => {
                tracing::info!("refused a call: {fault}");
                Head::Failed.seal(&proto::Fault::from(fault))
            }
        };
        stream.write_all(&bytes).await.ok()
    }
}

/// The bound data port of a node. Ends when dropped.
pub struct DataListener {
    addr: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl DataListener {
    /// Binds `addr` and serves it.
    pub async fn bind(addr: SocketAddr, greeter: Greeter) -> std::io::Result<DataListener> {
        let listener = tokio::net::TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let task = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let greeter = greeter.clone();
                        let _ = stream.set_nodelay(true);
                        tokio::spawn(
                            async move { greeter.greet(stream, FIRST_HELLO, &greeter.waiting).await },
                        );
                    }
                    Err(e) => {
                        // Out of file descriptors, most likely: give others time to close theirs.
                        tracing::warn!("data port: {e}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        });
        Ok(DataListener { addr, task })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for DataListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}
