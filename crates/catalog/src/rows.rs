//! The rows of the catalog.

mod audit;
mod dead;
mod forgotten;
mod gathering;
mod intent;
mod job;
mod lack;
mod settings;
mod time;

pub use audit::{AuditRow, Difference};
pub(crate) use dead::{DeadKey, DeadRow};
pub use forgotten::ForgottenRow;
pub use gathering::{BucketRow, GatherTerms, GatheredBlock, GatheringRow, PutRow, SettledRow};
pub(crate) use gathering::{GatheredRow, PutBlockRow};
pub(crate) use intent::IntentRow;
pub use intent::{NewStripe, Purpose, Recoding};
pub(crate) use job::TaskRow;
pub use job::{CompactionRow, EncodingRow, JobRow, OrderRow, RecoveryRow, RepairRow};
pub(crate) use lack::LackRow;
pub use settings::{BudgetsRow, ThrottleRow};
pub(crate) use settings::{NodeTaskKey, NodeTaskRow};
pub(crate) use time::EndedPutRow;
pub use time::{ClockRow, HeardRow, ReturnsRow};

use crate::form::{self, Stored, as_they_are};
use crate::table::{Key, Row};
use model::{
    BlockCopy, BlockFacts, BlockId, ClusterId, FlowId, Incarnation, MemberState, NodeId, PutId, Reason,
    Stamp, StoreId, StripeId, Term,
};
use serde::{Deserialize, Serialize};

/// Version of the whole catalog: which tables there are and what they mean. Rows of version 7 had no checksums, version 6 had no
/// index of what lacks copies, 5 knew no stripes before they were encoded, in 4 nodes shared no hosts: such a catalog is made one of
/// this version when it is opened.
pub(crate) const CATALOG_FORMAT: u32 = 8;

/// The first version with the index of what lacks copies.
pub(crate) const FIRST_FORMAT_WITH_LACKS: u32 = 7;

/// The first version that kept records, and so the first that can be brought from other nodes.
pub(crate) const FIRST_FORMAT_WITH_RECORDS: u32 = 4;

/// The first that is still read: it kept no records.
pub(crate) const FORMAT_WITHOUT_RECORDS: u32 = 3;

/// Every table, in the order in which a backup lists them. Append only: a backup names tables by their index.
pub(crate) const TABLES: [&str; 38] = [
    MarkRow::TABLE,
    NodeRow::TABLE,
    ObjectRow::TABLE,
    BlockFacts::TABLE,
    HeldRow::TABLE,
    StripeRow::TABLE,
    PutRow::TABLE,
    PutBlockRow::TABLE,
    PlannedRow::TABLE,
    IntentRow::TABLE,
    JobRow::TABLE,
    CandidateRow::TABLE,
    LinksRow::TABLE,
    AuditRow::TABLE,
    LeavingRow::TABLE,
    TaskRow::TABLE,
    HistoryRow::TABLE,
    TermRow::TABLE,
    SafeModeRow::TABLE,
    ThrottleRow::TABLE,
    NodeTaskRow::TABLE,
    ClockRow::TABLE,
    EndedPutRow::TABLE,
    PositionRow::TABLE,
    HoldersRow::TABLE,
    DoubtRow::TABLE,
    ForgottenRow::TABLE,
    GatheringRow::TABLE,
    GatheredRow::TABLE,
    BucketRow::TABLE,
    DeadRow::TABLE,
    DisksRow::TABLE,
    LackRow::TABLE,
    BudgetsRow::TABLE,
    ReturnsRow::TABLE,
    DamageRow::TABLE,
    MetaRow::TABLE,
    OrderRow::TABLE,
];

/// The one row about the catalog itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MetaRow {
    /// Version of the catalog.
    pub format: u32,
    /// Whose it is.
    #[serde(with = "form")]
    pub cluster: ClusterId,
    /// No node knows the cluster's id yet, so that of the first node may be taken over.
    pub unnamed: bool,
    /// Version of the next object.
    pub next_version: u64,
    /// Number of the next job.
    pub next_job: u64,
}

/// What catalogs up to format 7 had for [`MetaRow`]. It stays where programs of then look for it, says nothing but the format, and is
/// the one row without a checksum, which these do not understand: so they refuse the catalog by the name of its format.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct MarkRow {
    pub format: u32,
    #[serde(with = "form")]
    pub cluster: ClusterId,
    pub unnamed: bool,
    pub next_version: u64,
    pub next_job: u64,
}

impl MarkRow {
    /// That of this format.
    pub(crate) const OURS: MarkRow = MarkRow {
        format: CATALOG_FORMAT,
        cluster: ClusterId(0),
        unnamed: false,
        next_version: 0,
        next_job: 0,
    };

    /// The row that it took the place of, in a catalog of before.
    pub(crate) fn meta(self) -> MetaRow {
        let MarkRow { format, cluster, unnamed, next_version, next_job } = self;
        MetaRow { format, cluster, unnamed, next_version, next_job }
    }
}

/// A node that has registered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeRow {
    /// host:port of its control calls.
    pub control_addr: String,
    /// host:port of its slices.
    pub data_addr: String,
    /// Its rack's name.
    pub rack: String,
    /// Its store.
    #[serde(with = "form")]
    pub store: StoreId,
    /// The start of the store that was accepted last.
    #[serde(with = "form")]
    pub incarnation: Incarnation,
    /// The machine that it shares with other nodes, of which no two hold blocks of one stripe or copies of one block; empty if
    /// it shares it with none.
    pub host: String,
}

/// A node in catalogs of the format before.
#[derive(Deserialize)]
struct NodeWithoutHost {
    control_addr: String,
    data_addr: String,
    rack: String,
    #[serde(with = "form")]
    store: StoreId,
    #[serde(with = "form")]
    incarnation: Incarnation,
}

impl Row for NodeRow {
    type Key = NodeId;
    const TABLE: &'static str = "nodes";
    const VERSION: u8 = 2;

    fn of_older(version: u8, bytes: &[u8]) -> Option<NodeRow> {
        let (row, rest) = postcard::take_from_bytes::<NodeWithoutHost>(bytes).ok()?;
        let NodeWithoutHost { control_addr, data_addr, rack, store, incarnation } = row;
        let row = NodeRow { control_addr, data_addr, rack, store, incarnation, host: String::new() };
        (version == 1 && rest.is_empty()).then_some(row)
    }
}

/// The present version of an object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ObjectRow {
    /// Versions rise with every put.
    pub version: u64,
    /// Its length.
    pub object_bytes: u64,
    /// BLAKE3 of the object; unknown after a rebuild from the nodes.
    pub digest: Option<[u8; 32]>,
    /// Length of its blocks but the last.
    pub block_bytes: u64,
    /// In order.
    #[serde(with = "form")]
    pub blocks: Vec<BlockId>,
    /// When it was committed.
    pub created_ms: u64,
}

/// Index: which blocks a node holds. Kept by `Change::set_block`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct HeldRow {
    pub generation: u64,
}

/// A stripe, all of whose members are durable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct StripeRow {
    pub code: String,
    /// Logical length of its blocks.
    pub block_bytes: u64,
    /// n of them.
    #[serde(with = "form")]
    pub members: Vec<MemberState<BlockId>>,
}

impl StripeRow {
    /// Its blocks that are stored.
    pub fn stored(&self) -> impl Iterator<Item = BlockId> {
        self.members.iter().filter_map(MemberState::stored).copied()
    }

    /// Its blocks, virtual ones too.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> {
        self.members.iter().filter_map(MemberState::block).copied()
    }
}

/// A copy may appear on that node: a plan that writes it was handed out, and is not yet committed or given up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct PlannedRow {
    pub since_ms: u64,
}

/// A node that is to hold nothing: it is given no blocks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct LeavingRow {
    pub since_ms: u64,
}

/// A copy that is not counted on any more, and goes when everything that letting go asks for holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CandidateRow {
    /// Since when.
    pub since_ms: u64,
    /// What made it superfluous.
    #[serde(with = "form")]
    pub reason: Reason,
    /// The room it takes up; 0 if nobody knows.
    pub stored_bytes: u64,
    /// Its node was told to delete it, and has not answered.
    pub is_ordered: bool,
}

/// What the operator knows of the links, in Mb/s: one row.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LinksRow {
    /// The nodes that rows and columns stand for; without them nodes 1, 2, 3, …
    pub nodes: Option<Vec<u32>>,
    /// `bandwidth[i][j]`: from the i-th node to the j-th.
    pub bandwidth: Option<Vec<Vec<Option<f64>>>>,
    /// What each node sends in all.
    pub up: Option<Vec<Option<f64>>>,
    /// What each node receives in all.
    pub down: Option<Vec<Option<f64>>>,
}

/// What the operator knows of the disks beside that, in Mb/s: one row.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DisksRow {
    /// What the disk of each node of [`LinksRow`] reads.
    pub rates: Option<Vec<Option<f64>>>,
}

/// How far the catalog has come: one row, which every change writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PositionRow {
    #[serde(with = "form")]
    pub stamp: Stamp,
    /// Of the last record.
    pub hash: [u8; 32],
}

/// The nodes that keep the catalog's records: one row.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HoldersRow {
    /// Each has a snapshot, and was sent what came since.
    #[serde(with = "form")]
    pub nodes: Vec<NodeId>,
}

/// Nobody has heard of a change that is not known here, but too few were asked to know: one row, as long as that is so.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DoubtRow {
    /// Since when.
    pub since_ms: u64,
    /// Why.
    pub why: Doubt,
}

/// What makes a history doubtful.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Doubt {
    /// Of the nodes that keep the records so few have answered since the start.
    FewHolders {
        /// They say that nothing is missing here.
        answered: u32,
        /// So many must.
        wanted: u32,
    },
    /// It was made of what nodes say of their copies.
    Made,
    /// It was made of a backup, and knows nothing of what came after it.
    Restored {
        /// The backup's last change.
        #[serde(with = "form")]
        at: Stamp,
    },
}

/// In catalogs that kept no records, what [`PositionRow`] is now: one row.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HistoryRow {
    #[serde(with = "form")]
    pub term: Term,
    pub change: u64,
}

/// A term that has ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TermRow {
    pub word: u64,
    pub changes: u64,
}

/// The history may be broken: one row, as long as it may be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SafeModeRow {
    /// Since when.
    pub since_ms: u64,
    /// Who said so.
    #[serde(with = "form")]
    pub node: NodeId,
    /// The change that the node has heard of, and of which nothing is known here.
    #[serde(with = "form")]
    pub heard: Stamp,
}

/// This is what was saved of a damaged file: one row, in a file in which nothing is changed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct DamageRow {
    /// The first findings.
    pub findings: Vec<String>,
    /// How many there were.
    pub count: u64,
}

/// Key of the one meta row.
pub(crate) struct MetaKey;

/// Index key: blocks by node.
pub(crate) struct HeldKey {
    pub node: NodeId,
    pub block: BlockId,
}

/// Blocks by put.
pub(crate) struct PutBlockKey {
    pub put: PutId,
    pub block: BlockId,
}

/// Rows by table and key.
macro_rules! tables {
    ($($row:ty, $name:literal, $key:ty;)*) => {
        $(impl Row for $row {
            type Key = $key;
            const TABLE: &'static str = $name;
        })*
    };
}

tables! {
    MarkRow, "meta", MetaKey;
    MetaRow, "about", MetaKey;
    ObjectRow, "objects", String;
    BlockFacts, "blocks", BlockId;
    HeldRow, "held", HeldKey;
    StripeRow, "stripes", StripeId;
    PutBlockRow, "put-blocks", PutBlockKey;
    PlannedRow, "planned", BlockCopy;
    IntentRow, "intents", FlowId;
    JobRow, "jobs", u64;
    CandidateRow, "candidates", BlockCopy;
    LinksRow, "links", MetaKey;
    AuditRow, "audit", u64;
    LeavingRow, "leaving", NodeId;
    TaskRow, "tasks", String;
    HistoryRow, "history", MetaKey;
    TermRow, "terms", u64;
    SafeModeRow, "safe-mode", MetaKey;
    ThrottleRow, "throttle", MetaKey;
    NodeTaskRow, "node-tasks", NodeTaskKey;
    ClockRow, "clock", MetaKey;
    EndedPutRow, "ended-puts", PutId;
    PositionRow, "position", MetaKey;
    HoldersRow, "holders", MetaKey;
    DoubtRow, "doubt", MetaKey;
    ForgottenRow, "forgotten", StoreId;
    GatheringRow, "gathering", StripeId;
    GatheredRow, "gathered", BlockId;
    DeadRow, "dead", DeadKey;
    DisksRow, "disks", MetaKey;
    LackRow, "lacks", BlockId;
    BudgetsRow, "budgets", MetaKey;
    ReturnsRow, "returns", NodeId;
    DamageRow, "damage", MetaKey;
    OrderRow, "orders", NodeId;
}

as_they_are! {
    MarkRow MetaRow NodeRow ObjectRow HeldRow StripeRow PutRow PutBlockRow PlannedRow IntentRow JobRow CandidateRow LinksRow
    AuditRow LeavingRow TaskRow HistoryRow TermRow SafeModeRow ThrottleRow NodeTaskRow ClockRow EndedPutRow
    PositionRow HoldersRow DoubtRow ForgottenRow GatheringRow GatheredRow BucketRow DeadRow
    DisksRow LackRow BudgetsRow ReturnsRow DamageRow OrderRow
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

impl Key for u64 {
    fn to_bytes(&self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_be_bytes)
    }
}

impl Key for NodeId {
    fn to_bytes(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(u32::from_be_bytes).map(NodeId)
    }
}

macro_rules! id_keys {
    ($($id:ty)*) => {
        $(impl Key for $id {
            fn to_bytes(&self) -> Vec<u8> {
                self.to_vec()
            }
            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                Self::from_slice(bytes).ok()
            }
        })*
    };
}

id_keys! { BlockId StripeId FlowId PutId StoreId }

/// Keys whose parts are written one after another, each of a fixed length.
macro_rules! joined_keys {
    ($($key:ident { $($part:ident: $of:ty, $bytes:literal),* })*) => {
        $(impl Key for $key {
            fn to_bytes(&self) -> Vec<u8> {
                [$(Key::to_bytes(&self.$part)),*].concat()
            }
            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                $(let ($part, bytes) = bytes.split_first_chunk::<$bytes>()?;)*
                bytes.is_empty().then_some(())?;
                Some($key { $($part: <$of>::from_bytes($part)?),* })
            }
        })*
    };
}

joined_keys! {
    HeldKey { node: NodeId, 4, block: BlockId, 16 }
    PutBlockKey { put: PutId, 16, block: BlockId, 16 }
    DeadKey { stripe: StripeId, 16, block: BlockId, 16 }
    BlockCopy { block: BlockId, 16, node: NodeId, 4, generation: u64, 8 }
}
