//! Encodings: parities are made of data blocks that lie at several sites, and written at several others. A scheme is a
//! file in `encode/` and a line of `encode/scheme.rs`.

mod pipeline;
mod rapidraid;
mod scheme;
mod star;
mod star_lanes;

pub use pipeline::{pipeline, pipeline_lanes};
pub use rapidraid::rapidraid;
pub use scheme::{EncodeScheme, build};
pub use star::star;
pub use star_lanes::star_lanes;

use gf::Matrix;

use super::columns::{enliven, matrix, pass};
use super::request::{Helper, RepairRequest, Sink, write_outputs};
use crate::error::FlowError;
use crate::graph::{Edge, EdgeId, Geometry, Input, Lane, Member, Output, Site, Stage, StageId, Symbol};

/// An encoding: which copy of each data block is read, who computes, and where the new blocks go.
#[derive(Clone, Debug)]
pub struct EncodeRequest<'a> {
    /// The code.
    pub code: &'a codes::Code,
    /// How blocks are cut.
    pub geometry: Geometry,
    /// The data blocks, each at the replica to be read; also the order of a chain. A pipeline reads several of a block.
    pub data: &'a [Helper],
    /// Data blocks that a short last stripe lacks.
    pub absent: &'a [Member],
    /// Further blocks that are all zero, as in [`RepairRequest::empty`](super::RepairRequest::empty).
    pub empty: &'a [Member],
    /// Who computes in a star; other schemes have no such site. It reads its own data blocks and writes its own
    /// parities without any transfer.
    pub archiver: Site,
    /// The blocks to make, usually all n−k parities, and the sites that write them.
    pub targets: &'a [(Member, Site)],
}

impl<'a> EncodeRequest<'a> {
    /// The blocks to make, by the sites that write them, `first` before all others.
    fn groups(&self, first: Option<Site>) -> Vec<(Site, Vec<Member>)> {
        by_site(self.targets, first)
    }

    /// The site of each block of [`repair`](Self::repair) without a first site.
    fn sites(&self) -> Vec<Site> {
        let groups = self.groups(None);
        groups.iter().flat_map(|(site, members)| members.iter().map(|_| *site)).collect()
    }

    /// The blocks to make as a repair of them, in the order of the [`groups`](Self::groups).
    fn repair(&self, first: Option<Site>) -> RepairRequest<'a> {
        let members: Vec<Member> = self.groups(first).into_iter().flat_map(|(_, members)| members).collect();
        RepairRequest {
            code: self.code,
            geometry: self.geometry,
            wanted: RepairRequest::whole_blocks(self.code, &members),
            helpers: self.data,
            absent: self.absent,
            empty: self.empty,
            requestor: first.unwrap_or(self.archiver),
            sink: Sink::Write,
        }
    }
}

/// The blocks that each site writes, `first` before all others, though it may write none.
pub(super) fn by_site(targets: &[(Member, Site)], first: Option<Site>) -> Vec<(Site, Vec<Member>)> {
    let mut groups: Vec<(Site, Vec<Member>)> = first.map(|site| (site, Vec::new())).into_iter().collect();
    for &(member, site) in targets {
        match groups.iter_mut().find(|(known, _)| *known == site) {
            Some((_, members)) => members.push(member),
            None => groups.push((site, vec![member])),
        }
    }
    groups
}

/// Gives the last stage its outputs: what it writes itself, and an edge to a writing stage per further group, in the
/// order of the groups.
pub(super) fn scatter(
    request: &RepairRequest<'_>,
    lane: &mut Lane,
    groups: &[(Site, Vec<Member>)],
) -> Result<(), FlowError> {
    let Some(centre) = lane.stages.last().cloned() else { return Err(FlowError::NothingWanted) };
    let from = StageId(lane.stages.len() as u16 - 1);
    let mut outputs = Vec::new();
    let mut row = 0;
    for (site, members) in groups {
        let symbols: Vec<Symbol> = RepairRequest::whole_blocks(request.code, members);
        let writes = write_outputs(&symbols, request.code.alpha())?;
        let rows = row..row + symbols.len();
        row = rows.end;
        if *site == centre.site {
            outputs.extend(writes);
            continue;
        }
        let edge = EdgeId(lane.edges.len() as u16);
        lane.edges.push(Edge { from, to: StageId(lane.stages.len() as u16), rows: symbols.len() as u16 });
        outputs.push(Output::Edge(edge));
        let matrix = write_matrix(request, &centre.matrix, rows)?;
        lane.stages.push(Stage { site: *site, inputs: vec![Input::Edge(edge)], outputs: writes, matrix });
    }
    lane.stages[usize::from(from.0)].outputs = outputs;
    Ok(())
}

/// The matrix of a stage that only writes `rows` of the archiver's matrix. In a short stripe some of them may be
/// zero.
fn write_matrix(
    request: &RepairRequest<'_>,
    made: &Matrix,
    rows: std::ops::Range<usize>,
) -> Result<Matrix, FlowError> {
    let columns: Vec<Vec<u16>> =
        (0..made.cols()).map(|column| rows.clone().map(|row| made.get(row, column)).collect()).collect();
    let mut live = vec![false; rows.len()];
    enliven(&mut live, &columns);
    matrix(request.code.field(), rows.len(), &pass(&live))
}
