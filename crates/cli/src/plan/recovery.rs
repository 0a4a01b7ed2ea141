//! `stripeline plan recovery`: who repairs which block, and what the busiest link carries beside its bound.

use crate::amount::Size;
use crate::output::{Output, table};
use ::plan::recovery::{Assignment, LostBlock, balanced, busiest_bound, loads_of};
use anyhow::Result;
use clap::Args;
use model::NodeId;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct RecoveryArgs {
    /// JSON: {"blocks": [{"survivors": [1,2,5], "needed": 2, "requestors": [3,4], "bytes": 67108864}, …]}, for each lost
    /// block the nodes that hold survivors, how many must help, and who may receive
    #[arg(long, value_name = "FILE")]
    blocks: PathBuf,
}

/// The file of `--blocks`.
#[derive(Deserialize)]
struct Blocks {
    blocks: Vec<Block>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    survivors: Vec<u32>,
    needed: usize,
    requestors: Vec<u32>,
    bytes: u64,
}

pub fn run(args: &RecoveryArgs, out: Output) -> Result<()> {
    let file: Blocks = super::read(&args.blocks)?;
    let nodes = |ids: Vec<u32>| ids.into_iter().map(NodeId).collect();
    let lost = |block: Block| LostBlock {
        survivors: nodes(block.survivors),
        needed: block.needed,
        requestors: nodes(block.requestors),
        bytes: block.bytes,
    };
    let blocks: Vec<LostBlock> = file.blocks.into_iter().map(lost).collect();
    let nothing = BTreeMap::new();
    let answers = balanced(&blocks, &nothing);
    let assigned =
        answers.iter().zip(&blocks).filter_map(|(answer, block)| Some((answer.as_ref().ok()?, block.bytes)));
    let loads = loads_of(assigned);
    let busiest = loads.values().map(|load| load.sent.max(load.received)).max().unwrap_or(0);
    let bound = busiest_bound(&blocks, &nothing);
    let ids = |chain: &[NodeId]| chain.iter().map(|node| node.0).collect::<Vec<u32>>();
    let answer = |answer: &Result<Assignment, ::plan::PlanError>| match answer {
        Ok(Assignment { chain, requestor }) => json!({"chain": ids(chain), "requestor": requestor.0}),
        Err(error) => json!({"error": error.to_string()}),
    };
    let document = json!({
        "assignments": answers.iter().map(answer).collect::<Vec<_>>(),
        "busiest_bytes": busiest,
        "bound_bytes": bound,
    });
    out.answer(&document, || {
        let mut table = table(["BLOCK", "CHAIN", "REQUESTOR"]);
        for (index, answer) in answers.iter().enumerate() {
            let [chain, requestor] = match answer {
                Ok(Assignment { chain, requestor }) => [super::arrows(ids(chain)), requestor.0.to_string()],
                Err(error) => [error.to_string(), String::new()],
            };
            table.add_row([index.to_string(), chain, requestor]);
        }
        format!(
            "{table}\n\nthe busiest link carries {}; no assignment is below {}",
            Size(busiest),
            Size(bound)
        )
    })
}
