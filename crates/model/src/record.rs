//! Records of the catalog: each committed change as other nodes keep it, chained to the one before (HEALING.md, "Terms, records,
//! holders").
//!
//! ```text
//!   version (1) │ term (8) │ its word (8) │ change (8) │ hash of the record before (32) │ rows …
//! ```
//!
//! Numbers are little-endian. Which rows were put and removed is the catalog's matter: whoever only keeps records reads their
//! heads. A record's hash is BLAKE3 of all its bytes.

use crate::stamp::{Stamp, Term};

/// BLAKE3 of a record.
pub type RecordHash = [u8; 32];

/// Bytes of a record before its rows.
pub const RECORD_HEAD_BYTES: usize = 1 + 3 * 8 + 32;

const VERSION: u8 = 1;

/// How far a copy of the catalog has come. The default is the beginning of all, before any change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position {
    /// The last change …
    pub stamp: Stamp,
    /// … and the hash of its record.
    pub hash: RecordHash,
}

/// What a record begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHead {
    /// Of this change.
    pub stamp: Stamp,
    /// Hash of the record before.
    pub before: RecordHash,
}

impl RecordHead {
    /// As it is stored.
    pub fn encode(&self) -> [u8; RECORD_HEAD_BYTES] {
        let Stamp { term: Term { number, word }, change } = self.stamp;
        let mut bytes = [VERSION; RECORD_HEAD_BYTES];
        for (at, value) in [number, word, change].into_iter().enumerate() {
            bytes[1 + at * 8..][..8].copy_from_slice(&value.to_le_bytes());
        }
        bytes[25..].copy_from_slice(&self.before);
        bytes
    }

    /// The head of a record, and its rows; `None` if it is none, or of another version.
    pub fn of(record: &[u8]) -> Option<(RecordHead, &[u8])> {
        let (version, rest) = record.split_first()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (word, rest) = rest.split_first_chunk()?;
        let (change, rest) = rest.split_first_chunk()?;
        let (before, rows) = rest.split_first_chunk()?;
        let term = Term { number: u64::from_le_bytes(*number), word: u64::from_le_bytes(*word) };
        let stamp = Stamp { term, change: u64::from_le_bytes(*change) };
        (*version == VERSION).then_some((RecordHead { stamp, before: *before }, rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_stable_and_another_version_is_none() {
        let stamp = Stamp { term: Term { number: 2, word: 0xff00 }, change: 3 };
        let head = RecordHead { stamp, before: [7; 32] };
        let mut golden = vec![1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
        golden.extend([7; 32]);
        assert_eq!(head.encode().to_vec(), golden);
        golden.extend(b"rows");
        assert_eq!(RecordHead::of(&golden), Some((head, b"rows".as_slice())));
        golden[0] = 2;
        assert_eq!(RecordHead::of(&golden), None);
        assert_eq!(RecordHead::of(&golden[..RECORD_HEAD_BYTES - 1]), None);
    }
}
