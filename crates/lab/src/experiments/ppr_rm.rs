//! PPR §7.6: how fast repairs are planned.

use super::whole_node::{self, LOST, NodeSpec, NodeStand, Order};
use super::{Bench, Experiment};
use crate::error::LabError;
use crate::report::{
    Axis, Comparison, Form, Kind, Machine, Measure, Results, Sample, Scale, Setup, Shape, Target, Unit,
};
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
const ASSIGNMENTS: [(&str, Kind, Assign); 3] = [
    ("balanced", Kind::Subject, Assign::Balanced),
    ("least recent", Kind::Rival, Assign::LeastRecent),
    ("m-PPR", Kind::Rival, Assign::MPpr),
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

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let stripes = bench.sized(8 * 1_024, 1_024);
    let rounds = bench.rounds(7, 2);
    let setup = Setup {
        machine: Machine::this(),
        network: format!("none: {NODES} nodes in {RACKS} racks, on paper"),
        hosts: None,
        link_bits_per_s: None,
        link_measured_bits_per_s: None,
        code: None,
        block_bytes: Some(64 << 20),
        slice_bytes: Some(flow::limits::DEFAULT_SLICE_BYTES.into()),
        runs: rounds,
    };
    let names = CODES.iter().map(|&(name, _)| name.to_owned()).collect();
    let x = Axis { label: "(n,k)".to_owned(), scale: Scale::Categories(names) };
    let y = Measure::new(PER_S, "planned", Unit::PerSecond);
    let mut results = Results::new(EXPERIMENT.id, EXPERIMENT.title, bench.quick, setup, x, y);
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
        Cluster::new(&paper).map_err(|error| LabError::BadSpec(error.to_string()))
    });
    for round in 1..=rounds {
        for (x, cluster) in clusters.iter().enumerate() {
            let Ok(cluster) = cluster else { continue };
            for (name, kind, assign) in ASSIGNMENTS {
                let how = (assign, Some(Scheme::Pipeline));
                let planned = cluster
                    .plan(how, whole_node::stop_watch(), |plan| order(plan, false).encode_to_vec().len());
                let planned = planned.map_err(|error| LabError::BadSpec(error.to_string()))?;
                (bench.say)(&format!(
                    "round {round} of {rounds}: {name} at {}: {:.0} repairs/s",
                    CODES[x].0,
                    planned.repairs_per_s()
                ));
                results.add(name, kind, Shape::Curve, x as f64, sample(&planned));
            }
        }
    }
    for cluster in clusters {
        cluster?;
    }
    distribute(bench, &mut results)?;
    Ok(results)
}

/// Repairs planned, and prepared by all who would take part, by the daemons of a cluster on this machine.
fn distribute(bench: &Bench<'_>, results: &mut Results) -> Result<(), LabError> {
    let spec = NodeSpec {
        holders: 17,
        requestors: 0,
        rate: LinkRate::UNLIMITED,
        code: CODES[DISTRIBUTED_CODE].1,
        block_bytes: 32 << 10,
        stripes: bench.sized(300, 40),
    };
    NodeStand::with(bench, &spec, |stand| {
        let order = Order {
            nodes: vec![LOST],
            scheme: "pipeline",
            assign: "balanced",
            requestors: Vec::new(),
            slice_bytes: 0,
            parallel: 0,
        };
        // The first connections are not measured.
        stand.rehearse(&order)?;
        let mut repairs = 0;
        for round in 1..=results.setup.runs {
            let rehearsed = stand.rehearse(&order)?;
            repairs = rehearsed.repairs;
            let rate = repairs as f64 / rehearsed.seconds;
            let own = rehearsed.coordinator_cpu_s / repairs as f64;
            (bench.say)(&format!(
                "round {round} of {}: {rate:.0} repairs/s distributed, {:.0} µs of the coordinator's processor each",
                results.setup.runs,
                own * 1e6
            ));
            let sample = Sample::from([(PER_S.to_owned(), rate), (COORDINATOR_S.to_owned(), own * 1e3)]);
            results.add(DISTRIBUTED, Kind::Subject, Shape::Curve, DISTRIBUTED_CODE as f64, sample);
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
    [
        (PER_S, planned.repairs_per_s()),
        (CHOSEN, per_1000(planned.chosen)),
        (BUILT, per_1000(planned.built)),
        (WRITTEN, per_1000(planned.written)),
        (BYTES, planned.bytes as f64 / planned.repairs as f64),
    ]
    .into_iter()
    .map(|(metric, value)| (metric.to_owned(), value))
    .collect()
}

/// Rates over what is asked for, 50,000, and over the paper's.
fn compare(results: &Results) -> Vec<Comparison> {
    const ASKED: f64 = 50_000.0;
    let mut comparisons = Vec::new();
    for (name, _, _) in ASSIGNMENTS {
        for (x, (code, _)) in CODES.iter().enumerate() {
            let median = |metric: &str| {
                results.summary(name, x as f64, metric).map_or(0.0, |summary| summary.median * 1e3)
            };
            let chosen_per_s = 1e6 / median(CHOSEN);
            comparisons.push(Comparison {
                what: format!("{name} at {code}: helpers and requestors chosen, over 50,000/s"),
                form: Form::Times,
                paper: None,
                target: Target::None,
                ours: chosen_per_s.is_finite().then_some(chosen_per_s / ASKED),
                why: "without the flows and the messages".to_owned(),
            });
            comparisons.push(Comparison {
                what: format!("{name} at {code} over 50,000 plans/s"),
                form: Form::Times,
                paper: None,
                target: Target::AtLeast(1.0),
                ours: results.median(name, x as f64).map(|rate| rate / ASKED),
                why: format!(
                    "µs a repair: choosing {:.1}, flow {:.1}, message {:.1}",
                    median(CHOSEN),
                    median(BUILT),
                    median(WRITTEN)
                ),
            });
        }
    }
    comparisons.extend(distributed(results));
    for (x, manager) in PAPER {
        comparisons.push(Comparison {
            what: format!("balanced at {} over {MANAGER}", CODES[x].0),
            form: Form::Times,
            paper: Some(1.0),
            target: Target::AtLeast(1.0),
            ours: results.median(ASSIGNMENTS[0].0, x as f64).map(|rate| rate / manager),
            why: "ours without messages".to_owned(),
        });
    }
    comparisons
}

/// What all participants prepared.
fn distributed(results: &Results) -> [Comparison; 3] {
    let (code, at) = (CODES[DISTRIBUTED_CODE].0, DISTRIBUTED_CODE as f64);
    let rate = results.median(DISTRIBUTED, at);
    let own = results.summary(DISTRIBUTED, at, COORDINATOR_S).map(|summary| summary.median);
    let compared = |what: String, target: Target, ours: Option<f64>, why: &str| Comparison {
        what,
        form: Form::Times,
        paper: None,
        target,
        ours,
        why: why.to_owned(),
    };
    [
        compared(
            format!("planned and distributed at {code} over 2,000/s"),
            Target::AtLeast(1.0),
            rate.map(|rate| rate / 2_000.0),
            "all participants prepare on the same processors",
        ),
        compared(
            format!("… by the coordinator's own processor time at {code}"),
            Target::None,
            own.filter(|seconds| *seconds > 0.0).map(|per_1000| 1e3 / per_1000 / 2_000.0),
            "what it could distribute if the participants had processors of their own",
        ),
        compared(
            format!("… in messages at {code}, over 2,000 × (1 + k/2) a second"),
            Target::None,
            rate.map(|rate| rate * MESSAGES / (2_000.0 * PAPER_MESSAGES)),
            "the paper's repair manager tells aggregators, 1 + k/2; of ours every participant hears, 1 + k",
        ),
    ]
}
