//! When a change of the catalog was made, counted by the catalog itself: no clock is asked.

use std::fmt;

/// One life of a coordinator. Numbers rise; the random word tells two lives of one number apart, of which there are two
/// only if a catalog was set back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Term {
    /// From 1; 0 is none.
    pub number: u64,
    /// Drawn at its start. Its last bits also tell how the life acknowledges changes: see [`Term::drawn`].
    pub word: u64,
}

/// The last 16 bits of the word of a life that acknowledges a change only once holders have it. Words drawn by programs of before have
/// them by chance once in 65,536 lives.
const WAITS: u64 = 0x4b45;

const WAITS_MASK: u64 = 0xffff;

impl Term {
    /// Returns the word of a new life, made of random bits. `waits_for_holders`: clients and nodes are told of a change only once holders
    /// have it.
    pub fn drawn(random: u64, waits_for_holders: bool) -> u64 {
        let rest = random & !WAITS_MASK;
        match waits_for_holders {
            true => rest | WAITS,
            // Zero marks no life.
            false => rest | 1,
        }
    }

    /// Whether this life told of a change only once holders had it.
    pub fn waits_for_holders(&self) -> bool {
        self.word & WAITS_MASK == WAITS
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_tells_how_its_life_acknowledges_and_stays_random_above() {
        for random in [0, 1, 0x4b45, u64::MAX] {
            for waits in [true, false] {
                let word = Term::drawn(random, waits);
                assert_eq!((Term { number: 1, word }.waits_for_holders(), word >> 16), (waits, random >> 16));
                assert!(word != 0);
            }
        }
    }
}
