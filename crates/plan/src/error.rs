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
    /// A number of replicas that keeps nothing.
    #[error("a block needs at least one replica")]
    NoReplicas,
    /// Replicas that are to be in racks of their own, and too few racks.
    #[error("{needed} replicas in racks of their own need {needed} racks, {racks} have nodes with room")]
    NotEnoughRacks {
        /// Racks needed.
        needed: usize,
        /// Racks with room.
        racks: usize,
    },
    /// A rack in which nobody can take a block.
    #[error("no living node of rack-{rack} can take a block")]
    NoRoomInRack {
        /// The rack.
        rack: u32,
    },
    /// A code that does not store the data as they are, and is not made by a pipeline of replicas either.
    #[error("{code} does not keep data blocks as they are, so that no replica could stay when it encodes")]
    NotSystematic {
        /// The code.
        code: String,
    },
    /// A code whose blocks no pipeline over replicas makes.
    #[error(
        "{code} keeps data blocks as they are: no pipeline over their replicas makes the blocks of a stripe"
    )]
    NoPipeline {
        /// The code.
        code: String,
    },
    /// Fewer replicas than a pipeline goes over.
    #[error(
        "the pipeline that makes blocks of {code} needs {needed} replicas of each data block, and there is {replicas}"
    )]
    TooFewReplicas {
        /// The code.
        code: String,
        /// Replicas needed.
        needed: usize,
        /// Replicas that a block gets.
        replicas: usize,
    },
    /// More blocks in a rack than the code can lose, or none.
    #[error(
        "a rack cannot hold up to {capacity} blocks of a stripe of {code}: at least 1, and at most {most}, as many as it can lose"
    )]
    RackCapacity {
        /// The code.
        code: String,
        /// Blocks in a rack, as asked for.
        capacity: usize,
        /// The most that are possible.
        most: usize,
    },
    /// No rack for encoded blocks.
    #[error("a stripe needs at least one target rack")]
    NoTargetRacks,
    /// More target racks than racks.
    #[error("{targets} target racks are wanted, {racks} racks have living nodes")]
    TooManyTargetRacks {
        /// Target racks wanted.
        targets: usize,
        /// Racks in which a node lives.
        racks: usize,
    },
    /// A stripe that does not fit into the racks.
    #[error(
        "a stripe of {code} with at most {per_rack} blocks in a rack{} needs {needed} racks of {nodes} nodes; it may use {racks}",
        .per_group.map_or_else(String::new, |blocks| format!(", {blocks} of a local group,"))
    )]
    TooFewRacks {
        /// The code.
        code: String,
        /// Blocks of a stripe in a rack at most.
        per_rack: usize,
        /// Blocks of one local group and global parities in a rack at most, of a code that has groups.
        per_group: Option<usize>,
        /// Racks needed, if each has as many nodes as the largest.
        needed: usize,
        /// Nodes of the largest rack.
        nodes: usize,
        /// Racks that the stripe may use.
        racks: usize,
    },
    /// Enough racks, and too few nodes in them.
    #[error(
        "a stripe of {code} does not fit: its {racks} racks have too few living nodes, at most {per_rack} of which count in a rack"
    )]
    TooFewNodesInRacks {
        /// The code.
        code: String,
        /// Racks that the stripe may use.
        racks: usize,
        /// Blocks of a stripe in a rack at most.
        per_rack: usize,
    },
    /// A core rack that would keep all data blocks.
    #[error(
        "with one replica all {k} data blocks of a stripe of {code} stay in their core rack, which may keep {capacity}: use 2 replicas"
    )]
    OneReplica {
        /// The code.
        code: String,
        /// Data blocks of a stripe.
        k: usize,
        /// The most that may stay in a rack.
        capacity: usize,
    },
    /// No layout of a block's replicas leaves its stripe a place for every block.
    #[error(
        "no replicas of block {block} of a stripe with its core in rack-{rack} leave every block of the stripe a place"
    )]
    NoLayout {
        /// The block's place in the stripe.
        block: usize,
        /// The core rack.
        rack: u32,
    },
    /// A stripe that has all its data blocks.
    #[error("the stripe has all its {k} data blocks")]
    StripeFull {
        /// Data blocks of a stripe.
        k: usize,
    },
    /// A trial of nothing.
    #[error(
        "there is nothing to place: racks, nodes in a rack, blocks and runs must be at least 1, and nodes fit into 32 bits"
    )]
    NothingToPlace,
    /// A name that is no placement policy's.
    #[error("there is no placement policy '{name}'; there are {}", .known.join(", "))]
    UnknownPolicy {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<&'static str>,
    },
    /// A rate that nothing bounds.
    #[error("no bandwidth limits the rate")]
    NoLimit,
}
