//! What the healer has before it, in its order: the smallest margin first, then what has waited longest. What failed waits, longer
//! each time; what cannot be done as things are waits until they have changed. Pure: the time comes in.

use model::BlockId;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks that are kept in order; of more, those with the smallest margins. The index has them all, and each sweep offers
/// them anew.
const MAX_KEPT: usize = 65_536;

/// After a failure a block waits so long, and twice that after each further one …
const FIRST_BACK_OFF_MS: u64 = 1_000;

/// … up to this: most of what keeps a repair from being done is over in minutes, or needs an operator.
const MAX_BACK_OFF_MS: u64 = 600_000;

/// Losses that a block surely survives, and of how many copies or members that was counted. Those of which too little is
/// left, as things are, stand behind all others ([`Standing::HOPELESS`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Standing {
    pub margin: usize,
    pub survivors: usize,
}

impl Standing {
    /// It cannot be made now. It is tried all the same, for that is a matter of minutes for some; and gives way to all that can.
    pub const HOPELESS: Standing = Standing { margin: usize::MAX, survivors: 0 };
}

/// Why a block is here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    /// It lacks copies, as the index says.
    Lacks,
    /// A copy is on a dead node, and no further loss is survived as long as that is so. The index does not know of it.
    Last,
    /// A copy has been unreadable for its whole grace. The index does not know of it either.
    Unread,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    known: BTreeMap<BlockId, Entry>,
    ready: BTreeSet<Urgency>,
    /// By the time at which it is tried again.
    later: BTreeSet<(u64, BlockId)>,
    /// The same ones, by their order.
    parked: BTreeSet<Urgency>,
    sweep: u64,
}

/// Margin, since when it is known here, the block.
type Urgency = (usize, u64, BlockId);

#[derive(Debug)]
struct Entry {
    why: Why,
    standing: Standing,
    since_ms: u64,
    failures: u32,
    /// Why the last attempt failed; empty if none did.
    failure: String,
    place: Place,
    /// The last sweep that found it.
    sweep: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Ready,
    Later(u64),
    Running,
}

impl Queue {
    /// The index is gone through from its beginning.
    pub fn begin_sweep(&mut self) {
        self.sweep += 1;
    }

    /// The block was found to be in want of a copy, by the sweep or by the [`Scout`](super::scout::Scout).
    pub fn found(&mut self, block: BlockId, why: Why, standing: Standing, now_ms: u64) {
        let sweep = self.sweep;
        let Some(entry) = self.known.get_mut(&block) else {
            return self.add(block, why, standing, now_ms);
        };
        match why {
            Why::Lacks => (entry.why, entry.sweep) = (why, sweep),
            Why::Last | Why::Unread if entry.why == Why::Lacks => return,
            Why::Last | Why::Unread => entry.why = why,
        }
        let (before, place) = (entry.standing, entry.place);
        if standing == before || place == Place::Running {
            return;
        }
        // Things have changed for it: it is tried again.
        self.take_out(block);
        if let Some(entry) = self.known.get_mut(&block) {
            entry.standing = standing;
        }
        self.make_ready(block);
    }

    fn add(&mut self, block: BlockId, why: Why, standing: Standing, now_ms: u64) {
        if self.known.len() >= MAX_KEPT {
            // What waits after a failure gives way as what waits for its turn does.
            match self.ready.last().max(self.parked.last()).copied() {
                Some((margin, _, last)) if margin > standing.margin => self.forget(last),
                _ => return,
            }
        }
        let (place, sweep) = (Place::Ready, self.sweep);
        let (failures, failure) = (0, String::new());
        let entry = Entry { why, standing, since_ms: now_ms, failures, failure, place, sweep };
        self.known.insert(block, entry);
        self.ready.insert((standing.margin, now_ms, block));
    }

    /// The index was gone through: what the sweep did not find lacks nothing any more.
    pub fn end_sweep(&mut self) {
        let sweep = self.sweep;
        let is_over = |(_, entry): &(&BlockId, &Entry)| {
            entry.why == Why::Lacks && entry.sweep < sweep && entry.place != Place::Running
        };
        let over: Vec<BlockId> = self.known.iter().filter(is_over).map(|(block, _)| *block).collect();
        over.into_iter().for_each(|block| self.forget(block));
    }

    /// The most urgent block whose time has come. It runs from now on.
    pub fn next(&mut self, now_ms: u64) -> Option<BlockId> {
        while let Some(&(due_ms, block)) = self.later.first().filter(|(due_ms, _)| *due_ms <= now_ms) {
            self.make_ready(block);
            self.later.remove(&(due_ms, block));
        }
        let (_, _, block) = self.ready.pop_first()?;
        if let Some(entry) = self.known.get_mut(&block) {
            entry.place = Place::Running;
        }
        Some(block)
    }

    /// The smallest margin of those that may go.
    pub fn margin(&self) -> Option<usize> {
        self.ready.first().map(|(margin, ..)| *margin)
    }

    /// How a block stands, if it is here.
    pub fn standing(&self, block: BlockId) -> Option<Standing> {
        self.known.get(&block).map(|entry| entry.standing)
    }

    /// Why a block is here, if it is.
    pub fn why(&self, block: BlockId) -> Option<Why> {
        self.known.get(&block).map(|entry| entry.why)
    }

    /// A running one was made, or needs nothing any more; if it still lacks copies, the next sweep finds it.
    pub fn done(&mut self, block: BlockId) {
        self.forget(block);
    }

    /// A running one was interrupted.
    pub fn interrupted(&mut self, block: BlockId) {
        self.make_ready(block);
    }

    /// A running one could not be made. `cannot_be`: not as things are.
    pub fn failed(&mut self, block: BlockId, failure: String, cannot_be: bool, now_ms: u64) {
        let Some(entry) = self.known.get_mut(&block) else { return };
        let pause_ms = match cannot_be {
            true => MAX_BACK_OFF_MS,
            false => (FIRST_BACK_OFF_MS << entry.failures.min(16)).min(MAX_BACK_OFF_MS),
        };
        let due_ms = now_ms + pause_ms;
        (entry.failures, entry.failure, entry.place) = (entry.failures + 1, failure, Place::Later(due_ms));
        self.parked.insert((entry.standing.margin, entry.since_ms, block));
        self.later.insert((due_ms, block));
    }

    /// Other nodes live, or take blocks: all that failed may be possible now.
    pub fn all_may_go(&mut self) {
        for (_, block) in std::mem::take(&mut self.later) {
            self.make_ready(block);
        }
    }

    /// Blocks that wait or are being made.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Of these, those that do not wait after an attempt that failed.
    pub fn due(&self) -> usize {
        self.known.len() - self.later.len()
    }

    /// Blocks that wait after an attempt that failed, the next one first, and why it did.
    pub fn failing(&self) -> impl Iterator<Item = (BlockId, &str)> {
        let waiting = self.later.iter().filter_map(|(_, block)| Some((*block, self.known.get(block)?)));
        waiting
            .map(|(block, entry)| (block, entry.failure.as_str()))
            .filter(|(_, failure)| !failure.is_empty())
    }

    fn make_ready(&mut self, block: BlockId) {
        self.take_out(block);
        let Some(entry) = self.known.get_mut(&block) else { return };
        entry.place = Place::Ready;
        self.ready.insert((entry.standing.margin, entry.since_ms, block));
    }

    fn forget(&mut self, block: BlockId) {
        self.take_out(block);
        self.known.remove(&block);
    }

    /// Takes it out of the orders.
    fn take_out(&mut self, block: BlockId) {
        let Some(entry) = self.known.get(&block) else { return };
        let urgency = (entry.standing.margin, entry.since_ms, block);
        match entry.place {
            Place::Ready => _ = self.ready.remove(&urgency),
            Place::Later(due_ms) => {
                self.later.remove(&(due_ms, block));
                self.parked.remove(&urgency);
            }
            Place::Running => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: BlockId = BlockId(1);
    const B: BlockId = BlockId(2);
    const C: BlockId = BlockId(3);

    fn margin(margin: usize) -> Standing {
        Standing { margin, survivors: margin + 1 }
    }

    fn swept(queue: &mut Queue, found: &[(BlockId, Standing)], now_ms: u64) {
        queue.begin_sweep();
        found.iter().for_each(|&(block, standing)| queue.found(block, Why::Lacks, standing, now_ms));
        queue.end_sweep();
    }

    fn order(queue: &mut Queue, now_ms: u64) -> Vec<BlockId> {
        std::iter::from_fn(|| queue.next(now_ms)).collect()
    }

    #[test]
    fn the_smallest_margin_goes_first_and_then_what_waited_longest() {
        let mut queue = Queue::default();
        swept(&mut queue, &[(A, margin(1)), (B, margin(1))], 5);
        swept(&mut queue, &[(A, margin(2)), (B, margin(1)), (C, margin(1))], 6);
        assert_eq!(order(&mut queue, 6), [B, C, A]);
        assert_eq!(order(&mut queue, 6), [], "all run");
        // What runs is not forgotten by a sweep that does not find it, nor begun twice by one that does.
        swept(&mut queue, &[(A, margin(0))], 7);
        assert_eq!((order(&mut queue, 7), queue.len()), (vec![], 3));
        queue.done(B);
        queue.interrupted(C);
        assert_eq!((order(&mut queue, 7), queue.len()), (vec![C], 2));
    }

    #[test]
    fn what_failed_waits_longer_each_time_and_the_others_do_not_wait_for_it() {
        let mut queue = Queue::default();
        let mut now_ms = 0;
        let mut pauses = Vec::new();
        for _ in 0..12 {
            swept(&mut queue, &[(A, margin(0)), (B, margin(3))], now_ms);
            assert_eq!(queue.next(now_ms), Some(A));
            queue.failed(A, "no".to_owned(), false, now_ms);
            assert_eq!(queue.next(now_ms), Some(B));
            queue.done(B);
            let failed_ms = now_ms;
            assert_eq!(queue.failing().collect::<Vec<_>>(), [(A, "no")]);
            assert_eq!((queue.len(), queue.due()), (1, 0));
            while queue.next(now_ms).is_none() {
                now_ms += 500;
            }
            queue.interrupted(A);
            pauses.push((now_ms - failed_ms) / 1_000);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
    }

    #[test]
    fn what_cannot_be_done_waits_until_something_has_changed() {
        let mut queue = Queue::default();
        let park = |queue: &mut Queue| {
            assert_eq!(queue.next(0), Some(A));
            queue.failed(A, "no node".to_owned(), true, 0);
            assert_eq!(queue.next(MAX_BACK_OFF_MS - 1), None);
        };
        swept(&mut queue, &[(A, margin(1))], 0);
        park(&mut queue);
        queue.all_may_go();
        park(&mut queue);
        swept(&mut queue, &[(A, margin(1))], 0);
        assert_eq!(queue.next(0), None, "nothing has");
        // A member of its stripe came back.
        swept(&mut queue, &[(A, margin(2))], 0);
        park(&mut queue);
        swept(&mut queue, &[], 0);
        assert_eq!((queue.len(), queue.next(u64::MAX)), (0, None), "it is made, or gone");
    }

    #[test]
    fn what_the_index_does_not_know_is_not_forgotten_for_that() {
        let mut queue = Queue::default();
        queue.found(A, Why::Last, margin(0), 0);
        swept(&mut queue, &[(B, margin(2))], 1);
        queue.found(B, Why::Last, margin(0), 1);
        assert_eq!((queue.why(A), queue.why(B), queue.why(C)), (Some(Why::Last), Some(Why::Lacks), None));
        // By now it lacks a copy; then no longer.
        swept(&mut queue, &[(A, margin(0))], 2);
        assert_eq!((order(&mut queue, 2), queue.why(A)), (vec![A], Some(Why::Lacks)));
        queue.interrupted(A);
        swept(&mut queue, &[], 3);
        assert_eq!((queue.len(), order(&mut queue, 3)), (0, vec![]));
    }

    #[test]
    fn of_too_many_those_with_the_smallest_margins_are_kept() {
        let mut queue = Queue::default();
        queue.begin_sweep();
        (0..MAX_KEPT as u128).for_each(|block| queue.found(BlockId(block), Why::Lacks, margin(1), 0));
        queue.found(BlockId(u128::MAX), Why::Lacks, margin(0), 0);
        queue.found(BlockId(u128::MAX - 1), Why::Lacks, margin(1), 0);
        queue.end_sweep();
        assert_eq!((queue.len(), queue.next(0)), (MAX_KEPT, Some(BlockId(u128::MAX))));
        assert_eq!(order(&mut queue, 0).len(), MAX_KEPT - 1);
    }

    #[test]
    fn what_cannot_be_made_gives_way_to_all_that_can_whether_it_waits_or_not() {
        let mut queue = Queue::default();
        queue.begin_sweep();
        (0..MAX_KEPT as u128)
            .for_each(|block| queue.found(BlockId(block), Why::Lacks, Standing::HOPELESS, 0));
        for block in order(&mut queue, 0).into_iter().skip(1) {
            queue.failed(block, "too few are left".to_owned(), true, 0);
        }
        queue.interrupted(BlockId(0));
        let (new, next) = (BlockId(u128::MAX), BlockId(u128::MAX - 1));
        queue.found(new, Why::Lacks, margin(3), 1);
        queue.found(next, Why::Lacks, margin(2), 1);
        assert_eq!(order(&mut queue, 1), [next, new, BlockId(0)]);
        assert_eq!((queue.len(), queue.due()), (MAX_KEPT, 3));
        // It is no worse than it was, and another of its kind has no better right.
        queue.found(BlockId(u128::MAX - 2), Why::Lacks, Standing::HOPELESS, 1);
        assert_eq!(queue.standing(BlockId(u128::MAX - 2)), None);
    }
}
