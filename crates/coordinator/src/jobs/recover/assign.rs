//! Who repairs which block of a batch.

use super::Lost;
use super::in_flight::InFlight;
use crate::catalog::rows::{Assign, RecoveryRow};
use crate::error::Result;
use crate::planner::Takers;
use crate::shared::Shared;
use plan::NodeId;
use plan::recovery::{Assignment, LostBlock, balanced};
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

/// Assigns a batch: all at once, or each when its turn comes.
pub(super) async fn assign(
    shared: &Arc<Shared>,
    row: &RecoveryRow,
    batch: Vec<Lost>,
) -> Result<VecDeque<Pending>> {
    let asked: BTreeSet<u32> = row.requestors.iter().copied().collect();
    let (context, moves) = (Arc::clone(shared), row.moves);
    let candidates = shared.catalog.run(move |catalog| {
        let view = context.health.view();
        let mut takers = Takers::new(&view, &asked)?;
        let mut of = |lost: Lost| {
            let found = catalog.placement(lost.block);
            let found = found.and_then(|p| context.planner.lost_block(&view, &p, moves, &mut takers));
            // Unknown, or beyond repair: the repair itself tells, and the others go on.
            (lost, found.ok())
        };
        Ok(batch.into_iter().map(&mut of).collect::<Vec<_>>())
    });
    let candidates = candidates.await?;
    let known: Vec<LostBlock> = candidates.iter().filter_map(|(_, found)| found.clone()).collect();
    let mut assigned = match row.assign {
        Assign::Balanced => balanced(&known, &BTreeMap::new()),
        Assign::LeastRecent => Vec::new(),
    }
    .into_iter();
    let pending = |(lost, candidates): (Lost, Option<LostBlock>)| {
        let assignment = candidates.as_ref().and_then(|_| assigned.next()).and_then(|answer| answer.ok());
        Pending { lost, candidates, assignment }
    };
    Ok(candidates.into_iter().map(pending).collect())
}

impl Pending {
    /// Whether the block may be begun now; afterwards it is assigned, if it can be.
    pub fn choose(&mut self, shared: &Shared, how: Assign, in_flight: &InFlight) -> bool {
        if let Some(assignment) = &self.assignment {
            return in_flight.fits(assignment);
        }
        let Some(candidates) = &self.candidates else { return true };
        match how {
            // It could not be assigned; let the repair say why.
            Assign::Balanced => true,
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
                    .min_by_key(|&node| (shared.received_by(node.0), in_flight.of(node)))
                else {
                    return false;
                };
                let chosen = shared.planner.select(&room(survivors), *needed);
                self.assignment = chosen.ok().map(|chain| Assignment { chain, requestor });
                self.assignment.is_some()
            }
        }
    }

    /// Forgets who was to repair it, for good.
    pub fn set_free(&mut self) {
        self.assignment = None;
        self.candidates = None;
    }
}
