//! What a sidecar says about its block: enough to restore a lost catalog from the nodes alone (FLOW.md, "Order of
//! writes"). Encoded with postcard inside the sidecar; a change of any type here is a new sidecar version.

use super::Digest;
use gf::{FINGERPRINT_BYTES, Fingerprint};
use model::{BlockId, StripeId};
use serde::{Deserialize, Serialize};

/// A stored block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BlockMeta {
    /// Which block.
    #[serde(with = "id")]
    pub block: BlockId,
    /// Distinguishes copies of one id that were written at different times.
    pub generation: u64,
    /// Length of the data file.
    pub stored_bytes: u64,
    /// BLAKE3 of the data file.
    pub digest: Digest,
    /// The block's fingerprint: its symbols' folded into one.
    #[serde(with = "fingerprint")]
    pub fingerprint: Fingerprint,
    /// Symbols per block (α).
    pub alpha: u16,
    /// Bytes of a whole symbol; symbol i begins at byte i · `symbol_bytes` of the block.
    pub symbol_bytes: u64,
    /// The piece of an object that the block is; none for a parity.
    pub object: Option<ObjectPart>,
    /// The stripe that the block was written for; none before it is encoded.
    pub stripe: Option<StripeInfo>,
}

/// A piece of an object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ObjectPart {
    /// Name of the object.
    pub name: String,
    /// Version of the object.
    pub version: u64,
    /// Where in the object the block's first byte lies.
    pub offset: u64,
    /// Whether the object ends with this block.
    pub last: bool,
}

/// A stripe as a whole. A parity's sidecar holds all its members, so that any parity can restore the stripe's row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StripeInfo {
    /// The stripe.
    #[serde(with = "id")]
    pub stripe: StripeId,
    /// Name of its code.
    pub code: String,
    /// Index of this block in it.
    pub index: u16,
    /// Logical length of every member, in bytes.
    pub block_bytes: u64,
    /// Members 0 … n−1 as far as they were known when the block was written.
    pub members: Vec<StripeMember>,
}

/// A member of a stripe.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StripeMember {
    /// The block; none for an absent member, which is all zero.
    #[serde(with = "optional_id")]
    pub block: Option<BlockId>,
    /// Its generation.
    pub generation: u64,
    /// Its stored length, in bytes.
    pub stored_bytes: u64,
    /// Its BLAKE3.
    pub digest: Digest,
    /// Its block fingerprint.
    #[serde(with = "fingerprint")]
    pub fingerprint: Fingerprint,
    /// The piece of an object that it is.
    pub object: Option<ObjectPart>,
}

/// What whoever writes a block knows about it; the rest of [`BlockMeta`] comes from the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockFacts {
    /// Length of the block.
    pub stored_bytes: u64,
    /// Symbols per block (α).
    pub alpha: u16,
    /// Bytes of a whole symbol: whole chunks if α > 1.
    pub symbol_bytes: u64,
    /// The piece of an object that it is.
    pub object: Option<ObjectPart>,
    /// The stripe that it is written for.
    pub stripe: Option<StripeInfo>,
}

/// Identities as 16 bytes.
mod id {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) trait Id {
        fn bits(&self) -> u128;
        fn of(bits: u128) -> Self;
    }

    impl Id for model::BlockId {
        fn bits(&self) -> u128 {
            self.0
        }
        fn of(bits: u128) -> Self {
            Self(bits)
        }
    }

    impl Id for model::StripeId {
        fn bits(&self) -> u128 {
            self.0
        }
        fn of(bits: u128) -> Self {
            Self(bits)
        }
    }

    pub(super) fn serialize<S: Serializer>(id: &impl Id, to: S) -> Result<S::Ok, S::Error> {
        id.bits().to_be_bytes().serialize(to)
    }

    pub(super) fn deserialize<'a, I: Id, D: Deserializer<'a>>(from: D) -> Result<I, D::Error> {
        Ok(I::of(u128::from_be_bytes(Deserialize::deserialize(from)?)))
    }
}

/// A member's identity, or nothing.
mod optional_id {
    use model::BlockId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(id: &Option<BlockId>, to: S) -> Result<S::Ok, S::Error> {
        id.map(BlockId::to_bytes).serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<BlockId>, D::Error> {
        Ok(Option::<[u8; 16]>::deserialize(from)?.map(|bytes| BlockId(u128::from_be_bytes(bytes))))
    }
}

/// Fingerprints as their bytes, in four parts: serde knows arrays of up to 32 elements.
mod fingerprint {
    use super::{FINGERPRINT_BYTES, Fingerprint};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    const PART: usize = 32;
    const PARTS: usize = FINGERPRINT_BYTES / PART;

    pub(super) fn serialize<S: Serializer>(print: &Fingerprint, to: S) -> Result<S::Ok, S::Error> {
        let mut parts = [[0u8; PART]; PARTS];
        parts.as_flattened_mut().copy_from_slice(print.as_bytes());
        parts.serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Fingerprint, D::Error> {
        let parts = <[[u8; PART]; PARTS]>::deserialize(from)?;
        let mut bytes = [0; FINGERPRINT_BYTES];
        bytes.copy_from_slice(parts.as_flattened());
        Ok(Fingerprint::from_bytes(bytes))
    }
}
