//! Which nodes are to be called, and what follows from their answers.

use super::{Health, Node, now};
use catalog::rows::NodeRow;
use model::{Incarnation, NodeId};
use std::time::Duration;

/// A living node that is to be called.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub node: NodeId,
    pub row: NodeRow,
    /// It has not answered the call before this one.
    pub is_silent: bool,
}

impl Health {
    /// Living nodes that were not called for so long, the longest first, and notes that they are called now. At most a fair part of all
    /// for one of so many turns, so that they are not all called at one moment.
    pub fn due(&self, every: Duration, turns: u32) -> Vec<Due> {
        let mut nodes = self.nodes();
        let at = now();
        let is_due = |node: &Node| {
            node.is_living(self.dead_after)
                && node.called.is_none_or(|called| at.saturating_duration_since(called) >= every)
        };
        // Twice its part: what was late is made up for.
        let most = 2 * nodes.by_id.len().div_ceil(turns as usize);
        let mut due: Vec<(&NodeId, &mut Node)> =
            nodes.by_id.iter_mut().filter(|(_, node)| is_due(node)).collect();
        due.sort_by_key(|(_, node)| node.called);
        due.into_iter().take(most).map(|(id, node)| node.call(*id)).collect()
    }

    /// A node that lives, to be called at once.
    pub fn due_now(&self, node: NodeId) -> Option<Due> {
        let mut nodes = self.nodes();
        let living = nodes.by_id.get_mut(&node).filter(|node| node.is_living(self.dead_after));
        living.map(|living| living.call(node))
    }

    /// Nodes that are dead, or have reported nothing for so long, and where they are: they may be led by somebody else.
    pub fn quiet(&self, silence: Duration) -> Vec<(NodeId, String)> {
        let is_quiet = |node: &Node| {
            !node.is_living(self.dead_after) || node.reported.is_none_or(|at| at.elapsed() >= silence)
        };
        let nodes = self.nodes();
        let quiet = nodes.by_id.iter().filter(|(_, node)| is_quiet(node));
        quiet.map(|(id, node)| (*id, node.row.control_addr.clone())).collect()
    }

    /// This start of a node has answered a call. One that is taken for dead has to register anew.
    pub fn answered(&self, node: NodeId, incarnation: Incarnation) {
        let mut nodes = self.nodes();
        let node = nodes.by_id.get_mut(&node).filter(|node| node.row.incarnation == incarnation);
        if let Some(node) = node.filter(|node| node.is_living(self.dead_after)) {
            node.last_seen = Some(now());
        }
    }
}

impl Node {
    /// It is called now.
    fn call(&mut self, id: NodeId) -> Due {
        let is_silent = self.called > self.last_seen;
        self.called = Some(now());
        Due { node: id, row: self.row.clone(), is_silent }
    }
}
