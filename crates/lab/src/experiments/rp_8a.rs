//! RP Figure 8(a): repair time of one block over the slice size.

use super::stand::{
    CONVENTIONAL, Contender, DIRECT, HELPER_CHAIN, Lineup, PIPELINE, PPR, PPR_SLICED, RELAY_CHAIN,
    SLICE_BYTES, Stand, StandSpec,
};
use super::{Bench, Experiment, Result, why};
use crate::report::{Axis, Comparison, Label, Ratio, Results, Target};

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-8a",
    title: "Single-block repair time over the slice size",
    paper: "repair pipelining, Figure 8(a); 17 hosts at 1 Gb/s, RS(14,10), 64 MiB. At 32 KiB −89.5 % against conventional \
            repair, −69.5 % against PPR, 1.088 × a direct send of one block (0.57 s). Smaller slices cost requests, \
            larger ones parallelism.",
    must_show: "−89 % against conventional, −74 % against ppr, −64 % against ppr-sliced (limits −90, −75, −66.7 %); every \
                scheme within 10 % of its own bound; pipeline ≤ 1.02 × direct send at our best slice size, to the last \
                verified byte at the requestor.",
    run,
    compare,
};

/// Of the paper's headline, and of the schemes whose slice does not vary.
const HEADLINE: f64 = SLICE_BYTES as f64;

/// 1 KiB … 64 MiB, closer together where the best is.
const SLICES: &[u32] = &[
    1 << 10,
    4 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let block_bytes = bench.sized(64 << 20, 4 << 20);
    let spec = StandSpec::usual(bench, 1000.0, vec![("rs-10+4", block_bytes)]);
    Stand::with(bench, &spec, |stand| {
        let lineup = lineup(bench.sized(SLICES, &[4 << 10, 32 << 10, 256 << 10, 4 << 20]), block_bytes);
        let mut results = stand.results(&EXPERIMENT, Axis::bytes("slice size"), bench.rounds(10, 2));
        results.setup.slice_bytes = None;
        results.log_y = true;
        results.ratios = Ratio::columns(&[CONVENTIONAL, PPR, PPR_SLICED], &[DIRECT]);
        stand.take(&lineup, results)
    })
}

fn lineup(slices: &[u32], block_bytes: u64) -> Lineup {
    let mut lineup = Lineup::default();
    for &slice in slices {
        lineup.add(Label::subject(PIPELINE), f64::from(slice), Contender::repair(0, PIPELINE, slice));
    }
    lineup.add_schemes(
        0,
        HEADLINE,
        &[CONVENTIONAL, PPR, PPR_SLICED].map(|scheme| Label::rival(scheme).level()),
    );
    lineup.add(Label::bare(DIRECT).level(), HEADLINE, Contender::Direct { bytes: block_bytes });
    for &slice_bytes in slices {
        let x = f64::from(slice_bytes);
        lineup.add(Label::bare(RELAY_CHAIN), x, Contender::Relay { stripe: 0, slice_bytes });
        lineup.add(Label::bare(HELPER_CHAIN), x, Contender::Helpers { stripe: 0, slice_bytes });
    }
    lineup
}

fn compare(results: &Results) -> Vec<Comparison> {
    let saving = |against: &str, limit: f64, paper: Option<f64>| {
        let what = format!("pipeline at 32 KiB against {against}");
        why::saving(results, what, [PIPELINE, against], HEADLINE, paper).at_most(limit)
    };
    let direct = |x: f64, target: Target, paper: Option<f64>| {
        let what = format!("pipeline at {} against a direct send", results.x.text(x));
        let compared = Comparison::times(what, results.ratio(PIPELINE, DIRECT, x));
        compared.paper(paper).target(target).why(why::bound(results, PIPELINE, x))
    };
    let best = results.best_x(PIPELINE).unwrap_or(HEADLINE);
    let mut comparisons = vec![
        saving(CONVENTIONAL, 0.11, Some(0.105)),
        // The paper's PPR is streamed in slices, so that its figure belongs to ppr-sliced.
        saving(PPR, 0.26, None),
        saving(PPR_SLICED, 0.36, Some(0.305)),
        direct(HEADLINE, Target::None, Some(1.088)),
    ];
    if best != HEADLINE {
        comparisons.push(direct(best, Target::AtMost(1.02), None));
    } else if let Some(only) = comparisons.last_mut() {
        only.target = Target::AtMost(1.02);
    }
    comparisons.extend(why::own_bounds(results, &[PIPELINE], best));
    comparisons.extend(why::own_bounds(results, &[CONVENTIONAL, PPR, PPR_SLICED], HEADLINE));
    comparisons
}
