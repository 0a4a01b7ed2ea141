//! PPR Figure 9: PPR on repair-friendly codes.

use super::ppr::{CONVENTIONAL, PIPELINE, PPR, PPR_SLICED, SLICE_BYTES};
use super::stand::{Contender, DIRECT, LEAST, Label, Lineup, NETWORK, Stand, StandSpec};
use super::{Bench, Experiment, LONG_CHAINS_MBIT, why};
use crate::error::LabError;
use crate::report::{Comparison, Form, Measure, Ratio, Results, Scale, Target, Unit};
use crate::testbed::LinkRate;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ppr-9",
    title: "PPR on RS, LRC and Rotated RS",
    paper: "PPR, Figure 9; 64 MB chunks, RS (12,4), LRC (12,2,2), Rotated RS (12,4) with r = 4. PPR on RS beats LRC alone \
            (4 chunks over the busiest link against 6) and Rotated RS alone; LRC with PPR −19 % against LRC; Rotated RS with \
            PPR −35 % against RS.",
    must_show: "the same order; LRC with PPR −50 % against LRC (3 chunks against 6); Rotated RS with PPR at least −35 % \
                against RS; every scheme within 10 % of its own bound.",
    run,
    compare,
};

/// The paper's name, ours; a data block is repaired.
const CODES: [(&str, &str); 3] =
    [("RS (12,4)", "rs-12+4"), ("LRC (12,2,2)", "lrc-12+2+2"), ("Rotated RS (12,4)", "rotated-12+4-r4")];

const RS: f64 = 0.0;
const LRC: f64 = 1.0;
const ROTATED: f64 = 2.0;

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let block_bytes: u64 = bench.sized(64 << 20, 2 << 20);
    let spec = StandSpec {
        hosts: 17,
        rate: bench.rate.unwrap_or(LinkRate::mbit(LONG_CHAINS_MBIT)),
        stripes: CODES.iter().map(|&(_, code)| (code, block_bytes)).collect(),
    };
    let labels =
        [Label::subject(PPR), Label::rival(CONVENTIONAL), Label::rival(PPR_SLICED), Label::rival(PIPELINE)];
    let mut lineup = Lineup::default();
    for stripe in 0..CODES.len() {
        for label in labels {
            lineup.add(label, stripe as f64, Contender::repair(stripe, label.name, SLICE_BYTES));
        }
    }
    lineup.add(Label::bare(DIRECT).level(), RS, Contender::Direct { bytes: block_bytes });
    Stand::with(bench, &spec, |stand| {
        let names = CODES.iter().map(|&(name, _)| name.to_owned()).collect();
        let mut results = stand.results(&EXPERIMENT, "code", Scale::Categories(names), bench.rounds(6, 2));
        results.setup.slice_bytes = Some(SLICE_BYTES.into());
        results.ratios = Ratio::savings(&[CONVENTIONAL]);
        results.ratios.push(Ratio::times(DIRECT));
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
    let time = |series: &str, x: f64| results.median(series, x);
    let against = |what: &str, (series, x): (&str, f64), (rival, y): (&str, f64), paper, target| Comparison {
        what: what.to_owned(),
        form: Form::Saving,
        paper,
        target: Target::AtMost(target),
        ours: time(series, x).zip(time(rival, y)).map(|(ours, theirs)| ours / theirs),
        why: format!("{}; {}", why::bound(results, series, x), why::bound(results, rival, y)),
    };
    let mut comparisons = vec![
        against("ppr on RS against conventional LRC", (PPR, RS), (CONVENTIONAL, LRC), None, 1.0),
        against("ppr on RS against conventional Rotated RS", (PPR, RS), (CONVENTIONAL, ROTATED), None, 1.0),
        // 3 of 6 chunks, and a tenth.
        against("ppr on LRC against conventional LRC", (PPR, LRC), (CONVENTIONAL, LRC), Some(0.81), 0.55),
        against(
            "ppr on Rotated RS against conventional RS",
            (PPR, ROTATED),
            (CONVENTIONAL, RS),
            Some(0.65),
            0.65,
        ),
    ];
    for x in [RS, LRC, ROTATED] {
        let schemes = [PPR, CONVENTIONAL, PPR_SLICED, PIPELINE];
        comparisons.extend(schemes.map(|name| why::own_bound(results, name, x)));
    }
    comparisons
}
