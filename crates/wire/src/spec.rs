//! Flows on the wire: a proved [`flow::Flow`] bound to nodes, blocks and tokens becomes a
//! [`proto::FlowPlan`]; its driver cuts it into one [`proto::Prepare`] for each node; the node reads that back,
//! with every field checked, as [`StageSpec`]s.

use crate::{lane_pace, proto, shared};
use flow::limits;
use flow::{Geometry, Input, Member, Output, Proved, Symbol};
use gf::{Field, Matrix};
use model::{BlockId, FlowId, Peer, Token};
use model::{Cause, Fault};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;

/// What every participant knows of a flow.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowHeader {
    /// Identity.
    pub flow: FlowId,
    /// Attempt, from 1.
    pub attempt: u32,
    /// The field of its matrices.
    pub field: Field,
    /// How blocks are cut.
    pub geometry: Geometry,
    /// Whether fingerprints travel with the slices and are checked.
    pub verify: bool,
    /// A stage ends this long after its driver's last sign of life.
    pub lease_ms: u32,
    /// A stage that waits longer for input says so.
    pub stall_ms: u32,
    /// Grants reach at most this far past the lowest undelivered slice.
    pub window_slices: u32,
    /// … and of all lanes together at most so many slices for each lane are granted and not delivered.
    pub lane_window_slices: u32,
    /// Stages carry one slice at a time and wait for its acknowledgement
    /// ([`ACKNOWLEDGEMENT`](crate::frame::ACKNOWLEDGEMENT)). Only for chains: elsewhere it could deadlock.
    pub serial: bool,
    /// What was written of a block stays for a lease when the flow breaks, so that a later attempt can go on from there.
    pub keep: bool,
    /// Slices that share a frame ([`crate::shared`]), at least 1. For whom it can be more [`encode_plan`] finds out.
    pub frame_slices: u32,
}

impl FlowHeader {
    /// A first attempt with the usual limits.
    pub fn new(field: Field, geometry: Geometry) -> FlowHeader {
        let window = limits::WINDOW_BYTES / u64::from(geometry.slice_bytes.max(1));
        let window = u32::try_from(window).unwrap_or(u32::MAX).max(limits::MIN_WINDOW_SLICES);
        FlowHeader {
            flow: FlowId(rand::random()),
            attempt: 1,
            field,
            geometry,
            verify: true,
            lease_ms: limits::LEASE_MS,
            stall_ms: limits::STALL_MS + geometry.slice_bytes / limits::PATIENCE_BYTES_PER_MS,
            window_slices: window,
            lane_window_slices: window,
            serial: false,
            keep: false,
            frame_slices: 1,
        }
    }
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
        /// The block.
        block: BlockId,
        /// Its generation; another generation is not this block.
        generation: u64,
        /// Bytes that are stored; the rest of the logical block is zero.
        stored_bytes: u64,
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
#[derive(Clone, PartialEq, Debug)]
pub enum OutputSpec {
    /// An outgoing edge.
    Edge(EdgeEnd),
    /// A block to write.
    Write(proto::BlockWrite),
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

/// A copy of a block as a node stores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredCopy {
    /// The block.
    pub block: BlockId,
    /// Its generation.
    pub generation: u64,
    /// Without the zeros at its end.
    pub stored_bytes: u64,
}

/// Binds a flow to the world. Every member that a `Local` input names needs a block, every `Write` a
/// [`proto::BlockWrite`].
pub struct Binding {
    /// Header of the plan.
    pub header: FlowHeader,
    /// The sites' addresses.
    pub participants: Vec<proto::Participant>,
    /// What `Local` inputs read.
    pub blocks: BTreeMap<Member, StoredCopy>,
    /// What `Write` outputs write.
    pub writes: BTreeMap<Member, proto::BlockWrite>,
    /// The scheme's name, for people.
    pub scheme: String,
    /// The wanted slices: first and count.
    pub slices: (u64, u64),
}

impl From<StoredCopy> for proto::BlockRef {
    fn from(copy: StoredCopy) -> proto::BlockRef {
        let StoredCopy { block, generation, stored_bytes } = copy;
        proto::BlockRef { block: block.to_vec(), generation, stored_bytes }
    }
}

impl Binding {
    /// Stored length of a member that is read, brought by the client, or written.
    fn stored_bytes(&self, member: Member) -> u64 {
        let read = self.blocks.get(&member).map(|b| b.stored_bytes);
        read.or_else(|| self.writes.get(&member).map(|w| w.stored_bytes)).unwrap_or(0)
    }
}

/// Makes the plan that travels to the driver. Fresh tokens for every edge.
pub fn encode_plan(flow: &Proved, mut binding: Binding) -> Result<proto::FlowPlan, Fault> {
    let lengths: Vec<Vec<Vec<u64>>> = flow
        .lanes
        .iter()
        .map(|lane| flow::edge_extents(flow.geometry, lane, |member| binding.stored_bytes(member)))
        .collect();
    let mut writers: BTreeMap<Member, usize> = BTreeMap::new();
    for output in flow.lanes.iter().flat_map(|lane| &lane.stages).flat_map(|stage| &stage.outputs) {
        if let Output::Write { member } = output {
            *writers.entry(*member).or_default() += 1;
        }
    }
    let stored = |member| binding.stored_bytes(member);
    binding.header.frame_slices = shared::frame_slices(flow, &binding.header, &lengths, stored);
    let mut stages = Vec::with_capacity(flow.lanes.iter().map(|lane| lane.stages.len()).sum());
    let mut edges = Vec::with_capacity(flow.lanes.iter().map(|lane| lane.edges.len()).sum());
    for (lane_number, (lane, extents)) in (0..).zip(flow.lanes.iter().zip(lengths)) {
        for (index, stage) in lane.stages.iter().enumerate() {
            let mut inputs = Vec::with_capacity(stage.inputs.len());
            for input in &stage.inputs {
                inputs.push(encode_input(input, &binding)?);
            }
            let mut outputs = Vec::with_capacity(stage.outputs.len());
            for output in &stage.outputs {
                outputs.push(encode_output(output, &mut binding.writes, &mut writers)?);
            }
            stages.push(proto::Stage {
                lane: lane_number,
                stage: index as u32,
                site: stage.site.0,
                inputs,
                outputs,
                matrix: Some(encode_matrix(&stage.matrix)),
            });
        }
        for (index, (edge, extents)) in lane.edges.iter().zip(extents).enumerate() {
            edges.push(proto::Edge {
                lane: lane_number,
                edge: index as u32,
                from: u32::from(edge.from.0),
                to: u32::from(edge.to.0),
                rows: u32::from(edge.rows),
                token: Token(rand::random()).to_vec(),
                extents,
            });
        }
    }
    Ok(proto::FlowPlan {
        header: Some(encode_header(&binding.header)),
        participants: binding.participants,
        stages,
        edges,
        scheme: binding.scheme,
        first_slice: binding.slices.0,
        slice_count: binding.slices.1,
        shares: flow.shares.clone(),
        // What follows from a price and from experience is the planner's to say.
        ..Default::default()
    })
}

fn encode_input(input: &Input, binding: &Binding) -> Result<proto::StageInput, Fault> {
    use proto::stage_input::Kind;
    let kind = match input {
        Input::Local { member, symbols } => {
            let block = binding.blocks.get(member).ok_or_else(|| unbound("a block to read", *member))?;
            Kind::Local(proto::LocalInput {
                member: u32::from(member.0),
                symbols: symbols.iter().map(|&s| u32::from(s)).collect(),
                block: Some((*block).into()),
            })
        }
        Input::Edge(edge) => Kind::Edge(u32::from(edge.0)),
        Input::Source { member } => Kind::SourceMember(u32::from(member.0)),
    };
    Ok(proto::StageInput { kind: Some(kind) })
}

/// The last of a block's `writers` gets what is known of it; the others get copies: it tells of every block of the stripe.
fn encode_output(
    output: &Output,
    writes: &mut BTreeMap<Member, proto::BlockWrite>,
    writers: &mut BTreeMap<Member, usize>,
) -> Result<proto::StageOutput, Fault> {
    use proto::stage_output::Kind;
    let kind = match output {
        Output::Edge(edge) => Kind::Edge(u32::from(edge.0)),
        Output::Write { member } => {
            let left = writers.entry(*member).or_default();
            *left = left.saturating_sub(1);
            let write = if *left == 0 { writes.remove(member) } else { writes.get(member).cloned() };
            Kind::Write(write.ok_or_else(|| unbound("a block to write", *member))?)
        }
        Output::Read { symbols } => Kind::Read(proto::SymbolRead {
            symbols: symbols
                .iter()
                .map(|s| proto::SymbolRef { member: u32::from(s.member.0), index: u32::from(s.index) })
                .collect(),
        }),
    };
    Ok(proto::StageOutput { kind: Some(kind) })
}

fn unbound(what: &str, member: Member) -> Fault {
    Fault::new(Cause::Bug, format!("the plan names no {what} for member {}", member.0))
}

fn encode_matrix(matrix: &Matrix) -> proto::Matrix {
    let mut elements = Vec::with_capacity(matrix.rows() * matrix.cols() * 2);
    for row in 0..matrix.rows() {
        matrix.row(row).iter().for_each(|element| elements.extend(element.to_le_bytes()));
    }
    proto::Matrix { rows: matrix.rows() as u32, cols: matrix.cols() as u32, elements }
}

fn encode_header(h: &FlowHeader) -> proto::FlowHeader {
    proto::FlowHeader {
        flow: h.flow.to_vec(),
        attempt: h.attempt,
        field: field_number(h.field),
        geometry: Some(proto::Geometry {
            block_bytes: h.geometry.block_bytes,
            alpha: u32::from(h.geometry.alpha),
            slice_bytes: h.geometry.slice_bytes,
        }),
        verify: h.verify,
        lease_ms: h.lease_ms,
        stall_ms: h.stall_ms,
        window_slices: h.window_slices,
        serial: h.serial,
        keep: h.keep,
        frame_slices: h.frame_slices,
        lane_window_slices: h.lane_window_slices,
    }
}

/// The parts of a plan, by the sites that run them: what the driver sends to each, and has itself.
pub fn prepares(plan: &proto::FlowPlan) -> Result<BTreeMap<u32, proto::Prepare>, Fault> {
    let mut prepares: BTreeMap<u32, proto::Prepare> = BTreeMap::new();
    let mut site_of_stage: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for stage in &plan.stages {
        site_of_stage.insert((stage.lane, stage.stage), stage.site);
        let begun = || proto::Prepare { header: plan.header.clone(), ..Default::default() };
        prepares.entry(stage.site).or_insert_with(begun).stages.push(stage.clone());
    }
    let participants: BTreeMap<u32, &proto::Participant> =
        plan.participants.iter().map(|p| (p.site, p)).collect();
    let at = |lane: u32, stage: u32| -> Result<&proto::Participant, Fault> {
        let site = site_of_stage.get(&(lane, stage)).ok_or_else(|| invalid("an edge ends at no stage"))?;
        participants.get(site).copied().ok_or_else(|| invalid("a stage stands at no participant"))
    };
    let pace = lane_pace::pace_of_lanes(plan);
    for edge in &plan.edges {
        let (from, to) = (at(edge.lane, edge.from)?, at(edge.lane, edge.to)?);
        // The sender connects, unless it is a node and the receiver a client, which nobody can connect to.
        let receiver_dials = to.data_addr.is_empty();
        for (here, peer, sender) in [(from, to, true), (to, from, false)] {
            let dials = sender != receiver_dials;
            let end = proto::EdgeEnd {
                lane: edge.lane,
                edge: edge.edge,
                rows: edge.rows,
                token: edge.token.clone(),
                extents: edge.extents.clone(),
                sender,
                dial: if dials { peer.data_addr.clone() } else { String::new() },
                peer_node: peer.node,
                bytes_per_s: if sender { pace(edge) } else { 0 },
            };
            prepares.entry(here.site).or_default().ends.push(end);
        }
    }
    Ok(prepares)
}

/// Reads and checks a header.
pub fn decode_header(h: &proto::FlowHeader) -> Result<FlowHeader, Fault> {
    let g = h.geometry.as_ref().ok_or_else(|| invalid("no geometry"))?;
    if !limits::slice_bytes_ok(g.slice_bytes) {
        return Err(invalid(
            "slice length: it must divide 32 KiB or be a multiple of it, from 1 KiB to 256 MiB",
        ));
    }
    if g.block_bytes > limits::MAX_BLOCK_BYTES || !(1..=limits::MAX_ALPHA).contains(&g.alpha) {
        return Err(invalid("block length or symbols per block"));
    }
    if h.attempt == 0 || h.lease_ms == 0 || h.stall_ms == 0 || h.window_slices == 0 {
        return Err(invalid("attempt, lease, stall time and window are at least 1"));
    }
    let header = FlowHeader {
        flow: FlowId::from_slice(&h.flow).map_err(|_| invalid("flow id"))?,
        attempt: h.attempt,
        field: field_from_number(h.field)?,
        geometry: Geometry { block_bytes: g.block_bytes, alpha: g.alpha as u16, slice_bytes: g.slice_bytes },
        verify: h.verify,
        lease_ms: h.lease_ms,
        stall_ms: h.stall_ms,
        window_slices: h.window_slices,
        lane_window_slices: match h.lane_window_slices {
            0 => h.window_slices,
            slices => slices.min(h.window_slices),
        },
        serial: h.serial,
        keep: h.keep,
        frame_slices: h.frame_slices.max(1),
    };
    if !shared::header_ok(&header) {
        return Err(invalid("slices that share a frame"));
    }
    Ok(header)
}

/// Reads and checks what a node is to run.
pub fn decode_prepare(prepare: &proto::Prepare) -> Result<(FlowHeader, Vec<StageSpec>), Fault> {
    let header = decode_header(prepare.header.as_ref().ok_or_else(|| invalid("no header"))?)?;
    let too_many = prepare.stages.iter().any(|s| s.lane as usize >= flow::validate::MAX_LANES);
    if prepare.stages.is_empty() || prepare.stages.len() > limits::MAX_STAGES_PER_NODE || too_many {
        return Err(invalid("number of stages or lanes"));
    }
    let mut ends = BTreeMap::new();
    let most = header.geometry.symbol_bytes();
    for end in &prepare.ends {
        if end.extents.iter().any(|extent| *extent > most) {
            return Err(invalid("a row that reaches beyond its symbol"));
        }
        if ends.insert((end.lane, end.edge, end.sender), decode_end(end)?).is_some() {
            return Err(invalid("an edge end is given twice"));
        }
    }
    let stages = prepare
        .stages
        .iter()
        .map(|s| decode_stage(s, &header, &mut ends))
        .collect::<Result<Vec<_>, Fault>>()?;
    Ok((header, stages))
}

type Ends = BTreeMap<(u32, u32, bool), EdgeEnd>;

fn decode_stage(s: &proto::Stage, header: &FlowHeader, ends: &mut Ends) -> Result<StageSpec, Fault> {
    let alpha = header.geometry.alpha;
    let mut inputs = Vec::with_capacity(s.inputs.len());
    for input in &s.inputs {
        use proto::stage_input::Kind;
        inputs.push(match input.kind.as_ref().ok_or_else(|| invalid("an input of no kind"))? {
            Kind::Local(local) => decode_local(local, alpha)?,
            Kind::Edge(edge) => InputSpec::Edge(take_end(ends, s.lane, *edge, false)?),
            Kind::SourceMember(_) => InputSpec::Source { rows: alpha },
        });
    }
    let mut outputs = Vec::with_capacity(s.outputs.len());
    for output in &s.outputs {
        use proto::stage_output::Kind;
        outputs.push(match output.kind.as_ref().ok_or_else(|| invalid("an output of no kind"))? {
            Kind::Edge(edge) => OutputSpec::Edge(take_end(ends, s.lane, *edge, true)?),
            Kind::Write(write) => {
                if BlockId::from_slice(&write.block).is_err() || write.stored_bytes > limits::MAX_BLOCK_BYTES
                {
                    return Err(invalid("id or length of a block to write"));
                }
                OutputSpec::Write(write.clone())
            }
            Kind::Read(read) => OutputSpec::Read {
                symbols: read
                    .symbols
                    .iter()
                    .map(|r| Ok(Symbol { member: Member(narrow(r.member)?), index: narrow(r.index)? }))
                    .collect::<Result<_, Fault>>()?,
            },
        });
    }
    let edges_in = inputs.iter().filter(|input| matches!(input, InputSpec::Edge(_))).count();
    let edges_out = outputs.iter().filter(|output| matches!(output, OutputSpec::Edge(_))).count();
    if header.serial && edges_in.max(edges_out) > 1 {
        return Err(invalid("only a chain can be serial: one edge into each stage and one out of it"));
    }
    let matrix = decode_matrix(s.matrix.as_ref().ok_or_else(|| invalid("no matrix"))?, header.field)?;
    let rows: usize = outputs.iter().map(|o| o.rows(alpha)).sum();
    let cols: usize = inputs.iter().map(InputSpec::rows).sum();
    if (matrix.rows(), matrix.cols()) != (rows, cols) || rows == 0 || cols == 0 {
        return Err(invalid("the matrix does not fit the stage's inputs and outputs"));
    }
    shared::check(header, &inputs, &outputs, &matrix)?;
    Ok(StageSpec { lane: s.lane, stage: s.stage, inputs, outputs, matrix })
}

fn decode_local(local: &proto::LocalInput, alpha: u16) -> Result<InputSpec, Fault> {
    let block = local.block.as_ref().ok_or_else(|| invalid("a local input without a block"))?;
    let symbols = local.symbols.iter().map(|&s| narrow(s)).collect::<Result<Vec<u16>, _>>()?;
    if symbols.iter().any(|&s| s >= alpha) || block.stored_bytes > limits::MAX_BLOCK_BYTES {
        return Err(invalid("symbols or length of a local block"));
    }
    Ok(InputSpec::Local {
        block: BlockId::from_slice(&block.block).map_err(|_| invalid("block id"))?,
        generation: block.generation,
        stored_bytes: block.stored_bytes,
        symbols,
    })
}

fn decode_end(end: &proto::EdgeEnd) -> Result<EdgeEnd, Fault> {
    let dial = match end.dial.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| invalid("data address of a neighbour"))?),
    };
    if end.extents.len() != end.rows as usize {
        return Err(invalid("extents of an edge's rows"));
    }
    if (1..limits::MIN_LANE_BYTES_PER_S).contains(&end.bytes_per_s) {
        return Err(invalid("pace of an edge: none, or at least 256 KiB/s"));
    }
    if end.rows == 0 || end.rows > limits::MAX_ALPHA * 256 {
        return Err(invalid("rows of an edge"));
    }
    Ok(EdgeEnd {
        lane: narrow(end.lane)?,
        edge: narrow(end.edge)?,
        rows: narrow(end.rows)?,
        extents: end.extents.clone(),
        token: Token::from_slice(&end.token).map_err(|_| invalid("token of an edge"))?,
        dial,
        peer: Peer::from_number(end.peer_node),
        bytes_per_s: end.bytes_per_s,
    })
}

fn take_end(ends: &mut Ends, lane: u32, edge: u32, sender: bool) -> Result<EdgeEnd, Fault> {
    ends.remove(&(lane, edge, sender)).ok_or_else(|| invalid("an edge without its end, or used twice"))
}

fn decode_matrix(m: &proto::Matrix, field: Field) -> Result<Matrix, Fault> {
    let (rows, cols) = (u64::from(m.rows), u64::from(m.cols));
    let fits = m.rows <= limits::MAX_MATRIX_SIDE && m.cols <= limits::MAX_MATRIX_SIDE;
    if !fits || rows * cols > limits::MAX_MATRIX_ELEMENTS || m.elements.len() as u64 != rows * cols * 2 {
        return Err(invalid("size of a matrix"));
    }
    let elements: Vec<u16> = m.elements.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
    let rows: Vec<&[u16]> = elements.chunks(m.cols.max(1) as usize).collect();
    Matrix::from_rows(field, &rows).map_err(|e| invalid(&e.to_string()))
}

fn narrow(value: u32) -> Result<u16, Fault> {
    u16::try_from(value).map_err(|_| invalid("a number beyond 16 bits"))
}

fn invalid(what: &str) -> Fault {
    Fault::new(Cause::Invalid, what)
}

/// The protocol's number of a field.
pub fn field_number(field: Field) -> u32 {
    field.order().ilog2()
}

/// The field of a protocol number.
pub fn field_from_number(number: u32) -> Result<Field, Fault> {
    match number {
        8 => Ok(Field::Gf256),
        _ => Err(invalid("a field that this version does not know")),
    }
}
