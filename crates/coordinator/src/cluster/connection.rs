//! Connections to nodes.

use crate::error::{CoordinatorError, Result};
use model::NodeId;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use wire::limits;

/// TCP and HTTP/2 signs of life, so that a connection to a dead machine is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Over which connection a node is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// That which is kept for it.
    Kept,
    /// A new one, which is kept in its place: the other one may lead nowhere.
    New,
    /// A new one for this call only: nobody knows yet whose address it is.
    Once,
}

/// How an answer is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The connection.
    pub over: Over,
    /// The answer is waited for so long.
    pub patience: Duration,
}

/// To a node there; made when it is first used.
pub(super) fn connect(node: NodeId, addr: &str) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{addr}"))
        .map_err(|_| CoordinatorError::Node { node, why: "its control address is none".to_owned() })?
        .connect_timeout(Duration::from_millis(limits::CONNECT_TIMEOUT_MS))
        .tcp_keepalive(Some(KEEP_ALIVE))
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .tcp_nodelay(true);
    Ok(endpoint.connect_lazy())
}
