//! The nodes that keep the catalog's records, as it was noted when they had a snapshot.

use crate::Catalog;
use crate::error::Result;
use crate::rows::{HoldersRow, MetaKey};
use crate::table::Read;
use model::NodeId;

impl Catalog {
    /// Who keeps the records.
    pub fn holders(&self) -> Result<Vec<NodeId>> {
        self.view(|txn| Ok(txn.get_if_sound::<HoldersRow>(&MetaKey)?.unwrap_or_default().nodes))
    }

    /// From now on these keep them. Each must have a snapshot, or records of this history: a start asks them.
    pub fn set_holders(&self, nodes: &[NodeId]) -> Result<()> {
        self.change(|txn| txn.put(&MetaKey, &HoldersRow { nodes: nodes.to_vec() }))
    }
}
