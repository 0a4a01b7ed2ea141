//! PPR Figure 7(d): throughput of degraded reads, over the bandwidth of the network.

use super::degraded::{self, Reader};
use super::ppr::{CODES, CONVENTIONAL, PIPELINE, PPR, PaperCode};
use super::stand::{Stand, StandSpec};
use super::{Bench, Experiment, why};
use crate::error::LabError;
use crate::report::{Comparison, Form, Kind, Ratio, Results, Scale, Target};
use crate::testbed::LinkRate;
use std::collections::BTreeSet;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ppr-7d",
    title: "Degraded reads with PPR, over the bandwidth of the network",
    paper: "PPR, Figure 7(d); (6,3) and (12,4): PPR's throughput is 1.8 × and 2.5 × the traditional one at 1 Gb/s, 7 × and \
            8.25 × at 200 Mb/s. Equal links give k/⌈log2(k+1)⌉, 2 × and 3 ×, at every rate: only the direction carries over.",
    must_show: "PPR at least as much faster as the paper's at 1 Gb/s; at 200 Mb/s within a tenth of what equal links allow; \
                every scheme within 10 % of its own bound there.",
    run,
    compare,
};

/// Factor of the paper at 1 Gb/s and at 200 Mb/s.
const READ: [(PaperCode, f64, f64); 2] = [(CODES[0], 1.8, 7.0), (CODES[3], 2.5, 8.25)];

const READERS: [Reader; 3] = [(PPR, Kind::Subject), (CONVENTIONAL, Kind::Rival), (PIPELINE, Kind::Rival)];

/// In Mb/s.
const RATES: &[u32] = &[1000, 800, 600, 400, 200];

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let block_bytes: u64 = bench.sized(16 << 20, 1 << 20);
    let rates: Vec<LinkRate> = match bench.rate {
        Some(rate) => vec![rate],
        None => bench.sized(RATES, &[1000, 200]).iter().map(|&mbit| LinkRate::mbit(mbit.into())).collect(),
    };
    let spec = StandSpec {
        hosts: 17,
        rate: rates[0],
        stripes: READ.iter().map(|(code, ..)| (code.name, block_bytes)).collect(),
    };
    Stand::with(bench, &spec, |stand| {
        let mut names = Vec::new();
        for (code, ..) in &READ {
            names.extend(rates.iter().map(|rate| format!("{}, {rate}", code.paper)));
        }
        let rounds = bench.rounds(4, 1);
        let mut results = stand.results(&EXPERIMENT, "(k,m), links", Scale::Categories(names), rounds);
        degraded::record(&mut results);
        results.setup.slice_bytes = Some(flow::limits::DEFAULT_SLICE_BYTES.into());
        results.setup.link_bits_per_s = None;
        results.setup.link_measured_bits_per_s = None;
        results.log_y = true;
        results.ratios = vec![Ratio::times(PPR)];
        results.notes.push(
            "The paper's chunk is 64 MB; here it is shorter, so that a read at 200 Mb/s takes seconds. A ratio of latencies is \
             the inverse of that of throughputs."
                .to_owned(),
        );
        // Each stripe loses two blocks at most; both codes survive three.
        let dead: BTreeSet<u32> = stand.stripes.iter().map(|stripe| stripe.members[0]).collect();
        (bench.say)(&format!("killing the nodes of the first blocks, {dead:?}"));
        dead.iter().try_for_each(|&node| stand.cluster.stop_node(node))?;
        for (at, &rate) in rates.iter().enumerate() {
            stand.testbed.set_rate(rate)?;
            (bench.say)(&format!("links at {rate}: measuring them"));
            stand.measure_links()?;
            for (index, stripe) in stand.stripes.iter().enumerate() {
                let x = (index * rates.len() + at) as f64;
                degraded::measure(stand, stripe, &READERS, x, rounds, &mut results)?;
            }
        }
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let Scale::Categories(names) = &results.x.scale else { return Vec::new() };
    let per_code = names.len() / READ.len();
    let mut comparisons = Vec::new();
    for (index, (code, fast, slow)) in READ.iter().enumerate() {
        let allowed = 1.0 / super::ppr::limit(code.k);
        let ends = [(index * per_code, *fast, *fast), ((index + 1) * per_code - 1, *slow, allowed * 0.9)];
        for (x, paper, target) in ends.map(|(x, paper, target)| (x as f64, paper, target)) {
            comparisons.push(Comparison {
                what: format!("throughput of ppr at {} against conventional", results.x.text(x)),
                form: Form::Times,
                paper: Some(paper),
                target: Target::AtLeast(target),
                ours: results.ratio(CONVENTIONAL, PPR, x),
                why: format!(
                    "equal links allow {allowed:.2} ×; {}; {}",
                    why::bound(results, PPR, x),
                    why::bound(results, CONVENTIONAL, x)
                ),
            });
        }
        let slowest = ((index + 1) * per_code - 1) as f64;
        let schemes = [PPR, CONVENTIONAL, PIPELINE];
        comparisons.extend(schemes.map(|name| why::own_bound(results, name, slowest)));
    }
    comparisons
}
