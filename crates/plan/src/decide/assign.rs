//! Who repairs which block of a batch.

use super::in_flight::InFlight;
use super::lost::{Candidates, Takers};
use super::{DecideError, Result, World};
use crate::m_ppr::{Coefficients, LostChunk, MPpr, Servers};
use crate::recovery::{Assignment, Leaving, LostBlock, balanced, leaving};
use crate::{ByNode, LeastRecent};
use flow::Scheme;
use model::{Assign, NodeId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Blocks that are assigned together: enough to spread over a thousand nodes, few enough that what is assigned still holds
/// when its turn comes, and that all candidates fit in some megabytes.
pub const BATCH: usize = 1_024;

/// The assignment of that name; empty: the usual one.
///
/// # Errors
/// [`DecideError::Invalid`] for another name.
pub fn assign_named(name: &str) -> Result<Assign> {
    match name {
        "" | "balanced" => Ok(Assign::Balanced),
        "least-recent" => Ok(Assign::LeastRecent),
        "m-ppr" => Ok(Assign::MPpr),
        "lowest-index" => Ok(Assign::LowestIndex),
        other => Err(DecideError::Invalid(format!(
            "there is no assignment {other:?}; there are balanced, least-recent, m-ppr and lowest-index"
        ))),
    }
}

/// Assigns blocks together, as `how` has it, to be repaired by that scheme (`None`: whichever is best), on top of what is
/// in flight and what users read, bytes by node; `None` for those that cannot be, or are when their turn comes
/// ([`in_turn`]).
///
/// # Errors
/// [`DecideError::Plan`] for a node without a rack.
pub fn at_once(
    (how, scheme): (Assign, Option<Scheme>),
    world: &World,
    takers: &Takers,
    known: &[&Candidates],
    in_flight: &InFlight,
    user: &BTreeMap<NodeId, u64>,
) -> Result<Vec<Option<Assignment>>> {
    match how {
        Assign::Balanced => {
            let both = |c: &&'_ Candidates| c.rebuilt.is_some();
            let loads = in_flight.loads();
            let assigned = if known.iter().any(both) {
                let blocks = known.iter().map(|c| Leaving { copied: &c.lost, rebuilt: c.rebuilt.as_ref() });
                leaving(&blocks.collect::<Vec<_>>(), &loads)
            } else {
                balanced(&known.iter().map(|candidates| &candidates.lost).collect::<Vec<_>>(), &loads)
            };
            Ok(assigned.into_iter().map(|answer| answer.ok()).collect())
        }
        Assign::MPpr => by_weight(scheme.unwrap_or(Scheme::Pipeline), world, takers, known, in_flight, user),
        Assign::LowestIndex => Ok(by_number(known, in_flight)),
        Assign::LeastRecent => Ok(vec![None; known.len()]),
    }
}

/// Assigns a block whose turn has come: the least recently selected helpers that have room, and the requestor with room that
/// has least to do (RP §3.3), the first among equals. They count as selected from now on. `None` if there are too few.
pub fn in_turn(
    lost: &LostBlock,
    in_flight: &InFlight,
    load: impl Fn(NodeId) -> u64,
    recent: &mut LeastRecent,
) -> Option<Assignment> {
    let room = |nodes: &[NodeId]| -> Vec<NodeId> {
        nodes.iter().copied().filter(|&node| in_flight.has_room(node)).collect()
    };
    let requestor =
        room(&lost.requestors).into_iter().min_by_key(|&node| (load(node), in_flight.of(node)))?;
    let survivors = room(&lost.survivors);
    let chosen = recent.select(&survivors, lost.needed).ok()?;
    Some(Assignment { chain: chosen.into_iter().map(|place| survivors[place]).collect(), requestor })
}

/// The helpers of the lowest numbers, and of the requestors the one that was given fewest.
fn by_number(known: &[&Candidates], in_flight: &InFlight) -> Vec<Option<Assignment>> {
    let mut given: BTreeMap<NodeId, usize> = BTreeMap::new();
    for (Assignment { requestor, .. }, _) in in_flight.under_way() {
        *given.entry(*requestor).or_default() += 1;
    }
    let mut plan = |candidates: &&Candidates| {
        let LostBlock { survivors, needed, requestors, .. } = &candidates.lost;
        let mut chain = survivors.clone();
        chain.sort_unstable();
        chain.truncate(*needed);
        let fewest = |node: &&NodeId| (given.get(node).copied().unwrap_or(0), **node);
        let requestor = *requestors.iter().min_by_key(fewest)?;
        *given.entry(requestor).or_default() += 1;
        (chain.len() == *needed).then_some(Assignment { chain, requestor })
    };
    known.iter().map(&mut plan).collect()
}

/// m-PPR: by loads and caches. The weights know no places: those that receive most go to the sources that receive least so
/// far, in whatever part.
fn by_weight(
    scheme: Scheme,
    world: &World,
    takers: &Takers,
    known: &[&Candidates],
    in_flight: &InFlight,
    user: &BTreeMap<NodeId, u64>,
) -> Result<Vec<Option<Assignment>>> {
    let user_bytes = |node: NodeId| user.get(&node).copied().unwrap_or(0);
    let mut planner = MPpr::new(&world.topology, takers.preferred(), user_bytes, Coefficients::default())?;
    let mut received = Received { scheme, bytes: ByNode::default() };
    for (assignment, bytes) in in_flight.under_way() {
        let Assignment { chain, requestor } = assignment;
        planner.add(&Servers { sources: chain.clone(), destination: *requestor }, *bytes);
        received.add(assignment, *bytes);
    }
    let mut plan = |candidates: &&Candidates| {
        let Candidates { lost, cached, holders, .. } = candidates;
        let survivors = lost.survivors.iter().map(|&node| (node, cached.contains(&node))).collect();
        let chunk = LostChunk { survivors, needed: lost.needed, holders: holders.clone(), bytes: lost.bytes };
        let Servers { sources, destination } = planner.plan(&chunk).ok()?;
        let assignment = Assignment { chain: received.placed(sources), requestor: destination };
        received.add(&assignment, lost.bytes);
        Some(assignment)
    };
    Ok(known.iter().map(&mut plan).collect())
}

/// What nodes receive in repairs by a scheme.
struct Received {
    scheme: Scheme,
    bytes: ByNode<u64>,
}

impl Received {
    /// The helpers in a row such that who receives least so far will receive most.
    fn placed(&self, mut helpers: Vec<NodeId>) -> Vec<NodeId> {
        let received = self.scheme.received(helpers.len());
        let mut places: Vec<usize> = (0..helpers.len()).collect();
        places.sort_by_key(|&place| Reverse(received[place]));
        helpers.sort_by_cached_key(|&node| self.bytes.get(node).copied().unwrap_or(0));
        let mut placed: Vec<(usize, NodeId)> = places.into_iter().zip(helpers).collect();
        placed.sort_unstable();
        placed.into_iter().map(|(_, node)| node).collect()
    }

    /// A repair of so long a block.
    fn add(&mut self, Assignment { chain, requestor }: &Assignment, bytes: u64) {
        let received = self.scheme.received(chain.len());
        for (&node, streams) in chain.iter().chain([requestor]).zip(received) {
            *self.bytes.or_default(node) += streams as u64 * bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_has_a_name_or_is_refused() {
        for (name, assign) in [("", Assign::Balanced), ("m-ppr", Assign::MPpr)] {
            assert_eq!(assign_named(name).unwrap(), assign);
        }
        assert!(assign_named("by-chance").is_err());
    }

    #[test]
    fn who_received_least_gets_the_place_that_receives_most() {
        let nodes = |ids: &[u32]| ids.iter().copied().map(NodeId).collect::<Vec<NodeId>>();
        let mut received = Received { scheme: Scheme::Ppr, bytes: ByNode::default() };
        let helpers = nodes(&[1, 2, 3, 4, 5, 6, 7]);
        // Of seven the fourth receives two streams, the second and the sixth one.
        let first = received.placed(helpers.clone());
        assert_eq!(first, nodes(&[4, 2, 5, 1, 6, 3, 7]));
        received.add(&Assignment { chain: first, requestor: NodeId(9) }, 10);
        let told: Vec<u64> =
            [1, 2, 3, 4, 9].iter().map(|&node| received.bytes.get(NodeId(node)).copied().unwrap()).collect();
        assert_eq!(told, [20, 10, 10, 0, 30]);
        let second = received.placed(helpers);
        assert_eq!((second[3], second[1], second[5]), (NodeId(4), NodeId(5), NodeId(6)));
    }
}
