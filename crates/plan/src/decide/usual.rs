//! Hedging: how long flows usually take for what they should cost, and which nodes are gone around when one takes far
//! longer. The coordinator remembers it for repairs, a client for its own degraded reads. A flow's driver says who
//! holds the flow up.

use core::time::Duration;
use model::{NodeId, Peer};
use std::collections::{BTreeSet, VecDeque};

/// Flows that are remembered: enough that a few slow ones among them are no rule, few enough that a network that changes
/// is soon known.
const REMEMBERED: usize = 15;

/// Fewer flows than this say nothing about what is usual.
const ENOUGH: usize = 3;

/// Slow nodes are gone around at most this often for the same bytes. A flow that is slow even then is as fast as
/// flows are here, or waits for its own end.
const MAX_DETOURS: u32 = 3;

/// What is usual.
#[derive(Clone, Debug)]
pub struct Usual {
    /// Seconds for each unit of cost in theory, one number for each of the last flows.
    factors: VecDeque<f64>,
    room: f64,
}

impl Usual {
    /// A flow may take `room` times as long as most before anybody asks why: where flows share links, how many others cross
    /// them differs from one to the next.
    pub fn with_room(room: f64) -> Usual {
        Usual { factors: VecDeque::new(), room }
    }

    /// Notes how long a flow took with which nothing went wrong. All costs are in one unit: seconds on known links,
    /// or bytes over one of equal links.
    pub fn note(&mut self, cost: f64, took: Duration) {
        if cost > 0.0 && !took.is_zero() {
            self.factors.push_back(took.as_secs_f64() / cost);
            self.factors.drain(..self.factors.len().saturating_sub(REMEMBERED));
        }
    }

    /// What a flow should take at most; `None` if too few are known.
    pub fn expected(&self, cost: f64) -> Option<Duration> {
        if self.factors.len() < ENOUGH {
            return None;
        }
        let mut factors: Vec<f64> = self.factors.iter().copied().collect();
        factors.sort_by(f64::total_cmp);
        Duration::try_from_secs_f64(factors[factors.len() / 2] * cost * self.room).ok()
    }

    /// Forgets all flows: links, rates or the unit of costs have changed.
    pub fn forget(&mut self) {
        self.factors.clear();
    }
}

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
    /// that is the requestor, which is at the end of all paths, nobody is. Returns the node that is gone around from
    /// now on.
    pub fn note(&mut self, (from, to): (Peer, Peer), requestor: Peer) -> Option<NodeId> {
        self.made += 1;
        let again = from != to && self.links.iter().any(|link| link.1 == to);
        self.links.push((from, to));
        if again && to == requestor {
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

    #[test]
    fn the_next_one_should_take_what_most_of_the_last_ones_took() {
        let (mut usual, ms) = (Usual::with_room(1.0), Duration::from_millis);
        for took in [100, 110] {
            usual.note(1.0, ms(took));
        }
        assert_eq!(usual.expected(1.0), None, "two are not enough");
        usual.note(10.0, ms(9_000));
        let about = |found: Option<Duration>, ms: f64| (found.unwrap().as_secs_f64() * 1e3 - ms).abs() < 0.01;
        assert!(about(usual.expected(1.0), 110.0));
        assert!(about(usual.expected(20.0), 2_200.0), "of twenty times the cost");
        usual.note(0.0, ms(1));
        for _ in 0..REMEMBERED {
            usual.note(1.0, ms(50));
        }
        assert!(about(usual.expected(1.0), 50.0), "older ones are forgotten");
        usual.forget();
        assert_eq!(usual.expected(1.0), None);
        let mut among_many = Usual::with_room(2.0);
        for _ in 0..ENOUGH {
            among_many.note(1.0, ms(50));
        }
        assert!(about(among_many.expected(1.0), 100.0));
    }

    fn detours(links: &[(u32, u32)]) -> Detours {
        let mut detours = Detours::default();
        for &(from, to) in links {
            let link = (Peer::from_number(from), Peer::from_number(to));
            detours.note(link, Peer::from_number(9));
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
