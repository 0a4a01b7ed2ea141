//! RP Figure 8(i): repair time of one block over the network's bandwidth.

use super::stand::{
    CONVENTIONAL, Contender, DIRECT, Lineup, PIPELINE, PPR, PPR_SLICED, PROCESSOR_SHARE, SCHEMES, Stand,
    StandSpec,
};
use super::{Bench, Experiment, why};
use crate::error::{LabError, Result};
use crate::report::{Axis, Comparison, Label, Ratio, Results, Target};
use crate::testbed::LinkRate;

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-8i",
    title: "Single-block repair time over the network's bandwidth",
    paper: "repair pipelining, Figure 8(i); RS(14,10), 64 MiB, 1 to 10 Gb/s. At 10 Gb/s −81.4 % against conventional repair \
            and −50.0 % against PPR, for computing and disks begin to count.",
    must_show: "the same order up to where the processors of one machine, which all hosts share, are used up; their share \
                beside each figure; within 10 % of its own bound where they are not.",
    run,
    compare,
};

/// Gb/s.
const RATES: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// Gb/s; of these, the paper gives numbers for the last.
const HEADLINE: usize = RATES.len() - 1;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let block_bytes: u64 = bench.sized(64 << 20, 4 << 20);
    let rates: Vec<LinkRate> =
        bench.sized(&RATES[..], &RATES[..2]).iter().map(|gbit| LinkRate::mbit(gbit * 1e3)).collect();
    let usual = StandSpec::usual(bench, 0.0, vec![("rs-10+4", block_bytes)]);
    let spec = StandSpec { rate: rates[0], ..usual };
    Stand::with(bench, &spec, |stand| {
        let mut results = stand.results(&EXPERIMENT, Axis::named("each port", &rates), bench.rounds(5, 2));
        results.setup.link_bits_per_s = None;
        results.setup.link_measured_bits_per_s = None;
        results.log_y = true;
        results.ratios = Ratio::columns(&[CONVENTIONAL, PPR, PPR_SLICED], &[DIRECT]);
        stand.warm_up()?;
        for (x, &rate) in (0..).map(f64::from).zip(&rates) {
            match stand.set_rate(rate) {
                // As far up as the processors allow; one of them can be the limit while the others idle.
                Err(
                    error @ (LabError::ProcessorBound { .. }
                    | LabError::LinkDeviates(_)
                    | LabError::Unsteady { .. }),
                ) if x > 0.0 => {
                    results.notes.push(format!("Nothing is reported of ports at {rate} and above: {error}."));
                    break;
                }
                measured => measured?,
            }
            let mut lineup = Lineup::default();
            lineup.add_schemes(0, x, &SCHEMES);
            lineup.add(Label::bare(DIRECT), x, Contender::Direct { bytes: block_bytes });
            stand.take_turns(&lineup, &mut results)?;
        }
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    let measured = results.series(PIPELINE).map_or(0, |series| series.points.len());
    for index in 0..measured {
        let x = index as f64;
        for (against, paper) in [(CONVENTIONAL, 0.186), (PPR, 0.5)] {
            let paper = (index == HEADLINE).then_some(paper);
            let what = format!("pipeline against {against} at {}", results.x.text(x));
            let saving = why::saving(results, what, [PIPELINE, against], x, paper);
            comparisons.push(saving.at_most(paper.unwrap_or(1.0)));
        }
        let busy = results.median_of(PIPELINE, x, PROCESSOR_SHARE);
        let bounds = why::own_bounds(results, &[PIPELINE], x).into_iter();
        comparisons
            .extend(bounds.map(|bound| if busy >= why::BUSY { bound.target(Target::None) } else { bound }));
    }
    comparisons
}
