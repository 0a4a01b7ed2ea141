//! PPR Figure 9: PPR on repair-friendly codes.

use super::stand::{
    CONVENTIONAL, DIRECT, LEAST, Lineup, NETWORK, PIPELINE, PPR, PPR_SLICED, Stand, StandSpec,
};
use super::{Bench, Experiment, LONG_CHAINS_MBIT, Result, why};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Unit};

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

const LABELS: [Label; 4] =
    [Label::subject(PPR), Label::rival(CONVENTIONAL), Label::rival(PPR_SLICED), Label::rival(PIPELINE)];

/// The paper's name, ours; a data block is repaired.
const CODES: [(&str, &str); 3] =
    [("RS (12,4)", "rs-12+4"), ("LRC (12,2,2)", "lrc-12+2+2"), ("Rotated RS (12,4)", "rotated-12+4-r4")];

const RS: f64 = 0.0;
const LRC: f64 = 1.0;
const ROTATED: f64 = 2.0;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let block_bytes: u64 = bench.sized(64 << 20, 2 << 20);
    let stripes = CODES.map(|(_, code)| (code, block_bytes)).to_vec();
    let spec = StandSpec::usual(bench, LONG_CHAINS_MBIT, stripes);
    let axis = Axis::named("code", CODES.map(|(name, _)| name));
    let lineup = Lineup::over_stripes(&spec, &axis, &LABELS);
    Stand::with(bench, &spec, |stand| {
        let mut results = stand.results(&EXPERIMENT, axis, bench.rounds(6, 2));
        results.ratios = Ratio::columns(&[CONVENTIONAL], &[DIRECT]);
        results.beside.insert(0, Measure::new(NETWORK, "over all links", Unit::Mebibytes));
        results.notes.push(why::BYTES_MOVED.to_owned());
        let mut results = stand.take(&lineup, results)?;
        results.bounds_from(LEAST);
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let against = |what: &str, (series, x): (&str, f64), (rival, y): (&str, f64), target: f64| {
        let times = results.median(series, x).zip(results.median(rival, y));
        let bounds = format!("{}; {}", why::bound(results, series, x), why::bound(results, rival, y));
        Comparison::saving(what, times.map(|(ours, theirs)| ours / theirs)).at_most(target).why(bounds)
    };
    let mut comparisons = vec![
        against("ppr on RS against conventional LRC", (PPR, RS), (CONVENTIONAL, LRC), 1.0),
        against("ppr on RS against conventional Rotated RS", (PPR, RS), (CONVENTIONAL, ROTATED), 1.0),
        // 3 of 6 chunks, and a tenth.
        against("ppr on LRC against conventional LRC", (PPR, LRC), (CONVENTIONAL, LRC), 0.55).paper(0.81),
        against("ppr on Rotated RS against conventional RS", (PPR, ROTATED), (CONVENTIONAL, RS), 0.65)
            .paper(0.65),
    ];
    for x in [RS, LRC, ROTATED] {
        comparisons.extend(why::own_bounds(results, &[PPR, CONVENTIONAL, PPR_SLICED, PIPELINE], x));
    }
    comparisons
}
