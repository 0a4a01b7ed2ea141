//! EAR figure 13(b): encoding throughput over how narrow racks' links are.

use super::ear_13a::{load, network, oversubscribed};
use super::encoding::{Load, Network, gain, own};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Axis, Comparison, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "ear-13b",
    title: "Encoding throughput over how narrow racks' links are",
    paper: "EAR, figure 13(b): nine racks of two, (14,10), three replicas, 72 stripes, 18 map tasks; each rack's egress is limited to a \
            half … a twentieth of a host's link. EAR over RR +31.0 % at 2:1, +63.6 % at 20:1.",
    must_show: "with ear no block is downloaded across racks and none relocated, counted on links; ear over random at least 0.85 of \
                what the bytes on racks' links predict; every encoding within a tenth of its own bound.",
    run,
    compare,
};

/// A host's link over its rack's, and the paper's gain of EAR over RR where its text has it.
const RATIOS: [(f64, Option<f64>); 4] = [(2.0, Some(1.310)), (5.0, None), (10.0, None), (20.0, Some(1.636))];

/// As in the paper. With 200 Mb/s, 18 encodings at once over racks' links of 20 Mb/s end with an error: a hop waits longer for its
/// turn than one that has stalled is waited for.
const PORT_MBIT: f64 = 1_000.0;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let port = bench.rate_or(PORT_MBIT);
    let network = Network { port, core: oversubscribed(port, RATIOS[0].0), ..network(bench) };
    network.with(bench, |site| {
        let axis = Axis::named("oversubscription", RATIOS.map(|(ratio, _)| format!("{ratio}:1")));
        // Small, for random placement fetches eight of them from other racks for each stripe.
        let load = Load { block_bytes: bench.sized(1 << 20, 128 << 10), ..load(bench, "rs-10+4") };
        let mut results = site.results(&EXPERIMENT, &load, axis, bench.rounds(2, 1));
        results.notes.push("Racks' links are so many times as narrow as hosts' as is said.".to_owned());
        for (x, (ratio, _)) in (0..).map(f64::from).zip(RATIOS) {
            site.set_core(oversubscribed(port, ratio));
            site.take_turns(&load, x, &mut results)?;
        }
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let at = (0..).map(f64::from).zip(RATIOS);
    at.flat_map(|(x, (_, paper))| [vec![gain(results, x, paper, true)], own(results, x)].concat()).collect()
}
