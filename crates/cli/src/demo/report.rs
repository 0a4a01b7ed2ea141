//! What the demonstration found out, as a table and as JSON.

use crate::amount::{Rate, Size, count, seconds};
use crate::output::{fields, table};
use crate::repair::Repaired;
use crate::traffic::Port;
use anyhow::{Context, Result};
use codes::Code;
use serde_json::{Value, json};
use std::time::Duration;

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Measured {
    what: String,
    verified: Duration,
    /// A bare send stores nothing.
    durable: Option<Duration>,
    busiest: Option<Port>,
    /// Bytes of the busiest link.
    busiest_bytes: u64,
    /// The processor time of all daemons together.
    cpu_seconds: Option<f64>,
    /// Fastest and slowest, and how many.
    spread: (Duration, Duration, usize),
}

/// Everything.
pub struct Report {
    pub description: String,
    pub object_bytes: u64,
    pub block_bytes: u64,
    pub code: Code,
    pub nodes: usize,
    pub rate: Rate,
    pub sha256: String,
    pub degraded_blocks: u64,
    /// The bare send comes last.
    pub measured: Vec<Measured>,
    pub total: Duration,
}

impl Measured {
    pub fn repair(repaired: Repaired, cpu_seconds: f64) -> Measured {
        let busiest = repaired.traffic.busiest();
        Measured {
            what: repaired.scheme,
            verified: repaired.verified,
            durable: Some(repaired.durable),
            busiest_bytes: busiest.as_ref().map_or(0, |port| port.bytes),
            busiest,
            cpu_seconds: Some(cpu_seconds),
            spread: (repaired.verified, repaired.verified, 1),
        }
    }

    pub fn bare(took: Duration, bytes: u64) -> Measured {
        Measured {
            what: "bare TCP send".to_owned(),
            verified: took,
            durable: None,
            busiest: None,
            busiest_bytes: bytes,
            cpu_seconds: None,
            spread: (took, took, 1),
        }
    }

    /// The run whose time is the median, with the spread of all.
    pub fn median_of(mut runs: Vec<Measured>) -> Result<Measured> {
        runs.sort_by_key(|run| run.verified);
        let count = runs.len();
        let (fastest, slowest) = runs.first().zip(runs.last()).context("nothing was measured")?;
        let spread = (fastest.verified, slowest.verified, count);
        Ok(Measured { spread, ..runs.swap_remove(count / 2) })
    }

    fn spread_text(&self) -> String {
        let (fastest, slowest, count) = self.spread;
        match count {
            1 => "1 run".to_owned(),
            _ => format!("median of {count}, {:.3} to {:.3}", fastest.as_secs_f64(), slowest.as_secs_f64()),
        }
    }
}

impl Report {
    fn bare(&self) -> Option<&Measured> {
        self.measured.last()
    }

    fn to_bare(&self, measured: &Measured) -> f64 {
        self.bare().map_or(f64::NAN, |bare| measured.verified.as_secs_f64() / bare.verified.as_secs_f64())
    }

    /// Blocks that a star reads: k, unless the file does not fill a stripe.
    fn star_blocks(&self) -> u64 {
        self.measured.first().map_or(0, |star| star.busiest_bytes.div_ceil(self.block_bytes.max(1)))
    }

    /// How long the bytes of one block take at the rate, with nothing in the way.
    fn ideal(&self) -> Option<Duration> {
        (self.rate.0 > 0).then(|| Duration::from_secs_f64(self.block_bytes as f64 / self.rate.0 as f64))
    }

    pub fn text(&self) -> String {
        let mut table =
            table(["", "LAST VERIFIED BYTE", "DURABLE", "× BARE SEND", "BUSIEST LINK", "CPU", "RUNS"]);
        for m in &self.measured {
            let port = m.busiest.as_ref().map_or(String::new(), |port| format!(" {port}"));
            table.add_row([
                m.what.clone(),
                seconds(m.verified),
                m.durable.map_or("-".to_owned(), seconds),
                format!("{:.2}", self.to_bare(m)),
                format!("{}{port}", Size(m.busiest_bytes)),
                m.cpu_seconds.map_or("-".to_owned(), |cpu| format!("{cpu:.2} s")),
                m.spread_text(),
            ]);
        }
        let ideal = self.ideal().map_or(String::new(), |ideal| format!(" (ideal {})", seconds(ideal)));
        format!(
            "\nRepair of one lost block of {block}, {code}, {nodes} nodes, {rate} each way{ideal}\n\n{table}\n\n\
             A star sends {star} into one node, so as many bare sends are its bound; a chain's is one.\n\
             Links are limited by the daemons' own token buckets on one machine, not by the kernel or by real wires.\n\
             The file came back with SHA-256 {sha} with a node dead ({degraded} decoded) and after its recovery.\n\
             All in {total}.",
            block = Size(self.block_bytes),
            code = self.code,
            nodes = self.nodes,
            rate = self.rate,
            star = count(self.star_blocks(), "block"),
            sha = self.sha256,
            degraded = count(self.degraded_blocks, "block"),
            total = seconds(self.total),
        )
    }

    pub fn json(&self) -> Value {
        let line = |m: &Measured| {
            json!({
                "what": m.what,
                "verified_s": m.verified.as_secs_f64(),
                "durable_s": m.durable.map(|d| d.as_secs_f64()),
                "times_bare_send": self.to_bare(m),
                "busiest_link_bytes": m.busiest_bytes,
                "busiest_link": m.busiest.as_ref().map(Port::to_string),
                "cpu_s": m.cpu_seconds,
                "runs": m.spread.2,
                "min_s": m.spread.0.as_secs_f64(),
                "max_s": m.spread.1.as_secs_f64(),
            })
        };
        fields!(self => object_bytes block_bytes nodes sha256 degraded_blocks;
            "file": self.description,
            "code": self.code.name(),
            "k": self.code.k(),
            "rate_bytes_per_s": self.rate.0,
            "rate_limited_by": "token buckets in the daemons",
            "ideal_s": self.ideal().map(|ideal| ideal.as_secs_f64()),
            "sha256_equal": true,
            "measured": self.measured.iter().map(line).collect::<Vec<_>>(),
            "total_s": self.total.as_secs_f64())
    }
}
