//! Who repairs which block of a batch.

use super::Lost;
use crate::attempt::{Attempts, scheme};
use crate::cluster::Cluster;
use crate::error::Result;
use crate::reads::Reads;
use catalog::rows::RecoveryRow;
use model::{Assign, NodeId};
use plan::LeastRecent;
use plan::decide::{Candidates, InFlight, Takers, at_once, in_turn};
use plan::recovery::{Assignment, LostBlock};
use std::collections::{BTreeSet, VecDeque};
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
    with: &Attempts,
    reads: &Reads,
    row: &RecoveryRow,
    batch: Vec<Lost>,
    in_flight: &InFlight,
) -> Result<VecDeque<Pending>> {
    let asked: BTreeSet<NodeId> = row.requestors.iter().copied().collect();
    let (cluster, planner, moves) = (Arc::clone(&with.cluster), Arc::clone(&with.planner), row.moves);
    let found = with.records.decide(move |catalog| {
        let view = cluster.view();
        let longest = batch.iter().map(|lost| lost.bytes).max().unwrap_or(0);
        let mut takers = Takers::new(&view, &asked, longest)?;
        let mut of = |lost: Lost| {
            // Unknown, or beyond repair: the repair itself tells, and the others go on.
            let known = catalog.placement(lost.block).ok();
            let found = known.and_then(|p| planner.lost_block(&view, &p, moves, &mut takers).ok());
            (lost, found)
        };
        let found: Vec<(Lost, Option<Candidates>)> = batch.into_iter().map(&mut of).collect();
        Ok((view, takers, found))
    });
    let (view, takers, found) = found.await?;
    let known: Vec<&Candidates> = found.iter().filter_map(|(_, candidates)| candidates.as_ref()).collect();
    let user = reads.bytes_by_node();
    let how = (row.assign, scheme(&row.scheme)?);
    let mut assigned = at_once(how, &view, &takers, &known, in_flight, &user)?.into_iter();
    let pending = |(lost, candidates): (Lost, Option<Candidates>)| {
        let assignment = candidates.as_ref().and_then(|_| assigned.next()).flatten();
        Pending { lost, candidates: candidates.map(|candidates| candidates.lost), assignment }
    };
    Ok(found.into_iter().map(pending).collect())
}

impl Pending {
    /// Whether the block may be begun now; afterwards it is assigned, if it can be.
    pub fn choose(&mut self, cluster: &Cluster, how: Assign, in_flight: &InFlight) -> bool {
        if let Some(assignment) = &self.assignment {
            return in_flight.fits(assignment);
        }
        let Some(candidates) = &self.candidates else { return true };
        match how {
            // It could not be assigned; let the repair say why.
            Assign::Balanced | Assign::MPpr | Assign::LowestIndex => true,
            Assign::LeastRecent => {
                if candidates.survivors.len() < candidates.needed {
                    return true;
                }
                let load = |node| cluster.load.of(node);
                let choose = |recent: &mut LeastRecent| in_turn(candidates, in_flight, load, recent);
                self.assignment = cluster.health.change_recent(choose);
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
