//! PPR §7.6: how fast repairs are planned.

use super::whole_node::{NodeSpec, Order, stop_watch};
use super::{Bench, Experiment};
use crate::error::{Result, bad};
use crate::report::{Axis, Comparison, Label, Measure, Results, Sample, Setup, Unit, sample as sample_of};
use crate::testbed::LinkRate;
use flow::Scheme;
use model::Assign;
use plan::paper::{Cluster, Paper, Planned};
use wire::Message;
use wire::codec::plan::order;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ppr-rm",
    title: "Repairs planned per second",
    paper: "PPR, section 7.6; RS(6,3) and RS(12,4) written (k,m): 5.3 and 8.7 ms to plan and distribute a repair, 189 and \
            115 repairs per second by one repair manager.",
    must_show: "≥ 50,000 plans a second in one thread in a cluster of 1,000 nodes, each with its flow built, proved and \
                written out as the message that goes to its requestor; ≥ 2,000 a second planned and distributed.",
    run,
    compare,
};

const PER_S: &str = "repairs_per_s";
const CHOSEN: &str = "chosen_s";
const BUILT: &str = "built_s";
const WRITTEN: &str = "written_s";
const BYTES: &str = "plan_bytes";
const COORDINATOR_S: &str = "coordinator_cpu_s";

const CODES: [(&str, &str); 3] = [("(9,6)", "rs-6+3"), ("(14,10)", "rs-10+4"), ("(16,12)", "rs-12+4")];

/// Series and assignment.
const ASSIGNMENTS: [(Label, Assign); 3] = [
    (Label::subject("balanced"), Assign::Balanced),
    (Label::rival("least recent"), Assign::LeastRecent),
    (Label::rival("m-PPR"), Assign::MPpr),
];

/// Planned, and prepared by all participants.
const DISTRIBUTED: &str = "balanced, distributed";
const DISTRIBUTED_CODE: usize = 1;
/// Messages of a repair at that code: one to the requestor, one from it to each helper …
const MESSAGES: f64 = 11.0;
/// … and those of the paper's repair manager, 1 + k/2.
const PAPER_MESSAGES: f64 = 6.0;

/// What the paper's repair manager did, at the codes that it names.
const MANAGER: &str = "the paper's repair manager, with distribution";
const PAPER: [(usize, f64); 2] = [(0, 189.0), (2, 115.0)];

const NODES: u32 = 1_000;
const RACKS: u32 = 50;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let stripes = bench.sized(8 * 1_024, 1_024);
    let rounds = bench.rounds(7, 2);
    let setup = Setup {
        block_bytes: Some(64 << 20),
        slice_bytes: Some(flow::limits::DEFAULT_SLICE_BYTES.into()),
        ..Setup::here(&format!("none: {NODES} nodes in {RACKS} racks, on paper"), rounds)
    };
    let x = Axis::named("(n,k)", CODES.map(|(name, _)| name));
    let y = Measure::new(PER_S, "planned", Unit::PerSecond);
    let mut results = bench.record(&EXPERIMENT, setup, x, y);
    results.beside = vec![
        Measure::new(CHOSEN, "choosing, 1,000 repairs", Unit::Milliseconds),
        Measure::new(BUILT, "flows built and proved, 1,000 repairs", Unit::Milliseconds),
        Measure::new(WRITTEN, "written out, 1,000 repairs", Unit::Milliseconds),
        Measure::new(COORDINATOR_S, "the coordinator's processor time, 1,000 repairs", Unit::Milliseconds),
    ];
    results.notes.push(format!(
        "{stripes} stripes of a cluster on paper, one block lost of each, planned in one thread by the coordinator's planner \
         for a pipeline, in batches as a recovery does: candidates, helpers and requestor, flow, proof, price, addresses, \
         tokens, and the bytes of the message to the requestor. Rows in the catalog and the messages themselves are not in \
         it; the paper's figures have the messages."
    ));
    let clusters = CODES.map(|(_, code)| {
        let paper = Paper {
            nodes: NODES,
            racks: RACKS,
            code: code.to_owned(),
            block_bytes: 64 << 20,
            stripes,
            seed: 1,
        };
        Cluster::new(&paper).map_err(bad)
    });
    let clusters = clusters.into_iter().collect::<Result<Vec<_>, _>>()?;
    for round in 1..=rounds {
        for (x, cluster) in clusters.iter().enumerate() {
            for (label, assign) in ASSIGNMENTS {
                let how = (assign, Some(Scheme::Pipeline));
                let planned =
                    cluster.plan(how, stop_watch(), |plan| order(plan, false).encode_to_vec().len());
                let planned = planned.map_err(bad)?;
                let (at, rate) = (CODES[x].0, planned.repairs_per_s());
                (bench.say)(&format!(
                    "round {round} of {rounds}: {} at {at}: {rate:.0} repairs/s",
                    label.name
                ));
                results.add(label, x as f64, sample(&planned));
            }
        }
    }
    distribute(bench, &mut results)?;
    Ok(results)
}

/// Repairs planned, and prepared by all who would take part, by the daemons of a cluster on this machine.
fn distribute(bench: &Bench<'_>, results: &mut Results) -> Result<()> {
    let spec = NodeSpec {
        holders: 17,
        requestors: 0,
        rate: LinkRate::UNLIMITED,
        code: CODES[DISTRIBUTED_CODE].1,
        block_bytes: 32 << 10,
        stripes: bench.sized(300, 40),
    };
    spec.stand(bench, |stand| {
        let order = Order { slice_bytes: 0, ..Order::new("pipeline", "balanced") };
        // The first connections are not measured.
        stand.rehearse(&order)?;
        let mut repairs = 0;
        for round in 1..=results.setup.runs {
            let rehearsed = stand.rehearse(&order)?;
            repairs = rehearsed.repairs;
            let rate = repairs as f64 / rehearsed.seconds;
            let own = rehearsed.coordinator_cpu_s / repairs as f64;
            let own_us = own * 1e6;
            let told = format!(
                ": {rate:.0} repairs/s distributed, {own_us:.0} µs of the coordinator's processor each"
            );
            stand.say_round(round, results, &told);
            let sample = sample_of([(PER_S, rate), (COORDINATOR_S, own * 1e3)]);
            results.add(Label::subject(DISTRIBUTED), DISTRIBUTED_CODE as f64, sample);
        }
        results.notes.push(format!(
            "Distributed: `repair node --dry-run` of {repairs} blocks on {} nodes, processes of their own on this machine, in \
             namespaces without limits. It counts from the order to the last answer: rows read from the catalog, plans made \
             and sent to their requestors, and every one of the k helpers and the requestor has checked its part, opened \
             its block, reserved its buffers and started its thread. Then all let go; nothing moves. The two sides share \
             the processors.",
            spec.holders
        ));
        Ok(())
    })
}

fn sample(planned: &Planned) -> Sample {
    let per_1000 = |step: std::time::Duration| step.as_secs_f64() * 1_000.0 / planned.repairs as f64;
    sample_of([
        (PER_S, planned.repairs_per_s()),
        (CHOSEN, per_1000(planned.chosen)),
        (BUILT, per_1000(planned.built)),
        (WRITTEN, per_1000(planned.written)),
        (BYTES, planned.bytes as f64 / planned.repairs as f64),
    ])
}

/// Rates over what is asked for, 50,000, and over the paper's.
fn compare(results: &Results) -> Vec<Comparison> {
    const ASKED: f64 = 50_000.0;
    let mut comparisons = Vec::new();
    for (Label { name, .. }, _) in ASSIGNMENTS {
        for (x, (code, _)) in (0..).map(f64::from).zip(CODES) {
            let median = |metric: &str| results.median_of(name, x, metric) * 1e3;
            let (chosen, built, written) = (median(CHOSEN), median(BUILT), median(WRITTEN));
            let chosen_per_s = 1e6 / chosen;
            let what = format!("{name} at {code}: helpers and requestors chosen, over 50,000/s");
            let over = chosen_per_s.is_finite().then_some(chosen_per_s / ASKED);
            comparisons.push(Comparison::times(what, over).why("without the flows and the messages"));
            let what = format!("{name} at {code} over 50,000 plans/s");
            let over = Comparison::times(what, results.median(name, x).map(|rate| rate / ASKED));
            comparisons
                .push(over.at_least(1.0).why(format!(
                    "µs a repair: choosing {chosen:.1}, flow {built:.1}, message {written:.1}"
                )));
        }
    }
    comparisons.extend(distributed(results));
    for (x, manager) in PAPER {
        let what = format!("balanced at {} over {MANAGER}", CODES[x].0);
        let rate = results.median(ASSIGNMENTS[0].0.name, x as f64);
        let over = Comparison::times(what, rate.map(|rate| rate / manager)).paper(1.0);
        comparisons.push(over.at_least(1.0).why("ours without messages"));
    }
    comparisons
}

/// What all participants prepared.
fn distributed(results: &Results) -> [Comparison; 3] {
    let (code, at) = (CODES[DISTRIBUTED_CODE].0, DISTRIBUTED_CODE as f64);
    let rate = results.median(DISTRIBUTED, at);
    let own = results.summary(DISTRIBUTED, at, COORDINATOR_S).map(|summary| summary.median);
    let own = own.filter(|seconds| *seconds > 0.0);
    [
        Comparison::times(
            format!("planned and distributed at {code} over 2,000/s"),
            rate.map(|rate| rate / 2_000.0),
        )
        .at_least(1.0)
        .why("all participants prepare on the same processors"),
        Comparison::times(
            format!("… by the coordinator's own processor time at {code}"),
            own.map(|per_1000| 1e3 / per_1000 / 2_000.0),
        )
        .why("what it could distribute if the participants had processors of their own"),
        Comparison::times(
            format!("… in messages at {code}, over 2,000 × (1 + k/2) a second"),
            rate.map(|rate| rate * MESSAGES / (2_000.0 * PAPER_MESSAGES)),
        )
        .why("the paper's repair manager tells aggregators, 1 + k/2; of ours every participant hears, 1 + k"),
    ]
}
