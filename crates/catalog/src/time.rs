//! The cluster's clock, as far as it outlives a coordinator. The catalog reads no clock: it keeps what it is told.

use crate::Catalog;
use crate::error::Result;
use crate::rows::{ClockRow, MetaKey, ReturnsRow};
use crate::table::Read;
use model::NodeId;
use std::collections::BTreeMap;

impl Catalog {
    /// The clock as it was noted last; `None` if it never was.
    pub fn clock(&self) -> Result<Option<ClockRow>> {
        self.view(|txn| txn.get_if_sound::<ClockRow>(&MetaKey))
    }

    /// Notes it.
    pub fn note_clock(&self, row: &ClockRow) -> Result<()> {
        self.change(|txn| txn.put(&MetaKey, row))
    }

    /// How often nodes came back lately, those that did.
    pub fn returns(&self) -> Result<BTreeMap<NodeId, ReturnsRow>> {
        self.view(|txn| Ok(txn.all::<ReturnsRow>(&[])?.into_iter().collect()))
    }

    /// Notes it; those that are not in it did not.
    pub fn note_returns(&self, returns: &BTreeMap<NodeId, ReturnsRow>) -> Result<()> {
        self.change(|txn| {
            for (node, _) in txn.all::<ReturnsRow>(&[])? {
                if !returns.contains_key(&node) {
                    txn.remove::<ReturnsRow>(&node)?;
                }
            }
            returns.iter().try_for_each(|(node, row)| txn.put(node, row))
        })
    }
}
