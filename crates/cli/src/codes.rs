//! `stripeline codes`: the calculator. Needs no cluster.

mod worth;

use crate::output::{Output, fields, table};
use anyhow::Result;
use clap::Subcommand;
use codes::{Code, Fewest, InspectReport, Reach, families};
use serde_json::{Value, json};

/// What to compute.
#[derive(Subcommand, Debug)]
pub enum CodesCommand {
    /// List the families of codes and how their names are made
    List,
    /// Show a code: field, tolerance, generator, what each repair reads
    Inspect {
        /// Such as rs-10+4
        code: String,
    },
    /// Count the patterns of F lost blocks that can be recovered, by trying all of them
    Tolerance {
        /// Such as rs-10+4
        code: String,
        /// How many blocks are lost
        #[arg(long, value_name = "F")]
        losses: usize,
    },
    /// Count the sets of k stored blocks from which the data do not follow, by trying all of them: natural ones, which no
    /// choice of coefficients avoids, and accidental ones
    Dependencies {
        /// Such as rapidraid-11+5
        code: String,
        /// Show each of them too, by the numbers of stored blocks from 0
        #[arg(long)]
        list: bool,
    },
    /// Compare codes: how likely data cannot be had, what a repair moves, how long data last
    Compare(worth::CompareArgs),
}

pub fn run(command: CodesCommand, out: Output) -> Result<()> {
    match command {
        CodesCommand::List => list(out),
        CodesCommand::Inspect { code } => inspect(&Code::parse(&code)?, out),
        CodesCommand::Tolerance { code, losses } => tolerance(&Code::parse(&code)?, losses, out),
        CodesCommand::Dependencies { code, list } => dependencies(&Code::parse(&code)?, list, out),
        CodesCommand::Compare(args) => worth::compare(&args, out),
    }
}

fn list(out: Output) -> Result<()> {
    let document: Vec<Value> =
        families().iter().map(|f| fields!(f => pattern example description source)).collect();
    out.answer(&document, || {
        let mut table = table(["NAME", "EXAMPLE", "WHAT IT IS", "SOURCE"]);
        for f in families() {
            table.add_row([f.pattern, f.example, f.description, f.source]);
        }
        table.to_string()
    })
}

fn inspect(code: &Code, out: Output) -> Result<()> {
    let report: &InspectReport = &code.describe()?;
    let (worth, worth_text) = worth::of(code)?;
    let generator: Vec<&[u16]> = (0..report.generator.rows()).map(|r| report.generator.row(r)).collect();
    let repairs: Vec<Value> = report
        .repairs
        .iter()
        .map(|r| fields!(r => block reads symbols_read; "fewest": r.fewest.map(fewest)))
        .collect();
    let document = fields!(
        report => name n k virtuals alpha field tolerance mds systematic storage_overhead;
        "reach": report.reach.map(reach), "generator": generator, "repairs": repairs,
        "resilience": worth["resilience"], "mttdl": worth["mttdl"]);
    out.answer(&document, || format!("{report}{worth_text}"))
}

fn fewest(fewest: Fewest) -> &'static str {
    match fewest {
        Fewest::Proved => "proved",
        Fewest::OfStoredEquations => "of-stored-equations",
        Fewest::Unproved => "unproved",
    }
}

fn reach(reach: Reach) -> Value {
    match reach {
        Reach::Tried(count) => fields!(count => patterns recoverable),
        Reach::Untried { patterns, limit } => json!({"untried": patterns, "limit": limit}),
    }
}

fn tolerance(code: &Code, losses: usize, out: Output) -> Result<()> {
    let count = code.count_recoverable(losses)?;
    out.answer(&fields!(count => patterns recoverable), || {
        format!(
            "{code}: of {} patterns of {losses} lost blocks, {} can be recovered",
            count.patterns, count.recoverable
        )
    })
}

fn dependencies(code: &Code, list: bool, out: Output) -> Result<()> {
    let found = code.dependencies()?;
    let (dependent, accidental) = (found.dependent.len(), found.accidental());
    let mut document = fields!(found => subsets natural; "accidental": accidental);
    if found.natural.is_none() {
        document["dependent"] = json!(dependent);
    }
    if list {
        document["sets"] = json!(found.dependent);
    }
    out.answer(&document, || {
        let mut text = format!(
            "{code}: of {} sets of {} blocks, {dependent} do not determine the data",
            found.subsets,
            code.k()
        );
        if let (Some(natural), Some(accidental)) = (found.natural, accidental) {
            text += &format!(
                "; {natural} whatever the coefficients (natural), {accidental} by their choice (accidental)"
            );
        }
        for set in found.dependent.iter().filter(|_| list) {
            let blocks: Vec<String> = set.iter().map(u16::to_string).collect();
            text += &format!("\n  {}", blocks.join(" "));
        }
        text
    })
}
