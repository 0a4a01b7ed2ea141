//! `stripeline codes`: the calculator. Needs no cluster.

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
}

pub fn run(command: CodesCommand, out: Output) -> Result<()> {
    match command {
        CodesCommand::List => list(out),
        CodesCommand::Inspect { code } => inspect(&Code::parse(&code)?.describe()?, out),
        CodesCommand::Tolerance { code, losses } => tolerance(&Code::parse(&code)?, losses, out),
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

fn inspect(report: &InspectReport, out: Output) -> Result<()> {
    let generator: Vec<&[u16]> = (0..report.generator.rows()).map(|r| report.generator.row(r)).collect();
    let repairs: Vec<Value> = report
        .repairs
        .iter()
        .map(|r| fields!(r => block reads symbols_read; "fewest": r.fewest.map(fewest)))
        .collect();
    let document = fields!(
        report => name n k alpha field tolerance mds systematic storage_overhead;
        "reach": report.reach.map(reach), "generator": generator, "repairs": repairs);
    out.answer(&document, || report.to_string())
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
