//! Copies that nodes have and the catalog knows nothing of: what there are, and which are to go.

use crate::calls::rpc;
use crate::connect::Client;
use crate::error::{ClientError, Result};
use model::{BlockCopy, Fault, NodeId};
use wire::codec::unknown::{LetGo, Unknown, go_request, list_request};

impl Client {
    /// Lists unknown copies on a node, or on all. Nothing is changed. Takes as long as nodes take to list what they have, and where
    /// there are any, to read all of their sidecars.
    pub async fn unknown_copies(&self, node: Option<NodeId>) -> Result<Unknown> {
        let reply = self.call_for_long(list_request(node), rpc!(list_unknown)).await?;
        reply.try_into().map_err(protocol)
    }

    /// Has unknown copies deleted for good, once the coordinator's grace is over. Those that are not unknown stay as they are.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if one is on a node that there is not, or if the catalog takes no changes; then nothing is changed.
    pub async fn let_unknown_go(&self, copies: &[BlockCopy]) -> Result<LetGo> {
        let reply = self.call_for_long(go_request(copies), rpc!(let_unknown_go)).await?;
        reply.try_into().map_err(protocol)
    }
}

fn protocol(fault: Fault) -> ClientError {
    ClientError::Protocol(fault.to_string())
}
