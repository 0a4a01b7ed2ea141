//! Who is to blame: the report nearest to the cause, and the edge on which input stays away though its sender waits for
//! nothing.

use super::{Driver, FromStage};
use crate::control::Heard;
use flow::{Flow, FlowPlan};
use model::{Cause, Fault, Peer};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::time::Duration;
use wire::proto;

/// After the first fault the driver listens this long for what others say, to blame the cause and not its effects.
const BLAME_WINDOW: Duration = Duration::from_millis(150);

/// Stages stall one after another along a chain; the driver waits this long after the first one says so.
const STALL_WINDOW: Duration = Duration::from_millis(1_000);

impl<P: FnMut(proto::DriveProgress) + Send> Driver<'_, P> {
    /// Finds out why input stays away, when a stage reports that. Other stages along the path report it too, and all are asked what they are
    /// doing now, because a report may be old by then. To blame is a sender that neither waits for input itself nor for its own throttle, or
    /// that does not answer.
    pub(super) async fn stalled(&mut self, fault: Fault) -> Result<(), Fault> {
        self.waits(&fault);
        let deadline = tokio::time::Instant::now() + STALL_WINDOW;
        let before = self.grants.lowest();
        self.participants.look()?;
        let mut now = Activities::default();
        while let Ok(Some(report)) = tokio::time::timeout_at(deadline, self.participants.hear()).await {
            match report.heard {
                Heard::Message(FromStage::Waiting(other)) => self.waits(&Fault::from(other)),
                Heard::Message(FromStage::Doing(doing)) => now.add(self.plan, &doing),
                _ => Box::pin(self.hear(report)).await?,
            }
        }
        if self.grants.lowest() != before {
            return Ok(());
        }
        // Per lane, because a stage that waits in one lane may be what another lane waits for.
        let reported: BTreeSet<(u32, Peer)> = self.waiting.iter().map(|&(lane, _, to)| (lane, to)).collect();
        self.waiting.retain(|&(lane, from, to)| now.still_waits((lane, to)) && !now.excuses((lane, from)));
        let is_guilty = |&&(lane, from, _): &&(u32, Peer, Peer)| {
            now.has_answered((lane, from)) || !reported.contains(&(lane, from))
        };
        let guilty = self.waiting.iter().find(is_guilty).copied();
        match guilty {
            // The receiver's word is that input stays away.
            Some((_, from, to)) => Err(Fault { reporter: to, ..fault }.suspecting(from, to)),
            None => Ok(()),
        }
    }

    fn waits(&mut self, fault: &Fault) {
        self.waiting.extend(fault.suspect.map(|(from, to)| (fault.lane, from, to)));
    }

    /// Listens a moment longer and keeps the report nearest to the cause.
    pub(super) async fn blame(&mut self, first: Fault) -> Fault {
        let mut told = vec![first];
        // A fault of each stage, an end of each node.
        let most = 2 * self.plan.flow.stages().count() + 1;
        let deadline = tokio::time::Instant::now() + BLAME_WINDOW;
        while told.len() < most
            && let Ok(Some(report)) = tokio::time::timeout_at(deadline, self.participants.hear()).await
        {
            let other = match report.heard {
                Heard::Message(FromStage::Failed(_)) | Heard::End(_) => {
                    match Box::pin(self.hear(report)).await {
                        Err(fault) => fault,
                        Ok(()) => continue,
                    }
                }
                // Who is done may end.
                Heard::Message(FromStage::Done(stats)) => {
                    self.running.remove(&(stats.lane, stats.stage));
                    continue;
                }
                Heard::Message(_) => continue,
            };
            told.push(other);
        }
        nearest(told)
    }
}

/// What the stages of each lane and node are doing, as they just answered.
#[derive(Default)]
struct Activities {
    answered: BTreeSet<(u32, Peer)>,
    receiving: BTreeSet<(u32, Peer)>,
    throttled: BTreeSet<(u32, Peer)>,
}

impl Activities {
    fn add(&mut self, plan: &FlowPlan<Flow>, doing: &proto::Doing) {
        for seen in &doing.stages {
            let mut stages = plan.flow.stages();
            let Some((_, stage)) = stages.find(|(key, _)| *key == (seen.lane, seen.stage)) else { continue };
            let at = (seen.lane, plan.peer(stage.site));
            self.answered.insert(at);
            if seen.receiving.iter().any(|edge| edge.looks > 0) {
                self.receiving.insert(at);
            }
            if seen.throttled > 0 {
                self.throttled.insert(at);
            }
        }
    }

    fn has_answered(&self, at: (u32, Peer)) -> bool {
        self.answered.contains(&at)
    }

    /// Whether a report that this stage waits for input may still be true.
    fn still_waits(&self, at: (u32, Peer)) -> bool {
        !self.has_answered(at) || self.receiving.contains(&at)
    }

    /// Whether this stage has a reason to send nothing now.
    fn excuses(&self, at: (u32, Peer)) -> bool {
        self.receiving.contains(&at) || self.throttled.contains(&at)
    }
}

/// The fault that is nearest to the root. There is at least one.
fn nearest(mut told: Vec<Fault>) -> Fault {
    let mut nearest = 0;
    // Each step goes one connection further; more of them than there are faults would go in circles.
    for _ in 0..told.len() {
        match told.iter().position(|fault| nearer(fault, &told[nearest])) {
            Some(next) => nearest = next,
            None => break,
        }
    }
    told.swap_remove(nearest)
}

/// Whether a fault is nearer to the root than the one that is held to be so far. Of two that are alike, it is if it comes
/// from an end of the edge that the other one blames, and blames another edge: who breaks one connection breaks the next.
fn nearer(other: &Fault, so_far: &Fault) -> bool {
    let is_end = |node: Peer| so_far.suspect.is_some_and(|(from, to)| node == from || node == to);
    match nearness(other.cause).cmp(&nearness(so_far.cause)) {
        Ordering::Less => true,
        Ordering::Equal => {
            other.cause == Cause::Disconnected
                && other.reporter != so_far.reporter
                && is_end(other.reporter)
                && other.suspect != so_far.suspect
        }
        Ordering::Greater => false,
    }
}

/// How near a cause is to the root: lower is nearer. A corrupt block explains a lost connection, not the reverse.
fn nearness(cause: Cause) -> u8 {
    match cause {
        Cause::Aborted => 4,
        Cause::Disconnected => 3,
        Cause::Stalled | Cause::Slow => 2,
        Cause::Unreachable => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::NodeId;

    fn lost(reporter: u32, from: u32, to: u32) -> Fault {
        let [reporter, from, to] = [reporter, from, to].map(Peer::from_number);
        Fault { reporter, ..Fault::new(Cause::Disconnected, "lost").suspecting(from, to) }
    }

    /// A chain 1 → 2 → 3 → 4, in which 2 → 3 breaks, or 3 is gone: whatever comes first, it is that edge.
    #[test]
    fn the_first_connection_that_breaks_is_found_in_any_order() {
        let (upstream, cause, downstream) = (lost(1, 1, 2), lost(2, 2, 3), lost(4, 3, 4));
        let same = lost(3, 2, 3);
        for first in [&upstream, &cause, &same, &downstream] {
            let told = [first, &downstream, &same, &upstream, &cause].map(Fault::clone).to_vec();
            assert_eq!(nearest(told).suspect, cause.suspect, "{first}");
        }
        let long = vec![lost(1, 1, 2), lost(3, 3, 4), lost(2, 2, 3)];
        assert_eq!(nearest(long).suspect, downstream.suspect, "it leads from one to the next");
        assert_eq!(nearest(vec![lost(1, 1, 2), lost(2, 2, 1)]).cause, Cause::Disconnected, "no circles");
        assert!(nearer(&cause, &upstream));
        assert!(!nearer(&upstream, &cause) && !nearer(&downstream, &cause));
        assert!(nearer(&same, &downstream) && !nearer(&same, &cause));
        let corrupt = Fault::new(Cause::CorruptSlice, "wrong").suspecting(NodeId(1), NodeId(2));
        assert!(nearer(&corrupt, &cause) && !nearer(&cause, &corrupt));
        assert!(!nearer(&cause, &lost(2, 1, 2)), "of one node its first word counts");
    }
}
