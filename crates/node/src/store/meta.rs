//! What a sidecar says about its block: enough to restore a lost catalog from the nodes alone (FLOW.md, "Order of
//! writes"). Encoded with postcard inside the sidecar; a change of the form here is a new sidecar version.

use super::Digest;
use gf::{FINGERPRINT_BYTES, Fingerprint};
use model::{BlockId, Part, Stamp, Term};
use serde::{Deserialize, Serialize};

/// A stored block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockMeta {
    /// Which block.
    pub block: BlockId,
    /// Distinguishes copies of one id that were written at different times.
    pub generation: u64,
    /// The change of the catalog that noted the copy; none ([`Stamp::default`]) in sidecars of version 2.
    pub birth: Stamp,
    /// Length of the data file.
    pub stored_bytes: u64,
    /// BLAKE3 of the data file.
    pub digest: Digest,
    /// The block's fingerprint: its symbols' folded into one.
    pub fingerprint: Fingerprint,
    /// Symbols per block (α).
    pub alpha: u16,
    /// Bytes of a whole symbol; symbol i begins at byte i · `symbol_bytes` of the block.
    pub symbol_bytes: u64,
    /// The piece of an object that the block is; none for a parity.
    pub part: Option<Part>,
    /// The note of the stripe that the block was written for (`model::note`); empty before it is encoded.
    pub note: Vec<u8>,
}

/// What whoever writes a block knows about it; the rest of [`BlockMeta`] comes from the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewBlock {
    /// The change of the catalog that noted the copy.
    pub birth: Stamp,
    /// Length of the block.
    pub stored_bytes: u64,
    /// Symbols per block (α).
    pub alpha: u16,
    /// Bytes of a whole symbol: whole chunks if α > 1.
    pub symbol_bytes: u64,
    /// The piece of an object that it is.
    pub part: Option<Part>,
    /// The note of the stripe that it is written for.
    pub note: Vec<u8>,
}

/// serde knows arrays of up to 32 elements.
type Parts = [[u8; 32]; FINGERPRINT_BYTES / 32];

/// As it is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct Form {
    block: [u8; 16],
    generation: u64,
    /// Number and word of the term, the change in it.
    birth: (u64, u64, u64),
    stored_bytes: u64,
    digest: Digest,
    fingerprint: Parts,
    alpha: u16,
    symbol_bytes: u64,
    /// Name, version, offset, whether it is the last.
    part: Option<(String, u64, u64, bool)>,
    note: Vec<u8>,
}

/// As version 2 stored it.
#[derive(Serialize, Deserialize)]
pub(super) struct FormV2 {
    block: [u8; 16],
    generation: u64,
    stored_bytes: u64,
    digest: Digest,
    fingerprint: Parts,
    alpha: u16,
    symbol_bytes: u64,
    part: Option<(String, u64, u64, bool)>,
    note: Vec<u8>,
}

#[cfg(test)]
impl FormV2 {
    /// Of a block of one symbol that belongs to nothing.
    pub(super) fn of(
        block: BlockId,
        generation: u64,
        stored_bytes: u64,
        digest: Digest,
        print: &Fingerprint,
    ) -> FormV2 {
        let (block, symbol_bytes) = (block.to_bytes(), stored_bytes);
        let mut fingerprint = Parts::default();
        fingerprint.as_flattened_mut().copy_from_slice(print.as_bytes());
        let (alpha, part, note) = (1, None, Vec::new());
        FormV2 { block, generation, stored_bytes, digest, fingerprint, alpha, symbol_bytes, part, note }
    }
}

impl From<FormV2> for BlockMeta {
    fn from(old: FormV2) -> BlockMeta {
        let FormV2 { block, generation, stored_bytes, digest, fingerprint, alpha, symbol_bytes, part, note } =
            old;
        let birth = (0, 0, 0);
        Form { block, generation, birth, stored_bytes, digest, fingerprint, alpha, symbol_bytes, part, note }
            .into()
    }
}

impl From<&BlockMeta> for Form {
    fn from(meta: &BlockMeta) -> Form {
        let mut fingerprint = Parts::default();
        fingerprint.as_flattened_mut().copy_from_slice(meta.fingerprint.as_bytes());
        let part = |part: Part| (part.name, part.version, part.offset, part.last);
        Form {
            block: meta.block.to_bytes(),
            generation: meta.generation,
            birth: (meta.birth.term.number, meta.birth.term.word, meta.birth.change),
            stored_bytes: meta.stored_bytes,
            digest: meta.digest,
            fingerprint,
            alpha: meta.alpha,
            symbol_bytes: meta.symbol_bytes,
            part: meta.part.clone().map(part),
            note: meta.note.clone(),
        }
    }
}

impl From<Form> for BlockMeta {
    fn from(form: Form) -> BlockMeta {
        let mut fingerprint = [0; FINGERPRINT_BYTES];
        fingerprint.copy_from_slice(form.fingerprint.as_flattened());
        let part = |(name, version, offset, last)| Part { name, version, offset, last };
        let (number, word, change) = form.birth;
        BlockMeta {
            block: BlockId(u128::from_be_bytes(form.block)),
            generation: form.generation,
            birth: Stamp { term: Term { number, word }, change },
            stored_bytes: form.stored_bytes,
            digest: form.digest,
            fingerprint: Fingerprint::from_bytes(fingerprint),
            alpha: form.alpha,
            symbol_bytes: form.symbol_bytes,
            part: form.part.map(part),
            note: form.note,
        }
    }
}
