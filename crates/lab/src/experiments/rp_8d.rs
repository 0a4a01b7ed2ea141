//! RP Figure 8(d): repair time of one block of repair-friendly codes, by three schemes.

use super::stand::{Contender, DIRECT, LEAST, Label, Lineup, NETWORK, Stand, StandSpec};
use super::{Bench, Experiment, LONG_CHAINS_MBIT, why};
use crate::error::LabError;
use crate::report::{Comparison, Form, Measure, Ratio, Results, Scale, Target, Unit};
use crate::testbed::LinkRate;

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-8d",
    title: "Single-block repair time of repair-friendly codes",
    paper: "repair pipelining, Figure 8(d); RS(16,12), LRC with k = 12 in two local groups, Rotated RS(16,12), times \
            relative to conventional repair of RS(16,12): repair pipelining around 0.1 for every code. LRC reads six blocks, \
            Rotated RS nine on average (7.5 for a data block, which is what is repaired here).",
    must_show: "pipeline about a tenth (1/12 is the limit) of conventional RS(16,12) for every code; conventional repair of \
                LRC a half and of Rotated RS 0.625 of it; every scheme within 10 % of its own bound.",
    run,
    compare,
};

const PIPELINE: &str = "pipeline";
const CONVENTIONAL: &str = "conventional";
const PPR: &str = "ppr";
const PPR_SLICED: &str = "ppr-sliced";

/// What all is relative to: conventional repair of the first code.
const UNIT: &str = "conventional RS(16,12)";

/// As the paper calls it, our name, and conventional repair's time over that of RS, from the blocks read.
const CODES: [(&str, &str, f64); 3] = [
    ("RS(16,12)", "rs-12+4", 1.0),
    ("LRC(12,2,2)", "lrc-12+2+2", 6.0 / 12.0),
    ("Rotated RS(16,12)", "rotated-12+4-r4", 7.5 / 12.0),
];

const SLICE_BYTES: u32 = 32 << 10;

/// "Around 0.1": what rounds to it.
const A_TENTH: f64 = 0.15;

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let block_bytes: u64 = bench.sized(64 << 20, 4 << 20);
    let spec = StandSpec {
        hosts: 17,
        rate: bench.rate.unwrap_or(LinkRate::mbit(LONG_CHAINS_MBIT)),
        stripes: CODES.iter().map(|&(_, code, _)| (code, block_bytes)).collect(),
    };
    let mut lineup = Lineup::default();
    for stripe in 0..CODES.len() {
        let conventional = if stripe == 0 { Label::rival(UNIT).level() } else { Label::rival(CONVENTIONAL) };
        let labels = [
            (Label::subject(PIPELINE), PIPELINE),
            (conventional, CONVENTIONAL),
            (Label::rival(PPR), PPR),
            (Label::rival(PPR_SLICED), PPR_SLICED),
        ];
        for (label, scheme) in labels {
            lineup.add(label, stripe as f64, Contender::repair(stripe, scheme, SLICE_BYTES));
        }
    }
    lineup.add(Label::bare(DIRECT).level(), 0.0, Contender::Direct { bytes: block_bytes });
    Stand::with(bench, &spec, |stand| {
        let names = CODES.iter().map(|&(name, ..)| name.to_owned()).collect();
        let mut results = stand.results(&EXPERIMENT, "code", Scale::Categories(names), bench.rounds(5, 2));
        results.setup.slice_bytes = Some(SLICE_BYTES.into());
        results.ratios = vec![Ratio::times(UNIT), Ratio::times(DIRECT)];
        results.beside.insert(0, Measure::new(NETWORK, "over all links", Unit::Mebibytes));
        results.notes.push(
            "A bound here is the time that the busiest port takes for the bytes that were moved, for these codes do not \
             read k blocks."
                .to_owned(),
        );
        stand.take(&lineup, &mut results)?;
        results.bounds_from(LEAST);
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (x, (name, _, read)) in (0..).map(f64::from).zip(CODES) {
        comparisons.push(Comparison {
            what: format!("pipeline, {name}, against {UNIT}"),
            form: Form::Times,
            paper: Some(0.1),
            target: Target::AtMost(A_TENTH),
            ours: results.ratio(PIPELINE, UNIT, x),
            why: why::bound(results, PIPELINE, x),
        });
        if x > 0.0 {
            comparisons.push(Comparison {
                what: format!("conventional, {name}, against {UNIT}"),
                form: Form::Times,
                paper: None,
                // It reads so much less; a tenth is what any scheme may miss its bound by.
                target: Target::AtMost(read * 1.1),
                ours: results.ratio(CONVENTIONAL, UNIT, x),
                why: why::bound(results, CONVENTIONAL, x),
            });
        }
    }
    for x in (0..CODES.len()).map(|code| code as f64) {
        let conventional = if x == 0.0 { UNIT } else { CONVENTIONAL };
        let schemes = [PIPELINE, conventional, PPR, PPR_SLICED];
        comparisons.extend(schemes.map(|name| why::own_bound(results, name, x)));
    }
    comparisons
}
