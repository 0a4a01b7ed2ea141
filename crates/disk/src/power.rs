//! The switch that cuts the power of simulated disks.

use crate::SyncPoint;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The power of one or more [`CrashDisk`](crate::CrashDisk)s: a whole simulated cluster dies at the same call.
///
/// *Durable calls* are those that change what a disk holds: creations, writes, changes of length, syncs, renames and
/// removals. A test counts them in an undisturbed run ([`calls`](Self::calls)), then repeats the run once for each,
/// cutting after that one ([`cut_after`](Self::cut_after)).
#[derive(Debug, Default)]
pub struct PowerSwitch {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: u64,
    limit: Option<u64>,
    is_cut: bool,
    /// Counts restarts; handles of an earlier life of a disk stay dead.
    life: u64,
    ignored: Vec<SyncPoint>,
    /// Syncs since the switch was made, by what they made durable.
    syncs: BTreeMap<SyncPoint, u64>,
    seed: Option<u64>,
    disks: u64,
}

/// What a disk is to do with a durable call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Carry it out.
    Go,
    /// The power is cut during this very call: it may leave traces, and fails.
    Interrupted,
    /// The power was cut before.
    Dead,
}

impl PowerSwitch {
    /// Power on, no limit, every sync heeded, and nothing kept at a cut but what was synced.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Lets `calls` more durable calls succeed; the one after them is interrupted by the power cut.
    pub fn cut_after(&self, calls: u64) {
        let mut state = self.state();
        state.limit = Some(state.calls + calls);
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.state().is_cut = true;
    }

    /// Whether the power is cut.
    pub fn is_cut(&self) -> bool {
        self.state().is_cut
    }

    /// Durable calls since the last restart, over all disks.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Syncs of that kind over all disks and restarts, those that the disks lie about too.
    pub fn syncs(&self, point: SyncPoint) -> u64 {
        self.state().syncs.get(&point).copied().unwrap_or_default()
    }

    /// Makes the disks lie about one sync: it succeeds and does nothing.
    pub fn ignore(&self, point: SyncPoint) {
        self.state().ignored.push(point);
    }

    /// Makes every disk heed every sync again.
    pub fn heed_all(&self) {
        self.state().ignored.clear();
    }

    /// Makes cuts leave a random part of what was not synced, from now on: single pages of 4 KiB, lengths, folder
    /// entries, and parts of the interrupted call. The same seed and calls leave the same. Without this, nothing of
    /// that survives.
    pub fn survive_at_random(&self, seed: u64) {
        self.state().seed = Some(seed);
    }

    /// Turns the power back on (off first, if it was on) and counts calls from zero, without a limit. Disks are used
    /// again through [`CrashDisk::reopen`](crate::CrashDisk::reopen); handles from before stay dead.
    pub fn restart(&self) {
        let mut state = self.state();
        state.life += 1;
        state.calls = 0;
        state.limit = None;
        state.is_cut = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn life(&self) -> u64 {
        self.state().life
    }

    /// Counts a sync; whether it does what it should.
    pub(crate) fn heeds(&self, point: SyncPoint) -> bool {
        let mut state = self.state();
        *state.syncs.entry(point).or_default() += 1;
        !state.ignored.contains(&point)
    }

    pub(crate) fn seed(&self) -> Option<u64> {
        self.state().seed
    }

    /// Gives each disk its own number, so that their random survivals differ.
    pub(crate) fn register(&self) -> u64 {
        let mut state = self.state();
        state.disks += 1;
        state.disks
    }

    /// Whether a handle of life `life` may read.
    pub(crate) fn is_on(&self, life: u64) -> bool {
        let state = self.state();
        !state.is_cut && state.life == life
    }

    /// Counts a durable call of a handle of life `life`.
    pub(crate) fn spend(&self, life: u64) -> Verdict {
        let mut state = self.state();
        if state.is_cut || state.life != life {
            return Verdict::Dead;
        }
        if state.limit.is_some_and(|limit| state.calls >= limit) {
            state.is_cut = true;
            return Verdict::Interrupted;
        }
        state.calls += 1;
        Verdict::Go
    }
}
