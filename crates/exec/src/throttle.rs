//! A token bucket for each direction of a daemon's data sockets.

use crate::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much idle time is credited: long enough that a thread which the scheduler wakes late does not lose its share
/// of the link, short enough that a burst stays well below one percent of a 64 MiB block at 50 MB/s.
const CREDIT: Duration = Duration::from_millis(8);

/// One sleep is at most this long, so that a changed rate applies at once.
const LONGEST_NAP: Duration = Duration::from_millis(100);

/// Limits what a process sends and receives. Shared by all its streams; first come, first served.
#[derive(Debug, Default)]
pub struct Throttle {
    egress: Bucket,
    ingress: Bucket,
}

impl Throttle {
    /// Rates in bytes per second; 0 is unlimited.
    pub fn new(egress_bytes_per_s: u64, ingress_bytes_per_s: u64) -> Throttle {
        let throttle = Throttle::default();
        throttle.set(egress_bytes_per_s, ingress_bytes_per_s);
        throttle
    }

    /// Changes the rates, at once, also for streams that run: what was charged at another rate is owed no more.
    pub fn set(&self, egress_bytes_per_s: u64, ingress_bytes_per_s: u64) {
        self.egress.set(egress_bytes_per_s);
        self.ingress.set(ingress_bytes_per_s);
    }

    /// The rates: egress, ingress.
    pub fn rates(&self) -> (u64, u64) {
        (self.egress.rate.load(Ordering::Relaxed), self.ingress.rate.load(Ordering::Relaxed))
    }

    /// Whether sending is limited now.
    pub fn limits_sending(&self) -> bool {
        self.egress.rate.load(Ordering::Relaxed) != 0
    }

    /// Waits until all bytes charged before have had their time, then charges `bytes`. Blocks the thread.
    pub fn send(&self, bytes: usize) {
        self.egress.charge(bytes);
    }

    /// The same for bytes just received.
    pub fn receive(&self, bytes: usize) {
        self.ingress.charge(bytes);
    }
}

#[derive(Debug, Default)]
struct Bucket {
    rate: AtomicU64,
    /// When the last byte charged so far will have passed.
    free_at: Mutex<Option<Instant>>,
}

impl Bucket {
    fn set(&self, rate: u64) {
        let mut free_at = lock(&self.free_at);
        if self.rate.swap(rate, Ordering::Relaxed) != rate {
            *free_at = None;
        }
    }

    fn charge(&self, bytes: usize) {
        if self.rate.load(Ordering::Relaxed) == 0 || bytes == 0 {
            return;
        }
        let (start, rate) = {
            let now = Instant::now();
            let mut free_at = lock(&self.free_at);
            // Rates change under the lock: what is charged now is charged at the rate that holds.
            let rate = self.rate.load(Ordering::Relaxed);
            if rate == 0 {
                return;
            }
            let earliest = now.checked_sub(CREDIT).unwrap_or(now);
            let start = free_at.map_or(earliest, |t| t.max(earliest));
            *free_at = Some(start + Duration::from_secs_f64(bytes as f64 / rate as f64));
            (start, rate)
        };
        self.sleep_until(start, rate);
    }

    fn sleep_until(&self, start: Instant, rate: u64) {
        loop {
            let left = start.saturating_duration_since(Instant::now());
            if left.is_zero() || self.rate.load(Ordering::Relaxed) != rate {
                return;
            }
            std::thread::sleep(left.min(LONGEST_NAP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_limit_frees_those_who_wait() {
        for limit in [0, 1_000_000_000] {
            let throttle = std::sync::Arc::new(Throttle::new(1, 0));
            throttle.send(1_000_000);
            let waiting = std::thread::spawn({
                let throttle = throttle.clone();
                move || throttle.send(1)
            });
            throttle.set(limit, 0);
            assert!(waiting.join().is_ok());
            let before = Instant::now();
            throttle.send(1);
            assert!(before.elapsed() < Duration::from_secs(100), "what was charged before is owed still");
        }
    }

    #[test]
    fn the_directions_are_independent_and_zero_is_unlimited() {
        let throttle = Throttle::new(0, 1);
        for _ in 0..1000 {
            throttle.send(usize::MAX / 2048);
        }
        assert_eq!(throttle.rates(), (0, 1));
    }
}
