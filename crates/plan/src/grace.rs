//! How long a dead node is waited for before its blocks are made anew. Over 90 % of failures are transient (RP §2.2), and
//! rebuilding moves k times what the node held, so patience is cheap as long as others stand in; where nobody does, it is not.
//!
//! | what is dead | is waited for |
//! |---|---|
//! | a node | the usual grace, from its death |
//! | one that came back lately, each time after being away for long | twice as long for each time, up to [`LONGEST`] graces |
//! | a rack, or a third of all hosts, silent together | [`LONGEST`] graces; once others of it are back, the usual one from then |
//! | the last spare of some block: it survives no further loss | [`urgent_ms`], for that block alone |

use crate::topology::Topology;
use model::NodeId;
use std::collections::BTreeMap;

/// So many usual graces are waited at most: hours, if the usual one is a quarter of an hour. A switch is replaced by then.
pub const LONGEST: u64 = 16;

/// The usual grace is so many of those of a block that survives no further loss: a minute of a quarter of an hour, which is
/// a restart. Also: nodes that fall silent within so short a time do so together.
const URGENT: u64 = 15;

/// A return is held against a node if it was away for this part of the usual grace: one that restarts quickly costs nothing.
const AWAY_FOR_LONG: u64 = 2;

/// A node that stays for so long has one return less to answer for.
const FORGIVEN_MS: u64 = 24 * 3_600_000;

/// How long a dead node is waited for on behalf of blocks that survive no further loss.
pub fn urgent_ms(usual_ms: u64) -> u64 {
    usual_ms / URGENT
}

/// See the module. Time is any clock's that does not go back, in milliseconds.
#[derive(Clone, Debug)]
pub struct Graces {
    usual_ms: u64,
    looked_ms: u64,
    past: BTreeMap<NodeId, Past>,
}

/// What is known of a node that is dead, or was lately.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    dead_since_ms: Option<u64>,
    /// When it was last seen to be dead together with others, since it died.
    together_ms: Option<u64>,
    returns: Returns,
}

/// How often a node came back lately, after it was away for long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Returns {
    /// Those that are not forgiven yet.
    pub count: u32,
    /// When it came back last, or had one forgiven.
    pub at_ms: u64,
}

/// Why a node is waited for as long as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// As any.
    Usual,
    /// It came back so often lately.
    Returns(u32),
    /// It fell silent with its rack, or with a third of all hosts.
    Together,
}

impl Graces {
    /// Of nodes of which no more is known than how often they came back.
    pub fn new(usual_ms: u64, returns: &BTreeMap<NodeId, Returns>) -> Graces {
        let past = |(&node, &returns): (&NodeId, &Returns)| (node, Past { returns, ..Past::default() });
        Graces { usual_ms, looked_ms: 0, past: returns.iter().map(past).collect() }
    }

    /// What is to be known of nodes when all else is forgotten.
    pub fn returns(&self) -> BTreeMap<NodeId, Returns> {
        let past = self.past.iter().filter(|(_, past)| past.returns.count > 0);
        past.map(|(&node, past)| (node, past.returns)).collect()
    }

    /// Takes note of the nodes that are dead now, and since when. All others of the topology live.
    pub fn look(&mut self, now_ms: u64, topology: &Topology, dead: &BTreeMap<NodeId, u64>) {
        self.looked_ms = now_ms;
        let long_ms = self.usual_ms / AWAY_FOR_LONG;
        for (node, past) in &mut self.past {
            if !dead.contains_key(node) {
                past.lives(now_ms, long_ms);
            }
        }
        for (&node, &since_ms) in dead {
            let past = self.past.entry(node).or_default();
            past.dead_since_ms = Some(since_ms);
            if fell_together(node, topology, dead, urgent_ms(self.usual_ms)) {
                past.together_ms = Some(now_ms);
            }
        }
        self.past.retain(|_, past| past.dead_since_ms.is_some() || past.returns.count > 0);
    }

    /// How much longer a node is waited for if all stays as it was at the last look, and why so long; `None` if it is not dead.
    pub fn left(&self, now_ms: u64, node: NodeId) -> Option<(u64, Why)> {
        let past = self.past.get(&node)?;
        let since_ms = past.dead_since_ms?;
        let after = |graces: u64| since_ms.saturating_add(self.usual_ms.saturating_mul(graces));
        let alone_ms = after(LONGEST.min(1 << past.returns.count.min(LONGEST.ilog2())));
        let again_ms = |at_ms: u64| match at_ms == self.looked_ms {
            true => after(LONGEST),
            false => at_ms.saturating_add(self.usual_ms).min(after(LONGEST)),
        };
        let together_ms = past.together_ms.map_or(0, again_ms);
        let why = match past.returns.count {
            _ if together_ms > alone_ms => Why::Together,
            0 => Why::Usual,
            returns => Why::Returns(returns),
        };
        Some((alone_ms.max(together_ms).saturating_sub(now_ms), why))
    }
}

impl Past {
    fn lives(&mut self, now_ms: u64, long_ms: u64) {
        if let Some(since_ms) = self.dead_since_ms.take() {
            self.together_ms = None;
            if now_ms.saturating_sub(since_ms) >= long_ms {
                let count = (self.returns.count + 1).min(LONGEST.ilog2());
                self.returns = Returns { count, at_ms: now_ms };
            }
        } else if self.returns.count > 0 && now_ms.saturating_sub(self.returns.at_ms) >= FORGIVEN_MS {
            self.returns = Returns { count: self.returns.count - 1, at_ms: now_ms };
        }
    }
}

/// Whether a dead node fell silent with its whole rack, or with a third of all hosts. Stores of one host are one failure, and
/// so is a rack of one host.
fn fell_together(node: NodeId, topology: &Topology, dead: &BTreeMap<NodeId, u64>, within_ms: u64) -> bool {
    let (Some(&since_ms), Ok(rack)) = (dead.get(&node), topology.rack_of(node)) else { return false };
    let is_of_rack = |other: &NodeId| topology.rack_of(*other) == Ok(rack);
    let with_it: Vec<NodeId> =
        dead.iter().filter(|(_, at_ms)| at_ms.abs_diff(since_ms) <= within_ms).map(|(id, _)| *id).collect();
    let rack_is_dead = topology.nodes().filter(is_of_rack).all(|other| dead.contains_key(&other));
    let of_rack = topology.hosts(with_it.iter().copied().filter(is_of_rack)).len();
    let (hosts, all) = (topology.hosts(with_it).len(), topology.hosts(topology.nodes()).len());
    (rack_is_dead && of_rack >= 2) || (hosts >= 3 && hosts * 3 >= all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Host, RackId};

    const MINUTE: u64 = 60_000;
    const USUAL: u64 = 15 * MINUTE;

    /// Four racks of five nodes, each on a host of its own.
    fn topology() -> Topology {
        (0..20).map(|node| (NodeId(node), RackId(node / 5))).collect()
    }

    /// Minutes for which `node` is due, of `minutes`, when `is_dead` tells who is dead in each.
    fn due(node: u32, minutes: u64, is_dead: impl Fn(u32, u64) -> bool) -> Vec<u64> {
        let (mut graces, topology) = (Graces::new(USUAL, &BTreeMap::new()), topology());
        let mut dead = BTreeMap::new();
        let mut due = Vec::new();
        for minute in 0..minutes {
            let now_ms = minute * MINUTE;
            dead.retain(|node: &NodeId, _| is_dead(node.0, minute));
            for node in topology.nodes().filter(|node| is_dead(node.0, minute)) {
                dead.entry(node).or_insert(now_ms);
            }
            graces.look(now_ms, &topology, &dead);
            if graces.left(now_ms, NodeId(node)).is_some_and(|(left_ms, _)| left_ms == 0) {
                due.push(minute);
            }
        }
        due
    }

    #[test]
    fn a_node_that_stays_dead_is_due_after_the_usual_grace() {
        assert_eq!(due(3, 60, |node, minute| node == 3 && minute >= 10), (25..60).collect::<Vec<_>>());
        assert_eq!(due(3, 60, |node, minute| node == 3 && minute % 15 != 0), [], "it is back in time");
    }

    #[test]
    fn a_node_that_is_away_twenty_minutes_each_hour_for_a_day_is_recovered_once() {
        let away = |node, minute| node == 3 && (minute % 60) >= 40;
        assert_eq!(due(3, 24 * 60, away), (55..60).collect::<Vec<_>>());
        // Five hours each time: its grace grows, and ends.
        let away = |node, minute| node == 3 && minute % 300 >= 10;
        let mut firsts = BTreeMap::new();
        for minute in due(3, 1_800, away) {
            firsts.entry(minute / 300).or_insert(minute % 300 - 10);
        }
        assert_eq!(firsts.into_values().collect::<Vec<_>>(), [15, 30, 60, 120, 240, 240]);
    }

    #[test]
    fn a_node_that_stays_for_days_is_as_any_again() {
        let days = |days: u64| days * 24 * 60;
        let away = |node, minute| node == 3 && ((100..120).contains(&minute) || minute >= days(2));
        assert_eq!(
            due(3, days(2) + 20, away),
            (115..120).chain(days(2) + 15..days(2) + 20).collect::<Vec<_>>()
        );
    }

    #[test]
    fn restarts_cost_a_node_nothing() {
        let away = |node, minute| node == 3 && (minute % 10 == 1 || minute >= 100);
        assert_eq!(due(3, 120, away), (115..120).collect::<Vec<_>>());
    }

    #[test]
    fn what_came_back_is_known_to_who_begins_with_it() {
        let (mut graces, topology) = (Graces::new(USUAL, &BTreeMap::new()), topology());
        let dead = BTreeMap::from([(NodeId(3), 0)]);
        graces.look(0, &topology, &dead);
        assert_eq!(graces.returns(), BTreeMap::new(), "it is not back");
        graces.look(20 * MINUTE, &topology, &BTreeMap::new());
        let kept = graces.returns();
        assert_eq!(kept, BTreeMap::from([(NodeId(3), Returns { count: 1, at_ms: 20 * MINUTE })]));
        let mut later = Graces::new(USUAL, &kept);
        let since_ms = 60 * MINUTE;
        later.look(since_ms, &topology, &BTreeMap::from([(NodeId(3), since_ms)]));
        assert_eq!(later.left(since_ms, NodeId(3)), Some((2 * USUAL, Why::Returns(1))));
        let mut later = Graces::new(USUAL, &kept);
        later.look(20 * MINUTE + FORGIVEN_MS, &topology, &BTreeMap::new());
        assert_eq!(later.returns(), BTreeMap::new());
    }

    #[test]
    fn a_rack_that_is_out_for_half_an_hour_is_waited_for_and_one_that_stays_out_is_not() {
        let out = |node, minute| node / 5 == 1 && (10..40).contains(&minute);
        assert_eq!(due(7, 120, out), []);
        let out = |node, minute| node / 5 == 1 && minute >= 10;
        assert_eq!(due(7, 260, out).first(), Some(&250), "four hours");
        // One of it does not come back with the others.
        let out = |node, minute| node == 7 && minute >= 10 || node / 5 == 1 && (10..40).contains(&minute);
        assert_eq!(due(7, 120, out).first(), Some(&54), "the others are seen again in minute 40");
        // One of it was dead long before: it is not waited for any longer, nor the others any shorter.
        let out = |node, minute| node == 7 || node / 5 == 1 && (100..130).contains(&minute);
        assert_eq!((due(7, 99, out).len(), due(8, 200, out).len()), (84, 0));
    }

    #[test]
    fn a_third_of_the_hosts_that_fall_silent_together_are_waited_for() {
        let out = |node: u32, minute| node.is_multiple_of(3) && minute >= 10;
        assert_eq!(due(3, 200, out), [], "seven of twenty");
        let out = |node: u32, minute| node.is_multiple_of(4) && minute >= 10;
        assert_eq!(due(4, 200, out).first(), Some(&25), "five of twenty");
        // One after another, within a quarter of an hour.
        let out = |node: u32, minute| node.is_multiple_of(3) && minute >= u64::from(2 * node);
        assert_eq!(due(3, 200, out).first(), Some(&21));
    }

    #[test]
    fn stores_of_one_host_are_one_failure() {
        let mut topology = topology();
        (5..10).for_each(|node| topology.insert_on(NodeId(node), RackId(1), Host::Shared(1)));
        let mut graces = Graces::new(USUAL, &BTreeMap::new());
        let dead: BTreeMap<NodeId, u64> = (5..10).map(|node| (NodeId(node), 0)).collect();
        graces.look(0, &topology, &dead);
        assert_eq!(graces.left(0, NodeId(5)), Some((USUAL, Why::Usual)));
        // The rack beside it has five hosts.
        let dead: BTreeMap<NodeId, u64> = (10..15).map(|node| (NodeId(node), 0)).collect();
        graces.look(0, &topology, &dead);
        assert_eq!(graces.left(0, NodeId(10)), Some((LONGEST * USUAL, Why::Together)));
        graces.look(5 * MINUTE, &topology, &dead);
        graces.look(6 * MINUTE, &topology, &dead.into_iter().take(1).collect());
        let left = graces.left(6 * MINUTE, NodeId(10));
        assert_eq!(left, Some((USUAL - MINUTE, Why::Together)), "the others are back");
        let dead = BTreeMap::from([(NodeId(5), 0)]);
        let mut never = Graces::new(u64::MAX, &BTreeMap::new());
        never.look(7, &topology, &dead);
        assert_eq!(never.left(7, NodeId(5)), Some((u64::MAX - 7, Why::Usual)));
        assert_eq!(urgent_ms(USUAL), MINUTE);
    }
}
