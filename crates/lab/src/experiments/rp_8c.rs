//! RP Figure 8(c): repair time of one block over (n,k).

use super::stand::{CONVENTIONAL, DIRECT, Lineup, PIPELINE, PPR, PPR_SLICED, SCHEMES, Stand, StandSpec};
use super::{Bench, Experiment, LONG_CHAINS_MBIT, Result, why};
use crate::report::{Axis, Comparison, Ratio, Results};

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-8c",
    title: "Single-block repair time over (n,k)",
    paper: "repair pipelining, Figure 8(c); from (9,6) to (16,12) −82.5 → −91.2 % against conventional repair and −68.6 → \
            −70.4 % against PPR; repair pipelining takes the same for every k.",
    must_show: "the same order of schemes at every (n,k); pipeline within 3 % from k = 6 to k = 12.",
    run,
    compare,
};

/// (n,k) as the paper writes it, and our name.
const CODES: [(&str, &str); 4] =
    [("(9,6)", "rs-6+3"), ("(12,8)", "rs-8+4"), ("(14,10)", "rs-10+4"), ("(16,12)", "rs-12+4")];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let block_bytes: u64 = bench.sized(64 << 20, 4 << 20);
    let stripes = CODES.map(|(_, code)| (code, block_bytes)).to_vec();
    let spec = StandSpec::usual(bench, LONG_CHAINS_MBIT, stripes);
    let axis = Axis::named("(n,k)", CODES.map(|(name, _)| name));
    let lineup = Lineup::over_stripes(&spec, &axis, &SCHEMES);
    Stand::with(bench, &spec, |stand| {
        let mut results = stand.results(&EXPERIMENT, axis, bench.rounds(10, 2));
        results.ratios = Ratio::columns(&[CONVENTIONAL, PPR, PPR_SLICED], &[DIRECT]);
        stand.take(&lineup, results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let last = CODES.len() - 1;
    // The same order is all that is asked for.
    let saving = |code: usize, against: &str, paper: Option<f64>| {
        let what = format!("pipeline at {} against {against}", CODES[code].0);
        why::saving(results, what, [PIPELINE, against], code as f64, paper)
    };
    let flat = results.median(PIPELINE, last as f64).zip(results.median(PIPELINE, 0.0));
    let what = format!("pipeline at {} against {}", CODES[last].0, CODES[0].0);
    let flat = Comparison::times(what, flat.map(|(long, short)| long / short));
    vec![
        saving(0, CONVENTIONAL, Some(0.175)),
        saving(last, CONVENTIONAL, Some(0.088)),
        saving(0, PPR_SLICED, Some(0.314)),
        saving(last, PPR_SLICED, Some(0.296)),
        saving(0, PPR, None),
        saving(last, PPR, None),
        flat.at_most(1.03).why(why::bound(results, PIPELINE, last as f64)),
    ]
}
