//! How fast copies are made: over the last minute. Pure: the time comes in.

use std::collections::VecDeque;

/// The rate is that of so long a time: long enough for several blocks at a few MB/s, short enough to follow a throttle.
const WINDOW_MS: u64 = 60_000;

/// Blocks remembered of the window; more add nothing to the rate.
const MAX_REMEMBERED: usize = 1_024;

/// Blocks that must have ended before a rate is worth telling.
const MIN_BLOCKS: usize = 3;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// When it begins to count: at the first start, the end of the last pause, or when the oldest that is remembered began.
    since_ms: Option<u64>,
    /// When blocks ended, and their bytes.
    recent: VecDeque<(u64, u64)>,
}

impl Rate {
    /// Work begins, unless it has.
    pub fn begin(&mut self, now_ms: u64) {
        self.since_ms.get_or_insert(now_ms);
    }

    /// A block was made.
    pub fn made(&mut self, bytes: u64, now_ms: u64) {
        self.begin(now_ms);
        self.recent.push_back((now_ms, bytes));
        while self.recent.len() > MAX_REMEMBERED
            || self.recent.front().is_some_and(|(at_ms, _)| now_ms.saturating_sub(*at_ms) > WINDOW_MS)
        {
            // What was done before the oldest that counts is no part of its time.
            self.since_ms = self.recent.pop_front().map(|(at_ms, _)| at_ms);
        }
    }

    /// Nothing moves for a while: what was before tells nothing of what comes after.
    pub fn interrupt(&mut self) {
        *self = Rate::default();
    }

    /// `None` if too little was made lately to tell.
    pub fn bytes_per_s(&self, now_ms: u64) -> Option<f64> {
        let since_ms = self.since_ms?.max(now_ms.saturating_sub(WINDOW_MS));
        let in_time = self.recent.iter().filter(|(at_ms, _)| *at_ms >= since_ms);
        let bytes: u64 = in_time.clone().map(|(_, bytes)| bytes).sum();
        let is_known = in_time.count() >= MIN_BLOCKS && now_ms > since_ms && bytes > 0;
        is_known.then(|| bytes as f64 * 1_000.0 / (now_ms - since_ms) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_minute() {
        let mut rate = Rate::default();
        assert_eq!(rate.bytes_per_s(5), None);
        rate.begin(0);
        rate.made(100, 1_000);
        rate.made(100, 2_000);
        assert_eq!(rate.bytes_per_s(2_000), None, "two blocks say little");
        rate.made(100, 3_000);
        assert_eq!(rate.bytes_per_s(3_000), Some(100.0));
        // Ten times slower: the fast blocks fall out of the window.
        (0..30).for_each(|i| rate.made(10, 4_000 + i * 5_000));
        assert!(rate.bytes_per_s(149_000).is_some_and(|rate| (1.9..2.2).contains(&rate)), "{rate:?}");
        assert_eq!(rate.bytes_per_s(209_500), None, "nothing was made for a minute");
        rate.interrupt();
        assert_eq!(rate.bytes_per_s(149_000), None);
    }

    #[test]
    fn many_small_blocks_are_not_all_remembered() {
        let mut rate = Rate::default();
        (0..10_000).for_each(|i| rate.made(1_000, i));
        assert_eq!(rate.recent.len(), MAX_REMEMBERED);
        let per_s = rate.bytes_per_s(9_999).unwrap_or_default();
        assert!((per_s - 1e6).abs() < 2_000.0, "{per_s}");
    }
}
