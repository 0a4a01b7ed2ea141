//! What whoever answers for a flow does after a fault: goes around somebody, tries again after a pause, or gives up. A
//! client answers for its puts and reads, the coordinator for all that it orders.

use core::time::Duration;
use model::{BlockId, Cause, Fault, NodeId, Peer};
use std::collections::BTreeSet;

/// Slow nodes are gone around at most this often for the same bytes. A flow that is slow even then is as fast as
/// flows are here, or waits for its own end.
const MAX_DETOURS: usize = 3;

/// Largest number of different damaged places that count. Each takes a flow to find, so a copy with more of them is better given up.
const MAX_DAMAGE: usize = 1024;

/// A helper or two may be unable to find out whether they may read. When more refuse, the others will not do otherwise.
const MAX_DENIED: u32 = 2;

/// How often something is tried. With mends, an attempt goes on when a helper fails: those who keep what was made take part
/// in the next flow too, which carries only the rest. Without, it goes on only when a helper is slow.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Attempts without progress, each around those who failed before.
    attempts: u32,
    /// Times that one attempt is mended around who fails.
    mends: u32,
    /// Between two attempts, times the number of attempts so far: a busy node gets time, a dead one is noticed.
    pause: Duration,
}

impl Bounds {
    /// Of the write of a block: three replicas have only so many nodes to lose.
    pub const WRITE: Bounds = Bounds { attempts: 5, mends: 0, pause: Duration::from_millis(200) };

    /// Of the read of a block: a stripe with m parities has m nodes to lose.
    pub const READ: Bounds = Bounds { attempts: 6, mends: 0, pause: Duration::from_millis(200) };

    /// Of a repair. Each mend goes around at least one more node, and codes that are deployed lose no more.
    pub const REPAIR: Bounds = Bounds { attempts: 4, mends: 8, pause: Duration::from_millis(300) };

    /// Of the encoding of a stripe.
    pub const ENCODING: Bounds = Bounds { mends: 0, ..Bounds::REPAIR };
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// The same attempt goes on at once, around one more node: what was made so far stays of use.
    Mend {
        /// The node, if it has not failed and is only slow.
        slow: Option<NodeId>,
    },
    /// Another attempt begins after this time.
    Again(Duration),
    /// No attempt could end better, or there were enough.
    GiveUp,
}

impl Next {
    /// How long to wait before it; `None` if nothing follows.
    pub fn pause(self) -> Option<Duration> {
        match self {
            Next::Mend { .. } => Some(Duration::ZERO),
            Next::Again(pause) => Some(pause),
            Next::GiveUp => None,
        }
    }
}

/// The attempts at one thing, and who is left out of the next one.
#[derive(Clone, Debug)]
pub struct Course {
    bounds: Bounds,
    /// Those that ended badly since something advanced.
    attempts: u32,
    /// Of the present attempt.
    mends: u32,
    failed: BTreeSet<NodeId>,
    /// A helper that holds a flow up has not failed: the flow waits for it once nobody can help in its place.
    slow: BTreeSet<NodeId>,
    /// Receivers of links that held flows up: what comes slowly over a link may be as slow on its way into its receiver.
    doubted: BTreeSet<NodeId>,
    /// Where flows were held up.
    holdups: Vec<(Peer, Peer)>,
    is_patient: bool,
    /// Helpers that were not permitted to read.
    denied: u32,
    /// Damage that was met: the reporter, the block, the place and the message.
    damage: BTreeSet<(Peer, Option<BlockId>, u64, String)>,
    /// Whether some of it was met since the last pardon.
    has_new_damage: bool,
}

impl Course {
    /// Of what was not tried yet. Who is patient waits for slow nodes.
    pub fn new(bounds: Bounds, is_patient: bool) -> Course {
        let (failed, slow, doubted) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Course {
            bounds,
            attempts: 0,
            mends: 0,
            failed,
            slow,
            doubted,
            holdups: Vec::new(),
            is_patient,
            denied: 0,
            damage: BTreeSet::new(),
            has_new_damage: false,
        }
    }

    /// The nodes that failed.
    pub fn failed(&self) -> &BTreeSet<NodeId> {
        &self.failed
    }

    /// The nodes that help no more: those that failed, and those that are slow.
    pub fn around(&self) -> BTreeSet<NodeId> {
        self.failed.union(&self.slow).copied().collect()
    }

    /// Nodes that are left out too where others suffice: nobody can tell from a slow link which of its ends is slow, and to find
    /// out by another attempt takes longer than to do without both.
    pub fn doubted(&self) -> &BTreeSet<NodeId> {
        &self.doubted
    }

    /// Whether a node that holds the next flow up would be gone around.
    pub fn watches(&self) -> bool {
        !self.is_patient && self.holdups.len() < MAX_DETOURS
    }

    /// Waits for slow nodes from now on: better slowly than not at all. Returns whether any was gone around before.
    pub fn wait_for_slow(&mut self) -> bool {
        self.is_patient = true;
        self.doubted.clear();
        !std::mem::take(&mut self.slow).is_empty()
    }

    /// Attempts that ended badly since something advanced.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Whether no attempt is left.
    pub fn is_exhausted(&self) -> bool {
        self.attempts >= self.bounds.attempts
    }

    /// Something was done for good: attempts are counted anew from here.
    pub fn advanced(&mut self) {
        self.attempts = 0;
    }

    /// A flow broke. What it made so far is at `ends`; none are given once that is lost.
    pub fn broke(&mut self, fault: &Fault, ends: &[Peer]) -> Next {
        let mends = self.is_mendable(fault, ends);
        let is_slow = fault.cause == Cause::Slow;
        let slow = fault.suspect.filter(|_| is_slow).and_then(|link| self.detour(link, ends));
        if !is_slow {
            self.failed.extend(blamed(fault));
        }
        if fault.cause == Cause::CorruptBlock && self.damage.len() < MAX_DAMAGE {
            let what = (fault.reporter, fault.block, fault.slice, fault.detail.clone());
            self.has_new_damage |= self.damage.insert(what);
        }
        if mends {
            self.mends += 1;
            return Next::Mend { slow };
        }
        self.denied += u32::from(fault.cause == Cause::Denied);
        let is_hopeless = fault.cause == Cause::Invalid || self.denied > MAX_DENIED;
        let next = self.again();
        if is_hopeless { Next::GiveUp } else { next }
    }

    /// Whether what the ends have stays of use: somebody else is to blame, and nobody says that the bytes are wrong.
    pub fn is_mendable(&self, fault: &Fault, ends: &[Peer]) -> bool {
        let (blamed, is_end) = (blamed(fault), |node: &NodeId| ends.contains(&(*node).into()));
        match fault.cause {
            Cause::Invalid | Cause::WrongDigest | Cause::Bug => false,
            _ if ends.is_empty() => false,
            Cause::Slow => self.mends < self.bounds.mends.max(MAX_DETOURS as u32),
            _ => self.mends < self.bounds.mends && !blamed.is_empty() && !blamed.iter().any(is_end),
        }
    }

    /// The driver found its flow held up on the link `from` → `to`, or by a node (then they are the same). The sender
    /// of a slow link is gone around, and its receiver is doubted. If its receiver is behind another slow link, the receiver is gone around; if
    /// that is a requestor, which is at the end of all paths, all are waited for. Returns the node that is gone around
    /// from now on.
    fn detour(&mut self, (from, to): (Peer, Peer), requestors: &[Peer]) -> Option<NodeId> {
        let again = from != to && self.holdups.iter().any(|link| link.1 == to);
        self.holdups.push((from, to));
        if again && requestors.contains(&to) {
            self.wait_for_slow();
            return None;
        }
        let slow = if again { to } else { from }.node()?;
        self.slow.insert(slow);
        if from != to && !requestors.contains(&to) {
            self.doubted.extend(to.node());
        }
        Some(slow)
    }

    /// There is no plan around all of them. A slow node is better than none, and so is a suspect.
    pub fn refused(&mut self) -> Next {
        if self.wait_for_slow() || self.pardon() {
            return Next::Mend { slow: None };
        }
        if std::mem::take(&mut self.failed).is_empty() { Next::GiveUp } else { self.again() }
    }

    /// Forgives failed nodes when no plan avoids them all. Partial results stay in use. They may help again only if new damage was met: a copy
    /// with one damaged chunk still provides the others. Returns whether they may.
    pub fn pardon(&mut self) -> bool {
        let pardons = std::mem::take(&mut self.has_new_damage) && !self.failed.is_empty();
        if pardons {
            self.failed.clear();
            (self.attempts, self.mends) = (0, 0);
        }
        pardons
    }

    /// An attempt ended badly, and nobody is to blame.
    pub fn again(&mut self) -> Next {
        self.attempts += 1;
        self.mends = 0;
        if self.is_exhausted() { Next::GiveUp } else { Next::Again(self.bounds.pause * self.attempts) }
    }
}

/// The nodes that a fault gives reason to avoid. A broken edge has two ends; the one that did not report is the likelier
/// culprit, for a dead node reports nothing. A client is never avoided: if it is at the silent end, the end that spoke is
/// all that is left to go around.
fn blamed(fault: &Fault) -> BTreeSet<NodeId> {
    let Some((from, to)) = fault.suspect else { return BTreeSet::new() };
    let silent = [from, to].into_iter().filter(|&end| end != fault.reporter).filter_map(Peer::node);
    let silent: BTreeSet<NodeId> = silent.collect();
    if silent.is_empty() { [from, to].into_iter().filter_map(Peer::node).collect() } else { silent }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUESTOR: Peer = Peer::Node(NodeId(9));

    fn fault(cause: Cause, reporter: u32, from: u32, to: u32) -> Fault {
        let [reporter, from, to] = [reporter, from, to].map(Peer::from_number);
        Fault { reporter, ..Fault::new(cause, "").suspecting(from, to) }
    }

    fn pause(ms: u64) -> Next {
        Next::Again(Duration::from_millis(ms))
    }

    fn nodes<const N: usize>(numbers: [u32; N]) -> BTreeSet<NodeId> {
        numbers.map(NodeId).into()
    }

    #[test]
    fn the_silent_end_of_an_edge_is_avoided_and_the_client_never() {
        let blamed = |reporter, from, to| blamed(&fault(Cause::Disconnected, reporter, from, to));
        assert_eq!(blamed(5, 4, 5), nodes([4]));
        assert_eq!(blamed(4, 4, 5), nodes([5]));
        assert_eq!(blamed(0, 4, 5), nodes([4, 5]));
        assert_eq!(blamed(3, 4, 5), nodes([4, 5]));
        assert_eq!(blamed(0, 7, 7), nodes([7]));
        assert_eq!(blamed(7, 7, 7), nodes([7]));
        assert_eq!(blamed(0, 4, 0), nodes([4]));
        assert_eq!(blamed(4, 4, 0), nodes([4]));
        assert_eq!(super::blamed(&Fault::new(Cause::Busy, "")), nodes([]));
    }

    #[test]
    fn a_helper_that_fails_is_mended_around_so_long_as_the_bytes_are_right() {
        let mut course = Course::new(Bounds::REPAIR, false);
        let lost = |node| fault(Cause::Disconnected, 9, node, 9);
        assert_eq!(course.broke(&lost(1), &[REQUESTOR]), Next::Mend { slow: None });
        assert_eq!(course.broke(&lost(2), &[REQUESTOR]), Next::Mend { slow: None });
        assert_eq!(*course.failed(), nodes([1, 2]));
        for unmendable in [
            fault(Cause::Disconnected, 1, 1, 9),
            fault(Cause::WrongDigest, 9, 1, 9),
            fault(Cause::Bug, 9, 1, 9),
            Fault::new(Cause::Busy, "nobody is to blame"),
        ] {
            assert!(!course.is_mendable(&unmendable, &[REQUESTOR]), "{unmendable}");
        }
        assert!(!course.is_mendable(&lost(3), &[]), "the requestor's part was given up");
        assert!(!Course::new(Bounds::READ, false).is_mendable(&lost(3), &[Peer::Client]));
    }

    #[test]
    fn attempts_and_mends_are_bounded_and_pauses_grow() {
        let mut course = Course::new(Bounds::REPAIR, false);
        let lost = fault(Cause::Stalled, 9, 1, 9);
        for attempt in 1..4 {
            for _ in 0..Bounds::REPAIR.mends {
                assert_eq!(course.broke(&lost, &[REQUESTOR]), Next::Mend { slow: None });
            }
            assert_eq!(course.broke(&lost, &[REQUESTOR]), pause(300 * attempt));
        }
        assert_eq!(course.again(), Next::GiveUp);
        assert!(course.is_exhausted());
        course.advanced();
        assert_eq!(course.broke(&lost, &[]), pause(300));
        assert_eq!(course.broke(&fault(Cause::Invalid, 9, 1, 9), &[]), Next::GiveUp);
    }

    #[test]
    fn a_plan_that_is_refused_waits_for_the_slow_and_then_asks_suspects_again() {
        let mut course = Course::new(Bounds::READ, false);
        assert_eq!(course.refused(), Next::GiveUp, "nobody was left out");
        assert_eq!(course.broke(&fault(Cause::Unreachable, 0, 1, 1), &[Peer::Client]), pause(200));
        let slow = fault(Cause::Slow, 0, 2, 2);
        assert_eq!(course.broke(&slow, &[Peer::Client]), Next::Mend { slow: Some(NodeId(2)) });
        assert_eq!((course.around(), course.failed()), (nodes([1, 2]), &nodes([1])));
        assert_eq!(course.refused(), Next::Mend { slow: None });
        assert_eq!((course.around(), course.watches()), (nodes([1]), false));
        assert_eq!(course.refused(), pause(400));
        assert_eq!((course.around(), course.refused()), (nodes([]), Next::GiveUp));
    }

    #[test]
    fn new_damage_is_forgiven_and_known_damage_is_not() {
        let mut course = Course::new(Bounds::REPAIR, false);
        let damaged = |node, slice| Fault { slice, ..fault(Cause::CorruptBlock, node, node, node) };
        assert!(!course.pardon(), "nobody failed");
        for (node, slice) in [(1, 3), (2, 5), (3, 3)] {
            assert_eq!(course.broke(&damaged(node, slice), &[REQUESTOR]), Next::Mend { slow: None });
        }
        assert_eq!(course.around(), nodes([1, 2, 3]));
        assert!(course.pardon() && course.around().is_empty());
        course.broke(&damaged(1, 3), &[REQUESTOR]);
        assert!(!course.pardon(), "it is the same damage again");
        course.broke(&damaged(1, 4), &[REQUESTOR]);
        assert_eq!((course.refused(), course.around()), (Next::Mend { slow: None }, nodes([])));
        course.broke(&fault(Cause::Disconnected, 9, 1, 9), &[REQUESTOR]);
        assert!(!course.pardon(), "who is away is no better further on");
    }

    #[test]
    fn who_may_not_read_here_may_elsewhere_but_not_everywhere_is_tried() {
        let mut course = Course::new(Bounds::READ, false);
        let denied = |node| fault(Cause::Denied, node, node, node);
        assert_eq!(course.broke(&denied(1), &[Peer::Client]), pause(200));
        assert_eq!(course.broke(&denied(2), &[Peer::Client]), pause(400));
        assert_eq!(
            (course.around(), course.broke(&denied(3), &[Peer::Client])),
            (nodes([1, 2]), Next::GiveUp)
        );
    }

    #[test]
    fn whoever_is_slow_is_gone_around_within_the_attempt_and_has_not_failed() {
        for bounds in [Bounds::REPAIR, Bounds::READ] {
            let mut course = Course::new(bounds, false);
            for node in 1..4 {
                let slow = fault(Cause::Slow, node, node, node);
                assert_eq!(course.broke(&slow, &[REQUESTOR]), Next::Mend { slow: Some(NodeId(node)) });
            }
            assert_eq!((course.watches(), course.attempts()), (false, 0));
            assert_eq!((course.around(), course.failed()), (nodes([1, 2, 3]), &nodes([])));
        }
        let mut course = Course::new(Bounds::REPAIR, false);
        let nobody = Fault::new(Cause::Slow, "rates were changed");
        assert_eq!(course.broke(&nobody, &[REQUESTOR]), Next::Mend { slow: None });
        assert!(course.watches() && course.around().is_empty());
        assert!(!Course::new(Bounds::REPAIR, true).watches(), "who is patient waits");
    }

    /// Two requestors, which one flow serves.
    fn after_holdups(links: &[(u32, u32)]) -> Course {
        let mut course = Course::new(Bounds::REPAIR, false);
        for &(from, to) in links {
            course.broke(&fault(Cause::Slow, to, from, to), &[Peer::from_number(8), REQUESTOR]);
        }
        course
    }

    #[test]
    fn an_end_that_two_slow_links_share_is_to_blame() {
        assert_eq!(after_holdups(&[(1, 2)]).around(), nodes([1]));
        assert_eq!(after_holdups(&[(1, 2), (3, 2)]).around(), nodes([1, 2]));
        assert_eq!(after_holdups(&[(1, 2), (3, 3)]).around(), nodes([1, 3]));
        // Either end of the first link may be slow; of a requestor nobody can do without.
        assert_eq!(*after_holdups(&[(1, 2), (3, 9), (4, 4)]).doubted(), nodes([2]));
        let mut course = after_holdups(&[(1, 2)]);
        assert!(course.wait_for_slow() && course.doubted().is_empty());
        assert!(after_holdups(&[(1, 2)]).watches() && !after_holdups(&[(1, 2), (3, 4), (5, 6)]).watches());
    }

    #[test]
    fn the_requestors_own_link_is_waited_for() {
        for requestor in [8, 9] {
            let mut course = after_holdups(&[(1, requestor), (3, requestor)]);
            assert!(!course.watches() && course.around().is_empty());
            assert!(!course.wait_for_slow());
        }
    }
}
