//! Chooses the nodes to call and takes their answers.

use super::{Health, Moment, Node, now};
use catalog::rows::NodeRow;
use model::{Incarnation, NodeId};
use std::time::Duration;

/// A living node that is to be called.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub node: NodeId,
    pub row: NodeRow,
    /// The node has not answered the previous call.
    pub is_silent: bool,
}

impl Health {
    /// Returns living nodes whose last call is at least `every` ago, the oldest first, and marks them as called. Returns at most twice a fair
    /// share of all nodes for one of `turns` turns, so that they are not all called at one moment.
    pub fn due(&self, every: Duration, turns: u32) -> Vec<Due> {
        let mut nodes = self.nodes();
        let at = now();
        let is_due = |node: &Node| {
            node.is_living(self.dead_after)
                && node.called.is_none_or(|called| at.saturating_duration_since(called) >= every)
        };
        // Twice the fair share, to catch up after a late turn.
        let most = 2 * nodes.by_id.len().div_ceil(turns as usize);
        let mut due: Vec<(&NodeId, &mut Node)> =
            nodes.by_id.iter_mut().filter(|(_, node)| is_due(node)).collect();
        due.sort_by_key(|(_, node)| node.called);
        due.into_iter().take(most).map(|(id, node)| node.call(*id, self.dead_after)).collect()
    }

    /// Returns the node, marked as called now, if it lives.
    pub fn due_now(&self, node: NodeId) -> Option<Due> {
        let mut nodes = self.nodes();
        let living = nodes.by_id.get_mut(&node).filter(|node| node.is_living(self.dead_after));
        living.map(|living| living.call(node, self.dead_after))
    }

    /// Returns the nodes that are dead or have not reported for `silence`, with their control addresses. Another coordinator may lead them.
    pub fn quiet(&self, silence: Duration) -> Vec<(NodeId, String)> {
        let is_quiet = |node: &Node| {
            !node.is_living(self.dead_after) || node.reported.is_none_or(|at| at.elapsed() >= silence)
        };
        let nodes = self.nodes();
        let quiet = nodes.by_id.iter().filter(|(_, node)| is_quiet(node));
        quiet.map(|(id, node)| (*id, node.row.control_addr.clone())).collect()
    }

    /// Notes that this start of a node answered a call. A node that already counts as dead must register again.
    pub fn answered(&self, node: NodeId, incarnation: Incarnation) {
        let mut nodes = self.nodes();
        let node = nodes.by_id.get_mut(&node).filter(|node| node.row.incarnation == incarnation);
        if let Some(node) = node.filter(|node| node.is_living(self.dead_after)) {
            (node.last_seen, node.asked) = (Some(now()), None);
        }
    }
}

impl Node {
    pub(super) fn is_living(&self, dead_after: Duration) -> bool {
        self.is_registered && self.lives(dead_after)
    }

    pub(super) fn lives(&self, dead_after: Duration) -> bool {
        self.left.is_none() && !self.is_silent(now(), dead_after)
    }

    /// Whether the node had answered nothing for `dead_after` at that moment. A coordinator that is short of processor time calls late,
    /// so a call must also have waited for half of that time. The limit of twice the time holds without any call.
    pub(super) fn is_silent(&self, at: Moment, dead_after: Duration) -> bool {
        let since = |moment: Moment| at.saturating_duration_since(moment);
        let Some(silence) = self.last_seen.map(since) else { return true };
        let was_asked = self.asked.is_some_and(|asked| since(asked) >= dead_after / 2);
        silence >= dead_after && (was_asked || silence >= 2 * dead_after)
    }

    /// Marks the node as called now.
    fn call(&mut self, id: NodeId, dead_after: Duration) -> Due {
        let at = now();
        let is_silent = self.asked.is_some_and(|asked| at.saturating_duration_since(asked) >= dead_after / 2);
        self.called = Some(at);
        self.asked.get_or_insert(at);
        Due { node: id, row: self.row.clone(), is_silent }
    }
}
