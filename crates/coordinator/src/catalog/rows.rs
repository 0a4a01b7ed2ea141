//! The rows of the catalog.

mod job;

pub(crate) use job::{Assign, JobRow, RecoveryRow, TaskRow, Wish};

use super::table::{Key, Row};
use gf::Fingerprint;
use model::{BlockId, ClusterId, FlowId, PutId, StripeId};
use serde::{Deserialize, Serialize};

/// Version of the whole catalog: which tables there are and what they mean.
pub(crate) const CATALOG_FORMAT: u32 = 1;

/// Every table, in the order in which a backup lists them. Append only: a backup names tables by their index.
pub(crate) const TABLES: [&str; 16] = [
    MetaRow::TABLE,
    NodeRow::TABLE,
    ObjectRow::TABLE,
    BlockRow::TABLE,
    HeldRow::TABLE,
    StripeRow::TABLE,
    PutRow::TABLE,
    PutBlockRow::TABLE,
    PlannedRow::TABLE,
    RepairRow::TABLE,
    JobRow::TABLE,
    GarbageRow::TABLE,
    LinksRow::TABLE,
    AuditRow::TABLE,
    LeavingRow::TABLE,
    TaskRow::TABLE,
];

/// The one row about the catalog itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct MetaRow {
    pub format: u32,
    #[serde(with = "id")]
    pub cluster: ClusterId,
    /// No node knows the cluster's id yet, so that of the first node may be taken over.
    pub unnamed: bool,
    /// Held a switch of format 1's first programs; written as false.
    pub reserved: bool,
    pub next_version: u64,
    pub next_job: u64,
}

/// A node that has registered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct NodeRow {
    pub control_addr: String,
    pub data_addr: String,
    pub rack: String,
}

/// The present version of an object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ObjectRow {
    pub version: u64,
    pub object_bytes: u64,
    /// BLAKE3 of the object; unknown after a rebuild from the nodes.
    pub digest: Option<[u8; 32]>,
    pub block_bytes: u64,
    #[serde(with = "ids")]
    pub blocks: Vec<BlockId>,
    pub created_ms: u64,
}

/// Digest and fingerprint of a block. Unknown only for parities that were lost together with the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sums {
    pub digest: Option<[u8; 32]>,
    #[serde(with = "fingerprint")]
    pub fingerprint: Option<Fingerprint>,
}

/// A copy of a block on a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct Location {
    pub node: u32,
    pub generation: u64,
}

/// Which part of which object a block is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PartRow {
    pub name: String,
    pub version: u64,
    pub offset: u64,
    pub last: bool,
}

/// Where a block stands in a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct StripePlace {
    #[serde(with = "id")]
    pub stripe: StripeId,
    pub index: u16,
}

/// A block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct BlockRow {
    pub stored_bytes: u64,
    pub sums: Sums,
    /// The highest generation that was ever given to a copy. No two copies of a block share one unless they were
    /// written by the same put, so (block, node, generation) is written at most once and a late deletion cannot hit
    /// a later copy.
    pub last_generation: u64,
    pub locations: Vec<Location>,
    /// Copies wanted while the block is in no stripe.
    pub replicas: u32,
    /// `None` for a parity.
    pub part: Option<PartRow>,
    /// The encoded stripe that it belongs to.
    pub stripe: Option<StripePlace>,
    /// Its object is gone; the bytes stay as long as its stripe needs them.
    pub dead: bool,
}

/// Index: which blocks a node holds. Kept by `Change::set_block`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct HeldRow {
    pub generation: u64,
}

/// A member of a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct MemberRow {
    #[serde(with = "id")]
    pub block: BlockId,
}

/// A copy of a block that a flow was told to write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub(crate) struct BlockCopy {
    #[serde(with = "id")]
    pub block: BlockId,
    pub node: u32,
    pub generation: u64,
}

/// How far a stripe is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum StripeState {
    /// A flow makes its parities. Its data blocks do not refer to it yet.
    Encoding {
        #[serde(with = "id")]
        flow: FlowId,
        attempt: u32,
        copies: Vec<BlockCopy>,
    },
    /// All members are durable.
    Encoded,
}

/// A stripe.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct StripeRow {
    pub code: String,
    /// Logical length of its blocks.
    pub block_bytes: u64,
    /// n of them, `None` where a short stripe has an all-zero block that is stored nowhere.
    pub members: Vec<Option<MemberRow>>,
    pub state: StripeState,
}

/// A put that has begun.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PutRow {
    pub name: String,
    pub version: u64,
    pub block_bytes: u64,
    pub replicas: u32,
    pub lease_until_ms: u64,
}

/// A block that a put may have written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PutBlockRow {
    pub index: u64,
    pub stored_bytes: u64,
    pub sums: Sums,
    pub last: bool,
    pub nodes: Vec<u32>,
    #[serde(with = "id")]
    pub flow: FlowId,
}

/// A copy may appear on that node: a plan that writes it was handed out, and is not yet committed or given up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PlannedRow {
    pub since_ms: u64,
}

/// A repair under way: at most one for each block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RepairRow {
    #[serde(with = "id")]
    pub flow: FlowId,
    pub attempt: u32,
    pub target: Location,
}

/// A node that is to hold nothing: it is given no blocks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct LeavingRow {
    pub since_ms: u64,
}

/// A copy that has to go.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct GarbageRow {
    pub since_ms: u64,
}

/// What the operator knows of the links: one row, the JSON that [`crate::links`] reads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct LinksRow {
    pub json: String,
}

/// A repair that ended, as [`crate::audit`] tells it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct AuditRow {
    pub json: String,
}

/// Key of the one meta row.
pub(crate) struct MetaKey;

/// Index key: blocks by node.
pub(crate) struct HeldKey {
    pub node: u32,
    pub block: BlockId,
}

/// Blocks by put.
pub(crate) struct PutBlockKey {
    pub put: PutId,
    pub block: BlockId,
}

macro_rules! tables {
    ($($row:ty, $name:literal, $key:ty;)*) => {
        $(impl Row for $row {
            type Key = $key;
            const TABLE: &'static str = $name;
        })*
    };
}

tables! {
    MetaRow, "meta", MetaKey;
    NodeRow, "nodes", u32;
    ObjectRow, "objects", String;
    BlockRow, "blocks", BlockId;
    HeldRow, "held", HeldKey;
    StripeRow, "stripes", StripeId;
    PutRow, "puts", PutId;
    PutBlockRow, "put-blocks", PutBlockKey;
    PlannedRow, "planned", BlockCopy;
    RepairRow, "repairs", BlockId;
    JobRow, "jobs", u64;
    GarbageRow, "garbage", BlockCopy;
    LinksRow, "links", MetaKey;
    AuditRow, "audit", u64;
    LeavingRow, "leaving", u32;
    TaskRow, "tasks", String;
}

impl Key for MetaKey {
    fn to_bytes(&self) -> Vec<u8> {
        b"catalog".to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (bytes == b"catalog").then_some(MetaKey)
    }
}

impl Key for String {
    fn to_bytes(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok()
    }
}

macro_rules! number_keys {
    ($($number:ty)*) => {
        $(impl Key for $number {
            fn to_bytes(&self) -> Vec<u8> {
                self.to_be_bytes().to_vec()
            }
            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_be_bytes)
            }
        })*
    };
}

number_keys! { u32 u64 }

macro_rules! id_keys {
    ($($id:ty)*) => {
        $(impl Key for $id {
            fn to_bytes(&self) -> Vec<u8> {
                self.to_vec()
            }
            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                Self::from_slice(bytes).ok()
            }
        }
        impl id::Identity for $id {
            fn array(self) -> [u8; 16] {
                self.to_bytes()
            }
            fn of(array: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(array))
            }
        })*
    };
}

id_keys! { BlockId StripeId FlowId PutId ClusterId }

impl Key for HeldKey {
    fn to_bytes(&self) -> Vec<u8> {
        [self.node.to_be_bytes().as_slice(), &self.block.to_bytes()].concat()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (node, block) = bytes.split_first_chunk::<4>()?;
        Some(HeldKey { node: u32::from_be_bytes(*node), block: BlockId::from_slice(block).ok()? })
    }
}

impl Key for PutBlockKey {
    fn to_bytes(&self) -> Vec<u8> {
        [self.put.to_bytes(), self.block.to_bytes()].concat()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (put, block) = bytes.split_first_chunk::<16>()?;
        Some(PutBlockKey { put: PutId::from_slice(put).ok()?, block: BlockId::from_slice(block).ok()? })
    }
}

impl Key for BlockCopy {
    fn to_bytes(&self) -> Vec<u8> {
        let (node, generation) = (self.node.to_be_bytes(), self.generation.to_be_bytes());
        [self.block.to_bytes().as_slice(), &node, &generation].concat()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (block, rest) = bytes.split_first_chunk::<16>()?;
        let (node, generation) = rest.split_first_chunk::<4>()?;
        Some(BlockCopy {
            block: BlockId::from_slice(block).ok()?,
            node: u32::from_be_bytes(*node),
            generation: u64::from_be_bytes(generation.try_into().ok()?),
        })
    }
}

/// Ids as 16 raw bytes.
mod id {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub trait Identity: Copy {
        fn array(self) -> [u8; 16];
        fn of(array: [u8; 16]) -> Self;
    }

    pub fn serialize<T: Identity, S: Serializer>(id: &T, serializer: S) -> Result<S::Ok, S::Error> {
        id.array().serialize(serializer)
    }

    pub fn deserialize<'de, T: Identity, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        <[u8; 16]>::deserialize(deserializer).map(T::of)
    }
}

/// Lists of ids.
mod ids {
    use super::id::Identity;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<T: Identity, S: Serializer>(ids: &[T], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(ids.iter().map(|id| id.array()))
    }

    pub fn deserialize<'de, T: Identity, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        Ok(Vec::<[u8; 16]>::deserialize(deserializer)?.into_iter().map(T::of).collect())
    }
}

/// A fingerprint as its bytes, none as no bytes.
mod fingerprint {
    use gf::Fingerprint;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(value: &Option<Fingerprint>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map_or(&[][..], |f| f.as_bytes().as_slice()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Fingerprint>, D::Error> {
        let bytes = Vec::<u8>::deserialize(deserializer)?;
        match bytes.as_slice().try_into() {
            Ok(array) => Ok(Some(Fingerprint::from_bytes(array))),
            Err(_) if bytes.is_empty() => Ok(None),
            Err(_) => Err(D::Error::custom("a fingerprint of another length")),
        }
    }
}

impl Sums {
    /// From protobuf fields, empty where unknown; `None` if a length is wrong.
    pub fn from_wire(digest: &[u8], fingerprint: &[u8]) -> Option<Sums> {
        let model::Sums { digest, fingerprint } = wire::codec::block::sums(digest, fingerprint)?;
        Some(Sums { digest, fingerprint })
    }

    /// Whether a block with `other` may be the one with these: what both know is equal.
    pub fn agrees(&self, other: &Sums) -> bool {
        let digests = self.digest.zip(other.digest).is_none_or(|(a, b)| a == b);
        digests && self.fingerprint.zip(other.fingerprint).is_none_or(|(a, b)| a == b)
    }

    /// As a protobuf field.
    pub fn digest_vec(&self) -> Vec<u8> {
        self.digest.map(|d| d.to_vec()).unwrap_or_default()
    }

    /// As plans have it.
    pub fn to_model(self) -> model::Sums {
        let Sums { digest, fingerprint } = self;
        model::Sums { digest, fingerprint }
    }
}

impl PartRow {
    /// As a sidecar has it.
    pub fn facts(&self) -> model::note::PartFacts<'_> {
        let PartRow { name, version, offset, last } = self;
        model::note::PartFacts { name, version: *version, offset: *offset, last: *last }
    }

    /// As plans have it.
    pub fn to_model(&self) -> model::Part {
        let PartRow { name, version, offset, last } = self.clone();
        model::Part { name, version, offset, last }
    }
}
