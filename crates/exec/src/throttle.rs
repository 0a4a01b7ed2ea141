//! Token buckets for each direction of a daemon's data sockets: one for all that it carries, and one for each kind of traffic.

use crate::lock;
use model::{Budgets, Traffic};
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
    all: Buckets,
    client: Buckets,
    healing: Buckets,
    archival: Buckets,
}

#[derive(Debug, Default)]
struct Buckets {
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
        self.all.egress.set(egress_bytes_per_s);
        self.all.ingress.set(ingress_bytes_per_s);
    }

    /// Changes how much of each kind of traffic it may carry, in each direction, likewise.
    pub fn set_budgets(&self, budgets: Budgets) {
        for traffic in Traffic::ALL {
            let (buckets, rate) = (self.of(traffic), budgets.of(traffic));
            buckets.egress.set(rate);
            buckets.ingress.set(rate);
        }
    }

    /// How much of each kind of traffic it may carry.
    pub fn budgets(&self) -> Budgets {
        let budget = |traffic| self.of(traffic).egress.rate();
        Budgets {
            client: budget(Traffic::Client),
            healing: budget(Traffic::Healing),
            archival: budget(Traffic::Archival),
        }
    }

    /// The rates: egress, ingress.
    pub fn rates(&self) -> (u64, u64) {
        (self.all.egress.rate(), self.all.ingress.rate())
    }

    /// The rate at which traffic of that kind may be sent now; `None` if nothing limits it.
    pub fn sending_bytes_per_s(&self, traffic: Traffic) -> Option<u64> {
        [self.all.egress.rate(), self.of(traffic).egress.rate()].into_iter().filter(|rate| *rate > 0).min()
    }

    /// Waits until all bytes charged before have had their time, then charges `bytes`: to their kind first, so that what waits
    /// for its own budget holds up no other. Blocks the thread.
    pub fn send(&self, traffic: Traffic, bytes: usize) {
        self.send_unless(traffic, bytes, || false);
    }

    /// Does the same as [`send`](Self::send), but stops waiting and cancels the charge once `is_over`, so that aborted flows delay no others.
    pub fn send_unless(&self, traffic: Traffic, bytes: usize, is_over: impl Fn() -> bool) {
        self.of(traffic).egress.charge(bytes, &is_over);
        self.all.egress.charge(bytes, &is_over);
    }

    /// Does the same as [`send`](Self::send) for bytes just received.
    pub fn receive(&self, traffic: Traffic, bytes: usize) {
        self.receive_unless(traffic, bytes, || false);
    }

    /// Does the same as [`send_unless`](Self::send_unless) for bytes just received, which stay charged.
    pub fn receive_unless(&self, traffic: Traffic, bytes: usize, is_over: impl Fn() -> bool) {
        let (own, all) = (&self.of(traffic).ingress, &self.all.ingress);
        for bucket in [own, all] {
            if let Some(owed) = bucket.owe(bytes) {
                bucket.sleep_until(owed.start, owed.rate, &is_over);
            }
        }
    }

    fn of(&self, traffic: Traffic) -> &Buckets {
        match traffic {
            Traffic::Client => &self.client,
            Traffic::Healing => &self.healing,
            Traffic::Archival => &self.archival,
        }
    }
}

/// A token bucket.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    rate: AtomicU64,
    /// When the last byte charged so far will have passed.
    free_at: Mutex<Option<Instant>>,
}

impl Bucket {
    /// Bytes per second; 0 is unlimited.
    pub fn new(rate: u64) -> Bucket {
        Bucket { rate: AtomicU64::new(rate), free_at: Mutex::default() }
    }

    pub fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    fn set(&self, rate: u64) {
        let mut free_at = lock(&self.free_at);
        if self.rate.swap(rate, Ordering::Relaxed) != rate {
            *free_at = None;
        }
    }

    /// Waits until all bytes charged before have had their time, then charges `bytes`, unless `is_over` before. Blocks the thread.
    pub fn charge(&self, bytes: usize, is_over: &impl Fn() -> bool) {
        let Some(owed) = self.owe(bytes) else { return };
        if !self.sleep_until(owed.start, owed.rate, is_over) {
            self.give_back(&owed);
        }
    }

    /// Charges `bytes`; `None` if nothing is limited.
    fn owe(&self, bytes: usize) -> Option<Owed> {
        if self.rate() == 0 || bytes == 0 {
            return None;
        }
        let now = Instant::now();
        let mut free_at = lock(&self.free_at);
        // Rates change under the lock: what is charged now is charged at the rate that holds.
        let rate = self.rate();
        if rate == 0 {
            return None;
        }
        let earliest = now.checked_sub(CREDIT).unwrap_or(now);
        let start = free_at.map_or(earliest, |t| t.max(earliest));
        let takes = Duration::from_secs_f64(bytes as f64 / rate as f64);
        *free_at = Some(start + takes);
        Some(Owed { start, takes, rate })
    }

    /// Cancels a charge whose bytes will not be sent.
    fn give_back(&self, owed: &Owed) {
        let mut free_at = lock(&self.free_at);
        if self.rate() == owed.rate {
            *free_at = free_at.and_then(|at| at.checked_sub(owed.takes));
        }
    }

    /// Returns whether the time came, or the rate changed, before it was over.
    fn sleep_until(&self, start: Instant, rate: u64, is_over: &impl Fn() -> bool) -> bool {
        loop {
            let left = start.saturating_duration_since(Instant::now());
            if left.is_zero() || self.rate() != rate {
                return true;
            }
            if is_over() {
                return false;
            }
            std::thread::sleep(left.min(LONGEST_NAP));
        }
    }
}

/// A charge: its start, its duration and the rate it was made at.
#[derive(Clone, Copy, Debug)]
struct Owed {
    start: Instant,
    takes: Duration,
    rate: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_limit_frees_those_who_wait() {
        for limit in [0, 1_000_000_000] {
            let throttle = std::sync::Arc::new(Throttle::new(1, 0));
            throttle.send(Traffic::Client, 1_000_000);
            let waiting = std::thread::spawn({
                let throttle = throttle.clone();
                move || throttle.send(Traffic::Client, 1)
            });
            throttle.set(limit, 0);
            assert!(waiting.join().is_ok());
            let before = Instant::now();
            throttle.send(Traffic::Client, 1);
            assert!(before.elapsed() < Duration::from_secs(100), "what was charged before is owed still");
        }
    }

    #[test]
    fn what_a_flow_that_was_ended_waited_for_is_not_owed() {
        let throttle = Throttle::new(1_000, 1_000);
        throttle.send(Traffic::Client, 1_000);
        let before = Instant::now();
        for _ in 0..100 {
            throttle.send_unless(Traffic::Client, 1_000_000, || true);
        }
        throttle.send(Traffic::Client, 1);
        assert!(before.elapsed() < Duration::from_secs(100), "of a hundred thousand");
        throttle.receive(Traffic::Client, 1_000_000);
        throttle.receive_unless(Traffic::Client, 1_000_000, || true);
        assert!(
            lock(&throttle.all.ingress.free_at).unwrap() > before + Duration::from_secs(1_500),
            "they came"
        );
    }

    #[test]
    fn the_directions_are_independent_and_zero_is_unlimited() {
        let throttle = Throttle::new(0, 1);
        for _ in 0..1000 {
            throttle.send(Traffic::Client, usize::MAX / 2048);
        }
        assert_eq!(throttle.rates(), (0, 1));
    }

    #[test]
    fn what_waits_for_its_own_budget_holds_up_no_other() {
        let budgets = Budgets { healing: 1, ..Budgets::default() };
        let throttle = std::sync::Arc::new(Throttle::new(1_000_000_000, 0));
        throttle.set_budgets(budgets);
        assert_eq!(throttle.budgets(), budgets);
        throttle.send(Traffic::Healing, 1_000_000);
        let waiting = std::thread::spawn({
            let throttle = throttle.clone();
            move || throttle.send(Traffic::Healing, 1_000_000_000)
        });
        for _ in 0..1_000 {
            throttle.send(Traffic::Client, 1_000);
            throttle.send(Traffic::Archival, 1_000);
            throttle.receive(Traffic::Client, 1_000_000_000);
        }
        assert!(!waiting.is_finished(), "its budget is a byte a second");
        throttle.set_budgets(Budgets::default());
        assert!(waiting.join().is_ok());
    }
}
