//! Ours: several pipelines at once on uneven nodes, against the best single path and the linear programme's bound.

use super::stand::{Ground, LEAST, PIPELINE, Stand, StandSpec, VERIFIED};
use super::{Bench, Experiment, why};
use crate::error::{Result, bad};
use crate::report::{Axis, Comparison, Form, Label, Ratio, Results, sample};
use crate::testbed::LinkRate;
use flow::limits::SLICE_BYTES_OF_LANES;
use plan::Draw;
use plan::path::{Bandwidth, MAX_LANES, MultiPath, multi_path};
use serde_json::json;

pub const EXPERIMENT: Experiment = Experiment {
    id: "own-multipath",
    title: "Several paths at once on uneven nodes",
    paper: "none: repair pipelining takes one path (§4.3).",
    must_show: "the planned rate at least 0.95 of the linear programme's bound, the measured one at least 0.9 of the plan.",
    run,
    compare,
};

const MULTI_PATH: &str = "multi-path";
const WEIGHTED: &str = "weighted";
/// What the planner says, and what no plan exceeds, as times.
const PLAN: &str = "plan";
const BOUND: &str = "linear programme";

const K: usize = 10;
const HOLDERS: usize = 14;

/// Clusters of ports drawn at random.
const CLUSTERS: usize = 4;

/// What a port may carry, Mb/s, both ways alike.
const PORT_MBIT: [f64; 5] = [100.0, 200.0, 300.0, 500.0, 800.0];

/// The requestor's is no limit.
const REQUESTOR_MBIT: f64 = 1000.0;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let block_bytes: u64 = bench.sized(64 << 20, 8 << 20);
    let clusters = bench.sized(CLUSTERS, 1);
    let mut draw = Draw::seeded(0x000a);
    let ports: Vec<Vec<f64>> = (0..clusters)
        .map(|_| {
            let ports = (0..HOLDERS).map(|_| PORT_MBIT[draw.below(PORT_MBIT.len())]);
            ports.chain([REQUESTOR_MBIT]).collect()
        })
        .collect();
    let rates = |ports: &[f64]| ports.iter().map(|&mbit| LinkRate::mbit(mbit)).collect();
    let spec = StandSpec {
        hosts: HOLDERS + 1,
        rate: LinkRate::mbit(REQUESTOR_MBIT),
        stripes: vec![("rs-10+4", block_bytes)],
        ground: Ground { spares: 1, ports: rates(&ports[0]), ..Ground::default() },
    };
    Stand::with(bench, &spec, |stand| {
        let names = (1..=clusters).map(|cluster| format!("cluster {cluster}"));
        let axis = Axis::named("ports drawn at random", names);
        let mut results = stand.results(&EXPERIMENT, axis, bench.rounds(3, 1));
        results.setup.slice_bytes = Some(SLICE_BYTES_OF_LANES.into());
        results.ratios = Ratio::columns(&[PIPELINE, WEIGHTED], &[PLAN]);
        results.notes.push(format!(
            "Each host's port is drawn from {PORT_MBIT:?} Mb/s, the requestor's is {REQUESTOR_MBIT} Mb/s. Plan and linear \
             programme (`stripeline plan multipath`) are the block over their rates, payload only, without the time in \
             which pipelines fill."
        ));
        stand.stripes[0].requestor = stand.spares[0];
        stand.warm_up()?;
        for (index, ports) in ports.iter().enumerate() {
            for (host, &mbit) in ports.iter().enumerate() {
                stand.testbed.set_host_rate(host, LinkRate::mbit(mbit))?;
            }
            stand.measure_links()?;
            measure(stand, &mut results, index as f64, ports)?;
        }
        results.bounds_from(LEAST);
        Ok(results)
    })
}

fn measure(stand: &mut Stand<'_>, results: &mut Results, x: f64, ports: &[f64]) -> Result<()> {
    stand.cluster.set_links(&json!({ "up": ports, "down": ports }).to_string())?;
    let lost = stand.cluster.host_of(stand.stripes[0].members[0])?.index;
    let plan = planned(ports, lost)?;
    let block = stand.stripes[0].block_bytes as f64;
    let seconds = |mbit: f64| {
        let rate = LinkRate::mbit(mbit).payload_bytes_per_s().unwrap_or(f64::INFINITY);
        sample([(VERIFIED, block / rate)])
    };
    for round in 1..=results.setup.runs {
        stand.say_round(round, results, &format!(": {}", results.x.text(x)));
        for label in [Label::subject(MULTI_PATH), Label::rival(WEIGHTED), Label::rival(PIPELINE)] {
            let order = stand.stripes[0].order(label.name, SLICE_BYTES_OF_LANES);
            results.add(label, x, stand.repair(&order)?.1);
        }
        for (label, rate) in [(Label::bare(PLAN), plan.rate), (Label::bare(BOUND), plan.bound)] {
            results.add(label, x, seconds(rate));
        }
    }
    Ok(())
}

/// Over all hosts that hold another block of the stripe.
fn planned(ports: &[f64], lost: usize) -> Result<MultiPath> {
    let helpers: Vec<usize> = (0..HOLDERS).filter(|&host| host != lost).collect();
    let plan = Bandwidth::of_nodes(ports.to_vec(), ports.to_vec())
        .and_then(|bandwidth| multi_path(&bandwidth, &helpers, K, HOLDERS, MAX_LANES));
    plan.map_err(bad)
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    let measured = results.series(MULTI_PATH).map_or(0, |series| series.points.len());
    for index in 0..measured {
        let x = index as f64;
        let compared = |name: &str, against: &str| {
            let what = format!("{name} against {against}, {}", results.x.text(x));
            Comparison { form: Form::Times, ..why::saving(results, what, [name, against], x, None) }
        };
        comparisons.extend([
            compared(PLAN, BOUND).at_most(1.0 / 0.95),
            compared(MULTI_PATH, PLAN).at_most(1.0 / 0.9),
            compared(MULTI_PATH, WEIGHTED),
            compared(MULTI_PATH, PIPELINE),
        ]);
    }
    comparisons
}
