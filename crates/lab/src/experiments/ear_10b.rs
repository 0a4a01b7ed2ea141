//! EAR figure 10(b): encoding throughput beside other traffic.

use super::ear_10a::{CODE, load, network};
use super::encoding::{Load, gain, own};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Axis, Comparison, Results};
use crate::testbed::{Background, LinkRate};

pub const EXPERIMENT: Experiment = Experiment {
    id: "ear-10b",
    title: "Encoding throughput beside other traffic",
    paper: "EAR, figure 10(b): twelve racks of one host at 1 Gb/s, (10,8), two replicas, 96 stripes, 12 map tasks; in each of six pairs \
            of hosts one sends the other UDP packets, 0 to 800 Mb/s. EAR over RR +57.5 % at 0, +119.7 % at 800 Mb/s.",
    must_show: "with ear no block is downloaded across racks and none relocated, counted on links; ear over random at least 0.85 of \
                what the bytes on racks' links predict; every encoding within a tenth of its own bound.",
    run,
    compare,
};

/// Part of a link that a sender takes, and the paper's gain of EAR over RR where its text has it.
const SENDING: [(f64, Option<f64>); 4] = [(0.0, Some(1.575)), (0.2, None), (0.5, None), (0.8, Some(2.197))];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let network = network(bench);
    network.with(bench, |site| {
        let axis = Axis::named("other traffic", SENDING.map(|(part, _)| format!("{:.0} %", part * 100.0)));
        // Where a fifth of a link is left, a block of 4 MiB takes 3.4 s.
        let load = Load { block_bytes: bench.sized(2 << 20, 128 << 10), ..load(bench, CODE) };
        let mut results = site.results(&EXPERIMENT, &load, axis, bench.rounds(2, 1));
        results.notes.push(
            "Every second host sends the next one UDP packets at so much of its link's rate. Bytes between racks are here those that nodes \
             counted, without these packets; a bound is the busiest link's time for all that it carried, the packets that were not \
             dropped included."
                .to_owned(),
        );
        let hosts = network.racks * network.hosts_per_rack;
        for (x, (part, _)) in (0..).map(f64::from).zip(SENDING) {
            let rate = LinkRate::mbit(network.port.bits_per_s as f64 / 1e6 * part);
            let pairs = (0..hosts).step_by(2).map(|from| (from, from + 1, rate)).filter(|_| part > 0.0);
            site.set_background(Background(pairs.collect()));
            site.take_turns(&load, x, &mut results)?;
        }
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let at = (0..).map(f64::from).zip(SENDING);
    at.flat_map(|(x, (_, paper))| [vec![gain(results, x, paper, true)], own(results, x)].concat()).collect()
}
