//! Why a flow cannot be built, or must not run.

use crate::graph::{EdgeId, Member, Site, StageId, Symbol};

/// Errors of building, validating and proving flows. Lanes are named by index.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FlowError {
    /// The code has no equation for what is wanted from what is available.
    #[error(transparent)]
    Code(#[from] codes::CodeError),
    /// A matrix that cannot be: only from a flow that no builder of this crate made.
    #[error(transparent)]
    Matrix(#[from] gf::MatrixError),
    /// No scheme has this name.
    #[error("unknown repair scheme {name:?}; known: {known}")]
    UnknownScheme {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No encoding scheme has this name.
    #[error("unknown encoding scheme {name:?}; known: {known}")]
    UnknownEncoding {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A scheme of one requestor, asked for blocks at several.
    #[error(
        "{scheme} has one requestor: several blocks of a stripe are repaired in one pass by conventional, pipeline, \
         rack-aware, weighted or pipe-b"
    )]
    OneRequestor {
        /// The scheme.
        scheme: crate::build::Scheme,
    },
    /// The request asks for no symbol, or names no replica, target or site.
    #[error("nothing is wanted of the flow")]
    NothingWanted,
    /// A symbol, or a whole block, is asked for twice.
    #[error("{symbol} is wanted twice")]
    WantedTwice {
        /// The symbol.
        symbol: Symbol,
    },
    /// The wanted bytes are all zero because no input has any: there is nothing to send.
    #[error("{member} is known to be all zero: nothing has to be sent to make it")]
    WantedIsZero {
        /// First wanted block.
        member: Member,
    },
    /// A block is written from all its symbols, in order; the request does not ask for them so.
    #[error("writing {member} takes all its symbols, in order")]
    PartialWrite {
        /// The block.
        member: Member,
    },
    /// A block is said to be absent, but data that is present contributes to it.
    #[error("{member} cannot be absent: blocks that are present contribute to it")]
    NotAllZero {
        /// The block.
        member: Member,
    },
    /// A bound of this crate is exceeded.
    #[error("{what}: {count} is more than {limit}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The flow cuts blocks into another number of symbols than the code, or into empty slices.
    #[error("blocks of {block_bytes} B in {alpha} symbols and slices of {slice_bytes} B do not fit the code")]
    Geometry {
        /// Logical block length, bytes.
        block_bytes: u64,
        /// Symbols per block.
        alpha: u16,
        /// Slice length, bytes.
        slice_bytes: u32,
    },
    /// A flow without lanes, or a lane without stages.
    #[error("lane {lane} is empty")]
    EmptyLane {
        /// The lane.
        lane: usize,
    },
    /// There is not a share of at least 1 for each lane.
    #[error("{lanes} lanes and {shares} shares: each lane needs one, of at least 1")]
    Shares {
        /// How many lanes.
        lanes: usize,
        /// How many shares.
        shares: usize,
    },
    /// A stage takes nothing or makes nothing.
    #[error("lane {lane}, stage {}: takes nothing or makes nothing", stage.0)]
    DeadStage {
        /// The lane.
        lane: usize,
        /// The stage.
        stage: StageId,
    },
    /// A matrix is over another field than the flow.
    #[error("lane {lane}, stage {}: the matrix is over another field than the flow", stage.0)]
    OtherField {
        /// The lane.
        lane: usize,
        /// The stage.
        stage: StageId,
    },
    /// A matrix does not fit the rows of its stage's inputs and outputs.
    #[error("lane {lane}, stage {}: matrix is {}×{}, inputs and outputs need {}×{}", stage.0, is.0, is.1, needs.0, needs.1)]
    MatrixShape {
        /// The lane.
        lane: usize,
        /// The stage.
        stage: StageId,
        /// Rows and columns of the matrix.
        is: (usize, usize),
        /// Output rows and input rows of the stage.
        needs: (usize, usize),
    },
    /// The code has no such symbol, or a stage names it twice in one input or output.
    #[error("lane {lane}, stage {}: {symbol} does not exist or is repeated", stage.0)]
    BadSymbol {
        /// The lane.
        lane: usize,
        /// The stage.
        stage: StageId,
        /// The symbol.
        symbol: Symbol,
    },
    /// Two stages of a lane write the same block.
    #[error("lane {lane}, stage {}: {member} is written twice", stage.0)]
    WrittenTwice {
        /// The lane.
        lane: usize,
        /// The second writer.
        stage: StageId,
        /// The block.
        member: Member,
    },
    /// An edge has no rows, does not go from a lower to a higher stage, or is not made by exactly the stage
    /// it comes from and taken by exactly the stage it goes to.
    #[error("lane {lane}, edge {}: not made once and taken once, at the stages it names, in order", edge.0)]
    BadEdge {
        /// The lane.
        lane: usize,
        /// The edge.
        edge: EdgeId,
    },
    /// An edge begins and ends at the same site.
    #[error("lane {lane}, edge {}: begins and ends at {site}", edge.0)]
    SelfEdge {
        /// The lane.
        lane: usize,
        /// The edge.
        edge: EdgeId,
        /// The site.
        site: Site,
    },
    /// Proof failed: an output row is not the symbol it is said to be.
    #[error("lane {lane}, stage {}, output {output}: row {row} is not {symbol}", stage.0)]
    WrongOutput {
        /// The lane.
        lane: usize,
        /// The stage.
        stage: StageId,
        /// Index into the stage's outputs.
        output: usize,
        /// Row within the output.
        row: usize,
        /// What the row should be.
        symbol: Symbol,
    },
    /// Proof failed: an input row is brought and not used, or is always zero and used.
    #[error("lane {lane}, stage {}, input {input}: row {row} is brought for nothing", stage.0)]
    IdleRow {
        /// The lane.
        lane: usize,
        /// The stage.
        stage: StageId,
        /// Index into the stage's inputs.
        input: usize,
        /// Row within the input.
        row: usize,
    },
    /// A pipeline is asked for of a code that is made for none.
    #[error("{code} is made for no pipeline; those whose names begin with rapidraid are")]
    NoPipeline {
        /// The code.
        code: String,
    },
    /// A data block of which no copy is listed.
    #[error("{member} is needed, and no copy of it is known")]
    NoCopy {
        /// The block.
        member: Member,
    },
    /// A flow is run on bytes without those of a block that it needs, or with more than the block's symbols take.
    #[error("the bytes of {member} are not known, or more than its symbols")]
    UnknownBlock {
        /// The block.
        member: Member,
    },
    /// A row has bytes other than zero beyond its extent, which an edge would not carry.
    #[error("edge {}: a row is longer than its extent", edge.0)]
    CutOff {
        /// The edge.
        edge: EdgeId,
    },
    /// A block has bytes other than zero beyond the length at which it is to be stored.
    #[error("{member} is longer than it is to be stored")]
    LostBytes {
        /// The block.
        member: Member,
    },
}
