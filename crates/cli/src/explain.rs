//! `stripeline explain read`: where the bytes of an object would come from now.

use crate::amount::Size;
use crate::context::Context;
use crate::output::{fields, table};
use anyhow::Result;
use client::{GetOptions, ReadCost};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Prints what a read would take: block after block, or stripe after stripe where blocks are read together.
pub fn read(context: &Context, name: &str, to_stream: bool, options: GetOptions) -> Result<()> {
    if options.scheme != "auto" {
        options.scheme.parse::<flow::Scheme>()?;
    }
    let costs = context.with_client(async |c| Ok(c.explain_read(name, to_stream, &options).await?))?;
    let sum = |of: fn(&ReadCost) -> u64| costs.iter().map(of).sum::<u64>();
    let (bytes, received) = (sum(|cost| cost.bytes), sum(|cost| cost.received.values().sum()));
    let between_nodes = sum(|cost| cost.between_nodes);
    let reads: Vec<Value> = costs
        .iter()
        .map(|cost| {
            let received: BTreeMap<String, u64> =
                cost.received.iter().map(|(node, bytes)| (node.to_string(), *bytes)).collect();
            fields!(cost => first blocks bytes how between_nodes; "received": received)
        })
        .collect();
    let document = json!({
        "name": name, "bytes": bytes, "received": received, "between_nodes": between_nodes, "reads": reads,
    });
    context.out.answer(&document, || {
        let mut table = table(["BLOCKS", "BYTES", "RECEIVED", "BETWEEN NODES", "HOW"]);
        for cost in &costs {
            let last = cost.first + cost.blocks.saturating_sub(1);
            let blocks =
                if cost.blocks > 1 { format!("{}-{last}", cost.first) } else { cost.first.to_string() };
            let received: u64 = cost.received.values().sum();
            let of = |bytes: u64| Size(bytes).to_string();
            table.add_row([blocks, of(cost.bytes), of(received), of(cost.between_nodes), cost.how.clone()]);
        }
        format!(
            "{name}: {} of data; the reader receives {}, nodes send each other {}\n{table}",
            Size(bytes),
            Size(received),
            Size(between_nodes)
        )
    })
}
