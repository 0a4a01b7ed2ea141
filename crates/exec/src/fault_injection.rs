//! Faults that tests plant in a running engine: the checks are worth nothing unless something trips them.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What to falsify, once. The default plants nothing.
#[derive(Debug, Default)]
pub struct Injection {
    kind: AtomicU8,
    slice: AtomicU64,
}

const NONE: u8 = 0;
const ARITHMETIC: u8 = 1;
const WIRE: u8 = 2;
const STALL: u8 = 3;

impl Injection {
    /// The next stage that sends `slice` gets one byte of its result wrong, as a faulty processor would.
    pub fn flip_arithmetic(&self, slice: u64) {
        self.plant(ARITHMETIC, slice);
    }

    /// One bit of the frame of `slice` is flipped after it was sealed, as a faulty link would.
    pub fn flip_wire(&self, slice: u64) {
        self.plant(WIRE, slice);
    }

    /// The stage stops for good before it handles `slice`, without a word.
    pub fn stall(&self, slice: u64) {
        self.plant(STALL, slice);
    }

    fn plant(&self, kind: u8, slice: u64) {
        self.slice.store(slice, Ordering::SeqCst);
        self.kind.store(kind, Ordering::SeqCst);
    }

    fn take(&self, kind: u8, slice: u64) -> bool {
        self.kind.load(Ordering::Relaxed) == kind
            && self.slice.load(Ordering::SeqCst) == slice
            && self.kind.compare_exchange(kind, NONE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub(crate) fn arithmetic(&self, slice: u64) -> bool {
        self.take(ARITHMETIC, slice)
    }

    pub(crate) fn wire(&self, slice: u64) -> bool {
        self.take(WIRE, slice)
    }

    pub(crate) fn stalls(&self, slice: u64) -> bool {
        self.take(STALL, slice)
    }
}
