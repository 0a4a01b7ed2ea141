//! Which bytes move between nodes that are filled unevenly: after nodes were added, mostly. As few as bring every node near the
//! mean, and none that would take a node to the other side of it, so that nothing moves to and fro.

use crate::topology::{RackId, Topology};
use model::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// How full a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filled {
    /// The node.
    pub node: NodeId,
    /// Bytes of the blocks that are placed on it.
    pub used_bytes: u64,
    /// What they would be if it were full.
    pub capacity_bytes: u64,
}

/// So many bytes of one node are to be another's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Who has them.
    pub from: NodeId,
    /// Who is to have them.
    pub to: NodeId,
    /// How many.
    pub bytes: u64,
}

/// What a node can give or take: first what it must, then what it may.
struct Party {
    node: NodeId,
    fullness: f64,
    must: u64,
    may: u64,
}

/// What is to move once a node is fuller or emptier than the mean by more than `threshold` (a part of its capacity, 0.1 say): so much
/// that none is by more than half of that, from the fullest to the emptiest.
pub fn shares(nodes: &[Filled], threshold: f64) -> Vec<Share> {
    let total = |part: fn(&Filled) -> u64| nodes.iter().map(part).map(u128::from).sum::<u128>() as f64;
    let mean = total(|node| node.used_bytes) / total(|node| node.capacity_bytes).max(1.0);
    let (mut givers, mut takers) = (Vec::new(), Vec::new());
    for &Filled { node, used_bytes, capacity_bytes } in nodes {
        let (used, capacity) = (used_bytes as f64, capacity_bytes as f64);
        let (beyond, fullness) = (used - mean * capacity, used / capacity.max(1.0));
        let must = match beyond.abs() > threshold * capacity {
            true => beyond.abs() - threshold / 2.0 * capacity,
            false => 0.0,
        };
        let party = Party { node, fullness, must: must as u64, may: (beyond.abs() - must) as u64 };
        if beyond > 0.0 { givers.push(party) } else { takers.push(party) }
    }
    let all = |parties: &[Party]| parties.iter().map(|party| party.must).sum::<u64>();
    let bytes = all(&givers).max(all(&takers));
    givers.sort_by(|a, b| b.fullness.total_cmp(&a.fullness));
    takers.sort_by(|a, b| a.fullness.total_cmp(&b.fullness));
    matched(&dealt(&givers, bytes), &dealt(&takers, bytes))
}

/// What each of them gives or takes of so many bytes.
fn dealt(parties: &[Party], bytes: u64) -> Vec<(NodeId, u64)> {
    let mut left = bytes.saturating_sub(parties.iter().map(|party| party.must).sum());
    let mut part = |party: &Party| {
        let more = party.may.min(left);
        left -= more;
        (party.node, party.must + more)
    };
    parties.iter().map(&mut part).filter(|(_, bytes)| *bytes > 0).collect()
}

fn matched(givers: &[(NodeId, u64)], takers: &[(NodeId, u64)]) -> Vec<Share> {
    let (mut givers, mut takers) = (givers.to_vec(), takers.to_vec());
    let (mut shares, mut give, mut take) = (Vec::new(), 0, 0);
    while let (Some((from, has)), Some((to, wants))) = (givers.get_mut(give), takers.get_mut(take)) {
        let bytes = (*has).min(*wants);
        shares.push(Share { from: *from, to: *to, bytes });
        (*has, *wants) = (*has - bytes, *wants - bytes);
        (give, take) = (give + usize::from(*has == 0), take + usize::from(*wants == 0));
    }
    shares
}

/// Whether blocks that must not fail together lie as well if the one on `from` lies on `to`: on a host each, in as many racks, and no more of
/// them in any rack than there are in the one that has most. `holders` has all of them.
pub fn keeps_apart(topology: &Topology, holders: &BTreeSet<NodeId>, from: NodeId, to: NodeId) -> bool {
    let others = || holders.iter().copied().filter(|node| *node != from);
    if holders.contains(&to) || others().any(|node| topology.host_of(node) == topology.host_of(to)) {
        return false;
    }
    let before = by_rack(topology, holders.iter().copied());
    let after = by_rack(topology, others().chain([to]));
    let most = |racks: &BTreeMap<RackId, usize>| racks.values().copied().max().unwrap_or(0);
    after.len() >= before.len() && most(&after) <= most(&before)
}

fn by_rack(topology: &Topology, nodes: impl Iterator<Item = NodeId>) -> BTreeMap<RackId, usize> {
    let mut racks = BTreeMap::new();
    for rack in nodes.filter_map(|node| topology.rack_of(node).ok()) {
        *racks.entry(rack).or_default() += 1;
    }
    racks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;
    use crate::topology::Host;

    const THRESHOLD: f64 = 0.1;

    fn filled(used: &[(u64, u64)]) -> Vec<Filled> {
        let node =
            |(node, &(used_bytes, capacity_bytes))| Filled { node: NodeId(node), used_bytes, capacity_bytes };
        (1..).zip(used).map(node).collect()
    }

    fn after(nodes: &[Filled], shares: &[Share]) -> Vec<Filled> {
        let moved = |of: fn(&Share) -> NodeId, node: NodeId| -> u64 {
            shares.iter().filter(|share| of(share) == node).map(|share| share.bytes).sum()
        };
        let one = |&node: &Filled| Filled {
            used_bytes: node.used_bytes + moved(|s| s.to, node.node) - moved(|s| s.from, node.node),
            ..node
        };
        nodes.iter().map(one).collect()
    }

    #[test]
    fn a_new_node_is_filled_from_the_fullest() {
        let nodes = filled(&[(400, 1_000), (500, 1_000), (450, 1_000), (0, 1_000)]);
        // The mean is 337.5: it is brought to 287.5, and nobody below the mean.
        let shares = shares(&nodes, THRESHOLD);
        let expected = [(2, 162), (3, 112), (1, 13)].map(|(from, bytes)| (NodeId(from), NodeId(4), bytes));
        assert_eq!(shares.iter().map(|s| (s.from, s.to, s.bytes)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_near_the_mean_stays() {
        assert_eq!(shares(&filled(&[(400, 1_000), (590, 1_000), (500, 1_000)]), THRESHOLD), []);
        assert_eq!(shares(&filled(&[(50, 100), (5_900, 10_000)]), THRESHOLD), [], "by parts, not by bytes");
        assert_eq!(shares(&[], THRESHOLD), []);
        assert_eq!(shares(&filled(&[(0, 0), (0, 10)]), THRESHOLD), []);
    }

    #[test]
    fn any_nodes_are_near_the_mean_afterwards_and_none_has_crossed_it() {
        let mut draw = Draw::seeded(7);
        for _ in 0..2_000 {
            let mut node = || {
                let capacity = 1 + draw.below(1 << 40);
                (draw.below(capacity + 1) as u64, capacity as u64)
            };
            let nodes: Vec<(u64, u64)> = (0..8).map(|_| node()).collect();
            let nodes = filled(&nodes);
            let shares = shares(&nodes, THRESHOLD);
            let balanced = after(&nodes, &shares);
            assert_eq!(super::shares(&balanced, THRESHOLD), [], "{nodes:?}");
            let used: u128 = nodes.iter().map(|node| u128::from(node.used_bytes)).sum();
            let mean =
                used as f64 / nodes.iter().map(|node| u128::from(node.capacity_bytes)).sum::<u128>() as f64;
            let beyond = |node: &Filled| node.used_bytes as f64 - mean * node.capacity_bytes as f64;
            for (before, after) in nodes.iter().zip(&balanced) {
                assert!(
                    beyond(before) * beyond(after) >= 0.0 || beyond(after).abs() < 2.0,
                    "{before:?} {after:?}"
                );
            }
            let moved: u64 = shares.iter().map(|share| share.bytes).sum();
            assert!(moved as f64 <= nodes.iter().map(beyond).filter(|beyond| *beyond > 0.0).sum());
        }
    }

    #[test]
    fn blocks_lie_apart_as_before() {
        let mut topology: Topology = (0..12).map(|node| (NodeId(node), RackId(node / 4))).collect();
        topology.insert_on(NodeId(3), RackId(0), Host::Shared(1));
        topology.insert_on(NodeId(7), RackId(1), Host::Shared(1));
        let holders: BTreeSet<NodeId> = [0, 1, 4, 7].map(NodeId).into();
        let may = |from, to| keeps_apart(&topology, &holders, NodeId(from), NodeId(to));
        assert!(may(0, 2), "in its rack");
        assert!(!may(0, 1), "it has a block");
        assert!(!may(0, 5), "a third block in that rack");
        assert!(may(0, 8), "another rack");
        assert!(!may(0, 3) && may(7, 6), "a host has one");
        let pair: BTreeSet<NodeId> = [0, 4].map(NodeId).into();
        assert!(!keeps_apart(&topology, &pair, NodeId(4), NodeId(2)), "both in a rack");
    }
}
