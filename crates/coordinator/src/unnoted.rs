//! Nodes that register while the catalog cannot note their start: its file is damaged and takes no changes, or its disk is full. They live all
//! the same, so that what they hold can be read. Once changes are possible they register again.

use crate::error::{CoordinatorError, Result};
use crate::records::Records;
use catalog::rows::NodeRow;
use catalog::{Catalog, CatalogError};
use model::{ClusterId, Incarnation, NodeId, StoreId};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A node's start, as the catalog is to note it.
#[derive(Clone, Debug)]
pub(crate) struct NewStart {
    pub node: NodeId,
    pub row: NodeRow,
    /// The cluster that the node says it belongs to.
    pub cluster: Option<ClusterId>,
    /// The start that the catalog knew when this one was judged.
    pub seen: Option<(StoreId, Incarnation)>,
}

/// Starts that the catalog could not note, one at most for each node.
#[derive(Debug, Default)]
pub(crate) struct Unnoted(Mutex<BTreeMap<NodeId, NewStart>>);

impl Unnoted {
    /// Notes the start in the catalog. Returns the node's cluster, and whether the start is noted.
    ///
    /// A catalog that takes no changes refuses a node unless it certainly belongs to this cluster: it says so, and the catalog knows its store.
    /// While the file is damaged the cluster's id suffices: no change can name the node before it registers again.
    pub async fn note(&self, records: &Records, start: NewStart) -> Result<(ClusterId, bool)> {
        let why = match noted(records, start.clone()).await {
            Ok(cluster) => {
                self.starts().remove(&start.node);
                return Ok((cluster, true));
            }
            Err(CoordinatorError::Catalog(
                why @ (CatalogError::ChangesWait(_) | CatalogError::NoRoom { .. }),
            )) => why,
            Err(error) => return Err(error),
        };
        let node = start.node;
        let is_damaged = matches!(why, CatalogError::ChangesWait(_));
        let known = known_cluster(records, start.clone(), is_damaged).await?;
        let Some(cluster) = known else { return Err(why.into()) };
        if self.starts().insert(node, start).is_none() {
            tracing::warn!(%node, %why, "its start cannot be noted: it is read from all the same, and registers again later");
        }
        Ok((cluster, false))
    }

    /// Whether the node's start can be noted now though it could not when it registered.
    pub async fn can_be_noted(&self, records: &Records, node: NodeId) -> bool {
        let Some(start) = self.starts().get(&node).cloned() else { return false };
        if noted(records, start).await.is_err() {
            return false;
        }
        self.starts().remove(&node);
        true
    }

    fn starts(&self) -> MutexGuard<'_, BTreeMap<NodeId, NewStart>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn noted(records: &Records, start: NewStart) -> Result<ClusterId> {
    let NewStart { node, row, cluster, seen } = start;
    records.run(move |catalog| catalog.register_node(node, &row, cluster, seen)).await
}

/// Returns the cluster of a node that certainly belongs to this one.
async fn known_cluster(records: &Records, start: NewStart, is_damaged: bool) -> Result<Option<ClusterId>> {
    let knows = move |catalog: &Catalog| {
        catalog.may_register(start.node, start.row.store)?;
        let is_known =
            catalog.node(start.node).ok().flatten().is_some_and(|row| row.store == start.row.store);
        let is_named =
            || catalog.meta().is_ok_and(|meta| !meta.unnamed && Some(meta.cluster) == start.cluster);
        Ok(start.cluster.filter(|_| is_known || is_damaged && is_named()))
    };
    records.run(knows).await
}
