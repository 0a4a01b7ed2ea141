//! PPR Figure 7(c): latency of degraded reads, by code and chunk size.

use super::ppr::{Case, cases, compare_ends, few_codes};
use super::stand::{CONVENTIONAL, PIPELINE, PPR, Stand, StandSpec};
use super::{Bench, Experiment, Result, degraded, why};
use crate::report::{Comparison, Label, Ratio, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "ppr-7c",
    title: "Latency of degraded reads with PPR, over codes and chunk sizes",
    paper: "PPR, Figure 7(c); codes (k,m), chunks of 8 and 64 MB: the reduction grows with k and with the chunk.",
    must_show: "PPR within a tenth of ⌈log2(k+1)⌉/k of a traditional read at the larger chunk; the saving grows with k; both \
                within 10 % of their own bounds there.",
    run,
    compare,
};

const READERS: [Label; 3] = [Label::subject(PPR), Label::rival(CONVENTIONAL), Label::rival(PIPELINE)];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let codes = few_codes(bench);
    let cases = cases(&codes, bench.sized(&[8 << 20, 64 << 20], &[4 << 20]));
    let spec = StandSpec::usual(bench, 1000.0, cases.iter().map(Case::stripe).collect());
    Stand::with(bench, &spec, |stand| {
        let mut results = degraded::results(stand, &EXPERIMENT, Case::axis(&cases), bench.rounds(4, 1));
        results.ratios = Ratio::columns(&[CONVENTIONAL], &[]);
        results.notes.push(
            "A client reads the whole lost block; the node that holds it is dead while a code is measured."
                .to_owned(),
        );
        let per_code = cases.len() / codes.len();
        for (index, code) in codes.iter().enumerate() {
            // A stripe loses two blocks at most: every code survives three.
            let stripes = index * per_code..(index + 1) * per_code;
            let dead = degraded::kill(stand, stripes.clone(), &format!("{}: ", code.paper))?;
            for stripe in stripes {
                degraded::measure(stand, &stand.stripes[stripe], &READERS, stripe as f64, &mut results)?;
            }
            dead.iter().try_for_each(|&node| stand.cluster.start_node(node))?;
        }
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let (mut comparisons, ends) = compare_ends(results, |_| None);
    if let Some((_, large)) = ends {
        comparisons.extend(why::own_bounds(results, &[PPR, CONVENTIONAL, PIPELINE], large));
    }
    comparisons
}
