//! RP Figure 8(g): repair time of one block where each link to the requestor is narrow.

use super::stand::{DIRECT, Ground, LEAST, PIPELINE, Stand, StandSpec};
use super::{Bench, Experiment, Result, why};
use crate::report::{Axis, Comparison, Label, Ratio, Results};
use crate::testbed::LinkRate;
use flow::limits::SLICE_BYTES_OF_LANES;

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-8g",
    title: "Single-block repair time where each link to the requestor is narrow",
    paper: "repair pipelining, Figure 8(g); RS(14,10), each link from a helper to the requestor limited to 1 Gb/s … 100 Mb/s, \
            all else at 1 Gb/s: at 100 Mb/s the cyclic version saves 82.8 % of the basic one's time, at 1 Gb/s they are equal. \
            Here all rates are a quarter of that, because two processors carry all hosts.",
    must_show: "at least −80 % where links are a tenth of the ports, equal within 10 % where they are as fast, each within 10 % \
                of its own bound.",
    run,
    compare,
};

const CYCLIC: &str = "cyclic";

const HOLDERS: usize = 14;

/// Of each port, Mb/s: a quarter of the paper's. Cyclic repair keeps eleven of them busy at once in both directions, and with
/// slices as short as its lanes want them that takes half of two processors.
const PORT_MBIT: f64 = 250.0;

/// From each helper to the requestor, Mb/s.
const INTO_MBIT: [f64; 4] = [250.0, 125.0, 50.0, 25.0];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let spec = StandSpec {
        hosts: HOLDERS + 1,
        ground: Ground { spares: 1, matrix: Some(into_last(INTO_MBIT[0])), ..Ground::default() },
        ..StandSpec::usual(bench, PORT_MBIT, vec![("rs-10+4", bench.sized(64 << 20, 8 << 20))])
    };
    Stand::with(bench, &spec, |stand| {
        let axis = Axis::named("each link to the requestor", INTO_MBIT.map(|mbit| format!("{mbit} Mb/s")));
        let mut results = stand.results(&EXPERIMENT, axis, bench.rounds(3, 1));
        results.setup.slice_bytes = Some(SLICE_BYTES_OF_LANES.into());
        results.ratios = Ratio::columns(&[PIPELINE], &[DIRECT]);
        results.notes.push(format!(
            "All ports at {}, the requestor's too. The direct send goes over one of the narrow links. Of cyclic repair the \
             bound is what the busiest link or port takes.",
            spec.rate
        ));
        measure(stand, &mut results)?;
        results.bounds_from(LEAST);
        Ok(results)
    })
}

/// Limits of the links to the last host, Mb/s; 0: none.
fn into_last(mbit: f64) -> Vec<Vec<f64>> {
    let hosts = HOLDERS + 1;
    let rate = |from: usize, to: usize| if to + 1 == hosts && from != to { mbit } else { 0.0 };
    (0..hosts).map(|from| (0..hosts).map(|to| rate(from, to)).collect()).collect()
}

fn measure(stand: &mut Stand<'_>, results: &mut Results) -> Result<()> {
    stand.stripes[0].requestor = stand.spares[0];
    stand.warm_up()?;
    for (x, mbit) in (0..).map(f64::from).zip(INTO_MBIT) {
        let pairs: Vec<(usize, usize, LinkRate)> =
            (0..HOLDERS).map(|from| (from, HOLDERS, LinkRate::mbit(mbit))).collect();
        stand.testbed.limit_pairs(&pairs)?;
        stand.measure_links()?;
        for round in 1..=results.setup.runs {
            stand.say_round(round, results, &format!(" at {mbit} Mb/s"));
            for label in [Label::subject(CYCLIC), Label::rival(PIPELINE)] {
                let order = stand.stripes[0].order(label.name, SLICE_BYTES_OF_LANES);
                results.add(label, x, stand.repair(&order)?.1);
            }
            results.add(Label::bare(DIRECT), x, stand.send_between(1, HOLDERS)?);
        }
    }
    Ok(())
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    let last = INTO_MBIT.len() - 1;
    let places = || (0..INTO_MBIT.len()).map(|index| (index, index as f64));
    for (index, x) in places() {
        let (paper, limit) = match index {
            0 => (Some(1.0), 1.1),
            _ if index == last => (Some(0.172), 0.2),
            _ => (None, 1.0),
        };
        let what = format!("cyclic against pipeline at {}", results.x.text(x));
        comparisons.push(why::saving(results, what, [CYCLIC, PIPELINE], x, paper).at_most(limit));
    }
    for (_, x) in places() {
        comparisons.extend(why::own_bounds(results, &[CYCLIC, PIPELINE], x));
    }
    comparisons
}
