//! How fast a recovery gets on, and how long it will take.

use crate::job::Estimate;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The rate is that of so long a time: long enough for several blocks at a few MB/s, short enough to follow a throttle.
const WINDOW: Duration = Duration::from_secs(60);

/// Blocks remembered of the window; more add nothing to the rate.
const MAX_REMEMBERED: usize = 1_024;

/// Blocks that must have ended before a rate is worth telling.
const MIN_BLOCKS: usize = 3;

/// Bytes made again, and when.
#[derive(Debug, Default)]
pub(super) struct Progress {
    done: u64,
    total: u64,
    /// When the rate begins to count: the first start, or the end of the last pause.
    since: Option<Instant>,
    recent: VecDeque<(Instant, u64)>,
}

impl Progress {
    /// So many more bytes are to be made.
    pub fn expect(&mut self, bytes: u64) {
        self.total += bytes;
        self.since.get_or_insert_with(Instant::now);
    }

    /// A block is done.
    pub fn done(&mut self, bytes: u64) {
        self.done_at(bytes, Instant::now());
    }

    fn done_at(&mut self, bytes: u64, now: Instant) {
        self.done += bytes;
        self.since.get_or_insert(now);
        self.recent.push_back((now, bytes));
        while self.recent.len() > MAX_REMEMBERED
            || self.recent.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW)
        {
            // What was done before the oldest that counts is no part of its time.
            self.since = self.recent.pop_front().map(|(at, _)| at);
        }
    }

    /// A block will not be done.
    pub fn given_up(&mut self, bytes: u64) {
        self.total = self.total.saturating_sub(bytes);
    }

    /// Nothing moves for a while: what was before tells nothing of what comes after.
    pub fn interrupt(&mut self) {
        self.recent.clear();
        self.since = None;
    }

    /// What can be said now.
    pub fn estimate(&self) -> Estimate {
        self.estimate_at(Instant::now())
    }

    fn estimate_at(&self, now: Instant) -> Estimate {
        let seconds = self.since.map_or(0.0, |since| now.duration_since(since).as_secs_f64());
        let bytes: u64 = self.recent.iter().map(|(_, bytes)| bytes).sum();
        let known = self.recent.len() >= MIN_BLOCKS && seconds > 0.0 && bytes > 0;
        let bytes_per_s = known.then(|| bytes as f64 / seconds);
        Estimate { done_bytes: self.done, total_bytes: self.total, bytes_per_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_rate_of_the_last_minute() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut progress = Progress { since: Some(start), ..Progress::default() };
        progress.expect(10_000);
        progress.done_at(100, at(1));
        progress.done_at(100, at(2));
        assert_eq!(progress.estimate_at(at(2)).left(), None, "two blocks say little");
        progress.done_at(100, at(3));
        assert_eq!(progress.estimate_at(at(3)).left(), Some(Duration::from_secs(97)));
        // Ten times slower: the fast blocks fall out of the window.
        (0..30).for_each(|i| progress.done_at(10, at(4 + i * 5)));
        let estimate = progress.estimate_at(at(149));
        assert!(estimate.bytes_per_s.is_some_and(|rate| (1.9..2.2).contains(&rate)), "{estimate:?}");
        progress.interrupt();
        assert_eq!(progress.estimate_at(at(500)).left(), None);
        assert_eq!(progress.estimate().done_bytes, 600);
    }
}
