//! Nodes, which cluster they belong to, and what is known of the links between them.

use super::rows::{LeavingRow, LinksRow, MetaKey, NodeRow};
use super::table::Read;
use super::{Catalog, meta};
use crate::error::{CoordinatorError, Result};
use model::ClusterId;

impl Catalog {
    /// Notes a node that registers. A node that was never part of a cluster joins this one; one of another cluster is
    /// refused, unless this catalog is new: then it takes that cluster's id and keeps its blocks, to be rebuilt from.
    pub fn register_node(&self, node: u32, row: &NodeRow, cluster: Option<ClusterId>) -> Result<ClusterId> {
        self.change(|txn| {
            let mut meta = meta(txn)?;
            match cluster {
                Some(theirs) if theirs != meta.cluster && meta.unnamed => {
                    meta.cluster = theirs;
                }
                Some(theirs) if theirs != meta.cluster => {
                    return Err(CoordinatorError::Conflict(format!(
                        "node-{node} belongs to cluster {theirs}, this is {}; \
                         start it with an empty folder or with its own coordinator",
                        meta.cluster
                    )));
                }
                _ => {}
            }
            if meta.unnamed {
                meta.unnamed = false;
                txn.put(&MetaKey, &meta)?;
            }
            if txn.get::<NodeRow>(&node)?.as_ref() != Some(row) {
                txn.put(&node, row)?;
            }
            Ok(meta.cluster)
        })
    }

    /// The table of links, as JSON; empty if there is none.
    pub fn links(&self) -> Result<String> {
        self.view(|txn| Ok(txn.get::<LinksRow>(&MetaKey)?.map_or(String::new(), |row| row.json)))
    }

    /// Replaces it.
    pub fn set_links(&self, json: &str) -> Result<()> {
        self.change(|txn| txn.put(&MetaKey, &LinksRow { json: json.to_owned() }))
    }

    /// All nodes that ever registered.
    pub fn nodes(&self) -> Result<Vec<(u32, NodeRow)>> {
        self.view(|txn| txn.all::<NodeRow>(&[]))
    }

    /// Nodes that are to hold nothing.
    pub fn leaving(&self) -> Result<Vec<u32>> {
        self.view(|txn| Ok(txn.all::<LeavingRow>(&[])?.into_iter().map(|(node, _)| node).collect()))
    }

    /// Notes that a node is to hold nothing, or that it may hold blocks again.
    pub fn set_leaving(&self, node: u32, leaves: bool, now_ms: u64) -> Result<()> {
        self.change(|txn| {
            if !leaves {
                return txn.remove::<LeavingRow>(&node).map(|_| ());
            }
            if txn.get::<LeavingRow>(&node)?.is_none() {
                txn.put(&node, &LeavingRow { since_ms: now_ms })?;
            }
            Ok(())
        })
    }
}
