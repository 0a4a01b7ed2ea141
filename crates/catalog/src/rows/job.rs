//! Jobs that go on after a restart, and what operators want of tasks, as the catalog keeps them.

use crate::form;
use model::{Assign, BlockId, NodeId, Switch};
use serde::{Deserialize, Serialize};

/// A job that goes on after a restart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum JobRow {
    /// Encode an object.
    Archive {
        /// The object.
        name: String,
        /// The code.
        code: String,
        /// Bytes of a slice.
        slice_bytes: u32,
    },
    /// Make the blocks of nodes again elsewhere.
    RecoverNodes(RecoveryRow),
    /// Encode what is replicated of some objects.
    Encode(EncodingRow),
    /// Make smaller what stripes keep of objects that are gone.
    Compact(CompactionRow),
    /// Re-create missing copies of some blocks, as an operator ordered.
    Repair(RepairRow),
}

/// A repair of blocks that an operator ordered.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RepairRow {
    /// The blocks to repair, or one block of each stripe to repair.
    #[serde(with = "form")]
    pub blocks: Vec<BlockId>,
    /// Whether all lost members of their stripes are repaired.
    pub stripes: bool,
    /// The requested scheme; empty for the coordinator's choice.
    pub scheme: String,
    /// Slice length in bytes.
    pub slice_bytes: u32,
    /// Whether flows are checked by fingerprints.
    pub verify: bool,
    /// The node that receives the block.
    #[serde(with = "form")]
    pub requestor: Option<NodeId>,
    /// Nodes whose blocks are preferred, in the order of the chain.
    #[serde(with = "form")]
    pub helpers: Vec<NodeId>,
    /// Whether slow helpers are waited for.
    pub patient: bool,
}

/// An order for a node to hold nothing. It stays until nothing is left there, or the node may hold blocks again.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OrderRow {
    /// The job that moves the node's blocks.
    pub how: RecoveryRow,
    /// Whether an operator stopped the moves. The node then gets no new blocks and keeps those that it has.
    pub is_stopped: bool,
}

/// A compaction of all stripes that are worth it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CompactionRow {
    /// Name of the encoding scheme; empty for the coordinator's choice.
    pub scheme: String,
    /// Bytes of a slice.
    pub slice_bytes: u32,
    /// New stripes at once.
    pub parallel: u32,
}

/// An archival of one object or of many.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EncodingRow {
    /// The object, or what the names of the objects begin with.
    pub name: String,
    /// Whether it is what names begin with.
    pub is_prefix: bool,
    /// Only objects that were put before, by the wall clock; 0: whenever.
    pub before_unix_ms: u64,
    /// The code; empty: that of the stripes in which blocks wait, and what waits in none stays as it is.
    pub code: String,
    /// Name of the encoding scheme; empty for the coordinator's choice.
    pub scheme: String,
    /// Bytes of a slice.
    pub slice_bytes: u32,
    /// Stripes at once.
    pub parallel: u32,
    /// Stripes that lack blocks are encoded too, whatever they cost.
    pub short: bool,
    /// What is archived with another code is encoded anew with this one.
    pub change: bool,
}

/// What an operator wants of a task, if it is not to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TaskRow {
    #[serde(with = "form")]
    pub switch: Switch,
}

/// A recovery of dead nodes, or the decommissioning of a living one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RecoveryRow {
    /// Whose.
    #[serde(with = "form")]
    pub nodes: Vec<NodeId>,
    /// The nodes live, and their blocks move.
    pub moves: bool,
    /// The scheme asked for; empty for the coordinator's choice.
    pub scheme: String,
    /// Bytes of a slice.
    pub slice_bytes: u32,
    /// Whether flows are checked by fingerprints.
    pub verify: bool,
    /// Stripes at once.
    pub parallel: u32,
    /// How it finds helpers and requestors.
    #[serde(with = "form")]
    pub assign: Assign,
    /// Who may receive; all if empty.
    #[serde(with = "form")]
    pub requestors: Vec<NodeId>,
}
