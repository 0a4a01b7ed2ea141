//! PPR Figure 7(c): latency of degraded reads, by code and chunk size.

use super::degraded::{self, Reader};
use super::ppr::{CODES, CONVENTIONAL, Case, PIPELINE, PPR, cases, grows, place, saving};
use super::stand::{Stand, StandSpec};
use super::{Bench, Experiment, why};
use crate::error::LabError;
use crate::report::{Comparison, Kind, Ratio, Results, Scale};
use crate::testbed::LinkRate;
use std::collections::BTreeSet;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ppr-7c",
    title: "Latency of degraded reads with PPR, over codes and chunk sizes",
    paper: "PPR, Figure 7(c); codes (k,m), chunks of 8 and 64 MB: the reduction grows with k and with the chunk.",
    must_show: "PPR within a tenth of ⌈log2(k+1)⌉/k of a traditional read at the larger chunk; the saving grows with k; both \
                within 10 % of their own bounds there.",
    run,
    compare,
};

const READERS: [Reader; 3] = [(PPR, Kind::Subject), (CONVENTIONAL, Kind::Rival), (PIPELINE, Kind::Rival)];

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let codes = if bench.quick { vec![CODES[0], CODES[3]] } else { CODES.to_vec() };
    let cases = cases(&codes, bench.sized(&[8 << 20, 64 << 20], &[4 << 20]));
    let spec = StandSpec {
        hosts: 17,
        rate: bench.rate.unwrap_or(LinkRate::mbit(1000.0)),
        stripes: cases.iter().map(Case::stripe).collect(),
    };
    Stand::with(bench, &spec, |stand| {
        let names = cases.iter().map(Case::text).collect();
        let rounds = bench.rounds(4, 1);
        let mut results = stand.results(&EXPERIMENT, "(k,m), chunk size", Scale::Categories(names), rounds);
        degraded::record(&mut results);
        results.setup.slice_bytes = Some(flow::limits::DEFAULT_SLICE_BYTES.into());
        results.log_y = true;
        results.ratios = Ratio::savings(&[CONVENTIONAL]);
        results.notes.push(
            "A client reads the whole lost block; the node that holds it is dead while a code is measured."
                .to_owned(),
        );
        let per_code = cases.len() / codes.len();
        for (index, code) in codes.iter().enumerate() {
            // A stripe loses two blocks at most: every code survives three.
            let stripes = index * per_code..(index + 1) * per_code;
            let dead: BTreeSet<u32> = stripes.clone().map(|s| stand.stripes[s].members[0]).collect();
            (bench.say)(&format!("{}: killing the nodes of the first blocks, {dead:?}", code.paper));
            dead.iter().try_for_each(|&node| stand.cluster.stop_node(node))?;
            for stripe in stripes {
                degraded::measure(
                    stand,
                    &stand.stripes[stripe],
                    &READERS,
                    stripe as f64,
                    rounds,
                    &mut results,
                )?;
            }
            dead.iter().try_for_each(|&node| stand.cluster.start_node(node))?;
        }
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for code in &CODES {
        comparisons.extend(place(results, code, true).map(|x| saving(results, code.k, x, None)));
    }
    let (small, large) = (place(results, &CODES[0], true), place(results, &CODES[3], true));
    if let Some((small, large)) = small.zip(large) {
        comparisons.push(grows(
            results,
            "what ppr leaves at (12,4), against (6,3)".to_owned(),
            (small, large),
        ));
        comparisons.extend([PPR, CONVENTIONAL, PIPELINE].map(|name| why::own_bound(results, name, large)));
    }
    comparisons
}
