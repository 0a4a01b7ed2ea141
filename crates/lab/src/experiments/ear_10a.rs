//! EAR figure 10(a): encoding throughput over the code, a rack for each host.

use super::encoding::{Load, Network, gain, own};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Axis, Comparison, Results};
use crate::testbed::LinkRate;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ear-10a",
    title: "Encoding throughput over the code, a rack for each host",
    paper: "EAR, figure 10(a): twelve racks of one host at 1 Gb/s, n = k + 2, two replicas, 96 stripes, 12 map tasks. EAR over RR +19.9 % at \
            k = 4, +59.7 % at k = 10.",
    must_show: "with ear no block is downloaded across racks and none relocated, counted on links; ear over random at least 0.85 of \
                what the bytes on racks' links predict; every encoding within a tenth of its own bound.",
    run,
    compare,
};

/// Codes, and the paper's gain of EAR over RR where its text has it.
const CODES: [(&str, &str, Option<f64>); 4] = [
    ("rs-4+2", "(6,4)", Some(1.199)),
    ("rs-6+2", "(8,6)", None),
    ("rs-8+2", "(10,8)", None),
    ("rs-10+2", "(12,10)", Some(1.597)),
];

/// The code of figures 10(b) and 11.
pub const CODE: &str = "rs-8+2";

/// With ear all data are where they are encoded, and only parities leave: at 50 Mb/s that are 375 MB/s of data in all, about
/// what two processors do.
const PORT_MBIT: f64 = 50.0;

/// Twelve racks of one host.
pub fn network(bench: &Bench<'_>) -> Network {
    Network { racks: 12, hosts_per_rack: 1, port: bench.rate_or(PORT_MBIT), core: LinkRate::UNLIMITED }
}

/// What is encoded: as in the paper, but for fewer and smaller blocks.
pub fn load(bench: &Bench<'_>, code: &'static str) -> Load {
    Load {
        code,
        replicas: 2,
        rack_capacity: 1,
        stripes: bench.sized(24, 12),
        block_bytes: bench.sized(4 << 20, 256 << 10),
        tasks: 12,
    }
}

fn run(bench: &Bench<'_>) -> Result<Results> {
    network(bench).with(bench, |site| {
        let axis = Axis::named("code", CODES.map(|(_, name, _)| name));
        let mut results = site.results(&EXPERIMENT, &load(bench, CODE), axis, bench.rounds(3, 1));
        for (x, (code, ..)) in (0..).map(f64::from).zip(CODES) {
            site.take_turns(&load(bench, code), x, &mut results)?;
        }
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let at = (0..).map(f64::from).zip(CODES);
    at.flat_map(|(x, (_, _, paper))| [vec![gain(results, x, paper, true)], own(results, x)].concat())
        .collect()
}
