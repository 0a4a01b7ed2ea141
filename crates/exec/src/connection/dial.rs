//! Connecting to the other end of an edge, in two steps, so that a stage with many edges greets all its peers before it
//! waits for the first.

use super::{Abort, Identity, Link, Origin, Pool};
use flow::bound::EdgeEnd;
use model::{Cause, Fault};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use wire::call::{HEAD_BYTES, Head};
use wire::frame::{Hello, REPLY_BYTES, Reply};
use wire::{limits, proto};

const PATIENCE: Duration = Duration::from_millis(limits::CONNECT_TIMEOUT_MS);
const ANSWER_PATIENCE: Duration = Duration::from_millis(limits::ANSWER_TIMEOUT_MS);

/// A call, sealed: with it the peer's stage needs no control stream.
pub type Call = Arc<[u8]>;

/// An edge whose peer was greeted or called and has not yet answered.
pub struct Dialling {
    end: EdgeEnd,
    peer: SocketAddr,
    sends: bool,
    greeting: Greeting,
    greeted: Result<TcpStream>,
    pooled: bool,
}

enum Greeting {
    Hello(Hello),
    Call(Call),
}

/// What the peer says.
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
        let answered = greeted.and_then(|stream| greeting.answer(stream, abort));
        // The peer may have closed an idle connection meanwhile; then a new one is made.
        let answered = match answered {
            Ok((stream, answer @ (Answer::Accepted | Answer::Done(_) | Answer::Failed(_)))) => {
                Ok((stream, answer))
            }
            _ if pooled && !abort.fired() => {
                greeting.connect(peer).and_then(|stream| greeting.answer(stream, abort))
            }
            other => other,
        };
        let link =
            |stream, answered| Link { stream, origin: Origin::Dialled(peer), released: false, answered };
        match answered.map_err(unreachable)? {
            (stream, Answer::Accepted) => Ok(link(stream, None)),
            (stream, Answer::Done(stats)) => Ok(link(stream, Some(stats))),
            (_, Answer::Failed(fault)) => Err(fault),
            (_, Answer::Refused) => {
                let what = format!("{peer} does not expect this stream");
                Err(id.fault(Cause::Disconnected, &end, !sends, what))
            }
        }
    }
}

impl Greeting {
    fn connect(&self, peer: SocketAddr) -> Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&peer, PATIENCE)?;
        stream.set_nodelay(true)?;
        self.send(stream)
    }

    fn send(&self, mut stream: TcpStream) -> Result<TcpStream> {
        match self {
            Greeting::Hello(hello) => stream.write_all(&hello.encode())?,
            Greeting::Call(call) => stream.write_all(call)?,
        }
        Ok(stream)
    }

    fn answer(&self, stream: TcpStream, abort: &Abort) -> Result<(TcpStream, Answer)> {
        let watched = abort.watch(&stream)?;
        let answer = self.await_answer(stream);
        abort.forget(watched);
        answer
    }

    fn await_answer(&self, mut stream: TcpStream) -> Result<(TcpStream, Answer)> {
        let invalid = |e| Error::new(ErrorKind::InvalidData, e);
        stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
        if let Greeting::Hello(_) = self {
            let mut reply = [0; REPLY_BYTES];
            stream.read_exact(&mut reply)?;
            let accepted = Reply::decode(&reply).map_err(invalid)? == Reply::Accepted;
            return Ok((stream, if accepted { Answer::Accepted } else { Answer::Refused }));
        }
        let mut head = [0; HEAD_BYTES];
        stream.read_exact(&mut head)?;
        let parsed = Head::parse(&head).ok_or_else(|| Error::new(ErrorKind::InvalidData, "no answer"))?;
        let (kind, length) = parsed.map_err(invalid)?;
        let mut message = vec![0; length];
        stream.read_exact(&mut message)?;
        let answer = match kind {
            Head::Done => Answer::Done(Head::open(&head, &message).map_err(invalid)?),
            Head::Failed => {
                Answer::Failed(Head::open::<proto::Fault>(&head, &message).map_err(invalid)?.into())
            }
            Head::Call => return Err(Error::new(ErrorKind::InvalidData, "a call in answer to a call")),
        };
        Ok((stream, answer))
    }
}
