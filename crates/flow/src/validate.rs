//! The shape of a flow: what must hold before its coefficients mean anything. FLOW.md, "What moves" and "No
//! deadlock": each lane is an acyclic graph, every edge has one sender and one receiver on different sites,
//! every matrix fits its stage.

use std::collections::BTreeSet;

use codes::Code;

use crate::error::FlowError;
use crate::graph::{EdgeId, Flow, Input, Lane, Member, Output, Stage, StageId, Symbol};

/// Lanes of a flow: the cyclic scheme needs k−1, and k is at most a few dozen in any code that is deployed.
pub const MAX_LANES: usize = 256;
/// Stages of a lane: a star or chain over a GF(2^8) stripe needs at most 257; twice that, as encoding has two
/// sides.
pub const MAX_STAGES: usize = 514;
/// Edges of a lane: each costs a connection and buffers at two nodes.
pub const MAX_EDGES: usize = 1024;
/// Rows into, or out of, one stage: each costs a slice of memory while it is worked on. Decoding all of k =
/// 32, α = 32 fits.
pub const MAX_STAGE_ROWS: usize = 1024;

/// Checks the shape of `flow` against `code`; says nothing about coefficients.
///
/// # Errors
/// The first violation, naming lane and stage or edge.
pub fn validate(flow: &Flow, code: &Code) -> Result<(), FlowError> {
    let g = flow.geometry;
    if usize::from(g.alpha) != code.alpha() || g.slice_bytes == 0 || g.block_bytes == 0 {
        return Err(FlowError::Geometry {
            block_bytes: g.block_bytes,
            alpha: g.alpha,
            slice_bytes: g.slice_bytes,
        });
    }
    bounded("lanes of a flow", flow.lanes.len(), MAX_LANES)?;
    if flow.lanes.is_empty() {
        return Err(FlowError::EmptyLane { lane: 0 });
    }
    if flow.shares.len() != flow.lanes.len() || flow.shares.contains(&0) {
        return Err(FlowError::Shares { lanes: flow.lanes.len(), shares: flow.shares.len() });
    }
    for (index, lane) in flow.lanes.iter().enumerate() {
        Check { flow, code, index, lane }.lane()?;
    }
    Ok(())
}

fn bounded(what: &'static str, count: usize, limit: usize) -> Result<(), FlowError> {
    if count > limit { Err(FlowError::TooMany { what, count, limit }) } else { Ok(()) }
}

struct Check<'a> {
    flow: &'a Flow,
    code: &'a Code,
    index: usize,
    lane: &'a Lane,
}

impl Check<'_> {
    fn lane(&self) -> Result<(), FlowError> {
        if self.lane.stages.is_empty() {
            return Err(FlowError::EmptyLane { lane: self.index });
        }
        bounded("stages of a lane", self.lane.stages.len(), MAX_STAGES)?;
        bounded("edges of a lane", self.lane.edges.len(), MAX_EDGES)?;
        let mut written = BTreeSet::new();
        for (id, stage) in stages(self.lane) {
            self.stage(id, stage)?;
            for output in &stage.outputs {
                if let Output::Write { member } = *output
                    && !written.insert(member)
                {
                    return Err(FlowError::WrittenTwice { lane: self.index, stage: id, member });
                }
            }
        }
        self.edges()
    }

    fn stage(&self, id: StageId, stage: &Stage) -> Result<(), FlowError> {
        let (lane, alpha) = (self.index, self.flow.geometry.alpha);
        let rows: usize = stage.outputs.iter().map(|output| output.rows(self.lane, alpha)).sum();
        let columns: usize = stage.inputs.iter().map(|input| input.rows(self.lane, alpha)).sum();
        if rows == 0 || columns == 0 {
            return Err(FlowError::DeadStage { lane, stage: id });
        }
        bounded("rows out of a stage", rows, MAX_STAGE_ROWS)?;
        bounded("rows into a stage", columns, MAX_STAGE_ROWS)?;
        if stage.matrix.field() != self.flow.field || self.code.field() != self.flow.field {
            return Err(FlowError::OtherField { lane, stage: id });
        }
        let (is, needs) = ((stage.matrix.rows(), stage.matrix.cols()), (rows, columns));
        if is != needs {
            return Err(FlowError::MatrixShape { lane, stage: id, is, needs });
        }
        for input in &stage.inputs {
            match input {
                Input::Local { member, symbols } => {
                    self.symbols(id, symbols.iter().map(|&index| Symbol { member: *member, index }))?;
                }
                Input::Source { member } => self.symbols(id, [first(*member)].into_iter())?,
                Input::Edge(_) => {}
            }
        }
        for output in &stage.outputs {
            match output {
                Output::Read { symbols } => self.symbols(id, symbols.iter().copied())?,
                Output::Write { member } => self.symbols(id, [first(*member)].into_iter())?,
                Output::Edge(_) => {}
            }
        }
        Ok(())
    }

    fn symbols(
        &self,
        stage: StageId,
        symbols: impl Iterator<Item = Symbol> + Clone,
    ) -> Result<(), FlowError> {
        let exists = |symbol: &Symbol| {
            usize::from(symbol.member.0) < self.code.n() && symbol.index < self.flow.geometry.alpha
        };
        let mut bad = symbols.clone().find(|symbol| !exists(symbol));
        if bad.is_none() && symbols.clone().nth(1).is_some() {
            let mut seen = BTreeSet::new();
            bad = symbols.clone().find(|&symbol| !seen.insert(symbol));
        }
        match bad {
            Some(symbol) => Err(FlowError::BadSymbol { lane: self.index, stage, symbol }),
            None => Ok(()),
        }
    }

    /// Each edge is made once, by its `from`, and taken once, by its later `to`, on another site.
    fn edges(&self) -> Result<(), FlowError> {
        let mut makers = vec![End::None; self.lane.edges.len()];
        let mut takers = makers.clone();
        for (id, stage) in stages(self.lane) {
            for output in &stage.outputs {
                if let Output::Edge(edge) = *output {
                    self.note(&mut makers, edge, id)?;
                }
            }
            for input in &stage.inputs {
                if let Input::Edge(edge) = *input {
                    self.note(&mut takers, edge, id)?;
                }
            }
        }
        for (index, edge) in self.lane.edges.iter().enumerate() {
            let id = EdgeId(index as u16);
            let in_order = edge.rows > 0 && edge.from < edge.to;
            if !in_order || makers[index] != End::One(edge.from) || takers[index] != End::One(edge.to) {
                return Err(FlowError::BadEdge { lane: self.index, edge: id });
            }
            let site = self.lane.stages[usize::from(edge.from.0)].site;
            if site == self.lane.stages[usize::from(edge.to.0)].site {
                return Err(FlowError::SelfEdge { lane: self.index, edge: id, site });
            }
        }
        Ok(())
    }

    fn note(&self, ends: &mut [End], edge: EdgeId, stage: StageId) -> Result<(), FlowError> {
        let end = ends.get_mut(usize::from(edge.0)).ok_or(FlowError::BadEdge { lane: self.index, edge })?;
        *end = if *end == End::None { End::One(stage) } else { End::Several };
        Ok(())
    }
}

/// The stages that claim an end of an edge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    None,
    One(StageId),
    Several,
}

fn first(member: Member) -> Symbol {
    Symbol { member, index: 0 }
}

/// The stages of a lane with their ids; `validate` bounds their number well below 2^16.
pub(crate) fn stages(lane: &Lane) -> impl Iterator<Item = (StageId, &Stage)> {
    lane.stages.iter().enumerate().map(|(index, stage)| (StageId(index as u16), stage))
}
