//! Metrics of repairs and bare sends, SI units.

use crate::cluster::{RepairOutcome, busiest_bytes};
use crate::report::{Sample, sample};
use cli::bare::Timing;
use std::collections::BTreeMap;

/// Seconds to the last byte at the requestor, verified; of a bare send, to the last byte.
pub const VERIFIED: &str = "verified_s";
/// Seconds to the block durable under its final name.
pub const DURABLE: &str = "durable_s";
/// Seconds from the order to the answer: planning, retries and throwing away included.
pub const ORDER: &str = "order_s";
/// Processor seconds of all daemons or bare processes.
pub const CPU: &str = "cpu_s";
/// Share of all processors in use meanwhile, 0 to 1.
pub const PROCESSOR_SHARE: &str = "processor_share";
/// Seconds in which the links in force carry what was moved, at best.
pub const LEAST: &str = "least_s";
/// Bytes that a node read from its disk, the one that read most.
pub const MOST_READ: &str = "most_read_bytes";
/// Payload bytes through the busiest side of a node's port.
pub const BUSIEST: &str = "busiest_bytes";
/// Payload bytes over all links.
pub const NETWORK: &str = "network_bytes";

pub fn repair(outcome: &RepairOutcome, order_s: f64) -> Sample {
    sample([
        (ORDER, order_s),
        (VERIFIED, outcome.verified_s),
        (DURABLE, outcome.durable_s),
        (CPU, outcome.cpu_s),
        (PROCESSOR_SHARE, outcome.processor_share),
        (BUSIEST, busiest_bytes(&outcome.links) as f64),
        (NETWORK, outcome.total_bytes() as f64),
        (MOST_READ, most_read_bytes(outcome) as f64),
    ])
}

/// What nodes read for one repair: the most that any did.
fn most_read_bytes(outcome: &RepairOutcome) -> u64 {
    let mut read: BTreeMap<u32, u64> = BTreeMap::new();
    for stage in &outcome.stages {
        *read.entry(stage.node).or_default() += stage.disk_read_bytes;
    }
    read.into_values().max().unwrap_or(0)
}

/// The mean of several samples, metric by metric, as one.
pub fn mean(samples: &[Sample]) -> Sample {
    let mut mean = Sample::new();
    for (metric, value) in samples.iter().flatten() {
        *mean.entry(metric.clone()).or_default() += value / samples.len() as f64;
    }
    mean
}

pub fn bare(timing: &Timing) -> Sample {
    sample([(VERIFIED, timing.seconds), (CPU, timing.cpu_seconds), (PROCESSOR_SHARE, timing.processor_share)])
}
