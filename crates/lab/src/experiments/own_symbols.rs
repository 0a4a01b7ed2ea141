//! Ours: repair time of one block of XOR codes, by the symbols of the first parity and by the fewest.

use super::stand::{
    CONVENTIONAL, Contender, DIRECT, LEAST, Lineup, NETWORK, PIPELINE, PPR_SLICED, SLICE_BYTES, Stand,
    StandSpec,
};
use super::{Bench, Experiment, LONG_CHAINS_MBIT, Result, why};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Unit};

pub const EXPERIMENT: Experiment = Experiment {
    id: "own-symbols",
    title: "Single-block repair time of XOR codes",
    paper: "ours; the XOR supplement's experiments 1 and 2 repair whole nodes of RDP(13), STAR(13) and CRS(12,4), w = 6, at one server, and \
            replace recovery takes 25.7 to 28.7 % less time than conventional recovery for STAR, 15.3 to 18.6 % for CRS. Here one data block \
            is repaired at a requestor whose link is the bottleneck, and by schemes that send sums.",
    must_show: "a star of the fewest symbols takes at least 25 % less time than one of the first parity's for STAR(13), 15 % for CRS(12,4); \
                a pipeline of them a block's time; every scheme within 10 % of its own bound.",
    run,
    compare,
};

const FIRST_PARITY: &str = "first-parity";

/// Name, code, and what the star of the fewest symbols must save.
const CODES: [(&str, &str, f64); 3] = [
    ("RDP(13)", "rdp-13", 0.2),
    ("STAR(13)", "star-13", 0.25),
    ("CRS(12,4), w = 6", "crs-good-12+4-w6", 0.15),
];

fn run(bench: &Bench<'_>) -> Result<Results> {
    // Symbols of whole chunks for twelve and for six of them to a block.
    let block_bytes: u64 = bench.sized(24 << 20, 3 << 20);
    let stripes = CODES.map(|(_, code, _)| (code, block_bytes)).to_vec();
    let spec = StandSpec::usual(bench, LONG_CHAINS_MBIT, stripes);
    let mut lineup = Lineup::default();
    for (stripe, x) in (0..CODES.len()).zip((0..).map(f64::from)) {
        for (label, scheme) in [
            (Label::rival(FIRST_PARITY), FIRST_PARITY),
            (Label::subject(CONVENTIONAL), CONVENTIONAL),
            (Label::subject(PPR_SLICED), PPR_SLICED),
            (Label::subject(PIPELINE), PIPELINE),
        ] {
            lineup.add(label, x, Contender::repair(stripe, scheme, SLICE_BYTES));
        }
    }
    lineup.add_level(&spec);
    Stand::with(bench, &spec, |stand| {
        let axis = Axis::named("code", CODES.map(|(name, ..)| name));
        let mut results = stand.results(&EXPERIMENT, axis, bench.rounds(5, 2));
        results.ratios = Ratio::columns(&[FIRST_PARITY], &[DIRECT]);
        results.beside.insert(0, Measure::new(NETWORK, "over all links", Unit::Mebibytes));
        results.notes.push(
            "first-parity: a star of the symbols of conventional recovery; conventional: a star of the fewest that were found, as many as \
             the other schemes read. Sums of the latter are as long as the block, whatever is read for them."
                .to_owned(),
        );
        let mut results = stand.take(&lineup, results)?;
        results.bounds_from(LEAST);
        Ok(results)
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (x, (name, _, least)) in (0..).map(f64::from).zip(CODES) {
        let what = format!("{name}: fewest symbols against the first parity's, by a star");
        let ratio = results.ratio(CONVENTIONAL, FIRST_PARITY, x);
        comparisons.push(Comparison::saving(what, ratio).at_most(1.0 - least).why(why::bound(
            results,
            CONVENTIONAL,
            x,
        )));
        let what = format!("{name}: pipeline against a direct send of the block");
        comparisons.push(
            Comparison::times(what, results.ratio(PIPELINE, DIRECT, x)).why(why::bound(results, PIPELINE, x)),
        );
    }
    for x in (0..CODES.len()).map(|code| code as f64) {
        comparisons.extend(why::own_bounds(results, &[FIRST_PARITY, CONVENTIONAL, PPR_SLICED, PIPELINE], x));
    }
    comparisons
}
