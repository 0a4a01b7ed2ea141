//! Ours: healing and archival under a budget, from budgets that a home line has to ones that hold up nobody.

use super::stand::{BUSIEST, Ground, Stand, StandSpec};
use super::whole_node::{LOST, TOTAL, stop_watch};
use super::{Bench, Experiment};
use crate::cluster::{RepairOutcome, busiest_bytes};
use crate::error::{Result, bad};
use crate::report::{Axis, Comparison, Label, Measure, Results, Unit, sample};
use client::PutOptions;
use codes::Code;

pub const EXPERIMENT: Experiment = Experiment {
    id: "own-budgets",
    title: "Healing and archival under a budget: time over the bytes of the busiest side",
    paper: "none: ours. A budget bounds what each node sends, and receives, of one kind of traffic.",
    must_show: "everything is made within 1.3 times the bytes of the busiest node's side ÷ the budget, at every budget, \
                where that bound is 60 s or more.",
    run,
    compare,
};

const HEALING: &str = "healing";
const ARCHIVAL: &str = "archival";
const CODE: &str = "rs-4+2";
const NODES: usize = 8;

/// The time that the busiest side needs at least.
const BOUND_S: u64 = 60;

/// Stripes are so many that the mean side needs twice the bound: the busiest one carries more, and the sizes of both jobs differ.
const STRIPE_SECONDS: u64 = 2 * BOUND_S;

/// Budgets, and bytes of a block: many blocks at each of them.
const BUDGETS: [(&str, u64, u64); 5] = [
    ("64 kbit/s", 64_000 / 8, 64 << 10),
    ("400 kbit/s", 400_000 / 8, 256 << 10),
    ("1 Mbit/s", 1_000_000 / 8, 512 << 10),
    ("2 Mbit/s", 2_000_000 / 8, 1 << 20),
    ("20 Mbit/s", 20_000_000 / 8, 4 << 20),
];

/// Parameters of the measurements under one budget.
struct Turn {
    x: f64,
    bytes_per_s: u64,
    block_bytes: u64,
    stripes: usize,
}

fn run(bench: &Bench<'_>) -> Result<Results> {
    let spec = StandSpec {
        hosts: NODES,
        rate: bench.rate_or(1_000.0),
        stripes: Vec::new(),
        ground: Ground::default(),
    };
    Stand::storing(
        bench,
        &spec,
        |_| Ok(Vec::new()),
        |stand| {
            let y = Measure::new(TOTAL, "total time", Unit::Seconds);
            let names = BUDGETS.map(|(name, ..)| name);
            let mut results = bench.record(&EXPERIMENT, stand.setup(1), Axis::named("budget", names), y);
            results.beside = vec![Measure::new(BUSIEST, "busiest side", Unit::Mebibytes)];
            results.notes.push(format!(
            "{NODES} nodes, {CODE}. Healing recovers all blocks of one node, archival encodes blocks with three replicas. The time \
             counts from the order to the last block's end. The bound is the payload of the busiest node's side, sending or receiving, \
             over the budget."
        ));
            let chosen = bench.sized(0..BUDGETS.len(), 3..4);
            for turn in chosen.map(|index| Turn::of(index, bench.sized(STRIPE_SECONDS, 4))) {
                for (series, job) in [(HEALING, heal as Job), (ARCHIVAL, archive)] {
                    measure(stand, series, &turn, job, &mut results)?;
                }
            }
            Ok(results)
        },
    )
}

/// Runs a job under the budget. Returns its seconds, and the outcomes of its flows.
type Job = fn(&Stand<'_>, &Turn) -> Result<(f64, Vec<RepairOutcome>)>;

fn measure(stand: &Stand<'_>, series: &str, turn: &Turn, job: Job, results: &mut Results) -> Result<()> {
    let name = results.x.text(turn.x);
    (stand.bench.say)(&format!(
        "{series} at {name}: {} stripes of {} B blocks",
        turn.stripes, turn.block_bytes
    ));
    let (seconds, flows) = job(stand, turn)?;
    let busiest = busiest_bytes(flows.iter().flat_map(|flow| &flow.links)) as f64;
    let bound = busiest / turn.bytes_per_s as f64;
    (stand.bench.say)(&format!(
        "{seconds:.1} s, of which the busiest side needs {bound:.1}: {:.2} times",
        seconds / bound
    ));
    let label = if series == HEALING { Label::subject(HEALING) } else { Label::subject(ARCHIVAL) };
    results.add(label, turn.x, sample([(TOTAL, seconds), (BUSIEST, busiest)]));
    results.bound(series, turn.x, bound);
    Ok(())
}

impl Turn {
    fn of(index: usize, seconds: u64) -> Turn {
        let (_, bytes_per_s, block_bytes) = BUDGETS[index];
        let stripes = (seconds * bytes_per_s).div_ceil(block_bytes).max(4) as usize;
        Turn { x: index as f64, bytes_per_s, block_bytes, stripes }
    }

    fn object(&self, series: &str) -> String {
        format!("{series}-{}", self.x)
    }
}

fn heal(stand: &Stand<'_>, turn: &Turn) -> Result<(f64, Vec<RepairOutcome>)> {
    let (cluster, object) = (&stand.cluster, turn.object(HEALING));
    let code = Code::parse(CODE).map_err(bad)?;
    cluster.store_stripes(&object, &code, turn.stripes, turn.block_bytes)?;
    cluster.set_budgets(turn.bytes_per_s, 0)?;
    let elapsed = stop_watch();
    let flows = cluster.recover_all(LOST)?;
    let seconds = elapsed().as_secs_f64();
    cluster.set_budgets(0, 0)?;
    cluster.delete(&object)?;
    Ok((seconds, flows))
}

fn archive(stand: &Stand<'_>, turn: &Turn) -> Result<(f64, Vec<RepairOutcome>)> {
    let (cluster, object) = (&stand.cluster, turn.object(ARCHIVAL));
    let k = Code::parse(CODE).map_err(bad)?.k();
    let options = PutOptions { block_bytes: turn.block_bytes, ..PutOptions::default() };
    cluster.put_blocks(&object, k * turn.stripes, options)?;
    cluster.set_budgets(0, turn.bytes_per_s)?;
    let elapsed = stop_watch();
    let flows = cluster.encode(&object, CODE)?;
    let seconds = elapsed().as_secs_f64();
    cluster.set_budgets(0, 0)?;
    cluster.delete(&object)?;
    Ok((seconds, flows))
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for series in [HEALING, ARCHIVAL] {
        let Some(points) = results.series(series).map(|series| &series.points) else { continue };
        for x in points.iter().map(|point| point.x) {
            let over = results.of_bound(series, x);
            let what = format!("{series} at {}, over the busiest side's bytes ÷ budget", results.x.text(x));
            comparisons.push(Comparison::times(what, over).at_most(1.3));
        }
    }
    comparisons
}
