//! What one node runs of a flow.

use super::{BlockRead, BlockWrite, FlowHeader, frame_slices, invalid};
use crate::graph::{Input, Member, Output, Stage, StageKey, Symbol};
use crate::{limits, validate};
use core::net::SocketAddr;
use core::ops::Range;
use gf::Matrix;
use model::{Fault, Peer, Token};
use std::collections::BTreeMap;

/// The stages of a flow on one node, checked.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeStages {
    /// What everybody knows.
    pub header: FlowHeader,
    /// The stages.
    pub stages: Vec<StageSpec>,
}

/// One stage as the node that runs it sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct StageSpec {
    /// Its lane.
    pub lane: u32,
    /// Its index in the lane.
    pub stage: u32,
    /// Inputs; their rows are the matrix's columns.
    pub inputs: Vec<InputSpec>,
    /// Outputs; their rows are the matrix's rows.
    pub outputs: Vec<OutputSpec>,
    /// Output rows × input rows.
    pub matrix: Matrix,
}

/// An input, bound.
#[derive(Clone, PartialEq, Debug)]
pub enum InputSpec {
    /// Symbols of a stored block.
    Local {
        /// The block. Bytes past its stored ones are zero.
        read: BlockRead,
        /// Symbols read, a row each.
        symbols: Vec<u16>,
    },
    /// An incoming edge.
    Edge(EdgeEnd),
    /// The client's bytes: `rows` symbols of a block.
    Source {
        /// α.
        rows: u16,
    },
}

/// An output, bound.
// A stage has a few of them, and most are taken apart at once.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, Debug)]
pub enum OutputSpec {
    /// An outgoing edge.
    Edge(EdgeEnd),
    /// A block to write.
    Write(BlockWrite),
    /// Rows for the driver.
    Read {
        /// What they are.
        symbols: Vec<Symbol>,
    },
}

/// One end of an edge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EdgeEnd {
    /// The lane.
    pub lane: u16,
    /// The edge in the lane.
    pub edge: u16,
    /// Frames for each slice.
    pub rows: u16,
    /// Of each row, the bytes of the symbol that can be other than zero. A frame's payload is its row's extent within
    /// the slice, so both ends know every length beforehand.
    pub extents: Vec<u64>,
    /// The secret.
    pub token: Token,
    /// Whom to connect to; `None`: the other end connects to us.
    pub dial: Option<SocketAddr>,
    /// Who is at the other end.
    pub peer: Peer,
    /// This end sends at most so much; 0: as fast as it goes.
    pub bytes_per_s: u64,
}

/// Ends of edges, by lane, edge, and whether they send.
pub type Ends = BTreeMap<(u32, u32, bool), EdgeEnd>;

impl EdgeEnd {
    /// Payload bytes of the frame (slice, row).
    pub fn payload_bytes(&self, slice: u64, row: u16, slice_bytes: u32) -> u32 {
        self.payload_bytes_of(slice..slice.saturating_add(1), row, slice_bytes)
    }

    /// Payload bytes of a row in slices that share a frame.
    pub fn payload_bytes_of(&self, slices: Range<u64>, row: u16, slice_bytes: u32) -> u32 {
        let extent = self.extents.get(usize::from(row)).copied().unwrap_or(0);
        let [start, end] =
            [slices.start, slices.end].map(|slice| slice.saturating_mul(u64::from(slice_bytes)));
        let bytes = extent.saturating_sub(start).min(end.saturating_sub(start));
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    fn check(&self, symbol_bytes: u64) -> Result<(), Fault> {
        if self.extents.iter().any(|extent| *extent > symbol_bytes) {
            return Err(invalid("a row that reaches beyond its symbol"));
        }
        if self.extents.len() != usize::from(self.rows) {
            return Err(invalid("extents of an edge's rows"));
        }
        if (1..limits::MIN_LANE_BYTES_PER_S).contains(&self.bytes_per_s) {
            return Err(invalid("pace of an edge: none, or at least 256 KiB/s"));
        }
        if self.rows == 0 {
            return Err(invalid("rows of an edge"));
        }
        Ok(())
    }
}

impl InputSpec {
    /// Number of rows it brings.
    pub fn rows(&self) -> usize {
        match self {
            InputSpec::Local { symbols, .. } => symbols.len(),
            InputSpec::Edge(end) => usize::from(end.rows),
            InputSpec::Source { rows } => usize::from(*rows),
        }
    }
}

impl OutputSpec {
    /// Number of rows it takes, in a flow of `alpha` symbols a block.
    pub fn rows(&self, alpha: u16) -> usize {
        match self {
            OutputSpec::Edge(end) => usize::from(end.rows),
            OutputSpec::Write(_) => usize::from(alpha),
            OutputSpec::Read { symbols } => symbols.len(),
        }
    }
}

impl NodeStages {
    /// Stages with the ends of their edges, and the blocks that they read and write. All that a node relies on is checked.
    ///
    /// # Errors
    /// A fault that says what is wrong.
    pub fn new(
        header: FlowHeader,
        stages: Vec<(StageKey, Stage)>,
        ends: Ends,
        blocks: &BTreeMap<Member, BlockRead>,
        writes: &BTreeMap<Member, BlockWrite>,
    ) -> Result<NodeStages, Fault> {
        let too_many = stages.iter().any(|((lane, _), _)| *lane as usize >= validate::MAX_LANES);
        if stages.is_empty() || stages.len() > limits::MAX_STAGES_PER_NODE || too_many {
            return Err(invalid("number of stages or lanes"));
        }
        let symbol_bytes = header.geometry.symbol_bytes();
        ends.values().try_for_each(|end| end.check(symbol_bytes))?;
        let mut parts = Parts { header: &header, ends, blocks, writes };
        let stages =
            stages.into_iter().map(|(key, stage)| parts.stage(key, stage)).collect::<Result<_, _>>()?;
        Ok(NodeStages { header, stages })
    }
}

/// What stages are put together from.
struct Parts<'a> {
    header: &'a FlowHeader,
    /// Those that no stage has taken.
    ends: Ends,
    blocks: &'a BTreeMap<Member, BlockRead>,
    writes: &'a BTreeMap<Member, BlockWrite>,
}

impl Parts<'_> {
    fn stage(&mut self, (lane, index): StageKey, stage: Stage) -> Result<StageSpec, Fault> {
        let (header, alpha) = (self.header, self.header.geometry.alpha);
        let fits = frame_slices::fits(header, lane, &stage, &self.ends, self.blocks);
        let mut inputs = Vec::with_capacity(stage.inputs.len());
        for input in stage.inputs {
            inputs.push(match input {
                Input::Local { member, symbols } => self.local(member, symbols)?,
                Input::Edge(edge) => InputSpec::Edge(self.end(lane, edge.0, false)?),
                Input::Source { .. } => InputSpec::Source { rows: alpha },
            });
        }
        let mut outputs = Vec::with_capacity(stage.outputs.len());
        for output in stage.outputs {
            outputs.push(match output {
                Output::Edge(edge) => OutputSpec::Edge(self.end(lane, edge.0, true)?),
                Output::Write { member } => OutputSpec::Write(self.write(member)?),
                Output::Read { symbols } => OutputSpec::Read { symbols },
            });
        }
        let edges_in = inputs.iter().filter(|input| matches!(input, InputSpec::Edge(_))).count();
        let edges_out = outputs.iter().filter(|output| matches!(output, OutputSpec::Edge(_))).count();
        if header.serial && edges_in.max(edges_out) > 1 {
            return Err(invalid("only a chain can be serial: one edge into each stage and one out of it"));
        }
        let matrix = stage.matrix;
        let rows: usize = outputs.iter().map(|o| o.rows(alpha)).sum();
        let cols: usize = inputs.iter().map(InputSpec::rows).sum();
        if (matrix.rows(), matrix.cols()) != (rows, cols) || rows == 0 || cols == 0 {
            return Err(invalid("the matrix does not fit the stage's inputs and outputs"));
        }
        if !fits {
            return Err(invalid("only in a plain chain can slices share frames"));
        }
        Ok(StageSpec { lane, stage: index, inputs, outputs, matrix })
    }

    fn local(&self, member: Member, symbols: Vec<u16>) -> Result<InputSpec, Fault> {
        let read = self.blocks.get(&member).ok_or_else(|| invalid("a local input without a block"))?.clone();
        let alpha = self.header.geometry.alpha;
        if symbols.iter().any(|&s| s >= alpha) || read.copy.stored_bytes > limits::MAX_BLOCK_BYTES {
            return Err(invalid("symbols or length of a local block"));
        }
        Ok(InputSpec::Local { read, symbols })
    }

    fn write(&self, member: Member) -> Result<BlockWrite, Fault> {
        let write = self.writes.get(&member).filter(|w| w.stored_bytes <= limits::MAX_BLOCK_BYTES);
        write.cloned().ok_or_else(|| invalid("id or length of a block to write"))
    }

    fn end(&mut self, lane: u32, edge: u16, sends: bool) -> Result<EdgeEnd, Fault> {
        let end = self.ends.remove(&(lane, u32::from(edge), sends));
        end.ok_or_else(|| invalid("an edge without its end, or used twice"))
    }
}
