//! RP Figure 8(f): repair time of several lost blocks of a stripe.

use super::stand::{Contender, DIRECT, Label, Lineup, MOST_READ, Stand, StandSpec};
use super::{Bench, Experiment, why};
use crate::error::LabError;
use crate::report::{Comparison, Form, Measure, Ratio, Results, Scale, Target, Unit};
use crate::testbed::LinkRate;

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

const PIPELINE: &str = "pipeline";
const CONVENTIONAL: &str = "conventional";
const CODE: &str = "rs-10+4";

const SLICE_BYTES: u32 = 32 << 10;

/// As many as RS(14,10) tolerates.
const MOST_LOST: usize = 4;

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let block_bytes: u64 = bench.sized(64 << 20, 4 << 20);
    // The stripe's, and a requestor for each lost block.
    let spec = StandSpec {
        hosts: 14 + MOST_LOST,
        rate: bench.rate.unwrap_or(LinkRate::mbit(1000.0)),
        stripes: vec![(CODE, block_bytes)],
    };
    let mut lineup = Lineup::default();
    for lost in 1..=MOST_LOST {
        for label in [Label::subject(PIPELINE), Label::rival(CONVENTIONAL)] {
            let (scheme, blocks) = (label.name, lost as u32);
            let several = Contender::Several { stripe: 0, blocks, scheme, slice_bytes: SLICE_BYTES };
            lineup.add(label, (lost - 1) as f64, several);
        }
    }
    lineup.add(Label::bare(DIRECT).level(), 0.0, Contender::Direct { bytes: block_bytes });
    Stand::with(bench, &spec, |stand| {
        let names = (1..=MOST_LOST).map(|lost| lost.to_string()).collect();
        let mut results =
            stand.results(&EXPERIMENT, "lost blocks", Scale::Categories(names), bench.rounds(5, 2));
        results.setup.slice_bytes = Some(SLICE_BYTES.into());
        results.ratios = Ratio::savings(&[CONVENTIONAL]);
        results.ratios.push(Ratio::times(DIRECT));
        results.beside.insert(0, Measure::new(MOST_READ, "read by a helper", Unit::Mebibytes));
        stand.take(&lineup, &mut results)?;
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let last = (MOST_LOST - 1) as f64;
    let saving = |lost: usize, paper: Option<f64>, target: Target| {
        let x = (lost - 1) as f64;
        Comparison {
            what: format!("pipeline against conventional, {} lost", results.x.text(x)),
            form: Form::Saving,
            paper,
            target,
            ours: results.ratio(PIPELINE, CONVENTIONAL, x),
            why: why::ratio(results, PIPELINE, CONVENTIONAL, x, paper),
        }
    };
    let mut comparisons: Vec<Comparison> =
        (1..MOST_LOST).map(|lost| saving(lost, None, Target::AtMost(1.0))).collect();
    comparisons.push(saving(MOST_LOST, Some(0.391), Target::AtMost(0.42)));
    let flat = results.median(CONVENTIONAL, last).zip(results.median(CONVENTIONAL, 0.0));
    comparisons.push(Comparison {
        what: format!("conventional, {MOST_LOST} lost against one"),
        form: Form::Times,
        paper: Some(6.23 / 5.88),
        target: Target::AtMost(1.1),
        ours: flat.map(|(four, one)| four / one),
        why: why::bound(results, CONVENTIONAL, last),
    });
    let read = results.summary(PIPELINE, last, MOST_READ).map(|summary| summary.max);
    comparisons.push(Comparison {
        what: format!("read by the busiest helper, {MOST_LOST} lost, against its block"),
        form: Form::Times,
        paper: Some(1.0),
        target: Target::AtMost(1.0),
        ours: read.zip(results.setup.block_bytes).map(|(read, block)| read / block as f64),
        why: "bytes that stages took from their own disks, counted by each".to_owned(),
    });
    for lost in 0..MOST_LOST {
        comparisons.extend([PIPELINE, CONVENTIONAL].map(|name| why::own_bound(results, name, lost as f64)));
    }
    comparisons
}
