//! A number for every directed link between nodes: a cost, or a bandwidth.

use crate::error::PlanError;

/// A number for the link from each node to each other: at least 0, in any one unit. Nodes are numbered from 0; what
/// stands at (i, i) means nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkMatrix {
    nodes: usize,
    values: Vec<f64>,
}

impl LinkMatrix {
    /// `rows[i][j]` is for the link from node i to node j.
    ///
    /// # Errors
    /// [`PlanError::NotSquare`]; [`PlanError::BadLink`] for a number below 0 or none at all.
    pub fn from_rows<R: AsRef<[f64]>>(rows: &[R]) -> Result<Self, PlanError> {
        let nodes = rows.len();
        let mut values = Vec::new();
        for (from, row) in rows.iter().map(AsRef::as_ref).enumerate() {
            if row.len() != nodes {
                return Err(PlanError::NotSquare { row: from, columns: row.len(), rows: nodes });
            }
            // Not `< 0`, which holds of no NaN.
            if let Some(to) = row.iter().position(|value| !matches!(value, 0.0..)) {
                return Err(PlanError::BadLink { from, to });
            }
            values.extend_from_slice(row);
        }
        Ok(LinkMatrix { nodes, values })
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The number of the link from one node to another.
    ///
    /// # Panics
    /// As slices do, if there is no such node.
    pub fn get(&self, from: usize, to: usize) -> f64 {
        self.values[from * self.nodes..][..self.nodes][to]
    }

    /// Raises the cost of each link to that of either of its ends, so that the dearest link of a path is its
    /// dearest link or node (RP §4.3: the same idea applies to nodes).
    ///
    /// # Errors
    /// [`PlanError::WrongNodeCount`] unless there is a cost for each node; [`PlanError::BadNode`] for one below
    /// 0 or none at all.
    pub fn with_node_costs(mut self, costs: &[f64]) -> Result<Self, PlanError> {
        check_nodes(costs, self.nodes)?;
        for (from, row) in self.values.chunks_mut(self.nodes.max(1)).enumerate() {
            for (value, cost) in row.iter_mut().zip(costs) {
                *value = value.max(*cost).max(costs[from]);
            }
        }
        Ok(self)
    }
}

/// Checks that there is a number, at least 0, for each node.
pub(super) fn check_nodes(values: &[f64], nodes: usize) -> Result<(), PlanError> {
    if values.len() != nodes {
        return Err(PlanError::WrongNodeCount { given: values.len(), nodes });
    }
    match values.iter().position(|value| !matches!(value, 0.0..)) {
        Some(node) => Err(PlanError::BadNode { node }),
        None => Ok(()),
    }
}
