//! Copies that nodes have and the catalog knows nothing of: what there are, and which are to go.

use crate::connect::Client;
use crate::error::{ClientError, Result};
use model::{BlockCopy, Fault, NodeId};
use wire::codec::unknown::{LetGo, Unknown, go_request, list_request};

impl Client {
    /// Lists unknown copies on a node, or on all. Nothing is changed. Takes as long as nodes take to list what they have, and where
    /// there are any, to read all of their sidecars.
    pub async fn unknown_copies(&self, node: Option<NodeId>) -> Result<Unknown> {
        let reply = self.coordinator.clone().list_unknown(list_request(node)).await;
        let reply = reply.map_err(|status| ClientError::from_status(&status, &self.address))?.into_inner();
        reply.try_into().map_err(protocol)
    }

    /// Has unknown copies deleted for good, once the coordinator's grace is over. Those that are not unknown stay as they are.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if one is on a node that there is not, or if the catalog takes no changes; then nothing is changed.
    pub async fn let_unknown_go(&self, copies: &[BlockCopy]) -> Result<LetGo> {
        let reply = self.coordinator.clone().let_unknown_go(go_request(copies)).await;
        let reply = reply.map_err(|status| ClientError::from_status(&status, &self.address))?.into_inner();
        reply.try_into().map_err(protocol)
    }
}

fn protocol(fault: Fault) -> ClientError {
    ClientError::Protocol(fault.to_string())
}
