//! Why there is no plan.

use model::NodeId;

/// Errors of planning.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// A stripe needs more distinct nodes than are alive.
    #[error("{code} needs {needed} nodes, {alive} are alive")]
    NotEnoughNodes {
        /// The code.
        code: String,
        /// Distinct nodes needed.
        needed: usize,
        /// Nodes alive.
        alive: usize,
    },
    /// Fewer candidates than helpers needed.
    #[error("{needed} helpers are needed, {available} are available")]
    NotEnoughHelpers {
        /// Helpers to select.
        needed: usize,
        /// Candidates.
        available: usize,
    },
    /// No live node holds a replica of a block that is to be archived.
    #[error("data block {block} of the stripe has no live replica")]
    NoReplica {
        /// Index of the block in its stripe.
        block: usize,
    },
    /// Every live node already holds a block of the stripe.
    #[error("all {alive} live nodes hold a block of the stripe already")]
    NoTarget {
        /// Nodes alive.
        alive: usize,
    },
    /// A node without a rack.
    #[error("{node} is not in the topology")]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// A path over no helpers.
    #[error("a path needs at least one helper")]
    NoHelpers,
    /// A node listed twice, or a requestor that should help itself.
    #[error("node {node} cannot take part twice in a repair")]
    RepeatedNode {
        /// Its number.
        node: usize,
    },
    /// A number that is no node's.
    #[error("there is no node {node}: they are numbered from 0, and there are {nodes}")]
    NoSuchNode {
        /// The number.
        node: usize,
        /// How many there are.
        nodes: usize,
    },
    /// More nodes than a path is planned over.
    #[error("{nodes} nodes are too many for planning a path: at most {most}")]
    TooManyNodes {
        /// Nodes given.
        nodes: usize,
        /// Nodes at most.
        most: usize,
    },
    /// A matrix of links with a row that is too short or too long.
    #[error("row {row} has {columns} columns: with {rows} rows it must have {rows}")]
    NotSquare {
        /// The row, from 0.
        row: usize,
        /// Its columns.
        columns: usize,
        /// Rows of the matrix.
        rows: usize,
    },
    /// A cost or bandwidth of a link that is no such thing.
    #[error("what is given for the link from node {from} to node {to} is below 0 or not a number")]
    BadLink {
        /// Where the link begins.
        from: usize,
        /// Where it ends.
        to: usize,
    },
    /// A cost or bandwidth of a node that is no such thing.
    #[error("what is given for node {node} is below 0 or not a number")]
    BadNode {
        /// Its number.
        node: usize,
    },
    /// Numbers for more nodes, or fewer, than there are.
    #[error("{given} numbers are given for {nodes} nodes")]
    WrongNodeCount {
        /// Numbers given.
        given: usize,
        /// How many nodes there are.
        nodes: usize,
    },
    /// No links lead through that many helpers to the requestor.
    #[error("no path leads through {helpers} helpers to node {requestor}")]
    NoPath {
        /// Helpers needed.
        helpers: usize,
        /// Where the path should end.
        requestor: usize,
    },
    /// A path may exist, but was not found.
    #[error("no path was found in {steps} steps of search, and none was ruled out")]
    SearchCutOff {
        /// Steps allowed.
        steps: usize,
    },
    /// A rate that nothing bounds.
    #[error("no bandwidth limits the rate")]
    NoLimit,
}
