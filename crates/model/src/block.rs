//! What is known of a block.

use crate::id::BlockId;
use gf::Fingerprint;

/// A copy of a block as a node stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredCopy {
    /// The block.
    pub block: BlockId,
    /// Its generation; another generation is not this block.
    pub generation: u64,
    /// Without the zeros at its end.
    pub stored_bytes: u64,
}

/// Digest and fingerprint of a block, as far as they are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sums {
    /// BLAKE3.
    pub digest: Option<[u8; 32]>,
    /// That of its symbols, folded into one.
    pub fingerprint: Option<Fingerprint>,
}

/// A part of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The object's name.
    pub name: String,
    /// The object's version.
    pub version: u64,
    /// Where in the object it begins.
    pub offset: u64,
    /// Whether the object ends with it.
    pub last: bool,
}
