//! Connecting to the other end of an edge, in two steps, so that a stage with many edges greets all its peers before it
//! waits for the first.

use super::low_water::{self, Come};
use super::{Abort, Identity, Link, Origin, Pool, frame_capacity};
use flow::bound::EdgeEnd;
use model::{Cause, Fault};
use std::io::{Error, ErrorKind, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use wire::call::{HEAD_BYTES, Head, MAX_ANSWER_BYTES};
use wire::frame::{HEADER_BYTES, Hello, REPLY_BYTES, Reply};
use wire::{limits, proto};

const PATIENCE: Duration = Duration::from_millis(limits::CONNECT_TIMEOUT_MS);
const ANSWER_PATIENCE: Duration = Duration::from_millis(limits::ANSWER_TIMEOUT_MS);

/// Room for an answer's head and its statistics: of one stage, with one edge.
const ANSWER_HEAD_BYTES: usize = 1024;

/// A call, sealed: with it the peer's stage needs no control stream.
pub type Call = Arc<[u8]>;

/// An edge whose peer was greeted or called and has not yet answered.
pub struct Dialling {
    end: EdgeEnd,
    peer: SocketAddr,
    sends: bool,
    greeting: Greeting,
    greeted: Result<Arc<TcpStream>>,
    pooled: bool,
}

enum Greeting {
    Hello(Hello),
    Call(Call),
}

/// What the peer says, and what came behind it.
type Answered = (Answer, Vec<u8>);

enum Answer {
    Accepted,
    Done(proto::StageStats),
    Refused,
    Failed(Fault),
}

/// Connects to `peer`, by an idle connection if there is one, and says which edge this is, or calls.
pub fn dial(
    id: &Identity,
    end: EdgeEnd,
    peer: SocketAddr,
    sends: bool,
    call: Option<Call>,
    pool: &Pool,
) -> Dialling {
    let hello = Hello {
        flow: id.header.flow,
        attempt: id.header.attempt,
        lane: end.lane,
        edge: end.edge,
        token: end.token,
        dialer_sends: sends,
    };
    let greeting = call.map_or(Greeting::Hello(hello), Greeting::Call);
    let idle = pool.take(peer).and_then(|stream| greeting.send(stream).ok());
    let pooled = idle.is_some();
    let greeted = idle.map_or_else(|| greeting.connect(peer), Ok);
    Dialling { end, peer, sends, greeting, greeted, pooled }
}

impl Dialling {
    /// The edge, and whether we send.
    pub fn edge(&self) -> (&EdgeEnd, bool) {
        (&self.end, self.sends)
    }

    /// Waits for the answer, or for the end of the flow: a stage that hung on here would keep its other connections, which
    /// their dialers may already hold to be free.
    pub fn finish(self, id: &Identity, abort: &Abort) -> std::result::Result<Link, Fault> {
        let Dialling { end, peer, sends, greeting, greeted, pooled } = self;
        let unreachable = |e: Error| match abort.fired() {
            true => Fault::new(Cause::Aborted, "the flow was ended"),
            false => id.no_connection(&end, !sends, &e, format!("cannot connect to {peer}: {e}")),
        };
        let slices = frame_capacity(id.header.geometry.slice_bytes) * usize::from(end.rows) + HEADER_BYTES;
        let room = ANSWER_HEAD_BYTES + slices.min(MAX_ANSWER_BYTES as usize);
        let answered = greeted.and_then(|stream| greeting.answer(stream, abort, room));
        // The peer may have closed an idle connection meanwhile; then a new one is made.
        let answered = match answered {
            Ok((_, (Answer::Refused, _))) | Err(_) if pooled && !abort.fired() => {
                greeting.connect(peer).and_then(|stream| greeting.answer(stream, abort, room))
            }
            answered => answered,
        };
        let (stream, (answer, early)) = answered.map_err(unreachable)?;
        let link = Link { early, ..Link::new(stream, Origin::Dialled(peer)) };
        match answer {
            Answer::Accepted => Ok(link),
            Answer::Done(stats) => Ok(Link { answered: Some(stats), ..link }),
            Answer::Failed(fault) => Err(fault),
            Answer::Refused => {
                let what = format!("{peer} does not expect this stream");
                Err(id.fault(Cause::Disconnected, &end, !sends, what))
            }
        }
    }
}

impl Greeting {
    fn connect(&self, peer: SocketAddr) -> Result<Arc<TcpStream>> {
        let stream = TcpStream::connect_timeout(&peer, PATIENCE)?;
        stream.set_nodelay(true)?;
        self.send(Arc::new(stream))
    }

    fn send(&self, stream: Arc<TcpStream>) -> Result<Arc<TcpStream>> {
        match self {
            Greeting::Hello(hello) => (&*stream).write_all(&hello.encode())?,
            Greeting::Call(call) => (&*stream).write_all(call)?,
        }
        Ok(stream)
    }

    /// Waits for the answer to a Hello; or for that to a call, and takes `room` bytes at once if they are there.
    fn answer(
        &self,
        stream: Arc<TcpStream>,
        abort: &Abort,
        room: usize,
    ) -> Result<(Arc<TcpStream>, Answered)> {
        let watched = abort.watch(&stream);
        let answer = match self {
            Greeting::Hello(_) => await_reply(&stream),
            Greeting::Call(_) => await_call(&stream, room),
        };
        abort.forget(watched);
        Ok((stream, answer?))
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::InvalidData, error)
}

fn await_reply(stream: &TcpStream) -> Result<Answered> {
    let mut reply = [0; REPLY_BYTES];
    fill(stream, &mut reply, &mut 0, REPLY_BYTES)?;
    let accepted = Reply::decode(&reply).map_err(invalid)? == Reply::Accepted;
    Ok((if accepted { Answer::Accepted } else { Answer::Refused }, Vec::new()))
}

fn await_call(stream: &TcpStream, room: usize) -> Result<Answered> {
    let (mut bytes, mut filled) = (vec![0; room.max(HEAD_BYTES)], 0);
    fill(stream, &mut bytes, &mut filled, HEAD_BYTES)?;
    let head = *bytes.first_chunk().ok_or_else(|| invalid("no answer"))?;
    let (kind, length) = Head::parse(&head).ok_or_else(|| invalid("no answer"))?.map_err(invalid)?;
    let end = HEAD_BYTES + length;
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    fill(stream, &mut bytes, &mut filled, end)?;
    let message = &bytes[HEAD_BYTES..end];
    let answer = match kind {
        Head::Done => Answer::Done(Head::open(&head, message).map_err(invalid)?),
        Head::Failed => Answer::Failed(Head::open::<proto::Fault>(&head, message).map_err(invalid)?.into()),
        Head::Call => return Err(invalid("a call in answer to a call")),
    };
    Ok((answer, bytes[end..filled].to_vec()))
}

/// Reads until so many bytes are there, and what else has come by then.
fn fill(stream: &TcpStream, bytes: &mut [u8], filled: &mut usize, wanted: usize) -> Result<()> {
    while *filled < wanted {
        match low_water::read_at_once(stream, &mut bytes[*filled..], ANSWER_PATIENCE) {
            Ok(Come::Bytes(more) | Come::Late(more)) if more > 0 => *filled += more,
            Ok(Come::End) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Err(Error::new(ErrorKind::TimedOut, "no answer in time")),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
