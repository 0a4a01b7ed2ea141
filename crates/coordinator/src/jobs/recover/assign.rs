//! Who repairs which block of a batch.

use super::Lost;
use super::in_flight::InFlight;
use crate::attempt::scheme;
use crate::error::{CoordinatorError, Result};
use crate::health::View;
use crate::planner::{Candidates, Takers};
use crate::shared::Shared;
use catalog::rows::RecoveryRow;
use flow::Scheme;
use model::{Assign, NodeId};
use plan::ByNode;
use plan::m_ppr::{Coefficients, LostChunk, MPpr, Servers};
use plan::recovery::{Assignment, LostBlock, balanced};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A block that waits for its repair.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub lost: Lost,
    /// Who may take part; `None` if nobody can tell, and then the repair says why.
    candidates: Option<LostBlock>,
    /// Who does; `None`: whoever the repair chooses.
    pub assignment: Option<Assignment>,
}

/// Assigns a batch: all at once, or each when its turn comes. What is in flight counts as load.
pub(super) async fn assign(
    shared: &Arc<Shared>,
    row: &RecoveryRow,
    batch: Vec<Lost>,
    in_flight: &InFlight,
) -> Result<VecDeque<Pending>> {
    let asked: BTreeSet<NodeId> = row.requestors.iter().copied().collect();
    let (context, moves) = (Arc::clone(shared), row.moves);
    let found = shared.catalog.decide(move |catalog| {
        let view = context.health.view();
        let mut takers = Takers::new(&view, &asked)?;
        let mut of = |lost: Lost| {
            let found = catalog.placement(lost.block).map_err(CoordinatorError::from);
            let found = found.and_then(|p| context.planner.lost_block(&view, &p, moves, &mut takers));
            // Unknown, or beyond repair: the repair itself tells, and the others go on.
            (lost, found.ok())
        };
        let found: Vec<(Lost, Option<Candidates>)> = batch.into_iter().map(&mut of).collect();
        Ok((view, takers, found))
    });
    let (view, takers, found) = found.await?;
    let known: Vec<&Candidates> = found.iter().filter_map(|(_, candidates)| candidates.as_ref()).collect();
    let user = shared.reads.bytes_by_node();
    let how = (row.assign, scheme(&row.scheme)?);
    let mut assigned = at_once(how, &view, &takers, &known, in_flight, &user)?.into_iter();
    let pending = |(lost, candidates): (Lost, Option<Candidates>)| {
        let assignment = candidates.as_ref().and_then(|_| assigned.next()).flatten();
        Pending { lost, candidates: candidates.map(|candidates| candidates.lost), assignment }
    };
    Ok(found.into_iter().map(pending).collect())
}

/// The assignment of that name; empty: the usual one.
pub(crate) fn assign_named(name: &str) -> Result<Assign> {
    match name {
        "" | "balanced" => Ok(Assign::Balanced),
        "least-recent" => Ok(Assign::LeastRecent),
        "m-ppr" => Ok(Assign::MPpr),
        "lowest-index" => Ok(Assign::LowestIndex),
        other => Err(CoordinatorError::Invalid(format!(
            "there is no assignment {other:?}; there are balanced, least-recent, m-ppr and lowest-index"
        ))),
    }
}

/// Assigns blocks together, as `how` has it, to be repaired by that scheme (`None`: whichever is best), on top of what is
/// in flight and what users read, bytes by node; `None` for those that cannot be, or are when their turn comes.
pub(crate) fn at_once(
    (how, scheme): (Assign, Option<Scheme>),
    view: &View,
    takers: &Takers,
    known: &[&Candidates],
    in_flight: &InFlight,
    user: &BTreeMap<NodeId, u64>,
) -> Result<Vec<Option<Assignment>>> {
    match how {
        Assign::Balanced => {
            let lost: Vec<&LostBlock> = known.iter().map(|candidates| &candidates.lost).collect();
            Ok(balanced(&lost, &in_flight.loads()).into_iter().map(|answer| answer.ok()).collect())
        }
        Assign::MPpr => by_weight(scheme.unwrap_or(Scheme::Pipeline), view, takers, known, in_flight, user),
        Assign::LowestIndex => Ok(by_number(known, in_flight)),
        Assign::LeastRecent => Ok(vec![None; known.len()]),
    }
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
    view: &View,
    takers: &Takers,
    known: &[&Candidates],
    in_flight: &InFlight,
    user: &BTreeMap<NodeId, u64>,
) -> Result<Vec<Option<Assignment>>> {
    let user_bytes = |node: NodeId| user.get(&node).copied().unwrap_or(0);
    let mut planner = MPpr::new(&view.topology, takers.preferred(), user_bytes, Coefficients::default())?;
    let mut received = Received { scheme, bytes: ByNode::default() };
    for (assignment, bytes) in in_flight.under_way() {
        let Assignment { chain, requestor } = assignment;
        planner.add(&Servers { sources: chain.clone(), destination: *requestor }, *bytes);
        received.add(assignment, *bytes);
    }
    let mut plan = |candidates: &&Candidates| {
        let Candidates { lost, cached, holders } = candidates;
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

impl Pending {
    /// With its assignment.
    #[cfg(test)]
    pub fn assigned(lost: Lost, assignment: Assignment) -> Pending {
        Pending { lost, candidates: None, assignment: Some(assignment) }
    }

    /// Whether the block may be begun now; afterwards it is assigned, if it can be.
    pub fn choose(&mut self, shared: &Shared, how: Assign, in_flight: &InFlight) -> bool {
        if let Some(assignment) = &self.assignment {
            return in_flight.fits(assignment);
        }
        let Some(candidates) = &self.candidates else { return true };
        match how {
            // It could not be assigned; let the repair say why.
            Assign::Balanced | Assign::MPpr | Assign::LowestIndex => true,
            Assign::LeastRecent => {
                let LostBlock { survivors, needed, requestors, .. } = candidates;
                if survivors.len() < *needed {
                    return true;
                }
                let room = |nodes: &[NodeId]| -> Vec<NodeId> {
                    nodes.iter().copied().filter(|&node| in_flight.has_room(node)).collect()
                };
                let Some(requestor) = room(requestors)
                    .into_iter()
                    .min_by_key(|&node| (shared.load.of(node), in_flight.of(node)))
                else {
                    return false;
                };
                let chosen = shared.planner.select(&room(survivors), *needed);
                self.assignment = chosen.ok().map(|chain| Assignment { chain, requestor });
                self.assignment.is_some()
            }
        }
    }

    /// Whether its nodes, or those among which they are chosen, are settled.
    pub fn is_bound(&self) -> bool {
        self.assignment.is_some() || self.candidates.is_some()
    }

    /// Forgets who was to repair it, for good.
    pub fn set_free(&mut self) {
        self.assignment = None;
        self.candidates = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
