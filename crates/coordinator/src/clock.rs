//! The cluster's clock, on which all leases and graces are counted. It goes by the monotonic clock of this process, and from
//! one coordinator to the next by what the catalog was told: so the wall's clock, wherever it is set, ends no grace and
//! keeps no lease.
//!
//! ```text
//!   catalog: what it showed ─▶ + the time that this process has run, but for its pauses ─▶ noted each minute, and at the end
//! ```
//!
//! It restarts from the safe side: what was not noted, at most a minute, is counted again, and the time for which no
//! coordinator ran not at all.

use crate::error::Result;
use catalog::Catalog;
use catalog::rows::ClockRow;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Somebody looks at the clock this often …
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// … so that a longer time between two looks is one for which this process stood still, heard nobody and renewed nothing.
/// Only so much of it counts; timers of a busy machine are late by less.
const LONGEST_STEP: Duration = Duration::from_secs(5);

/// Time since some moment, which never goes back.
type Elapsed = Box<dyn Fn() -> Duration + Send + Sync>;

/// See the module.
pub(crate) struct Clock {
    elapsed: Elapsed,
    state: Mutex<State>,
}

struct State {
    shown: Duration,
    /// What had elapsed when somebody looked last.
    looked: Duration,
}

impl Clock {
    /// Goes on where the catalog says that it was. That of a new catalog begins at the wall's time, and is noted at once.
    pub fn of(catalog: &Catalog, wall_ms: fn() -> u64) -> Result<Clock> {
        let row = match catalog.clock()? {
            Some(row) => row,
            None => {
                let row = ClockRow { now_ms: wall_ms(), heard: Vec::new() };
                match catalog.note_clock(&row) {
                    Err(error) if error.waits_for_renewal() => {}
                    noted => noted?,
                }
                row
            }
        };
        let began = Instant::now();
        Ok(Clock::from(row.now_ms, Box::new(move || began.elapsed())))
    }

    fn from(now_ms: u64, elapsed: Elapsed) -> Clock {
        let state = State { shown: Duration::from_millis(now_ms), looked: elapsed() };
        Clock { elapsed, state: Mutex::new(state) }
    }

    /// What it shows, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = (self.elapsed)();
        let step = elapsed.saturating_sub(state.looked);
        state.shown += step.min(LONGEST_STEP);
        state.looked = elapsed.max(state.looked);
        state.shown.as_millis() as u64
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Lets time pass.
pub(crate) async fn rest(time: Duration) {
    tokio::time::sleep(time).await;
}

/// What comes of it within this time, if anything does.
pub(crate) async fn within<T>(time: Duration, what: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, what).await.ok()
}

/// The time since something began, while there is no cluster's clock yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began(Instant);

impl Began {
    pub fn now() -> Began {
        Began(Instant::now())
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Milliseconds since 1970, by the wall's clock: for people only.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A monotonic clock that shows what it is told.
    fn told(now_ms: u64) -> (Clock, impl Fn(u64)) {
        let elapsed_ms = Arc::new(AtomicU64::new(7));
        let shown = Arc::clone(&elapsed_ms);
        let elapsed: Elapsed = Box::new(move || Duration::from_millis(shown.load(Ordering::Relaxed)));
        (Clock::from(now_ms, elapsed), move |ms| _ = elapsed_ms.fetch_add(ms, Ordering::Relaxed))
    }

    #[test]
    fn it_goes_by_the_time_that_the_process_runs() {
        let (clock, pass) = told(1_000);
        assert_eq!(clock.now_ms(), 1_000, "what elapsed before it began is none of its time");
        pass(400);
        assert_eq!(clock.now_ms(), 1_400);
        for _ in 0..100 {
            pass(1_000);
            clock.now_ms();
        }
        assert_eq!(clock.now_ms(), 101_400);
    }

    #[test]
    fn a_pause_of_the_process_counts_for_no_more_than_a_step() {
        let (clock, pass) = told(0);
        pass(3_600_000);
        assert_eq!(clock.now_ms(), LONGEST_STEP.as_millis() as u64);
        pass(1_000);
        assert_eq!(clock.now_ms(), LONGEST_STEP.as_millis() as u64 + 1_000);
    }

    #[test]
    fn it_goes_on_where_it_was_noted_whatever_the_wall_shows() {
        use disk::{CrashDisk, Disk, PowerSwitch};
        let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(&PowerSwitch::new()));
        let open = || Catalog::open(&disk, model::ClusterId(1)).unwrap();
        let catalog = open();
        let first = Clock::of(&catalog, || 1_000_000).unwrap().now_ms();
        assert!((1_000_000..1_005_000).contains(&first), "{first}");
        catalog.close();
        // Set back by all of its time, and ahead by a century.
        for wall in [(|| 0) as fn() -> u64, || 4_000_000_000_000] {
            let catalog = open();
            let next = Clock::of(&catalog, wall).unwrap().now_ms();
            assert!((1_000_000..1_005_000).contains(&next), "{next}");
            catalog.close();
        }
        let catalog = open();
        catalog.note_clock(&ClockRow { now_ms: 2_000_000, heard: Vec::new() }).unwrap();
        let later = Clock::of(&catalog, || 0).unwrap().now_ms();
        assert!((2_000_000..2_005_000).contains(&later), "{later}");
    }
}
