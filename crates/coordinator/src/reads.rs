//! What users read lately. The coordinator plans every read, so it knows without asking: how many bytes each node sends for
//! them, and whether somebody waits for a block to be decoded.

use crate::config::READING_MS;
use model::NodeId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// User load is counted in intervals of this length: as short as a repair of a block takes on a slow network.
const INTERVAL: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Reads(Mutex<Lately>);

#[derive(Debug, Default)]
struct Lately {
    degraded: Option<Instant>,
    since: Option<Instant>,
    now: BTreeMap<NodeId, u64>,
    before: BTreeMap<NodeId, u64>,
}

impl Reads {
    /// A read is planned, for which nodes send so many bytes each, perhaps over several links.
    pub fn note(&self, degraded: bool, sent: impl Iterator<Item = (NodeId, u64)>) {
        self.note_at(degraded, sent, Instant::now());
    }

    fn note_at(&self, degraded: bool, sent: impl Iterator<Item = (NodeId, u64)>, now: Instant) {
        let mut lately = self.lock();
        lately.turn(now);
        if degraded {
            lately.degraded = Some(now);
        }
        for (node, bytes) in sent {
            *lately.now.entry(node).or_default() += bytes;
        }
    }

    /// Whether a degraded read was planned a moment ago.
    pub fn degraded_lately(&self) -> bool {
        self.lock().degraded.is_some_and(|at| at.elapsed() < Duration::from_millis(READING_MS))
    }

    /// Bytes that each node sent for users in this interval and the last.
    pub fn bytes_by_node(&self) -> BTreeMap<NodeId, u64> {
        self.bytes_at(Instant::now())
    }

    fn bytes_at(&self, now: Instant) -> BTreeMap<NodeId, u64> {
        let mut lately = self.lock();
        lately.turn(now);
        let mut sum = lately.before.clone();
        lately.now.iter().for_each(|(node, bytes)| *sum.entry(*node).or_default() += bytes);
        sum
    }

    fn lock(&self) -> MutexGuard<'_, Lately> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lately {
    /// Begins a new interval if it is time.
    fn turn(&mut self, now: Instant) {
        let age = now.duration_since(*self.since.get_or_insert(now));
        if age < INTERVAL {
            return;
        }
        self.before = if age < 2 * INTERVAL { std::mem::take(&mut self.now) } else { BTreeMap::new() };
        self.now.clear();
        self.since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_load_is_that_of_the_last_intervals() {
        let (reads, start) = (Reads::default(), Instant::now());
        let sent = || [(NodeId(3), 100), (NodeId(4), 7)].into_iter();
        reads.note_at(false, sent(), start);
        reads.note_at(false, sent(), start + INTERVAL / 2);
        assert_eq!(reads.bytes_at(start + INTERVAL / 2), BTreeMap::from([(NodeId(3), 200), (NodeId(4), 14)]));
        reads.note_at(false, sent(), start + INTERVAL);
        assert_eq!(reads.bytes_at(start + INTERVAL), BTreeMap::from([(NodeId(3), 300), (NodeId(4), 21)]));
        assert_eq!(reads.bytes_at(start + 2 * INTERVAL), BTreeMap::from([(NodeId(3), 100), (NodeId(4), 7)]));
        assert!(reads.bytes_at(start + 5 * INTERVAL).is_empty() && !reads.degraded_lately());
        reads.note(true, std::iter::empty());
        assert!(reads.degraded_lately());
    }
}
