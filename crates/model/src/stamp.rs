//! When a change of the catalog was made, counted by the catalog itself: no clock is asked.

use std::fmt;

/// One life of a coordinator. Numbers rise; the random word tells two lives of one number apart, of which there are two
/// only if a catalog was set back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Term {
    /// From 1; 0 is none.
    pub number: u64,
    /// Drawn at its start.
    pub word: u64,
}

/// A change of the catalog.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stamp {
    /// In which life it was made.
    pub term: Term,
    /// Which change of that life, from 1.
    pub change: u64,
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:08x}", self.number, self.word >> 32)
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.change)
    }
}
