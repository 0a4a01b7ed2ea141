//! What can go wrong in the catalog.

use model::{BlockId, NodeId};

/// What this crate answers.
pub type Result<T> = std::result::Result<T, CatalogError>;

/// Errors of the catalog. Each says in one sentence what is wrong and, where it is not plain, what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CatalogError {
    /// Another coordinator has the catalog open.
    #[error("the catalog is in use by another coordinator; stop that one first")]
    InUse,
    /// The catalog was written by another version.
    #[error("the catalog has format {found}, this program knows {known}; use the program that wrote it")]
    Format {
        /// What is stored.
        found: u32,
        /// What this program reads and writes.
        known: u32,
    },
    /// A row of the catalog's own file that is not as it was written, or that is missing though others name it. It is evidence
    /// against that row only.
    #[error(
        "the catalog's file is damaged at row {table} {key}: {why}; 'stripeline health' says what follows"
    )]
    DamagedRow {
        /// The table.
        table: &'static str,
        /// The row's key, hexadecimal.
        key: String,
        /// What does not fit.
        why: String,
    },
    /// The catalog's own file is not as it was written, at a place that is no row's.
    #[error("the catalog's file is damaged: {0}; 'stripeline health' says what follows")]
    DamagedFile(String),
    /// A change that is not made because the catalog's own file is damaged.
    #[error(
        "the catalog's file is damaged ({0}): changes wait until it is made anew from what nodes keep of it, reads go on; 'stripeline \
         health' says what is waited for"
    )]
    ChangesWait(String),
    /// A change that is not begun because the disk of the catalog is full.
    #[error(
        "the coordinator's disk has {free_bytes} bytes free, and a change needs {least_bytes}: changes wait, reads go on; make room on it"
    )]
    NoRoom {
        /// Free bytes on the disk.
        free_bytes: u64,
        /// Free bytes that a change requires.
        least_bytes: u64,
    },
    /// What may only be done with a catalog all of whose file was checked.
    #[error("the catalog's file is being checked since its start: this waits until that has ended")]
    Unchecked,
    /// Nobody knows whether there is such a thing.
    #[error(
        "whether there is {0} is not known: the catalog's file is damaged, or not yet checked since the start; 'stripeline \
         health' says what is waited for"
    )]
    NotKnown(String),
    /// A backup, a snapshot, or a record that is not as it was written.
    #[error("the {what} is damaged: {why}")]
    Malformed {
        /// Which of them.
        what: &'static str,
        /// What does not fit, and where.
        why: String,
    },
    /// The database below the catalog failed.
    #[error("the catalog cannot be read or written: {0}")]
    Failed(String),
    /// The catalog was closed.
    #[error("the catalog is closed")]
    Closed,
    /// A catalog is already there where a new one should be made.
    #[error("there is a catalog already; move it away first")]
    Exists,
    /// A request that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// There is no such object.
    #[error("there is no object {0:?}")]
    NoSuchObject(String),
    /// There is no such block.
    #[error("there is no block {0}")]
    NoSuchBlock(BlockId),
    /// Nothing was found of a version that an operator named.
    #[error(
        "no node that lives has anything of version {version} of {name:?} that the catalog does not know; 'stripeline catalog \
         recover' lists what there is"
    )]
    NoSuchVersion {
        /// The object.
        name: String,
        /// The version.
        version: u64,
    },
    /// A put that is not pending.
    #[error("this put is not pending: it was committed or aborted, or its lease ended; begin it again")]
    NoSuchPut,
    /// A node of another cluster.
    #[error(
        "{node} belongs to cluster {theirs}, this is {ours}; start it with an empty folder or with its own coordinator"
    )]
    OtherCluster {
        /// The node.
        node: NodeId,
        /// Its cluster.
        theirs: model::ClusterId,
        /// This one.
        ours: model::ClusterId,
    },
    /// A store that an operator gave up for good.
    #[error(
        "the store {store} of {node} was given up for good ('stripeline node forget'): nothing counts on its copies any more; start \
         the node with an empty folder, under this number or another; the files in this one stay as they are. If it was given up by \
         mistake, 'stripeline node readmit {store}' lets it register again, and its copies are compared with what there is by now"
    )]
    Forgotten {
        /// Under which number it came.
        node: NodeId,
        /// It.
        store: model::StoreId,
    },
    /// A store that nobody gave up.
    #[error("no store {0} was given up; a node whose store was tells its id when it is refused")]
    NotForgotten(model::StoreId),
    /// The number of a store that was given up is another's by now.
    #[error(
        "{node} is another store by now, and a folder keeps its number: give that one up first ('stripeline node decommission {n}', \
         then 'stripeline node forget {n}')", n = .node.0
    )]
    NumberTaken {
        /// The number.
        node: NodeId,
    },
    /// The store that had the number before is being forgotten.
    #[error(
        "what the former store of {0} had is being forgotten; its number is free once that is over ('stripeline node forget {n}' \
         shows how far it is): start the node again then, or give it another number",
        n = .0.0
    )]
    BeingForgotten(NodeId),
    /// An encoding would leave fewer copies while it is not known which are needed.
    #[error(
        "the catalog's history may be broken, so that nothing is archived or let go; 'stripeline cluster status' says why, and \
         'stripeline catalog end-safe-mode' takes the history as it is"
    )]
    SafeMode,
    /// Another flow is about to write the block.
    #[error("block {0} is being repaired already")]
    BeingRepaired(BlockId),
    /// Another attempt took over, or what was worked on is gone.
    #[error("overtaken: {0}")]
    Overtaken(String),
    /// A defect of ours.
    #[error("internal error: {0}")]
    Bug(String),
}

impl CatalogError {
    /// Whether a change failed because the catalog's own file is damaged, as was known before or was found then.
    pub fn waits_for_renewal(&self) -> bool {
        self.is_damage() || matches!(self, CatalogError::ChangesWait(_))
    }

    /// Whether it tells that the catalog's own file is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, CatalogError::DamagedRow { .. } | CatalogError::DamagedFile(_))
    }
}

/// A row that is not as it was written, or that is missing though others name it.
pub(crate) fn damaged_row(table: &'static str, key: &[u8], why: &str) -> CatalogError {
    CatalogError::DamagedRow { table, key: hex(key), why: why.to_owned() }
}

/// Bytes, hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
