//! RP Figure 8(f): repair time of several lost blocks of a stripe.

use super::stand::{
    CONVENTIONAL, Contender, DIRECT, Lineup, MOST_READ, PIPELINE, SLICE_BYTES, Stand, StandSpec,
};
use super::{Bench, Experiment, Result, why};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Unit};

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-8f",
    title: "Repair time of several blocks of a stripe",
    paper: "repair pipelining, Figure 8(f); RS(14,10), one to four lost blocks: conventional repair takes 5.88 to 6.23 s, \
            whatever their number; repair pipelining saves 60.9 % of it at four. Each helper reads its block once.",
    must_show: "at least −58 % at four blocks (conventional repair that streams takes k timeslots, so that −60 % is the \
                limit); conventional repair flat within 10 %; no helper reads more than its block.",
    run,
    compare,
};

/// As many as RS(14,10) tolerates.
const MOST_LOST: usize = 4;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let stripe = ("rs-10+4", bench.sized(64 << 20, 4 << 20));
    // The stripe's, and a requestor for each lost block.
    let spec = StandSpec { hosts: 14 + MOST_LOST, ..StandSpec::usual(bench, 1000.0, vec![stripe]) };
    let mut lineup = Lineup::default();
    for lost in 1..=MOST_LOST {
        for label in [Label::subject(PIPELINE), Label::rival(CONVENTIONAL)] {
            let (scheme, blocks) = (label.name, lost as u32);
            let several = Contender::Several { stripe: 0, blocks, scheme, slice_bytes: SLICE_BYTES };
            lineup.add(label, (lost - 1) as f64, several);
        }
    }
    lineup.add_level(&spec);
    Stand::with(bench, &spec, |stand| {
        let axis = Axis::named("lost blocks", 1..=MOST_LOST);
        let mut results = stand.results(&EXPERIMENT, axis, bench.rounds(5, 2));
        results.ratios = Ratio::columns(&[CONVENTIONAL], &[DIRECT]);
        results.beside.insert(0, Measure::new(MOST_READ, "read by a helper", Unit::Mebibytes));
        stand.take(&lineup, results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let last = (MOST_LOST - 1) as f64;
    let saving = |lost: usize, paper: Option<f64>| {
        let x = (lost - 1) as f64;
        let what = format!("pipeline against conventional, {} lost", results.x.text(x));
        why::saving(results, what, [PIPELINE, CONVENTIONAL], x, paper)
    };
    let mut comparisons: Vec<Comparison> = (1..MOST_LOST).map(|lost| saving(lost, None)).collect();
    comparisons.push(saving(MOST_LOST, Some(0.391)).at_most(0.42));
    let flat = results.median(CONVENTIONAL, last).zip(results.median(CONVENTIONAL, 0.0));
    let what = format!("conventional, {MOST_LOST} lost against one");
    let flat = Comparison::times(what, flat.map(|(four, one)| four / one)).paper(6.23 / 5.88);
    comparisons.push(flat.at_most(1.1).why(why::bound(results, CONVENTIONAL, last)));
    let read = results.summary(PIPELINE, last, MOST_READ).map(|summary| summary.max);
    let read = read.zip(results.setup.block_bytes).map(|(read, block)| read / block as f64);
    let what = format!("read by the busiest helper, {MOST_LOST} lost, against its block");
    let read = Comparison::times(what, read).paper(1.0).at_most(1.0);
    comparisons.push(read.why("bytes that stages took from their own disks, counted by each"));
    for lost in 0..MOST_LOST {
        comparisons.extend(why::own_bounds(results, &[PIPELINE, CONVENTIONAL], lost as f64));
    }
    comparisons
}
