//! Jobs that go on after a restart, and what operators want of tasks, as the catalog keeps them.

use serde::{Deserialize, Serialize};

/// A job that goes on after a restart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum JobRow {
    /// Encode an object.
    Archive {
        /// The object.
        name: String,
        /// The code.
        code: String,
        /// Bytes of a slice.
        slice_bytes: u32,
    },
    /// Rebuild all blocks of a dead node, as earlier versions noted it.
    Recover {
        /// The node.
        node: u32,
        /// The scheme asked for; empty for the coordinator's choice.
        scheme: String,
        /// Bytes of a slice.
        slice_bytes: u32,
        /// Whether flows are checked by fingerprints.
        verify: bool,
        /// Stripes at once.
        parallel: u32,
    },
    /// Make the blocks of nodes again elsewhere.
    RecoverNodes(RecoveryRow),
}

/// What an operator wants of a task, if it is not to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TaskRow {
    pub wish: Wish,
}

/// What an operator wants of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) enum Wish {
    #[default]
    Go,
    Pause,
    Stop,
}

/// A recovery of dead nodes, or the decommissioning of a living one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RecoveryRow {
    pub nodes: Vec<u32>,
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
    pub assign: Assign,
    /// Who may receive; all if empty.
    pub requestors: Vec<u32>,
}

/// How a recovery finds helpers and requestors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) enum Assign {
    /// For many blocks at once, so that the busiest link carries little (`plan::recovery`).
    #[default]
    Balanced,
    /// One after another, the least recently selected helpers (RP §3.3).
    LeastRecent,
    /// For many at once by loads and caches (`plan::m_ppr`).
    MPpr,
    /// The survivors on the nodes of the lowest numbers, requestors in turn: what RP §6.1 compares scheduling with.
    LowestIndex,
}
