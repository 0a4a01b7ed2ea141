//! Stripes that are not encoded yet, and what operators want of the objects of a bucket.

use crate::form;
use crate::table::Row;
use model::{BlockId, FlowId, NodeId, StripeId, Sums};
use serde::{Deserialize, Serialize};

/// What a placement policy is asked for (EAR §3.2, §3.4).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct GatherTerms {
    /// The policy's name.
    pub policy: String,
    /// The code of the stripes.
    pub code: String,
    /// Blocks of a stripe in one rack at most.
    pub rack_capacity: u32,
    /// Racks that hold a stripe after encoding; 0: any number.
    pub target_racks: u32,
    /// How the replicas of a block lie, by name.
    pub spread: String,
}

/// A stripe from its first block on until it is encoded: blocks of any objects, replicated each, that will be its data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GatheringRow {
    /// How its blocks are placed, and with which code.
    pub terms: GatherTerms,
    /// Replicas that are wanted of each block.
    pub replicas: u32,
    /// Its blocks are longer than half of 2 to this, and no longer than that: shorter ones are stored as they are, but parities
    /// have the length of the longest.
    pub size_class: u8,
    /// When its first block came.
    pub since_ms: u64,
    /// Since when it takes no more blocks; `None`: it is open.
    pub sealed_ms: Option<u64>,
    /// The rack in which each block has a replica, by name; `None` if the policy knows no such rack.
    pub core: Option<String>,
    /// Racks that may hold its blocks after encoding, by name, preferred ones first.
    pub targets: Vec<String>,
    /// Racks that are kept for global parities, by name.
    pub globals: Vec<String>,
    /// Its data blocks in their order.
    pub blocks: Vec<GatheredBlock>,
    /// What was decided of its full local groups.
    pub settled: Vec<SettledRow>,
}

/// A block of a stripe that is not encoded yet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GatheredBlock {
    /// It.
    #[serde(with = "form")]
    pub block: BlockId,
    /// Where its replicas were placed.
    #[serde(with = "form")]
    pub nodes: Vec<NodeId>,
}

/// Where the blocks of a full local group will lie.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SettledRow {
    /// The node of each data block, if one was found.
    pub kept: Vec<Option<u32>>,
    /// The rack of the group's parity, by name.
    pub parity: Option<String>,
}

/// Index: the stripe that a block is gathered in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct GatheredRow {
    #[serde(with = "form")]
    pub stripe: StripeId,
}

/// How the objects of a bucket are put: those whose names begin with its name and a slash.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BucketRow {
    /// How their blocks are placed.
    pub terms: GatherTerms,
    /// They are archived when they are so old, by the wall clock; 0: when somebody asks for it.
    pub archive_after_ms: u64,
}

impl Row for BucketRow {
    type Key = String;
    const TABLE: &'static str = "buckets";
    const VERSION: u8 = 2;

    fn of_older(version: u8, bytes: &[u8]) -> Option<BucketRow> {
        let (terms, rest) = postcard::take_from_bytes::<GatherTerms>(bytes).ok()?;
        (version == 1 && rest.is_empty()).then_some(BucketRow { terms, archive_after_ms: 0 })
    }
}

/// A put that has begun.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PutRow {
    /// The object.
    pub name: String,
    /// The version that it becomes.
    pub version: u64,
    /// Length of its blocks but the last.
    pub block_bytes: u64,
    /// Copies wanted of each.
    pub replicas: u32,
    /// It is given up then, unless its client says something.
    pub lease_until_ms: u64,
    /// Its blocks are gathered in stripes, and placed for that.
    pub gathers: Option<GatherTerms>,
}

/// A put in catalogs of the formats before.
#[derive(Deserialize)]
struct PutWithoutGathering {
    name: String,
    version: u64,
    block_bytes: u64,
    replicas: u32,
    lease_until_ms: u64,
}

impl Row for PutRow {
    type Key = model::PutId;
    const TABLE: &'static str = "puts";
    const VERSION: u8 = 2;

    fn of_older(version: u8, bytes: &[u8]) -> Option<PutRow> {
        let (row, rest) = postcard::take_from_bytes::<PutWithoutGathering>(bytes).ok()?;
        let PutWithoutGathering { name, version: of_object, block_bytes, replicas, lease_until_ms } = row;
        let row = PutRow { name, version: of_object, block_bytes, replicas, lease_until_ms, gathers: None };
        (version == 1 && rest.is_empty()).then_some(row)
    }
}

/// A block that a put may have written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PutBlockRow {
    pub index: u64,
    pub stored_bytes: u64,
    #[serde(with = "form")]
    pub sums: Sums,
    pub last: bool,
    #[serde(with = "form")]
    pub nodes: Vec<NodeId>,
    #[serde(with = "form")]
    pub flow: FlowId,
}
