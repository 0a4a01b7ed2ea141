//! RP Figure 8(i): repair time of one block over the network's bandwidth.

use super::stand::{Contender, DIRECT, Label, Lineup, PROCESSOR_SHARE, Stand, StandSpec};
use super::{Bench, Experiment, why};
use crate::error::LabError;
use crate::report::{Comparison, Form, Ratio, Results, Scale, Target};
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

const PIPELINE: &str = "pipeline";
const CONVENTIONAL: &str = "conventional";
const PPR: &str = "ppr";
const PPR_SLICED: &str = "ppr-sliced";
const CODE: &str = "rs-10+4";

const SLICE_BYTES: u32 = 32 << 10;

/// Gb/s.
const RATES: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// Gb/s; of these, the paper gives numbers for the last.
const HEADLINE: usize = RATES.len() - 1;

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let block_bytes: u64 = bench.sized(64 << 20, 4 << 20);
    let rates: Vec<LinkRate> =
        bench.sized(&RATES[..], &RATES[..2]).iter().map(|gbit| LinkRate::mbit(gbit * 1e3)).collect();
    let spec = StandSpec { hosts: 17, rate: rates[0], stripes: vec![(CODE, block_bytes)] };
    let labels =
        [Label::subject(PIPELINE), Label::rival(CONVENTIONAL), Label::rival(PPR), Label::rival(PPR_SLICED)];
    Stand::with(bench, &spec, |stand| {
        let names = rates.iter().map(LinkRate::to_string).collect();
        let mut results =
            stand.results(&EXPERIMENT, "each port", Scale::Categories(names), bench.rounds(5, 2));
        results.setup.slice_bytes = Some(SLICE_BYTES.into());
        results.setup.link_bits_per_s = None;
        results.setup.link_measured_bits_per_s = None;
        results.log_y = true;
        results.ratios = Ratio::savings(&[CONVENTIONAL, PPR, PPR_SLICED]);
        results.ratios.push(Ratio::times(DIRECT));
        stand.warm_up()?;
        for (x, &rate) in (0..).map(f64::from).zip(&rates) {
            stand.testbed.set_rate(rate)?;
            (bench.say)(&format!("links at {rate}: measuring them"));
            match stand.measure_links() {
                // As far up as the processors allow; one of them can be the limit while the others idle.
                Err(
                    error @ (LabError::ProcessorBound { .. }
                    | LabError::LinkDeviates { .. }
                    | LabError::Unsteady { .. }),
                ) if x > 0.0 => {
                    results.notes.push(format!("Nothing is reported of ports at {rate} and above: {error}."));
                    break;
                }
                measured => measured?,
            }
            let mut lineup = Lineup::default();
            for label in labels {
                lineup.add(label, x, Contender::repair(0, label.name, SLICE_BYTES));
            }
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
        let busy = results.summary(PIPELINE, x, PROCESSOR_SHARE).map_or(0.0, |summary| summary.median);
        for (against, paper) in [(CONVENTIONAL, 0.186), (PPR, 0.5)] {
            let paper = (index == HEADLINE).then_some(paper);
            comparisons.push(Comparison {
                what: format!("pipeline against {against} at {}", results.x.text(x)),
                form: Form::Saving,
                paper,
                target: Target::AtMost(paper.unwrap_or(1.0)),
                ours: results.ratio(PIPELINE, against, x),
                why: why::ratio(results, PIPELINE, against, x, paper),
            });
        }
        let bound = why::own_bound(results, PIPELINE, x);
        let target = if busy >= why::BUSY { Target::None } else { bound.target };
        comparisons.push(Comparison { target, ..bound });
    }
    comparisons
}
