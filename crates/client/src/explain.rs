//! What a read would take: the plans that it would get, of which nothing is carried out.

use crate::ask::Answer;
use crate::connect::Client;
use crate::covered::Covered;
use crate::error::{ClientError, Result};
use crate::get::plan_reads;
use crate::options::GetOptions;
use crate::outlet::ROOM_BYTES;
use crate::read::BlockRead;
use crate::together::{Unit, units};
use flow::{Flow, FlowPlan, Output, Symbol};
use std::collections::BTreeMap;
use std::ops::Range;

/// Flows of one read: of symbols that lack different slices there are three, and a reader without room takes one for each.
const MAX_FLOWS: usize = 2 * flow::limits::MAX_ALPHA as usize;

/// What reading one block, or several of a stripe together, would take.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadCost {
    /// The first block, by its index in the object.
    pub first: u64,
    /// How many blocks.
    pub blocks: u64,
    /// Bytes that are wanted of them.
    pub bytes: u64,
    /// Where they come from, for people.
    pub how: String,
    /// Bytes that reach the reader, by the nodes that send them.
    pub received: BTreeMap<u32, u64>,
    /// Bytes that nodes send to each other for it.
    pub between_nodes: u64,
}

impl Client {
    /// What [`get_to_file`](Client::get_to_file) would read, block after block, as things are now; for a stream as
    /// [`get`](Client::get) would.
    ///
    /// # Errors
    /// Those of a get before its first byte.
    pub async fn explain_read(
        &self,
        name: &str,
        to_stream: bool,
        options: &GetOptions,
    ) -> Result<Vec<ReadCost>> {
        let object = self.lookup(name, true).await?;
        let reads = plan_reads(&object, options.range)?;
        let units = match to_stream {
            true => reads.into_iter().map(Unit::Alone).collect(),
            false => units(reads),
        };
        let mut costs = Vec::new();
        for unit in units {
            costs.push(self.cost_of(unit, options).await?);
        }
        Ok(costs)
    }

    async fn cost_of(&self, unit: Unit, options: &GetOptions) -> Result<ReadCost> {
        let (members, each) = match &unit {
            Unit::Alone(_) => (&[][..], u64::MAX),
            Unit::Together { members, each, .. } => (&members[..], *each),
        };
        let reads = unit.reads();
        let (first, blocks) = (reads.first().map_or(0, |read| read.index), reads.len() as u64);
        let mut cost = ReadCost { first, blocks, bytes: unit.bytes(), ..ReadCost::default() };
        let (mut there, mut ask) = (lacking(reads, each), unit.ask(options, ROOM_BYTES));
        for _ in 0..MAX_FLOWS {
            ask.range.start = there.first_gap().min(ask.range.end);
            if ask.range.is_empty() {
                return Ok(cost);
            }
            ask.held = there.after(ask.range.start);
            let answer = self.rehearsed(&ask).await?;
            cost.add(&answer);
            let begin = |symbol: &Symbol| {
                let number = members.iter().position(|member| *member == symbol.member.0).unwrap_or(0) as u64;
                number.saturating_mul(each)
            };
            brought(&answer.plan, begin).into_iter().for_each(|range| there.add(range));
        }
        Err(ClientError::Bug(format!("a read in more than {MAX_FLOWS} flows")))
    }
}

impl ReadCost {
    fn add(&mut self, answer: &Answer) {
        if self.how.is_empty() {
            self.how.clone_from(&answer.note);
        }
        for &(from, to, bytes) in &answer.links {
            match to {
                0 => *self.received.entry(from).or_default() += bytes,
                _ => self.between_nodes += bytes,
            }
        }
    }
}

/// What is there before anything is read: what nobody wants, and what is stored of no block.
fn lacking(reads: &[BlockRead], each: u64) -> Covered {
    let mut there = Covered::default();
    for (number, read) in (0..).zip(reads) {
        let begin = each.saturating_mul(number);
        there.add(begin..begin + read.range.start);
        let end = begin + read.range.end;
        there.add(end..begin.saturating_add(each).max(end));
    }
    there
}

/// The bytes that a plan brings, whole slices.
fn brought(plan: &FlowPlan<Flow>, begin: impl Fn(&Symbol) -> u64) -> Vec<Range<u64>> {
    let geometry = &plan.flow.geometry;
    let outputs = plan.flow.stages().flat_map(|(_, stage)| &stage.outputs);
    let symbols = outputs.filter_map(|output| match output {
        Output::Read { symbols } => Some(symbols),
        _ => None,
    });
    let at = |slice: u64| slice.saturating_mul(u64::from(geometry.slice_bytes)).min(geometry.symbol_bytes());
    let range = |symbol: &Symbol| {
        let from = begin(symbol) + u64::from(symbol.index) * geometry.symbol_bytes();
        from + at(plan.binding.slices.start)..from + at(plan.binding.slices.end)
    };
    symbols.flatten().map(range).collect()
}
