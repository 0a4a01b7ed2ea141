//! Who repairs which of many blocks: assigned a batch at a time, so that links share them evenly, and begun where all nodes
//! have room. Recoveries of nodes and the healer have one each.
//!
//! ```text
//!   most urgent of them ──a batch──▶ helpers and requestors assigned ──▶ pending ──room at all its nodes──▶ running
//!            ▲                                                              │ nodes are trusted otherwise,
//!            └──────────────────────────────────────────────────────────────┘ or something is more urgent
//! ```

use crate::attempt::{Attempts, RepairOptions};
use crate::cluster::Cluster;
use crate::config::{
    FORWARDED_BYTES_PER_NODE, LEAST_STREAM_BYTES_PER_S, LEAST_STREAMS_PER_NODE, STREAMS_PER_NODE,
};
use crate::error::{CoordinatorError, Result};
use crate::reads::Reads;
use flow::Scheme;
use model::{Assign, BlockId, NodeId};
use plan::decide::{Candidates, DecideError, InFlight, Takers, World, at_once, in_turn};
use plan::recovery::{Assignment, LostBlock};
use plan::{LeastRecent, Urgency};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Pending blocks that are looked at for one whose nodes have room, so that a busy node holds up only its own.
const LOOK_AHEAD: usize = 64;

/// A block of which a copy is to be made. The most urgent is the least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Lost {
    pub urgency: Urgency,
    /// Of a recovery: whose copy it is.
    pub node: Option<NodeId>,
    pub block: BlockId,
    pub bytes: u64,
}

/// How blocks are to be assigned.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub assign: Assign,
    /// `None`: whichever is best.
    pub scheme: Option<Scheme>,
    /// Who is to get the blocks; none: whoever may.
    pub requestors: BTreeSet<NodeId>,
    /// They are copied from a node that leaves, or rebuilt without it.
    pub moves: bool,
}

/// A block that waits for its repair, or is repaired.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub lost: Lost,
    /// Who may take part; `None` if nobody can tell, and then the repair says why.
    candidates: Option<LostBlock>,
    /// Who does; `None`: whoever the repair chooses.
    assignment: Option<Assignment>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Assigner {
    terms: Terms,
    in_flight: InFlight,
    longest_bytes: u64,
    /// Assigned, and waiting for room.
    pending: VecDeque<Pending>,
    /// Who was a last resort when the pending ones were assigned.
    last_resort: Arc<BTreeSet<NodeId>>,
}

impl Assigner {
    /// Nothing is assigned or under way.
    pub fn new(terms: Terms) -> Assigner {
        Assigner {
            terms,
            in_flight: InFlight::new(STREAMS_PER_NODE),
            longest_bytes: 0,
            pending: VecDeque::new(),
            last_resort: Arc::default(),
        }
    }

    /// Whether nothing waits for room.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Assigns a batch, all at once or each when its turn comes.
    pub async fn take(&mut self, with: &Attempts, reads: &Reads, batch: Vec<Lost>) -> Result<()> {
        let longest = batch.iter().map(|lost| lost.bytes).max().unwrap_or(0);
        self.longest_bytes = self.longest_bytes.max(longest);
        let most = streams_at(with.settings.healing_bytes_per_s());
        self.in_flight.allow(per_node(self.terms.scheme, self.longest_bytes).min(most), self.terms.scheme);
        self.pending.extend(assign(with, reads, &self.terms, batch, &self.in_flight).await?);
        Ok(())
    }

    /// The next block that may begin now.
    pub fn next(&mut self, cluster: &Cluster) -> Option<Pending> {
        let place = self.best(cluster)?;
        self.pending.remove(place)
    }

    /// What is to be assigned again, as nodes are trusted now, if that has changed since they were assigned.
    pub fn distrusted(&mut self, view: &World) -> Vec<Lost> {
        if view.last_resort == self.last_resort {
            return Vec::new();
        }
        self.last_resort = Arc::clone(&view.last_resort);
        self.give_back()
    }

    /// What is to be assigned again since something more urgent than some of it has come.
    pub fn overtaken(&mut self, by: Option<Urgency>) -> Vec<Lost> {
        let waits = self.pending.iter().map(|pending| pending.lost.urgency).max();
        match by.is_some_and(|by| waits.is_some_and(|waits| by < waits)) {
            true => self.give_back(),
            false => Vec::new(),
        }
    }

    /// All that waits, but for what failed as it was assigned.
    fn give_back(&mut self) -> Vec<Lost> {
        let (assigned, free): (Vec<Pending>, Vec<Pending>) =
            self.pending.drain(..).partition(Pending::is_bound);
        self.pending = free.into();
        assigned.into_iter().map(|pending| pending.lost).collect()
    }

    /// Of those that may begin and are as urgent as the first of them, the one whose nodes take part in the fewest
    /// repairs now ([`InFlight::crowd_of`]): links then share what runs evenly, and none waits for a slower one.
    fn best(&mut self, cluster: &Cluster) -> Option<usize> {
        let mut best: Option<(usize, (usize, usize), Urgency)> = None;
        for place in 0..self.pending.len().min(LOOK_AHEAD) {
            let pending = &mut self.pending[place];
            let urgency = pending.lost.urgency;
            if best.is_some_and(|(_, _, urgent)| urgency != urgent) {
                break;
            }
            if !pending.choose(cluster, self.terms.assign, &self.in_flight) {
                continue;
            }
            let crowd = pending.assignment.as_ref().map_or((0, 0), |nodes| self.in_flight.crowd_of(nodes));
            if best.is_none_or(|(_, least, _)| crowd < least) {
                best = Some((place, crowd, urgency));
            }
            // Helpers that are chosen when their turn comes: its turn has come.
            if crowd == (0, 0) || self.terms.assign == Assign::LeastRecent {
                break;
            }
        }
        best.map(|(place, ..)| place)
    }

    /// Its repair begins.
    pub fn begin(&mut self, pending: &Pending) {
        if let Some(assignment) = &pending.assignment {
            self.in_flight.begin(pending.lost.block, assignment, pending.lost.bytes);
        }
    }

    /// Its repair has ended.
    pub fn end(&mut self, pending: &Pending) {
        if let Some(assignment) = &pending.assignment {
            self.in_flight.end(pending.lost.block, assignment);
        }
    }

    /// It begins when there is room, before all others that wait.
    pub fn again(&mut self, pending: Pending) {
        self.pending.push_front(pending);
    }

    /// What was assigned to it no longer holds, unless it fails whoever repairs it: then it is given back.
    pub fn retried(&mut self, pending: Pending, error: &CoordinatorError) -> Option<Pending> {
        if pending.assignment.is_none()
            || matches!(error, CoordinatorError::Decide(DecideError::Unrecoverable { .. }))
        {
            return Some(pending);
        }
        tracing::info!(block = %pending.lost.block, %error, "assigned anew");
        self.again(Pending::free(pending.lost));
        None
    }
}

impl Pending {
    /// Nobody is assigned to it.
    pub fn free(lost: Lost) -> Pending {
        Pending { lost, candidates: None, assignment: None }
    }

    /// The options, with the nodes that are assigned.
    pub fn options(&self, usual: RepairOptions) -> RepairOptions {
        let Some(Assignment { chain, requestor }) = &self.assignment else { return usual };
        RepairOptions { requestor: Some(*requestor), helpers: chain.clone(), ..usual }
    }

    /// Who takes part, if that is settled.
    pub fn assignment(&self) -> Option<&Assignment> {
        self.assignment.as_ref()
    }

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
    fn is_bound(&self) -> bool {
        self.assignment.is_some() || self.candidates.is_some()
    }
}

/// Assigns a batch: all at once, or each when its turn comes. What is in flight counts as load.
pub(crate) async fn assign(
    with: &Attempts,
    reads: &Reads,
    terms: &Terms,
    batch: Vec<Lost>,
    in_flight: &InFlight,
) -> Result<Vec<Pending>> {
    let (asked, moves) = (terms.requestors.clone(), terms.moves);
    let (cluster, planner) = (Arc::clone(&with.cluster), Arc::clone(&with.planner));
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
    let how = (terms.assign, terms.scheme);
    let mut assigned = at_once(how, &view, &takers, &known, in_flight, &user)?.into_iter();
    let pending = |(lost, candidates): (Lost, Option<Candidates>)| {
        let assignment = candidates.as_ref().and_then(|_| assigned.next()).flatten();
        Pending { lost, candidates: candidates.map(|candidates| candidates.lost), assignment }
    };
    Ok(found.into_iter().map(pending).collect())
}

/// Streams, or repairs by a scheme that forwards whole blocks, that a node takes part in at once.
fn per_node(scheme: Option<Scheme>, longest_bytes: u64) -> usize {
    if !scheme.is_some_and(Scheme::whole_block) {
        return STREAMS_PER_NODE;
    }
    let most = FORWARDED_BYTES_PER_NODE / longest_bytes.max(1);
    usize::try_from(most).unwrap_or(STREAMS_PER_NODE).clamp(1, STREAMS_PER_NODE)
}

/// Streams that a node carries at once where it may carry so many bytes per second; `None`: any number.
fn streams_at(bytes_per_s: Option<u64>) -> usize {
    let Some(bytes_per_s) = bytes_per_s else { return STREAMS_PER_NODE };
    let streams = usize::try_from(bytes_per_s / LEAST_STREAM_BYTES_PER_S).unwrap_or(STREAMS_PER_NODE);
    streams.clamp(LEAST_STREAMS_PER_NODE, STREAMS_PER_NODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_follow_the_budget() {
        let at = |mbit_per_s: f64| streams_at(Some((mbit_per_s * 125_000.0) as u64));
        assert_eq!([0.001, 0.4, 1.0, 2.0, 20.0, 1_000.0].map(at), [8, 8, 15, 30, 48, STREAMS_PER_NODE]);
        assert_eq!(streams_at(None), STREAMS_PER_NODE);
    }
}
