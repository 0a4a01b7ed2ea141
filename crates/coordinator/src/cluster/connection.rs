//! Connections to nodes.

use crate::error::{CoordinatorError, Result};
use model::NodeId;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use wire::limits;

/// Interval of TCP and HTTP/2 keep-alives, which reveal a dead machine.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Connection over which a node is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// The connection that is kept for the node.
    Kept,
    /// A new connection, which replaces the kept one because that may lead nowhere.
    New,
    /// A new connection for this call only, because nobody knows yet whose address it is.
    Once,
}

/// Options of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The connection.
    pub over: Over,
    /// Time to wait for the answer.
    pub patience: Duration,
}

/// Returns a channel to a node at `addr`. It connects on first use.
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
