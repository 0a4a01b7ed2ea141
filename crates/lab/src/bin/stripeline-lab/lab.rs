//! `stripeline lab`: a network of hosts on this machine, to measure on.

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use cli::amount::Rate;
use cli::output::{Output, table};
use lab::{LabError, LinkRate, LinkReport, Racks, Spec, Testbed};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What to do with testbeds.
#[derive(Subcommand, Debug)]
pub enum LabCommand {
    /// Make hosts of network namespaces, with limited links between them; needs root, ip and tc
    Up(UpArgs),
    /// Show the testbeds of this machine and their hosts
    Status,
    /// Measure every link of a testbed; fails if one is not within 5 % of its limit
    Measure(Which),
    /// Remove a testbed, with every process on its hosts
    Down(Which),
}

/// What a testbed is made with.
#[derive(Args, Debug)]
pub struct UpArgs {
    /// How many hosts
    #[arg(long, default_value_t = 17)]
    hosts: usize,
    /// Limit of each host's port, in each direction; none for no limit
    #[arg(long, default_value = "1gbit")]
    rate: Rate,
    /// Racks that the hosts are dealt out to in turn [default: one switch for all]
    #[arg(long, value_name = "N")]
    racks: Option<usize>,
    /// Limit of each rack's link to the core, in each direction [default: none]
    #[arg(long, value_name = "RATE", requires = "racks")]
    core_rate: Option<Rate>,
    /// Limits of single pairs: {"bandwidth": [[…], …]}, Mbit/s, row from, column to
    #[arg(long, value_name = "FILE")]
    matrix: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

/// Which testbed.
#[derive(Args, Debug)]
pub struct Which {
    /// Its name: small letters and digits
    #[arg(long, default_value = "lab")]
    name: String,
}

pub fn run(out: Output, command: LabCommand) -> Result<()> {
    match command {
        LabCommand::Up(args) => up(out, args),
        LabCommand::Status => status(out),
        LabCommand::Measure(Which { name }) => {
            let report = Testbed::find(&name)?.measure()?;
            out.answer(&report_json(&report), || report_text(&report))
        }
        LabCommand::Down(Which { name }) => {
            let namespaces = Testbed::remove(&name)?;
            out.answer(&json!({"name": name, "removed_namespaces": namespaces}), || match namespaces {
                0 => format!("there is no testbed '{name}'"),
                _ => format!("testbed '{name}' is down, its {namespaces} namespaces are gone"),
            })
        }
    }
}

fn up(out: Output, args: UpArgs) -> Result<()> {
    let racks =
        args.racks.map(|count| Racks { count, core_rate: link_rate(args.core_rate.unwrap_or(Rate(0))) });
    let matrix = args.matrix.map(|file| {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Spec::parse_matrix(&text).with_context(|| file.display().to_string())
    });
    let spec = Spec {
        name: args.which.name,
        hosts: args.hosts,
        rate: link_rate(args.rate),
        racks,
        matrix: matrix.transpose()?,
    };
    let testbed = Testbed::up(&spec)?;
    out.answer(&testbed_json(&testbed), || {
        let first = &testbed.hosts()[0];
        format!(
            "testbed '{}' is up: {spec}\na command on a host: ip netns exec {} ping {}",
            spec.name,
            first.namespace,
            testbed.hosts()[1].addr
        )
    })
}

fn status(out: Output) -> Result<()> {
    let mut testbeds = Vec::new();
    for name in Testbed::names()? {
        let found = match Testbed::find(&name) {
            Err(LabError::NotUp(_)) => None,
            other => Some(other?),
        };
        testbeds.push((name, found));
    }
    let document: Vec<Value> = testbeds
        .iter()
        .map(|(name, found)| {
            found.as_ref().map_or_else(|| json!({"name": name, "whole": false}), testbed_json)
        })
        .collect();
    out.answer(&document, || {
        if testbeds.is_empty() {
            return "no testbed is up; make one: stripeline lab up".to_owned();
        }
        let texts = testbeds.iter().map(|(name, found)| {
            found.as_ref().map_or_else(
                || format!("testbed '{name}' is not whole; 'stripeline lab up' makes it anew, 'stripeline lab down' removes it"),
                testbed_text,
            )
        });
        texts.collect::<Vec<_>>().join("\n\n")
    })
}

fn link_rate(rate: Rate) -> LinkRate {
    LinkRate { bits_per_s: rate.0.saturating_mul(8) }
}

fn testbed_json(testbed: &Testbed) -> Value {
    json!({
        "name": testbed.spec().name,
        "whole": true,
        "spec": testbed.spec(),
        "hosts": testbed.hosts(),
    })
}

fn testbed_text(testbed: &Testbed) -> String {
    let mut table = table(["HOST", "RACK", "ADDRESS", "NAMESPACE"]);
    for host in testbed.hosts() {
        let (index, rack) = (host.index.to_string(), host.rack.to_string());
        table.add_row([index, rack, host.addr.to_string(), host.namespace.clone()]);
    }
    format!("testbed '{}': {}\n{table}", testbed.spec().name, testbed.spec())
}

fn report_json(report: &LinkReport) -> Value {
    let link = |link: &lab::MeasuredLink| {
        json!({
            "from": link.from,
            "to": link.to,
            "claimed_bits_per_s": link.claimed.bits_per_s,
            "expected_mbit": link.expected_mbit(),
            "measured_mbit": link.measured_mbit,
        })
    };
    json!({
        "links": report.links.iter().map(link).collect::<Vec<_>>(),
        "processor_share": report.processor_share,
    })
}

fn report_text(report: &LinkReport) -> String {
    let mut table = table(["FROM", "TO", "LIMIT", "EXPECTED", "MEASURED Mbit/s"]);
    for link in &report.links {
        let expected = link.expected_mbit().map_or("-".to_owned(), |mbit| format!("{mbit:.1}"));
        let measured = format!("{:.1}", link.measured_mbit);
        table.add_row([link.from.clone(), link.to.clone(), link.claimed.to_string(), expected, measured]);
    }
    format!("{table}\nprocessors {:.0} % busy", report.processor_share * 100.0)
}
