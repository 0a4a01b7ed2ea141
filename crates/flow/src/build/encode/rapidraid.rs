//! The pipeline of a code that is made for one (RapidRAID §IV, §V): each node adds its replicas to what comes, sends the sum
//! on, and stores another sum of the same.
//!
//! ```text
//!   d0 ══▶ [ψ|ξ] ══▶ [ψ|ξ] ══▶ [ψ|ξ] ══▶ [ψ|ξ] ══▶ … ══▶ [ξ]
//!            │         │      d2, d0    d3, d1             │        rapidraid-4+2; one block on every edge
//!          write     write     write     write           write
//!            c0        c1        c2        c3              c5
//! ```
//! A block that a node should have and has not comes to it from another one that does.

use std::collections::BTreeMap;

use codes::rapidraid::Chain;
use gf::Matrix;

use super::EncodeRequest;
use crate::error::FlowError;
use crate::graph::{Edge, EdgeId, Input, Lane, Member, Output, Site, Stage, StageId};
use crate::prove::Proved;

/// The pipeline: `targets` are its nodes, a block of the code each, `data` the replicas that are read, several of a block if
/// there are. A node that has a block of its own reads that.
///
/// # Errors
/// [`FlowError::NoPipeline`] for another code; as [`build`](super::build).
pub fn rapidraid(encode: &EncodeRequest<'_>) -> Result<Proved, FlowError> {
    let no_pipeline = || FlowError::NoPipeline { code: encode.code.name().to_owned() };
    let chain = encode.code.pipeline().ok_or_else(no_pipeline)?;
    let request = encode.repair(None);
    let zero = request.zero_members();
    let mut line = Line { encode, chain, stages: Vec::new(), edges: Vec::new(), sent: BTreeMap::new() };
    let site_of = |node: usize| {
        let member = member(encode.code.virtuals() + node);
        encode.targets.iter().find(|(target, _)| *target == member).map(|&(_, site)| (member, site))
    };
    let last = (0..chain.nodes()).rev().find(|&node| site_of(node).is_some());
    let mut passing = Passing { came: None, sum: vec![0; chain.k()] };
    // What nodes that store nothing would have added.
    let mut skipped: BTreeMap<usize, u16> = BTreeMap::new();
    for node in 0..chain.nodes() {
        let mut added = skipped.clone();
        let mut kept = std::mem::take(&mut skipped);
        for (column, block) in (1..).zip(chain.blocks_at(node)) {
            let stage = chain.stage(node);
            if zero.contains(&member(block)) {
                continue;
            }
            for (sums, row) in [(&mut added, 0), (&mut kept, 1)] {
                let sum = sums.entry(block).or_default();
                *sum = chain.field().add(*sum, stage.get(row, column));
            }
        }
        match site_of(node) {
            None => skipped = added,
            Some(at) => passing = line.stage(at, passing, (added, kept), Some(node) < last)?,
        }
    }
    request.prove(Lane { stages: line.stages, edges: line.edges })
}

/// What comes to the next node.
struct Passing {
    /// On this edge; `None` if it is zero.
    came: Option<EdgeId>,
    /// As a combination of the data blocks.
    sum: Vec<u16>,
}

/// The flow while it is built.
struct Line<'a> {
    encode: &'a EncodeRequest<'a>,
    chain: &'a Chain,
    stages: Vec<Stage>,
    edges: Vec<Edge>,
    /// Blocks that each site sends to others that lack them.
    sent: BTreeMap<Site, usize>,
}

impl Line<'_> {
    /// The stage of one node, by the coefficients of blocks in what it sends on and in what it stores.
    fn stage(
        &mut self,
        (written, site): (Member, Site),
        passing: Passing,
        (added, kept): (BTreeMap<usize, u16>, BTreeMap<usize, u16>),
        goes_on: bool,
    ) -> Result<Passing, FlowError> {
        let field = self.chain.field();
        let mut sum = passing.sum;
        for (&block, &coefficient) in &added {
            sum[block] = field.add(sum[block], coefficient);
        }
        let goes_on = goes_on && sum.iter().any(|&coefficient| coefficient != 0);
        let used = |block: &usize| kept[block] != 0 || (goes_on && added[block] != 0);
        let blocks: Vec<usize> = kept.keys().copied().filter(used).collect();
        let mut inputs: Vec<Input> = passing.came.map(Input::Edge).into_iter().collect();
        let came = inputs.len();
        for &block in &blocks {
            inputs.push(self.brought(block, site)?);
        }
        let rows = if goes_on { vec![&added, &kept] } else { vec![&kept] };
        let mut matrix = Matrix::zero(field, rows.len(), inputs.len());
        for (row, sums) in rows.into_iter().enumerate() {
            (0..came).for_each(|column| matrix.set(row, column, 1));
            blocks.iter().zip(came..).for_each(|(block, column)| matrix.set(row, column, sums[block]));
        }
        let here = StageId(self.stages.len() as u16);
        for input in &inputs {
            if let Input::Edge(edge) = input {
                self.edges[usize::from(edge.0)].to = here;
            }
        }
        // The end of an edge is known when the stage there is made.
        let next = goes_on.then(|| self.edge(here));
        let outputs = next.map(Output::Edge).into_iter().chain([Output::Write { member: written }]).collect();
        self.stages.push(Stage { site, inputs, outputs, matrix: matrix.over_gf256() });
        Ok(Passing { came: next, sum })
    }

    /// A data block at a site: its own copy, or another site sends it.
    fn brought(&mut self, block: usize, site: Site) -> Result<Input, FlowError> {
        let member = member(block);
        let local = Input::Local { member, symbols: (0..self.chain.alpha() as u16).collect() };
        let copies = || self.encode.data.iter().filter(|helper| helper.member == member);
        if copies().any(|helper| helper.site == site) {
            return Ok(local);
        }
        let sent = |site: &Site| self.sent.get(site).copied().unwrap_or(0);
        let from = copies().map(|helper| helper.site).min_by_key(sent);
        let from = from.ok_or(FlowError::NoCopy { member })?;
        *self.sent.entry(from).or_default() += 1;
        let edge = self.edge(StageId(self.stages.len() as u16));
        let matrix = Matrix::identity(self.encode.code.field(), self.chain.alpha());
        self.stages.push(Stage {
            site: from,
            inputs: vec![local],
            outputs: vec![Output::Edge(edge)],
            matrix,
        });
        Ok(Input::Edge(edge))
    }

    fn edge(&mut self, from: StageId) -> EdgeId {
        let edge = EdgeId(self.edges.len() as u16);
        self.edges.push(Edge { from, to: from, rows: self.chain.alpha() as u16 });
        edge
    }
}

fn member(index: usize) -> Member {
    Member(index as u16)
}
