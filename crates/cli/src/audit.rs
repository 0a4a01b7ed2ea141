//! `stripeline audit`: what repairs were to move and what they moved.

use crate::amount::{Size, seconds};
use crate::context::Context;
use crate::output::table;
use anyhow::Result;
use clap::Args;
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Args, Debug)]
pub struct AuditArgs {
    /// How many repairs, the latest last; at most 1000
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    last: u32,
}

pub fn run(context: &Context, args: &AuditArgs) -> Result<()> {
    let entries = context.with_client(async |client| Ok(client.audit(args.last).await?))?;
    let entries: Vec<Value> =
        entries.iter().map(|entry| serde_json::from_str(entry)).collect::<Result<_, _>>()?;
    context.out.answer(&entries, || {
        if entries.is_empty() {
            return "nothing was repaired yet".to_owned();
        }
        let mut table = table(["AGO", "SCHEME", "AT", "BLOCKS", "MOVED", "PREDICTED", "DURABLE", "OUTCOME"]);
        for entry in &entries {
            let number = |key: &str| entry[key].as_u64().unwrap_or(0);
            let blocks = entry["blocks"].as_array().map_or(0, Vec::len);
            table.add_row([
                ago(number("at_unix_ms")),
                entry["scheme"].as_str().unwrap_or_default().to_owned(),
                format!("node-{}", number("driver")),
                blocks.to_string(),
                Size(number("moved_bytes")).to_string(),
                Size(number("predicted_bytes")).to_string(),
                seconds(Duration::from_micros(number("durable_us"))).to_string(),
                outcome(entry),
            ]);
        }
        table.to_string()
    })
}

fn ago(at_unix_ms: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let passed = now.saturating_sub(Duration::from_millis(at_unix_ms)).as_secs();
    match passed {
        0..120 => format!("{passed} s"),
        120..7_200 => format!("{} min", passed / 60),
        7_200..172_800 => format!("{} h", passed / 3_600),
        _ => format!("{} d", passed / 86_400),
    }
}

fn outcome(entry: &Value) -> String {
    let differing = entry["differing"].as_array().map_or(0, Vec::len);
    match entry["fault"].as_str() {
        Some(fault) => fault.to_owned(),
        None if differing > 0 => format!("other bytes than predicted on {differing} links"),
        None => "as predicted".to_owned(),
    }
}
