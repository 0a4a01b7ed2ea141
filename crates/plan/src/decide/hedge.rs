//! When a short read asks further nodes for the same bytes, whom it leaves out, and how much that may cost (delayed
//! hedging: Dean and Barroso, The Tail at Scale, 2013). A client remembers it of its own reads, as it does what is
//! [`usual`](super::usual) of long ones. Time is passed in.
//!
//! ```text
//!   asked ─────────── late ── a second flow, around whoever is waited for ── the first whole answer counts
//!            │         │
//!            │         └ by what such reads took lately: longer than 19 of 20, and twice the median
//!            └ nothing is sent twice until then
//! ```

use core::time::Duration;
use model::NodeId;
use std::collections::{BTreeMap, VecDeque};

/// Reads of a kind that are remembered: enough to tell the slowest twentieth, few enough that a network that changes is soon
/// known.
const REMEMBERED: usize = 64;

/// Fewer than this say nothing about the slowest twentieth.
const ENOUGH: usize = 8;

/// A read is late only after so many times the median: where all take about as long, the slowest twentieth is no late one.
const TIMES_MEDIAN: u32 = 2;

/// … and never before this: a processor that is busy with something else for a turn or two makes a read that late, and a
/// second flow only adds to that.
const SOONEST: Duration = Duration::from_millis(2);

/// Before anything is known a read is late after this time and what it takes at [`SLOWEST_BYTES_PER_S`]: connections are to be
/// made and disks to be woken, and yet it is a twentieth of what a node that stands still is waited for.
const UNKNOWN: Duration = Duration::from_millis(250);

/// A network on which short reads take longer than at this rate is not one to send more over.
const SLOWEST_BYTES_PER_S: u64 = 1 << 20;

/// Of each hundred bytes that links carry for degraded reads, so many may be carried again by hedges. Dean and Barroso hedge
/// after the 95th percentile, which is as much; once a node is known to be late, reads leave it out and need none.
const PERCENT_OF_DEGRADED: u64 = 5;

/// … and twice so many of a thousand of healthy ones, which are most of what a cluster carries: their hedge, decoded from k
/// nodes, costs k times the read. So they carry less than a hundredth more, whatever happens.
const PERMILLE_OF_HEALTHY: u64 = 5;

/// What may be saved up. A hedge of the longest read that is hedged, from the helpers of a wide stripe, takes that much. Degraded
/// reads begin with it, for a program that reads once has saved up nothing; healthy ones begin with nothing, so that their
/// share holds from the first byte.
const MOST_SAVED_BYTES: u64 = 16 << 20;

/// A node that was late is left out so long where others suffice. Then a read meets it again, and is hedged if it must be: one
/// of many.
const LATE_FOR: Duration = Duration::from_secs(30);

/// Nodes that are remembered to be late. Of more, the ones found first are forgotten: so many are the rule.
const MOST_LATE: usize = 32;

/// Reads that take about as long as each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Kind {
    is_degraded: bool,
    /// Two to this power is at least the number of bytes.
    size: u32,
}

/// What a client remembers of its short reads.
#[derive(Clone, Debug)]
pub struct Hedging {
    /// How long the last ones of each kind took.
    took: BTreeMap<Kind, VecDeque<Duration>>,
    degraded: Budget,
    healthy: Budget,
    /// Until when each is left out, the one found first in front.
    late: VecDeque<(NodeId, Duration)>,
}

/// Bytes that may be spent.
#[derive(Clone, Copy, Debug)]
struct Budget {
    /// In thousandths of a byte.
    saved: u64,
    /// Of a thousand bytes.
    share: u64,
}

impl Kind {
    /// Of a read of so many bytes.
    pub fn of(bytes: u64, is_degraded: bool) -> Kind {
        Kind { is_degraded, size: bytes.max(1).next_power_of_two().trailing_zeros() }
    }

    fn most_bytes(self) -> u64 {
        1 << self.size.min(u64::BITS - 1)
    }
}

impl Default for Hedging {
    fn default() -> Hedging {
        Hedging {
            took: BTreeMap::new(),
            degraded: Budget { saved: MOST_SAVED_BYTES * 1000, share: PERCENT_OF_DEGRADED * 10 },
            healthy: Budget { saved: 0, share: PERMILLE_OF_HEALTHY },
            late: VecDeque::new(),
        }
    }
}

impl Hedging {
    /// A flow of a read has brought all that it was to bring, in this time, and links carried so many bytes for it.
    pub fn note(&mut self, kind: Kind, took: Duration, carried_bytes: u64) {
        let lately = self.took.entry(kind).or_default();
        lately.push_back(took);
        lately.drain(..lately.len().saturating_sub(REMEMBERED));
        self.budget(kind).earn(carried_bytes);
    }

    /// A flow that takes longer is late.
    pub fn late_after(&self, kind: Kind) -> Duration {
        let lately = self.took.get(&kind).filter(|lately| lately.len() >= ENOUGH);
        let Some(lately) = lately else {
            let bytes = Duration::from_secs_f64(kind.most_bytes() as f64 / SLOWEST_BYTES_PER_S as f64);
            return UNKNOWN + bytes;
        };
        let mut sorted: Vec<Duration> = lately.iter().copied().collect();
        sorted.sort_unstable();
        let median = sorted[sorted.len() / 2];
        let slow = sorted[(sorted.len() * 19 / 20).min(sorted.len() - 1)];
        slow.max(median * TIMES_MEDIAN).max(SOONEST)
    }

    /// Whether links may carry so many bytes for a hedge of such a read.
    pub fn affords(&self, kind: Kind, bytes: u64) -> bool {
        let budget = if kind.is_degraded { &self.degraded } else { &self.healthy };
        budget.saved >= bytes.saturating_mul(1000)
    }

    /// The same, and they are spent.
    pub fn spend(&mut self, kind: Kind, bytes: u64) -> bool {
        let affords = self.affords(kind, bytes);
        if affords {
            self.budget(kind).saved -= bytes * 1000;
        }
        affords
    }

    /// Hedges came first around these, at this time.
    pub fn found_late(&mut self, nodes: impl IntoIterator<Item = NodeId>, now: Duration) {
        for node in nodes {
            self.late.retain(|(known, _)| *known != node);
            self.late.push_back((node, now + LATE_FOR));
        }
        self.late.drain(..self.late.len().saturating_sub(MOST_LATE));
    }

    /// Nodes that are to be left out where others suffice.
    pub fn late(&mut self, now: Duration) -> Vec<NodeId> {
        self.late.retain(|(_, until)| *until > now);
        self.late.iter().map(|(node, _)| *node).collect()
    }

    fn budget(&mut self, kind: Kind) -> &mut Budget {
        if kind.is_degraded { &mut self.degraded } else { &mut self.healthy }
    }
}

impl Budget {
    fn earn(&mut self, bytes: u64) {
        let saved = self.saved.saturating_add(bytes.saturating_mul(self.share));
        self.saved = saved.min(MOST_SAVED_BYTES * 1000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SMALL: u64 = 4096;

    fn degraded() -> Kind {
        Kind::of(SMALL, true)
    }

    #[test]
    fn a_read_is_late_when_it_takes_longer_than_nearly_all_did_and_twice_the_median() {
        let mut hedging = Hedging::default();
        assert_eq!(hedging.late_after(degraded()), UNKNOWN + Duration::from_secs_f64(1.0 / 256.0));
        assert!(hedging.late_after(Kind::of(1 << 20, true)) > Duration::from_secs(1), "longer ones later");
        (1..ENOUGH).for_each(|_| hedging.note(degraded(), 10 * MS, 0));
        assert!(hedging.late_after(degraded()) > UNKNOWN, "too few are known");
        hedging.note(degraded(), 10 * MS, 0);
        assert_eq!(hedging.late_after(degraded()), 20 * MS, "twice the median");
        // One in twenty may be as slow as it likes; of one in ten it is what it takes here.
        (0..REMEMBERED).for_each(|i| hedging.note(degraded(), if i == 7 { 900 * MS } else { 10 * MS }, 0));
        assert_eq!(hedging.late_after(degraded()), 20 * MS);
        (0..REMEMBERED)
            .for_each(|i| hedging.note(degraded(), if i % 10 == 0 { 70 * MS } else { 10 * MS }, 0));
        assert_eq!(hedging.late_after(degraded()), 70 * MS);
        (0..REMEMBERED).for_each(|_| hedging.note(degraded(), MS / 10, 0));
        assert_eq!(hedging.late_after(degraded()), SOONEST, "older ones are forgotten");
        for other in [Kind::of(SMALL, false), Kind::of(2 * SMALL, true)] {
            assert!(hedging.late_after(other) > UNKNOWN, "{other:?} is another kind");
        }
        assert_eq!(Kind::of(SMALL - 1, true), degraded());
        assert_eq!(hedging.took[&degraded()].len(), REMEMBERED);
    }

    /// Whatever reads there are, and however often they would like to, hedges cost no more than their share.
    #[test]
    fn hedges_cost_no_more_than_their_share_of_what_reads_carried() {
        let mut hedging = Hedging::default();
        let (mut carried, mut spent, star) = (0, 0, 10 * SMALL);
        for _ in 0..20_000 {
            spent += if hedging.spend(degraded(), star) { star } else { 0 };
            hedging.note(degraded(), MS, star);
            carried += star;
        }
        assert!(spent <= MOST_SAVED_BYTES + carried / 20, "{spent} of {carried}");
        assert!(spent > carried / 20, "and what may be spent is");
        // What was saved up is gone, and one read in twenty can be hedged.
        assert!(!hedging.affords(degraded(), 2 * star));

        let healthy = Kind::of(SMALL, false);
        let mut hedging = Hedging::default();
        assert!(!hedging.affords(healthy, 1), "nothing is saved up yet");
        let (mut carried, mut spent) = (0, 0);
        for _ in 0..20_000 {
            spent += if hedging.spend(healthy, star) { star } else { 0 };
            hedging.note(healthy, MS, SMALL);
            carried += SMALL;
            assert!(spent * 100 < carried, "less than a hundredth at any time");
        }
        assert!(spent > 0);
        // Time without reads saves up nothing, and many reads no more than a bound.
        hedging.note(healthy, MS, u64::MAX);
        assert!(hedging.affords(healthy, MOST_SAVED_BYTES));
        assert!(!hedging.affords(healthy, MOST_SAVED_BYTES + 1));
    }

    #[test]
    fn who_was_late_is_left_out_for_a_while() {
        let (mut hedging, at) = (Hedging::default(), Duration::from_secs);
        hedging.found_late([NodeId(3), NodeId(5)], at(100));
        hedging.found_late([NodeId(3)], at(110));
        assert_eq!(hedging.late(at(111)), [NodeId(5), NodeId(3)]);
        assert_eq!(hedging.late(at(135)), [NodeId(3)]);
        assert_eq!(hedging.late(at(140)), []);
        hedging.found_late((0..100).map(NodeId), at(200));
        assert_eq!(hedging.late(at(201)).len(), MOST_LATE);
    }
}
