//! The graph of a plan as it travels: what [`flow::interpret`] runs.

use flow::{Edge, EdgeId, Flow, Geometry, Input, Lane, Member, Output, Site, Stage, StageId, Symbol};
use gf::{Field, Matrix};
use wire::proto;

/// Whatever binds it to nodes and blocks left out.
pub fn flow(plan: &proto::FlowPlan) -> Flow {
    let cut = plan.header.as_ref().and_then(|h| h.geometry).expect("a geometry");
    let (block_bytes, slice_bytes) = (cut.block_bytes, cut.slice_bytes);
    let geometry = Geometry { block_bytes, alpha: cut.alpha as u16, slice_bytes };
    let lane = |lane: usize| Lane {
        stages: plan.stages.iter().filter(|s| s.lane as usize == lane).map(stage).collect(),
        edges: plan.edges.iter().filter(|e| e.lane as usize == lane).map(edge).collect(),
    };
    let lanes = (0..plan.shares.len()).map(lane).collect();
    Flow { field: Field::Gf256, geometry, lanes, shares: plan.shares.clone() }
}

fn edge(edge: &proto::Edge) -> Edge {
    Edge { from: StageId(edge.from as u16), to: StageId(edge.to as u16), rows: edge.rows as u16 }
}

fn stage(stage: &proto::Stage) -> Stage {
    use proto::{stage_input, stage_output};
    let input = |input: &proto::StageInput| match input.kind.as_ref().expect("an input") {
        stage_input::Kind::Edge(edge) => Input::Edge(EdgeId(*edge as u16)),
        stage_input::Kind::SourceMember(member) => Input::Source { member: Member(*member as u16) },
        stage_input::Kind::Local(local) => Input::Local {
            member: Member(local.member as u16),
            symbols: local.symbols.iter().map(|&symbol| symbol as u16).collect(),
        },
    };
    let output = |output: &proto::StageOutput| match output.kind.as_ref().expect("an output") {
        stage_output::Kind::Edge(edge) => Output::Edge(EdgeId(*edge as u16)),
        stage_output::Kind::Write(write) => Output::Write { member: Member(write.member as u16) },
        stage_output::Kind::Read(read) => {
            let symbol =
                |s: &proto::SymbolRef| Symbol { member: Member(s.member as u16), index: s.index as u16 };
            Output::Read { symbols: read.symbols.iter().map(symbol).collect() }
        }
    };
    let matrix = stage.matrix.as_ref().expect("a matrix");
    let elements: Vec<u16> =
        matrix.elements.chunks_exact(2).map(|e| u16::from_le_bytes([e[0], e[1]])).collect();
    let rows: Vec<&[u16]> = elements.chunks(matrix.cols as usize).collect();
    Stage {
        site: Site(stage.site),
        inputs: stage.inputs.iter().map(input).collect(),
        outputs: stage.outputs.iter().map(output).collect(),
        matrix: Matrix::from_rows(Field::Gf256, &rows).expect("a matrix"),
    }
}
