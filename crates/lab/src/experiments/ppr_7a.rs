//! PPR Figure 7(a): what PPR saves of the repair time, by code and chunk size.

use super::ppr::{CODES, Case, cases, compare_ends};
use super::stand::{CONVENTIONAL, DIRECT, Lineup, PIPELINE, PPR, Stand, StandSpec};
use super::{Bench, Experiment, Result, why};
use crate::report::{Comparison, Label, Ratio, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "ppr-7a",
    title: "PPR against traditional repair, over codes and chunk sizes",
    paper: "PPR, Figure 7(a); codes (k,m), chunks of 8 to 64 MB: up to −59 % against traditional repair, more for larger k.",
    must_show: "PPR within a tenth of ⌈log2(k+1)⌉/k of traditional repair for every code at the largest chunk; the saving \
                grows from (6,3) to (12,4); both within 10 % of their own bounds.",
    run,
    compare,
};

const LABELS: [Label; 3] = [Label::subject(PPR), Label::rival(CONVENTIONAL), Label::rival(PIPELINE)];

const SIZES: &[u64] = &[8 << 20, 16 << 20, 32 << 20, 64 << 20];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let cases = cases(&CODES, bench.sized(SIZES, &[1 << 20, 2 << 20]));
    let spec = StandSpec::usual(bench, 1000.0, cases.iter().map(Case::stripe).collect());
    let axis = Case::axis(&cases);
    let lineup = Lineup::over_stripes(&spec, &axis, &LABELS);
    Stand::with(bench, &spec, |stand| {
        let mut results = stand.results(&EXPERIMENT, axis, bench.rounds(3, 1));
        results.log_y = true;
        results.ratios = Ratio::columns(&[CONVENTIONAL], &[DIRECT]);
        results
            .notes
            .push("ppr forwards whole chunks, as the paper's does; slices are the pipeline's.".to_owned());
        stand.take(&lineup, results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    // "Up to 59 %" is read off the largest code.
    let (mut comparisons, ends) = compare_ends(results, |code| (code.k == 12).then_some(0.41));
    if let Some((small, large)) = ends {
        comparisons.extend(why::own_bounds(results, &[PPR, CONVENTIONAL], large));
        comparisons.extend(why::own_bounds(results, &[PPR, CONVENTIONAL], small));
    }
    comparisons
}
