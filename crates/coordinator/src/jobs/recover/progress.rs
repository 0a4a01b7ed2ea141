//! How far a recovery has come, and how long it will take.

use crate::job::Estimate;
use crate::rate::Rate;

/// Bytes made again, and to be.
#[derive(Debug, Default)]
pub(super) struct Progress {
    done: u64,
    total: u64,
    rate: Rate,
}

impl Progress {
    /// So many more bytes are to be made.
    pub fn expect(&mut self, bytes: u64, now_ms: u64) {
        self.total += bytes;
        self.rate.begin(now_ms);
    }

    /// A block is done.
    pub fn done(&mut self, bytes: u64, now_ms: u64) {
        self.done += bytes;
        self.rate.made(bytes, now_ms);
    }

    /// A block will not be done.
    pub fn given_up(&mut self, bytes: u64) {
        self.total = self.total.saturating_sub(bytes);
    }

    /// Nothing moves for a while.
    pub fn interrupt(&mut self) {
        self.rate.interrupt();
    }

    /// What can be said now.
    pub fn estimate(&self, now_ms: u64) -> Estimate {
        let bytes_per_s = self.rate.bytes_per_s(now_ms);
        Estimate { done_bytes: self.done, total_bytes: self.total, bytes_per_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_time_left_follows_the_rate() {
        let mut progress = Progress::default();
        progress.expect(10_000, 0);
        (1..=3).for_each(|second| progress.done(100, second * 1_000));
        assert_eq!(progress.estimate(3_000).left(), Some(Duration::from_secs(97)));
        progress.given_up(9_700);
        assert_eq!(progress.estimate(3_000).left(), Some(Duration::ZERO));
        progress.interrupt();
        assert_eq!(progress.estimate(3_000).left(), None);
        assert_eq!(progress.estimate(3_000).done_bytes, 300);
    }
}
