//! What the operator knows of links and disks: a table of bandwidths and rates, kept in the catalog, by which paths are chosen and repairs
//! are priced.

use crate::error::{CoordinatorError, Result};
use catalog::rows::{DisksRow, LinksRow};
use model::NodeId;
use plan::LinkRates;
use serde::{Deserialize, Serialize};

/// The table as operators write it, in Mb/s; null is no limit.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkTable {
    /// The nodes that rows and columns stand for; without them nodes 1, 2, 3, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<u32>>,
    /// `bandwidth[i][j]`: from the i-th node to the j-th.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bandwidth: Option<Vec<Vec<Option<f64>>>>,
    /// What each node sends in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    up: Option<Vec<Option<f64>>>,
    /// What each node receives in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    down: Option<Vec<Option<f64>>>,
    /// What each node's disk reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disk: Option<Vec<Option<f64>>>,
}

impl LinkTable {
    /// From JSON; an empty text is an empty table.
    pub fn parse(json: &str) -> Result<LinkTable> {
        if json.trim().is_empty() {
            return Ok(LinkTable::default());
        }
        serde_json::from_str(json).map_err(|e| CoordinatorError::Invalid(format!("a table of links: {e}")))
    }

    /// The rates in Mb/s.
    pub fn rates(&self) -> Result<LinkRates> {
        let of_nodes = [&self.up, &self.down, &self.disk].map(|list| list.as_ref().map(Vec::len));
        let given = [self.bandwidth.as_ref().map(Vec::len)].into_iter().chain(of_nodes);
        let count = given.flatten().next().unwrap_or(0);
        let numbers = self.nodes.clone().unwrap_or_else(|| (1..).take(count).collect());
        let nodes: Vec<NodeId> = numbers.into_iter().map(NodeId).collect();
        let links =
            LinkRates::new(&nodes, self.bandwidth.as_deref(), self.up.as_deref(), self.down.as_deref());
        let whole = links.and_then(|links| match &self.disk {
            Some(disk) => links.with_disks(&nodes, disk),
            None => Ok(links),
        });
        whole.map_err(|e| CoordinatorError::Invalid(format!("a table of links: {e}")))
    }

    /// As operators read it.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| CoordinatorError::Bug(e.to_string()))
    }
}

impl From<LinkTable> for (LinksRow, DisksRow) {
    fn from(LinkTable { nodes, bandwidth, up, down, disk }: LinkTable) -> Self {
        (LinksRow { nodes, bandwidth, up, down }, DisksRow { rates: disk })
    }
}

impl From<(LinksRow, DisksRow)> for LinkTable {
    fn from((LinksRow { nodes, bandwidth, up, down }, disks): (LinksRow, DisksRow)) -> LinkTable {
        LinkTable { nodes, bandwidth, up, down, disk: disks.rates }
    }
}
