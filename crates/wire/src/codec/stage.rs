//! Stages as messages: the same in a whole plan and in what a node is told to run.

use super::{block, invalid, narrow};
use crate::proto;
use crate::proto::stage_input::Kind as In;
use crate::proto::stage_output::Kind as Out;
use flow::bound::{Binding, BlockRead, BlockWrite};
use flow::{EdgeId, Input, Member, Output, Site, Stage, StageKey, Symbol, limits};
use gf::{Field, Matrix};
use model::Fault;
use std::collections::BTreeMap;

pub(super) fn encode((lane, index): StageKey, stage: &Stage, binding: &Binding) -> proto::Stage {
    let input = |input: &Input| proto::StageInput { kind: Some(encode_input(input, binding)) };
    let output = |output: &Output| proto::StageOutput { kind: Some(encode_output(output, binding)) };
    proto::Stage {
        lane,
        stage: index,
        site: stage.site.0,
        inputs: stage.inputs.iter().map(input).collect(),
        outputs: stage.outputs.iter().map(output).collect(),
        matrix: Some(encode_matrix(&stage.matrix)),
    }
}

fn encode_input(input: &Input, binding: &Binding) -> In {
    match input {
        Input::Local { member, symbols } => In::Local(proto::LocalInput {
            member: u32::from(member.0),
            symbols: symbols.iter().map(|&s| u32::from(s)).collect(),
            block: binding.blocks.get(member).cloned().map(Into::into),
        }),
        Input::Edge(edge) => In::Edge(u32::from(edge.0)),
        Input::Source { member } => In::SourceMember(u32::from(member.0)),
    }
}

fn encode_output(output: &Output, binding: &Binding) -> Out {
    match output {
        Output::Edge(edge) => Out::Edge(u32::from(edge.0)),
        Output::Write { member } => {
            Out::Write(binding.writes.get(member).map(block::write_message).unwrap_or_default())
        }
        Output::Read { symbols } => {
            let symbol =
                |s: &Symbol| proto::SymbolRef { member: u32::from(s.member.0), index: u32::from(s.index) };
            Out::Read(proto::SymbolRead { symbols: symbols.iter().map(symbol).collect() })
        }
    }
}

fn encode_matrix(matrix: &Matrix) -> proto::Matrix {
    let mut elements = Vec::with_capacity(matrix.rows() * matrix.cols() * 2);
    for row in 0..matrix.rows() {
        matrix.row(row).iter().for_each(|element| elements.extend(element.to_le_bytes()));
    }
    proto::Matrix { rows: matrix.rows() as u32, cols: matrix.cols() as u32, elements }
}

/// The blocks that stages name.
#[derive(Default)]
pub(super) struct Named {
    pub blocks: BTreeMap<Member, BlockRead>,
    pub writes: BTreeMap<Member, BlockWrite>,
}

impl Named {
    /// A stage, and with it what it reads and writes.
    pub fn stage(&mut self, s: &proto::Stage, field: Field) -> Result<(StageKey, Stage), Fault> {
        let mut inputs = Vec::with_capacity(s.inputs.len());
        for input in &s.inputs {
            inputs.push(self.input(input.kind.as_ref().ok_or_else(|| invalid("an input of no kind"))?)?);
        }
        let mut outputs = Vec::with_capacity(s.outputs.len());
        for output in &s.outputs {
            outputs.push(self.output(output.kind.as_ref().ok_or_else(|| invalid("an output of no kind"))?)?);
        }
        let matrix = decode_matrix(s.matrix.as_ref().ok_or_else(|| invalid("no matrix"))?, field)?;
        Ok(((s.lane, s.stage), Stage { site: Site(s.site), inputs, outputs, matrix }))
    }

    fn input(&mut self, kind: &In) -> Result<Input, Fault> {
        Ok(match kind {
            In::Local(local) => {
                let member = Member(narrow(local.member)?);
                let read = local.block.as_ref().ok_or_else(|| invalid("a local input without a block"))?;
                name(&mut self.blocks, member, block::read(read)?)?;
                let symbols = local.symbols.iter().map(|&s| narrow(s)).collect::<Result<_, _>>()?;
                Input::Local { member, symbols }
            }
            In::Edge(edge) => Input::Edge(EdgeId(narrow(*edge)?)),
            In::SourceMember(member) => Input::Source { member: Member(narrow(*member)?) },
        })
    }

    fn output(&mut self, kind: &Out) -> Result<Output, Fault> {
        Ok(match kind {
            Out::Edge(edge) => Output::Edge(EdgeId(narrow(*edge)?)),
            Out::Write(write) => {
                let write = block::write(write)?;
                let member = write.member;
                name(&mut self.writes, member, write)?;
                Output::Write { member }
            }
            Out::Read(read) => {
                let symbol = |r: &proto::SymbolRef| {
                    Ok(Symbol { member: Member(narrow(r.member)?), index: narrow(r.index)? })
                };
                Output::Read { symbols: read.symbols.iter().map(symbol).collect::<Result<_, Fault>>()? }
            }
        })
    }
}

fn name<T: PartialEq>(known: &mut BTreeMap<Member, T>, member: Member, block: T) -> Result<(), Fault> {
    match known.get(&member) {
        Some(other) if *other != block => Err(invalid("two blocks for one member")),
        Some(_) => Ok(()),
        None => {
            known.insert(member, block);
            Ok(())
        }
    }
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
