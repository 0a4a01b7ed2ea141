//! Connecting to the other end of an edge, in two steps, so that a stage with many edges greets all its peers before it
//! waits for the first.

use super::{Identity, Link, Origin, Pool};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use wire::frame::{Hello, REPLY_BYTES, Reply};
use wire::spec::EdgeEnd;
use wire::{Cause, Fault, limits};

const PATIENCE: Duration = Duration::from_millis(limits::CONNECT_TIMEOUT_MS);
const ANSWER_PATIENCE: Duration = Duration::from_millis(limits::ANSWER_TIMEOUT_MS);

/// An edge whose peer was greeted and has not yet answered.
pub struct Dialling {
    end: EdgeEnd,
    peer: SocketAddr,
    sends: bool,
    hello: Hello,
    greeted: std::io::Result<TcpStream>,
    pooled: bool,
}

/// Connects to `peer`, by an idle connection if there is one, and says which edge this is.
pub fn dial(id: &Identity, end: EdgeEnd, peer: SocketAddr, sends: bool, pool: &Pool) -> Dialling {
    let hello = Hello {
        flow: id.header.flow,
        attempt: id.header.attempt,
        lane: end.lane,
        edge: end.edge,
        token: end.token,
        dialer_sends: sends,
    };
    let idle = pool.take(peer).and_then(|stream| greet(stream, &hello).ok());
    let pooled = idle.is_some();
    let greeted = idle.map_or_else(|| connect(peer, &hello), Ok);
    Dialling { end, peer, sends, hello, greeted, pooled }
}

impl Dialling {
    /// Waits for the answer.
    pub fn finish(self, id: &Identity) -> Result<Link, Fault> {
        let Dialling { end, peer, sends, hello, greeted, pooled } = self;
        let unreachable = |e: std::io::Error| {
            id.fault(Cause::Disconnected, &end, !sends, format!("cannot connect to {peer}: {e}"))
        };
        let answered = greeted.and_then(answer);
        // The peer may have closed an idle connection meanwhile; then a new one is made.
        let answered = match answered {
            Ok((stream, Reply::Accepted)) => Ok((stream, Reply::Accepted)),
            _ if pooled => connect(peer, &hello).and_then(answer),
            other => other,
        };
        match answered.map_err(unreachable)? {
            (stream, Reply::Accepted) => Ok(Link { stream, origin: Origin::Dialled(peer) }),
            (_, Reply::Refused) => {
                let what = format!("{peer} does not expect this stream");
                Err(id.fault(Cause::Disconnected, &end, !sends, what))
            }
        }
    }
}

fn connect(peer: SocketAddr, hello: &Hello) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&peer, PATIENCE)?;
    stream.set_nodelay(true)?;
    greet(stream, hello)
}

fn greet(mut stream: TcpStream, hello: &Hello) -> std::io::Result<TcpStream> {
    stream.write_all(&hello.encode())?;
    Ok(stream)
}

fn answer(mut stream: TcpStream) -> std::io::Result<(TcpStream, Reply)> {
    stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
    let mut reply = [0; REPLY_BYTES];
    stream.read_exact(&mut reply)?;
    let reply = Reply::decode(&reply).map_err(|e| std::io::Error::new(ErrorKind::InvalidData, e))?;
    Ok((stream, reply))
}
