//! EAR figure 13(a): encoding throughput over the code, where racks' links are narrow.

use super::encoding::{Load, Network, gain, own};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Axis, Comparison, Results};
use crate::testbed::LinkRate;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ear-13a",
    title: "Encoding throughput over the code, where racks' links are narrow",
    paper: "EAR, figure 13(a): nine racks of two, each rack's egress limited to a tenth of a host's link, n = k + 4, three \
            replicas, 72 stripes, 18 map tasks. EAR over RR +36.0 % at k = 6, +91.8 % at k = 12.",
    must_show: "with ear no block is downloaded across racks and none relocated, counted on links; at (14,10) ear over random at \
                least 0.85 of what the bytes on racks' links predict; every encoding within a tenth of its own bound.",
    run,
    compare,
};

/// Codes, and the paper's gain of EAR over RR where its text has it.
pub const CODES: [(&str, &str, Option<f64>); 4] = [
    ("rs-6+4", "(10,6)", Some(1.360)),
    ("rs-8+4", "(12,8)", None),
    ("rs-10+4", "(14,10)", None),
    ("rs-12+4", "(16,12)", Some(1.918)),
];

/// The code at which the gain is asked for.
const ASKED: &str = "rs-10+4";

/// Nine racks of two hosts, racks' links a tenth of hosts'.
pub fn network(bench: &Bench<'_>) -> Network {
    let port = bench.rate_or(PORT_MBIT);
    Network { racks: 9, hosts_per_rack: 2, port, core: oversubscribed(port, 10.0) }
}

/// Hosts' links: ten times what a rack's link of 100 Mb/s carries.
const PORT_MBIT: f64 = 1_000.0;

/// A rack's link of a part of a host's.
pub fn oversubscribed(port: LinkRate, times: f64) -> LinkRate {
    LinkRate::mbit(port.bits_per_s as f64 / 1e6 / times)
}

/// What is encoded: as in the paper, but for fewer and smaller blocks.
pub fn load(bench: &Bench<'_>, code: &'static str) -> Load {
    Load {
        code,
        replicas: 3,
        rack_capacity: 2,
        stripes: bench.sized(36, 18),
        block_bytes: bench.sized(2 << 20, 256 << 10),
        tasks: 18,
    }
}

fn run(bench: &Bench<'_>) -> Result<Results> {
    network(bench).with(bench, |site| {
        let axis = Axis::named("code", CODES.map(|(_, name, _)| name));
        let mut results = site.results(&EXPERIMENT, &load(bench, ASKED), axis, bench.rounds(3, 1));
        for (x, (code, ..)) in (0..).map(f64::from).zip(CODES) {
            site.take_turns(&load(bench, code), x, &mut results)?;
        }
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let at = (0..).map(f64::from).zip(CODES);
    at.flat_map(|(x, (code, _, paper))| {
        [vec![gain(results, x, paper, code == ASKED)], own(results, x)].concat()
    })
    .collect()
}
