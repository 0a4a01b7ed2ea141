//! Hedging: which slow nodes are gone around. A flow's driver says who holds the flow up.

use model::{NodeId, Peer};
use std::collections::BTreeSet;

/// Slow nodes are gone around at most this often for the same bytes. A flow that is slow even then is as fast as
/// flows are here, or waits for its own end.
const MAX_DETOURS: u32 = 3;

/// The nodes that are gone around while the same bytes are wanted. A helper that holds a flow up has not failed: the
/// flow waits for it once nobody can help in its place.
#[derive(Clone, Debug, Default)]
pub struct Detours {
    nodes: BTreeSet<NodeId>,
    links: Vec<(Peer, Peer)>,
    made: u32,
}

impl Detours {
    /// The driver found its flow held up on the link `from` → `to`, or by a node (then they are the same). The sender
    /// of a slow link is gone around. If its receiver is behind another slow link, the receiver is gone around; if
    /// that is a requestor, which is at the end of all paths, nobody is. Returns the node that is gone around from
    /// now on.
    pub fn note(&mut self, (from, to): (Peer, Peer), requestors: &[Peer]) -> Option<NodeId> {
        self.made += 1;
        let again = from != to && self.links.iter().any(|link| link.1 == to);
        self.links.push((from, to));
        if again && requestors.contains(&to) {
            self.give_up();
            return None;
        }
        let slow = if again { to } else { from }.node()?;
        self.nodes.insert(slow);
        Some(slow)
    }

    /// Whether another node would be gone around.
    pub fn may_go_on(&self) -> bool {
        self.made < MAX_DETOURS
    }

    /// Forgets all of them, because there is no way around them. Returns whether there were any.
    pub fn give_up(&mut self) -> bool {
        self.made = MAX_DETOURS;
        !std::mem::take(&mut self.nodes).is_empty()
    }

    /// The nodes to go around.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detours(links: &[(u32, u32)]) -> Detours {
        let mut detours = Detours::default();
        for &(from, to) in links {
            let link = (Peer::from_number(from), Peer::from_number(to));
            detours.note(link, &[Peer::from_number(9)]);
        }
        detours
    }

    #[test]
    fn an_end_that_two_slow_links_share_is_to_blame() {
        assert!(detours(&[(1, 2)]).nodes().eq([NodeId(1)]));
        assert!(detours(&[(1, 2), (3, 2)]).nodes().eq([1, 2].map(NodeId)));
        assert!(detours(&[(1, 2), (3, 3)]).nodes().eq([1, 3].map(NodeId)));
        assert!(detours(&[(1, 2)]).may_go_on() && !detours(&[(1, 2), (3, 4), (5, 6)]).may_go_on());
    }

    #[test]
    fn the_requestors_own_link_is_waited_for() {
        let mut detours = detours(&[(1, 9), (3, 9)]);
        assert!(!detours.may_go_on() && detours.nodes().next().is_none());
        assert!(!detours.give_up());
    }
}
