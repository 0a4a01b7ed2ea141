//! PPR Figure 7(a): what PPR saves of the repair time, by code and chunk size.

use super::ppr::{CODES, CONVENTIONAL, Case, PIPELINE, PPR, SLICE_BYTES, cases, grows, place, saving};
use super::stand::{Contender, DIRECT, Label, Lineup, Stand, StandSpec};
use super::{Bench, Experiment, why};
use crate::error::LabError;
use crate::report::{Comparison, Ratio, Results, Scale};
use crate::testbed::LinkRate;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ppr-7a",
    title: "PPR against traditional repair, over codes and chunk sizes",
    paper: "PPR, Figure 7(a); codes (k,m), chunks of 8 to 64 MB: up to −59 % against traditional repair, more for larger k.",
    must_show: "PPR within a tenth of ⌈log2(k+1)⌉/k of traditional repair for every code at the largest chunk; the saving \
                grows from (6,3) to (12,4); both within 10 % of their own bounds.",
    run,
    compare,
};

const SIZES: &[u64] = &[8 << 20, 16 << 20, 32 << 20, 64 << 20];

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let cases = cases(&CODES, bench.sized(SIZES, &[1 << 20, 2 << 20]));
    let spec = StandSpec {
        hosts: 17,
        rate: bench.rate.unwrap_or(LinkRate::mbit(1000.0)),
        stripes: cases.iter().map(Case::stripe).collect(),
    };
    let labels = [Label::subject(PPR), Label::rival(CONVENTIONAL), Label::rival(PIPELINE)];
    let mut lineup = Lineup::default();
    for (stripe, case) in cases.iter().enumerate() {
        for label in labels {
            lineup.add(label, stripe as f64, Contender::repair(stripe, label.name, SLICE_BYTES));
        }
        lineup.add(Label::bare(DIRECT), stripe as f64, Contender::Direct { bytes: case.block_bytes });
    }
    Stand::with(bench, &spec, |stand| {
        let names = cases.iter().map(Case::text).collect();
        let x = Scale::Categories(names);
        let mut results = stand.results(&EXPERIMENT, "(k,m), chunk size", x, bench.rounds(3, 1));
        results.setup.slice_bytes = Some(SLICE_BYTES.into());
        results.log_y = true;
        results.ratios = Ratio::savings(&[CONVENTIONAL]);
        results.ratios.push(Ratio::times(DIRECT));
        results
            .notes
            .push("ppr forwards whole chunks, as the paper's does; slices are the pipeline's.".to_owned());
        stand.take(&lineup, &mut results)?;
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for code in &CODES {
        // "Up to 59 %" is read off the largest code.
        let paper = (code.k == 12).then_some(0.41);
        comparisons.extend(place(results, code, true).map(|x| saving(results, code.k, x, paper)));
    }
    let ends = place(results, &CODES[0], true).zip(place(results, &CODES[3], true));
    if let Some((small, large)) = ends {
        comparisons.push(grows(
            results,
            "what ppr leaves at (12,4), against (6,3)".to_owned(),
            (small, large),
        ));
        comparisons.extend([PPR, CONVENTIONAL].map(|name| why::own_bound(results, name, large)));
        comparisons.extend([PPR, CONVENTIONAL].map(|name| why::own_bound(results, name, small)));
    }
    comparisons
}
