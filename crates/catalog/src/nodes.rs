//! Nodes, which cluster they belong to, and what is known of the links between them.

use crate::backend::Scan;
use crate::error::{CatalogError, Result};
use crate::forgetting::is_being_forgotten;
use crate::rows::{
    DisksRow, ForgottenRow, HeldRow, LeavingRow, LinksRow, MetaKey, NodeRow, OrderRow, PlannedRow,
    RecoveryRow,
};
use crate::table::{Key, Read};
use crate::{Catalog, meta};
use model::{ClusterId, Incarnation, NodeId, StoreId};
use std::collections::BTreeMap;

impl Catalog {
    /// Notes a node that registers. A node that was never part of a cluster joins this one; one of another cluster is
    /// refused, unless this catalog is new: then it takes that cluster's id and keeps its blocks, to be rebuilt from.
    ///
    /// `seen` is the start that was accepted when this one was judged.
    ///
    /// # Errors
    /// [`CatalogError::OtherCluster`]; [`CatalogError::Overtaken`] if another start was accepted since;
    /// [`CatalogError::Forgotten`] and [`CatalogError::BeingForgotten`] for a store, or a number, that was given up.
    pub fn register_node(
        &self,
        node: NodeId,
        row: &NodeRow,
        cluster: Option<ClusterId>,
        seen: Option<(StoreId, Incarnation)>,
    ) -> Result<ClusterId> {
        // A node that is known as it is needs no change: it registers with a damaged catalog, too.
        let known = self.view(|txn| {
            may_register(txn, node, row.store)?;
            Ok((txn.get::<NodeRow>(&node)?.as_ref() == Some(row)).then_some(meta(txn)?))
        });
        if let Ok(Some(meta)) = known
            && !meta.unnamed
            && cluster == Some(meta.cluster)
        {
            return Ok(meta.cluster);
        }
        self.with_reserve(|| self.note_node(node, row, cluster, seen))
    }

    fn note_node(
        &self,
        node: NodeId,
        row: &NodeRow,
        cluster: Option<ClusterId>,
        seen: Option<(StoreId, Incarnation)>,
    ) -> Result<ClusterId> {
        self.change(|txn| {
            may_register(txn, node, row.store)?;
            let known = txn.get::<NodeRow>(&node)?;
            if known.as_ref().map(|row| (row.store, row.incarnation)) != seen {
                return Err(CatalogError::Overtaken(format!("another start of {node} registered meanwhile")));
            }
            let mut meta = meta(txn)?;
            match cluster {
                Some(theirs) if theirs != meta.cluster && meta.unnamed => {
                    meta.cluster = theirs;
                }
                Some(theirs) if theirs != meta.cluster => {
                    return Err(CatalogError::OtherCluster { node, theirs, ours: meta.cluster });
                }
                _ => {}
            }
            if meta.unnamed {
                meta.unnamed = false;
                txn.put(&MetaKey, &meta)?;
            }
            if known.as_ref() != Some(row) {
                txn.put(&node, row)?;
            }
            Ok(meta.cluster)
        })
    }

    /// Whether neither the store nor what had the number before was given up.
    ///
    /// # Errors
    /// As [`register_node`](Self::register_node).
    pub fn may_register(&self, node: NodeId, store: StoreId) -> Result<()> {
        self.view(|txn| may_register(txn, node, store))
    }

    /// What the operator knows of the links, and of the disks; empty if nobody said anything.
    pub fn links(&self) -> Result<(LinksRow, DisksRow)> {
        self.view(|txn| {
            let links = txn.get_if_sound::<LinksRow>(&MetaKey)?.unwrap_or_default();
            Ok((links, txn.get_if_sound::<DisksRow>(&MetaKey)?.unwrap_or_default()))
        })
    }

    /// Replaces both.
    pub fn set_links(&self, (links, disks): &(LinksRow, DisksRow)) -> Result<()> {
        self.change(|txn| {
            txn.put(&MetaKey, links)?;
            txn.put(&MetaKey, disks)
        })
    }

    /// A node, if it ever registered.
    pub fn node(&self, node: NodeId) -> Result<Option<NodeRow>> {
        self.view(|txn| txn.get::<NodeRow>(&node))
    }

    /// All nodes that ever registered.
    pub fn nodes(&self) -> Result<Vec<(NodeId, NodeRow)>> {
        self.view(|txn| txn.all::<NodeRow>(&[]))
    }

    /// Nodes that are to hold nothing.
    pub fn leaving(&self) -> Result<Vec<NodeId>> {
        self.view(|txn| Ok(txn.all::<LeavingRow>(&[])?.into_iter().map(|(node, _)| node).collect()))
    }

    /// Returns the nodes that are to hold nothing, without those whose stores were given up, each with the operator's order; `None` if an earlier
    /// version noted it.
    pub fn leavers(&self) -> Result<Vec<(NodeId, Option<OrderRow>)>> {
        self.view(|txn| {
            let mut leavers = Vec::new();
            for (node, _) in txn.all::<LeavingRow>(&[])? {
                if !is_being_forgotten(txn, node)? {
                    leavers.push((node, txn.get::<OrderRow>(&node)?));
                }
            }
            Ok(leavers)
        })
    }

    /// Notes that these nodes are to hold nothing, and how their blocks are moved.
    pub fn order_to_leave(&self, how: &RecoveryRow, now_ms: u64) -> Result<()> {
        self.change(|txn| {
            for node in &how.nodes {
                if txn.get::<LeavingRow>(node)?.is_none() {
                    txn.put(node, &LeavingRow { since_ms: now_ms })?;
                }
                let how = RecoveryRow { nodes: vec![*node], ..how.clone() };
                txn.put(node, &OrderRow { how, is_stopped: false })?;
            }
            Ok(())
        })
    }

    /// Returns the number of copies per node that may still be written. There are few: each belongs to a running plan.
    pub fn planned_on(&self) -> Result<BTreeMap<NodeId, u64>> {
        self.view(|txn| {
            let mut planned = BTreeMap::new();
            txn.scan::<PlannedRow>(&[], |copy, _| {
                *planned.entry(copy.node).or_default() += 1;
                Ok(Scan::Next)
            })?;
            Ok(planned)
        })
    }

    /// Counts the copies on these nodes that count or may still be written. Scans all of them.
    pub fn left_on(&self, nodes: &[NodeId]) -> Result<u64> {
        self.view(|txn| {
            let mut left = 0;
            for node in nodes {
                txn.scan::<HeldRow>(&Key::to_bytes(node), |_, _| {
                    left += 1;
                    Ok(Scan::Next)
                })?;
            }
            txn.scan::<PlannedRow>(&[], |copy, _| {
                left += u64::from(nodes.contains(&copy.node));
                Ok(Scan::Next)
            })?;
            Ok(left)
        })
    }

    /// Stops the orders for these nodes: their blocks are not moved until that is ordered again.
    pub fn stop_leaving(&self, nodes: &[NodeId]) -> Result<()> {
        self.change(|txn| {
            for node in nodes {
                if let Some(order) = txn.get::<OrderRow>(node)? {
                    txn.put(node, &OrderRow { is_stopped: true, ..order })?;
                }
            }
            Ok(())
        })
    }

    /// Lets a node hold blocks again.
    ///
    /// # Errors
    /// [`CatalogError::BeingForgotten`] if its store was given up.
    pub fn end_leaving(&self, node: NodeId) -> Result<()> {
        self.change(|txn| {
            if is_being_forgotten(txn, node)? {
                return Err(CatalogError::BeingForgotten(node));
            }
            txn.remove::<OrderRow>(&node)?;
            txn.remove::<LeavingRow>(&node).map(|_| ())
        })
    }
}

fn may_register(txn: &impl Read, node: NodeId, store: StoreId) -> Result<()> {
    if txn.get::<ForgottenRow>(&store)?.is_some() {
        return Err(CatalogError::Forgotten { node, store });
    }
    if is_being_forgotten(txn, node)? { Err(CatalogError::BeingForgotten(node)) } else { Ok(()) }
}
