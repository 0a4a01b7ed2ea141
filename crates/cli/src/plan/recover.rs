//! `stripeline plan recover`: which symbols a recovery of an XOR code reads, and from whom.

use crate::output::{Output, table};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use codes::{Method, ParitySets, Reading};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct RecoverArgs {
    /// The code, such as rdp-7 or crs-12+4-w6; arrays may have a P of up to 1000
    code: String,
    /// The lost nodes, such as 0 or 0,3: node i has block i of the stripe
    #[arg(long, value_name = "NODES", value_delimiter = ',', required = true)]
    lost: Vec<usize>,
    /// How the symbols are looked for
    #[arg(long, value_name = "METHOD", default_value = "exact")]
    method: By,
    /// JSON: {"costs": […]}, for each node what a symbol of it costs to read, a whole number [default: all cost 1]
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Show for each lost symbol those that it is the sum of
    #[arg(long)]
    equations: bool,
}

#[derive(Clone, Copy, ValueEnum, Debug)]
enum By {
    /// The sets of the first parity, and of the next where they do not suffice
    Conventional,
    /// The cheapest of any sums of parity sets, unless a limit ends the search
    Exact,
    /// Parity sets that are replaced one by another as long as that makes it cheaper
    Replace,
}

/// The file of `--costs`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Costs {
    costs: Vec<u32>,
}

pub fn run(args: &RecoverArgs, out: Output) -> Result<()> {
    let sets = ParitySets::parse(&args.code)?;
    let costs = match &args.costs {
        Some(file) => {
            let Costs { costs } = super::read(file)?;
            if costs.len() != sets.n() {
                let in_file = || file.display().to_string();
                let (given, needed) = (costs.len(), sets.n());
                return Err(anyhow::anyhow!("{given} costs for {needed} nodes")).with_context(in_file);
            }
            costs
        }
        None => Vec::new(),
    };
    let mut lost = args.lost.clone();
    lost.sort_unstable();
    if let Some(twice) = lost.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("node {} is named twice", twice[0]);
    }
    let loss = sets.loss(&lost, &costs)?;
    let method = match args.method {
        By::Conventional => Method::Conventional,
        By::Exact => Method::Exact,
        By::Replace => Method::Replace,
    };
    let reading = sets.recover(&loss, method)?;
    let reads = reads(&sets, &reading);
    let place = |symbol: u32| [symbol as usize / sets.alpha(), symbol as usize % sets.alpha()];
    let mut document = json!({
        "code": sets.name(), "symbols_read": reading.symbols.len(), "cost": reading.cost, "reads": reads,
        "proven": reading.proven,
    });
    if args.equations {
        let sum = |(wanted, sum): (&u32, &Vec<u32>)| json!({"symbol": place(*wanted), "sum": sum.iter().map(|&at| place(at)).collect::<Vec<_>>()});
        document["equations"] = loss.wanted.iter().zip(&reading.sums).map(sum).collect();
    }
    out.answer(&document, || {
        let mut table = table(["NODE", "SYMBOLS", "WHICH"]);
        for (node, symbols) in &reads {
            let which: Vec<String> = symbols.iter().map(ToString::to_string).collect();
            table.add_row([node.to_string(), symbols.len().to_string(), which.join(" ")]);
        }
        let text = |symbol: u32| place(symbol).map(|number| number.to_string()).join(".");
        let equation = |(&wanted, sum): (&u32, &Vec<u32>)| {
            let terms: Vec<String> = sum.iter().map(|&at| text(at)).collect();
            format!("\n{} = {}", text(wanted), terms.join(" + "))
        };
        let sums = loss.wanted.iter().zip(&reading.sums).filter(|_| args.equations);
        let equations: String = sums.map(equation).collect();
        let proven = if reading.proven { "nothing cheaper suffices" } else { "not proven to be the least" };
        let (count, cost) = (reading.symbols.len(), reading.cost);
        let weighed = if costs.is_empty() { String::new() } else { format!(" at a cost of {cost}") };
        let worth = count as f64 / sets.alpha() as f64;
        format!("{table}\n{equations}\n{count} symbols are read{weighed}, {worth:.2} blocks' worth: {proven}")
    })
}

/// The symbols that are read of each node.
fn reads(sets: &ParitySets, reading: &Reading) -> BTreeMap<usize, Vec<usize>> {
    let mut reads: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &symbol in &reading.symbols {
        let (node, index) = (symbol as usize / sets.alpha(), symbol as usize % sets.alpha());
        reads.entry(node).or_default().push(index);
    }
    reads
}
