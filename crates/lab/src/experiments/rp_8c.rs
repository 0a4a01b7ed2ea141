//! RP Figure 8(c): repair time of one block over (n,k).

use super::stand::{Contender, DIRECT, Label, Lineup, Stand, StandSpec};
use super::{Bench, Experiment, LONG_CHAINS_MBIT, why};
use crate::error::LabError;
use crate::report::{Comparison, Form, Ratio, Results, Scale, Target};
use crate::testbed::LinkRate;

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-8c",
    title: "Single-block repair time over (n,k)",
    paper: "repair pipelining, Figure 8(c); from (9,6) to (16,12) −82.5 → −91.2 % against conventional repair and −68.6 → \
            −70.4 % against PPR; repair pipelining takes the same for every k.",
    must_show: "the same order of schemes at every (n,k); pipeline within 3 % from k = 6 to k = 12.",
    run,
    compare,
};

const PIPELINE: &str = "pipeline";
const CONVENTIONAL: &str = "conventional";
const PPR: &str = "ppr";
const PPR_SLICED: &str = "ppr-sliced";

/// (n,k) as the paper writes it, and our name.
const CODES: [(&str, &str); 4] =
    [("(9,6)", "rs-6+3"), ("(12,8)", "rs-8+4"), ("(14,10)", "rs-10+4"), ("(16,12)", "rs-12+4")];

const SLICE_BYTES: u32 = 32 << 10;

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let block_bytes: u64 = bench.sized(64 << 20, 4 << 20);
    let spec = StandSpec {
        hosts: 17,
        rate: bench.rate.unwrap_or(LinkRate::mbit(LONG_CHAINS_MBIT)),
        stripes: CODES.iter().map(|&(_, code)| (code, block_bytes)).collect(),
    };
    let labels =
        [Label::subject(PIPELINE), Label::rival(CONVENTIONAL), Label::rival(PPR), Label::rival(PPR_SLICED)];
    let mut lineup = Lineup::default();
    for stripe in 0..CODES.len() {
        for label in labels {
            lineup.add(label, stripe as f64, Contender::repair(stripe, label.name, SLICE_BYTES));
        }
    }
    lineup.add(Label::bare(DIRECT).level(), 0.0, Contender::Direct { bytes: block_bytes });
    Stand::with(bench, &spec, |stand| {
        let names = CODES.iter().map(|&(name, _)| name.to_owned()).collect();
        let mut results = stand.results(&EXPERIMENT, "(n,k)", Scale::Categories(names), bench.rounds(10, 2));
        results.setup.slice_bytes = Some(SLICE_BYTES.into());
        results.ratios = Ratio::savings(&[CONVENTIONAL, PPR, PPR_SLICED]);
        results.ratios.push(Ratio::times(DIRECT));
        stand.take(&lineup, &mut results)?;
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let last = CODES.len() - 1;
    let saving = |code: usize, against: &str, paper: Option<f64>| Comparison {
        what: format!("pipeline at {} against {against}", CODES[code].0),
        form: Form::Saving,
        paper,
        // The same order.
        target: Target::AtMost(1.0),
        ours: results.ratio(PIPELINE, against, code as f64),
        why: why::ratio(results, PIPELINE, against, code as f64, paper),
    };
    let mut comparisons = vec![
        saving(0, CONVENTIONAL, Some(0.175)),
        saving(last, CONVENTIONAL, Some(0.088)),
        saving(0, PPR_SLICED, Some(0.314)),
        saving(last, PPR_SLICED, Some(0.296)),
        saving(0, PPR, None),
        saving(last, PPR, None),
    ];
    let flat = results.median(PIPELINE, last as f64).zip(results.median(PIPELINE, 0.0));
    comparisons.push(Comparison {
        what: format!("pipeline at {} against {}", CODES[last].0, CODES[0].0),
        form: Form::Times,
        paper: None,
        target: Target::AtMost(1.03),
        ours: flat.map(|(long, short)| long / short),
        why: why::bound(results, PIPELINE, last as f64),
    });
    comparisons
}
