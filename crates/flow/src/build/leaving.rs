//! A chain to several sites. Partial sums of several blocks travel side by side, and each block leaves, for the site that
//! writes it, at the stage that adds the last part of it. Where all blocks need all helpers that is the last stage.
//!
//! ```text
//!   b0 ══▶ b1 ══▶ b2 ──▶ b3 ──▶ …       a row travels from the first stage that adds to it to the last one
//!                  │
//!                  └──▶ writes p0 (made of b0, b1 and b2: a local parity)
//! ```

use super::columns::{Column, matrix, pass};
use super::request::{RepairRequest, Share, write_outputs};
use crate::error::FlowError;
use crate::graph::{Edge, EdgeId, Input, Lane, Output, Site, Stage, StageId, Symbol};

/// The lane along `path` of what is wanted of `request`: whole blocks, each to its site, one of `sites` for each block.
///
/// # Errors
/// As [`build`](super::build).
pub(super) fn lane(request: &RepairRequest<'_>, path: Vec<Share>, sites: &[Site]) -> Result<Lane, FlowError> {
    let travels = Travels::along(&path, request.wanted.len(), request.code.alpha());
    let mut lane = Lane { stages: Vec::with_capacity(path.len()), edges: Vec::new() };
    let mut writers = Vec::new();
    let hops = path.len();
    let mut came: (Option<EdgeId>, Vec<usize>) = (None, Vec::new());
    for (at, share) in path.into_iter().enumerate() {
        let from = StageId(at as u16);
        let mut inputs: Vec<Input> = came.0.map(Input::Edge).into_iter().collect();
        inputs.extend(share.inputs);
        let (mut outputs, mut rows) = (Vec::new(), travels.on(at));
        let next = (!rows.is_empty()).then(|| connect(&mut lane, from, at + 1, rows.len()));
        outputs.extend(next.map(Output::Edge));
        let going = (next, rows.clone());
        for (site, blocks) in travels.leaving(at, sites) {
            let leaving = travels.rows_of(&blocks);
            let symbols: Vec<Symbol> = leaving.iter().map(|&row| request.wanted[row]).collect();
            let writes = write_outputs(&symbols, request.code.alpha())?;
            if site == share.site {
                outputs.extend(writes);
            } else {
                let edge = connect(&mut lane, from, hops + writers.len(), leaving.len());
                outputs.push(Output::Edge(edge));
                // In a short stripe a block may be all zero, or some rows of it.
                let live: Vec<bool> = leaving.iter().map(|&row| travels.first[row].is_some()).collect();
                let matrix = matrix(request.code.field(), live.len(), &pass(&live))?;
                writers.push(Stage { site, inputs: vec![Input::Edge(edge)], outputs: writes, matrix });
            }
            rows.extend(leaving);
        }
        let passed = came.1.iter().map(|&row| rows.iter().map(|&to| u16::from(to == row)).collect());
        let own = share.columns.iter().map(|column| rows.iter().map(|&row| column[row]).collect());
        let columns: Vec<Column> = passed.chain(own).collect();
        let matrix = matrix(request.code.field(), rows.len(), &columns)?;
        lane.stages.push(Stage { site: share.site, inputs, outputs, matrix });
        came = going;
    }
    lane.stages.extend(writers);
    Ok(lane)
}

/// A new edge of the lane, to the stage of that index.
fn connect(lane: &mut Lane, from: StageId, to: usize, rows: usize) -> EdgeId {
    lane.edges.push(Edge { from, to: StageId(to as u16), rows: rows as u16 });
    EdgeId(lane.edges.len() as u16 - 1)
}

/// Between which stages each row travels.
struct Travels {
    alpha: usize,
    /// Of each row the first stage that adds to it; `None` if it is all zero.
    first: Vec<Option<usize>>,
    /// Of each block the stage at which it leaves.
    leaves: Vec<usize>,
}

impl Travels {
    fn along(path: &[Share], width: usize, alpha: usize) -> Travels {
        let end = path.len().saturating_sub(1);
        let (mut first, mut last) = (vec![None; width], vec![None; width / alpha.max(1)]);
        for (at, share) in path.iter().enumerate() {
            for row in (0..width).filter(|&row| share.columns.iter().any(|column| column[row] != 0)) {
                first[row].get_or_insert(at);
                last[row / alpha] = Some(at);
            }
        }
        Travels { alpha, first, leaves: last.into_iter().map(|last| last.unwrap_or(end)).collect() }
    }

    /// The rows that go on from a stage to the next one.
    fn on(&self, at: usize) -> Vec<usize> {
        let goes = |&row: &usize| {
            self.first[row].is_some_and(|first| first <= at) && self.leaves[row / self.alpha] > at
        };
        (0..self.first.len()).filter(goes).collect()
    }

    /// The blocks that leave at a stage, by the sites that write them.
    fn leaving(&self, at: usize, sites: &[Site]) -> Vec<(Site, Vec<usize>)> {
        let mut groups: Vec<(Site, Vec<usize>)> = Vec::new();
        for (block, &site) in sites.iter().enumerate().filter(|&(block, _)| self.leaves[block] == at) {
            match groups.iter_mut().find(|(known, _)| *known == site) {
                Some((_, blocks)) => blocks.push(block),
                None => groups.push((site, vec![block])),
            }
        }
        groups
    }

    fn rows_of(&self, blocks: &[usize]) -> Vec<usize> {
        blocks.iter().flat_map(|&block| block * self.alpha..(block + 1) * self.alpha).collect()
    }
}
