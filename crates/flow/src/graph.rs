//! The flow graph: what moves bytes, before any node or socket is named.
//!
//! ```text
//!   lane 0 of a chain repair, k = 3                       rows on every edge: 1
//!
//!   site 1              site 2              site 3              site 0 (requestor)
//!   Local(b1) ──a1·b1──▶ + a2·b2 ──────────▶ + a3·b3 ──────────▶ Write(b0)
//! ```
//!
//! A stage computes, for each slice, `outputs = matrix × inputs`: one matrix column per input row, one matrix
//! row per output row, in the order in which `inputs` and `outputs` list them.

use std::fmt;

use gf::{Field, Matrix};

use crate::runs::LaneShare;

/// A participant of a flow (a node, or the client): an index that the caller binds to a real address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Site(pub u32);

/// Index of a block in its stripe, 0 … n−1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member(pub u16);

/// One symbol (sub-block) of a stripe: symbol `index` (0 … α−1) of block `member`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Symbol {
    /// The block.
    pub member: Member,
    /// The symbol within the block.
    pub index: u16,
}

/// Index of a stage within its lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StageId(pub u16);

/// A stage of a flow: its lane, and its index there.
pub type StageKey = (u32, u32);

/// Index of an edge within its lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EdgeId(pub u16);

/// What a stage combines. Each input brings one or more rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Symbols of a block that this site stores; one row for each, in this order.
    Local {
        /// The block.
        member: Member,
        /// Its symbols that are read.
        symbols: Vec<u16>,
    },
    /// The rows of an incoming edge.
    Edge(EdgeId),
    /// Bytes that the client brings (a put): all α rows of `member`; the length is unknown until the end.
    Source {
        /// The block that the client's bytes are.
        member: Member,
    },
}

/// What a stage makes. Each output takes one or more rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// The rows of an outgoing edge.
    Edge(EdgeId),
    /// A block that this site writes; all its α symbols, in order.
    Write {
        /// The block.
        member: Member,
    },
    /// Symbols handed, in order, to whoever drives the flow.
    Read {
        /// What the rows are.
        symbols: Vec<Symbol>,
    },
}

/// A place in a lane where rows are combined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// Who computes it.
    pub site: Site,
    /// Inputs; their rows, one after another, are the columns of `matrix`.
    pub inputs: Vec<Input>,
    /// Outputs; their rows, one after another, are the rows of `matrix`.
    pub outputs: Vec<Output>,
    /// Coefficients over the flow's field, (output rows) × (input rows).
    pub matrix: Matrix,
}

/// A stream of partial sums between two stages. `rows` frames are sent for each slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The sender.
    pub from: StageId,
    /// The receiver.
    pub to: StageId,
    /// Width of the stream.
    pub rows: u16,
}

/// A graph valid for any slice. Which slices it carries is granted by the driver while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lane {
    /// Stages in topological order: every edge goes from a lower to a higher index.
    pub stages: Vec<Stage>,
    /// Edges between them.
    pub edges: Vec<Edge>,
}

/// How a stripe's blocks are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Logical length of every block of the stripe; a member may be stored shorter, the rest is zero. With α > 1 a
    /// parity may be longer, up to α whole symbols ([`stored_bytes`](crate::stored_bytes)). Bytes.
    pub block_bytes: u64,
    /// Symbols per block (α).
    pub alpha: u16,
    /// Bytes of a slice of one symbol.
    pub slice_bytes: u32,
}

/// A whole plan: one or more lanes over the same stripe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flow {
    /// The field of every matrix in it.
    pub field: Field,
    /// How blocks are cut.
    pub geometry: Geometry,
    /// The lanes. Each carries other slices of the same outputs.
    pub lanes: Vec<Lane>,
    /// The proportion in which slices are [dealt](crate::runs::deal) to the lanes: one number for each lane, at least
    /// 1.
    pub shares: Vec<u32>,
}

impl Geometry {
    /// Bytes of one symbol: ⌈block/α⌉, for α > 1 rounded up to whole chunks so that a chunk never spans two
    /// symbols.
    pub fn symbol_bytes(&self) -> u64 {
        let alpha = u64::from(self.alpha.max(1));
        let even = self.block_bytes.div_ceil(alpha);
        if alpha == 1 { even } else { even.next_multiple_of(gf::CHUNK_BYTES as u64) }
    }

    /// The shortest slice, in whole chunks, that takes a whole symbol: with it each symbol is one slice. Bytes.
    pub fn whole_slice(&self) -> u64 {
        self.symbol_bytes().max(1).next_multiple_of(gf::CHUNK_BYTES as u64)
    }

    /// Number of slices of a symbol.
    pub fn slices(&self) -> u64 {
        self.symbol_bytes().div_ceil(u64::from(self.slice_bytes.max(1)))
    }

    /// Bytes that `slice` has of every symbol: the last may be short.
    pub fn slice_room(&self, slice: u64) -> usize {
        let slice_bytes = u64::from(self.slice_bytes);
        self.symbol_bytes().saturating_sub(slice * slice_bytes).min(slice_bytes) as usize
    }

    /// Bytes of symbol `index` that a member of `stored_bytes` really has (the rest of the symbol is zero).
    pub fn symbol_extent(&self, index: u16, stored_bytes: u64) -> u64 {
        let symbol = self.symbol_bytes();
        stored_bytes.saturating_sub(u64::from(index) * symbol).min(symbol)
    }
}

impl Input {
    /// Rows that this input brings to a stage of `lane`; 0 for an edge that the lane does not have.
    pub fn rows(&self, lane: &Lane, alpha: u16) -> usize {
        match self {
            Input::Local { symbols, .. } => symbols.len(),
            Input::Edge(edge) => lane.width(*edge),
            Input::Source { .. } => usize::from(alpha),
        }
    }
}

impl Output {
    /// Rows that this output takes from a stage of `lane`; 0 for an edge that the lane does not have.
    pub fn rows(&self, lane: &Lane, alpha: u16) -> usize {
        match self {
            Output::Edge(edge) => lane.width(*edge),
            Output::Write { .. } => usize::from(alpha),
            Output::Read { symbols } => symbols.len(),
        }
    }
}

impl Lane {
    fn width(&self, edge: EdgeId) -> usize {
        self.edges.get(usize::from(edge.0)).map_or(0, |edge| usize::from(edge.rows))
    }
}

impl Flow {
    /// One lane, which carries everything.
    pub fn of_one(field: Field, geometry: Geometry, lane: Lane) -> Flow {
        Flow { field, geometry, lanes: vec![lane], shares: vec![1] }
    }

    /// The lanes' shares and lengths, by which slices are [dealt](crate::runs::deal).
    pub fn lane_shares(&self) -> Vec<LaneShare> {
        let lanes = self.lanes.iter().zip(&self.shares);
        lanes.map(|(lane, &share)| LaneShare { share, stages: lane.stages.len() }).collect()
    }

    /// Every stage, lane by lane.
    pub fn stages(&self) -> impl Iterator<Item = (StageKey, &Stage)> {
        let stages = |(lane, stages)| (0..).zip(stages).map(move |(index, stage)| ((lane, index), stage));
        (0..).zip(self.lanes.iter().map(|lane| &lane.stages)).flat_map(stages)
    }

    /// Every site that takes part, once, in rising order.
    pub fn sites(&self) -> Vec<Site> {
        let mut sites: Vec<Site> = self.stages().map(|(_, stage)| stage.site).collect();
        sites.sort_unstable();
        sites.dedup();
        sites
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "site {}", self.0)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "symbol {} of {}", self.index, self.member)
    }
}
