//! What operators want of nodes. It outlives the coordinator and the nodes, until they want something else.

use crate::Catalog;
use crate::error::Result;
use crate::rows::{BudgetsRow, MetaKey, NodeTaskKey, NodeTaskRow, ThrottleRow};
use crate::table::Read;
use model::{NodeId, Switch};
use std::collections::BTreeMap;

/// All of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeSettings {
    /// The limit of every node; `None` as long as nobody has said anything.
    pub throttle: Option<ThrottleRow>,
    /// How much of each kind of traffic every node may carry; `None` likewise.
    pub budgets: Option<BudgetsRow>,
    /// Tasks that are not to go on, by node and name.
    pub tasks: BTreeMap<(NodeId, String), Switch>,
}

impl Catalog {
    /// What operators want of nodes.
    pub fn node_settings(&self) -> Result<NodeSettings> {
        self.view(|txn| {
            let throttle = txn.get_if_sound::<ThrottleRow>(&MetaKey)?;
            let budgets = txn.get_if_sound::<BudgetsRow>(&MetaKey)?;
            let tasks = txn.all::<NodeTaskRow>(&[])?;
            let tasks = tasks.into_iter().map(|(key, row)| ((key.node, key.task), row.switch)).collect();
            Ok(NodeSettings { throttle, budgets, tasks })
        })
    }

    /// Notes the limit of every node; one of zeros is a limit lifted.
    pub fn set_throttle(&self, row: &ThrottleRow) -> Result<()> {
        self.change(|txn| txn.put(&MetaKey, row))
    }

    /// Notes how much of each kind of traffic every node may carry.
    pub fn set_budgets(&self, row: &BudgetsRow) -> Result<()> {
        self.change(|txn| txn.put(&MetaKey, row))
    }

    /// Notes what an operator wants of a node's task.
    pub fn set_node_switch(&self, node: NodeId, task: &str, switch: Switch) -> Result<()> {
        let key = NodeTaskKey { node, task: task.to_owned() };
        self.change(|txn| match switch {
            Switch::Go => txn.remove::<NodeTaskRow>(&key).map(|_| ()),
            Switch::Pause | Switch::Stop => txn.put(&key, &NodeTaskRow { switch }),
        })
    }
}
