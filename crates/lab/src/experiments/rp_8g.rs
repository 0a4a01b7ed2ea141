//! RP Figure 8(g): repair time of one block where each link to the requestor is narrow.

use super::stand::{DIRECT, Ground, LEAST, Label, SEND_BYTES, Stand, StandSpec, VERIFIED};
use super::{Bench, Experiment, why};
use crate::bare;
use crate::error::LabError;
use crate::report::{Comparison, Form, Ratio, Results, Sample, Scale, Target};
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
const PIPELINE: &str = "pipeline";
const CODE: &str = "rs-10+4";

const HOLDERS: usize = 14;

/// Of each port, Mb/s: a quarter of the paper's. Cyclic repair keeps eleven of them busy at once in both directions, and with
/// slices as short as its lanes want them that takes half of two processors.
const PORT_MBIT: f64 = 250.0;

/// From each helper to the requestor, Mb/s.
const INTO_MBIT: [f64; 4] = [250.0, 125.0, 50.0, 25.0];

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let block_bytes: u64 = bench.sized(64 << 20, 8 << 20);
    let rate = bench.rate.unwrap_or(LinkRate::mbit(PORT_MBIT));
    let spec = StandSpec { hosts: HOLDERS + 1, rate, stripes: vec![(CODE, block_bytes)] };
    let ground = Ground { spares: 1, matrix: Some(into_last(INTO_MBIT[0])), ..Ground::default() };
    Stand::on(bench, &spec, ground, |stand| {
        let names = INTO_MBIT.iter().map(|mbit| format!("{mbit} Mb/s")).collect();
        let scale = Scale::Categories(names);
        let mut results = stand.results(&EXPERIMENT, "each link to the requestor", scale, bench.rounds(3, 1));
        results.setup.slice_bytes = Some(SLICE_BYTES_OF_LANES.into());
        results.ratios = Ratio::savings(&[PIPELINE]);
        results.ratios.push(Ratio::times(DIRECT));
        results.notes.push(format!(
            "All ports at {rate}, the requestor's too. The direct send goes over one of the narrow links. Of cyclic repair the \
             bound is what the busiest link or port takes."
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

fn measure(stand: &mut Stand<'_>, results: &mut Results) -> Result<(), LabError> {
    let node = stand.cluster.node_on(HOLDERS);
    let node = node.ok_or_else(|| LabError::BadSpec(format!("no node on host {HOLDERS}")))?;
    stand.stripes[0].requestor = node;
    stand.warm_up()?;
    for (index, mbit) in INTO_MBIT.into_iter().enumerate() {
        let pairs: Vec<(usize, usize, LinkRate)> =
            (0..HOLDERS).map(|from| (from, HOLDERS, LinkRate::mbit(mbit))).collect();
        stand.testbed.limit_pairs(&pairs)?;
        stand.measure_links()?;
        let x = index as f64;
        for round in 1..=results.setup.runs {
            (stand.bench.say)(&format!("round {round} of {} at {mbit} Mb/s", results.setup.runs));
            for label in [Label::subject(CYCLIC), Label::rival(PIPELINE)] {
                let order = stand.stripes[0].order(label.name, SLICE_BYTES_OF_LANES);
                let (_, sample) = stand.repair(&order)?;
                results.add(label.name, label.kind, label.shape, x, sample);
            }
            let label = Label::bare(DIRECT);
            let bytes = stand.stripes[0].block_bytes;
            let timing = bare::direct_send(&stand.testbed, 1, HOLDERS, bytes, SEND_BYTES)?;
            let sample = Sample::from([(VERIFIED.to_owned(), timing.seconds)]);
            results.add(label.name, label.kind, label.shape, x, sample);
        }
    }
    Ok(())
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    let last = INTO_MBIT.len() - 1;
    for (index, _) in INTO_MBIT.iter().enumerate() {
        let x = index as f64;
        let (paper, target) = match index {
            0 => (Some(1.0), Target::AtMost(1.1)),
            _ if index == last => (Some(0.172), Target::AtMost(0.2)),
            _ => (None, Target::AtMost(1.0)),
        };
        comparisons.push(Comparison {
            what: format!("cyclic against pipeline at {}", results.x.text(x)),
            form: Form::Saving,
            paper,
            target,
            ours: results.ratio(CYCLIC, PIPELINE, x),
            why: why::ratio(results, CYCLIC, PIPELINE, x, paper),
        });
    }
    for index in 0..=last {
        comparisons.extend([CYCLIC, PIPELINE].map(|name| why::own_bound(results, name, index as f64)));
    }
    comparisons
}
