//! What operators want of nodes, as the catalog keeps it.

use crate::form;
use crate::table::Key;
use model::{Budgets, NodeId, Switch};
use serde::{Deserialize, Serialize};

/// The limit of each node's data sockets: one row. Without it the nodes' own start flags hold; a limit that was lifted is a
/// row of zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ThrottleRow {
    /// What a node sends; 0 is unlimited.
    pub egress_bytes_per_s: u64,
    /// What a node receives; 0 is unlimited.
    pub ingress_bytes_per_s: u64,
}

/// What operators let each node's data sockets carry of each kind of traffic, in each direction: one row. 0 is unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BudgetsRow {
    /// Puts and reads.
    pub client_bytes_per_s: u64,
    /// Repairs, recoveries, what moves.
    pub healing_bytes_per_s: u64,
    /// Encodings.
    pub archival_bytes_per_s: u64,
}

impl From<BudgetsRow> for Budgets {
    fn from(row: BudgetsRow) -> Budgets {
        Budgets {
            client: row.client_bytes_per_s,
            healing: row.healing_bytes_per_s,
            archival: row.archival_bytes_per_s,
        }
    }
}

/// What an operator wants of a node's task, if it is not to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct NodeTaskRow {
    #[serde(with = "form")]
    pub switch: Switch,
}

/// A task of a node.
pub(crate) struct NodeTaskKey {
    pub node: NodeId,
    pub task: String,
}

impl Key for NodeTaskKey {
    fn to_bytes(&self) -> Vec<u8> {
        [Key::to_bytes(&self.node), Key::to_bytes(&self.task)].concat()
    }
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (node, task) = bytes.split_first_chunk::<4>()?;
        Some(NodeTaskKey { node: NodeId::from_bytes(node)?, task: String::from_bytes(task)? })
    }
}
