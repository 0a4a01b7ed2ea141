//! PPR Figure 7(d): throughput of degraded reads, over the bandwidth of the network.

use super::ppr::{CODES, PaperCode, limit};
use super::stand::{CONVENTIONAL, PIPELINE, PPR, Stand, StandSpec};
use super::{Bench, Experiment, Result, degraded, why};
use crate::report::{Axis, Comparison, Label, Ratio, Results, Scale};
use crate::testbed::LinkRate;

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

const READERS: [Label; 3] = [Label::subject(PPR), Label::rival(CONVENTIONAL), Label::rival(PIPELINE)];

/// In Mb/s.
const RATES: &[u32] = &[1000, 800, 600, 400, 200];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let block_bytes: u64 = bench.sized(16 << 20, 1 << 20);
    let rates: Vec<LinkRate> = match bench.rate {
        Some(rate) => vec![rate],
        None => bench.sized(RATES, &[1000, 200]).iter().map(|&mbit| LinkRate::mbit(mbit.into())).collect(),
    };
    let usual = StandSpec::usual(bench, 0.0, READ.map(|(code, ..)| (code.name, block_bytes)).to_vec());
    let spec = StandSpec { rate: rates[0], ..usual };
    Stand::with(bench, &spec, |stand| {
        let names =
            READ.iter().flat_map(|(code, ..)| rates.iter().map(|rate| format!("{}, {rate}", code.paper)));
        let axis = Axis::named("(k,m), links", names);
        let mut results = degraded::results(stand, &EXPERIMENT, axis, bench.rounds(4, 1));
        results.setup.link_bits_per_s = None;
        results.setup.link_measured_bits_per_s = None;
        results.ratios = Ratio::columns(&[], &[PPR]);
        results.notes.push(
            "The paper's chunk is 64 MB; here it is shorter, so that a read at 200 Mb/s takes seconds. A ratio of latencies is \
             the inverse of that of throughputs."
                .to_owned(),
        );
        // Each stripe loses two blocks at most; both codes survive three.
        degraded::kill(stand, 0..READ.len(), "")?;
        for (at, &rate) in rates.iter().enumerate() {
            stand.set_rate(rate)?;
            for (index, stripe) in stand.stripes.iter().enumerate() {
                let x = (index * rates.len() + at) as f64;
                degraded::measure(stand, stripe, &READERS, x, &mut results)?;
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
        let allowed = 1.0 / limit(code.k);
        let (fastest, slowest) = ((index * per_code) as f64, ((index + 1) * per_code - 1) as f64);
        for (x, paper, target) in [(fastest, *fast, *fast), (slowest, *slow, allowed * 0.9)] {
            let what = format!("throughput of ppr at {} against conventional", results.x.text(x));
            let compared = Comparison::times(what, results.ratio(CONVENTIONAL, PPR, x));
            comparisons.push(compared.paper(paper).at_least(target).why(format!(
                "equal links allow {allowed:.2} ×; {}; {}",
                why::bound(results, PPR, x),
                why::bound(results, CONVENTIONAL, x)
            )));
        }
        comparisons.extend(why::own_bounds(results, &[PPR, CONVENTIONAL, PIPELINE], slowest));
    }
    comparisons
}
