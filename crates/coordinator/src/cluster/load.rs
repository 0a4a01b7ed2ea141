//! Repairs that nodes are receiving: who has fewer is the better requestor.

use model::NodeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load(Arc<Mutex<BTreeMap<NodeId, u64>>>);

impl Load {
    /// Counts a repair towards the load of the node that receives it, as long as the guard lives.
    pub fn receive(&self, node: NodeId) -> Receiving {
        self.change(node, |count| count + 1);
        Receiving { load: self.clone(), node }
    }

    /// Repairs that a node is receiving.
    pub fn of(&self, node: NodeId) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&node).copied().unwrap_or(0)
    }

    fn change(&self, node: NodeId, change: impl FnOnce(u64) -> u64) {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = nodes.entry(node).or_default();
        *count = change(*count);
    }
}

/// See [`Load::receive`].
#[derive(Debug)]
pub(crate) struct Receiving {
    load: Load,
    node: NodeId,
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.load.change(self.node, |count| count.saturating_sub(1));
    }
}
