//! PPR Figure 8: total repair time of many chunks that are lost at once.

use super::whole_node::{DIRECT, Link, NodeSpec, NodeStand, Order, RATE, TOTAL, beside_bound, named};
use super::{Bench, Experiment};
use crate::error::LabError;
use crate::report::{Comparison, Form, Kind, Measure, Ratio, Results, Shape, Target, Unit};
use crate::testbed::LinkRate;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ppr-8",
    title: "Total repair time of chunks that are lost at once",
    paper: "PPR, Figure 8; RS(12,4) written (k,m), 64 MB, 83 chunk servers of which some are killed. m-PPR −31 … −47 % against \
            traditional repair; the gain shrinks as failures grow, because links are shared.",
    must_show: "m-PPR faster than traditional repair; beside it the least recently selected helpers and our assignment.",
    run,
    compare,
};

const TRADITIONAL: &str = "traditional";
const M_PPR: &str = "m-PPR";
const PPR_RECENT: &str = "PPR, least recent";
const PIPELINE_M_PPR: &str = "pipeline, m-PPR";
const PIPELINE_RECENT: &str = "pipeline, least recent";
const BALANCED: &str = "pipeline, balanced";

/// Series, scheme, assignment.
const CONTENDERS: [(&str, Kind, &str, &str); 6] = [
    (M_PPR, Kind::Subject, "ppr", "m-ppr"),
    (PPR_RECENT, Kind::Rival, "ppr", "least-recent"),
    (TRADITIONAL, Kind::Rival, "conventional", "lowest-index"),
    (BALANCED, Kind::Subject, "pipeline", "balanced"),
    (PIPELINE_RECENT, Kind::Rival, "pipeline", "least-recent"),
    (PIPELINE_M_PPR, Kind::Rival, "pipeline", "m-ppr"),
];

const SLICE_BYTES: u32 = 32 << 10;

/// Servers that are killed, one set after another.
const KILLED: &[u32] = &[1, 2, 4];

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let block_bytes = bench.sized(4 << 20, 256 << 10);
    let killed = bench.sized(KILLED, &[1]);
    let spec = NodeSpec {
        holders: bench.sized(24, 8),
        requestors: 0,
        rate: bench.rate.unwrap_or(LinkRate::mbit(100.0)),
        code: bench.sized("rs-12+4", "rs-4+2"),
        block_bytes,
        stripes: bench.sized(10, 10),
    };
    NodeStand::with(bench, &spec, |stand| {
        let mut lost = Vec::new();
        for &count in killed {
            lost.push(stand.lost(&(1..=count).collect::<Vec<u32>>(), &[])?);
        }
        let axis = named("chunks lost", lost.iter().map(|lost| lost.len().to_string()));
        let mut results = stand.results(&EXPERIMENT, &spec, axis, bench.rounds(2, 1));
        results.setup.slice_bytes = Some(SLICE_BYTES.into());
        results.y = Measure::new(TOTAL, "total repair time", Unit::Seconds);
        results.beside[0] = Measure::new(RATE, "recovery rate", Unit::MebibytesPerSecond);
        results.ratios = vec![Ratio { against: TRADITIONAL.to_owned(), form: Form::Saving }];
        results.notes.push(format!(
            "{} chunk servers, scaled down from 83 with chunks of 64 MB; {killed:?} of them killed. Traditional repair takes \
             the k helpers of the lowest indexes. PPR forwards whole chunks.",
            spec.holders
        ));
        for (x, (&count, lost)) in killed.iter().zip(&lost).enumerate() {
            let dead: Vec<u32> = (1..=count).collect();
            for &node in &dead {
                stand.cluster.stop_node(node)?;
            }
            measure(stand, x as f64, &dead, block_bytes, &mut results)?;
            if let Some(link) = results.summary(DIRECT, x as f64, RATE).map(|summary| Link(summary.median)) {
                let bytes: u64 = lost.iter().map(|block| block.bytes).sum();
                for name in [BALANCED, PIPELINE_RECENT, PIPELINE_M_PPR] {
                    results.bound(name, x as f64, bytes as f64 / link.best(lost));
                }
            }
        }
        Ok(results)
    })
}

fn measure(
    stand: &NodeStand<'_>,
    x: f64,
    dead: &[u32],
    block_bytes: u64,
    results: &mut Results,
) -> Result<(), LabError> {
    let order = |scheme, assign| Order {
        nodes: dead.to_vec(),
        scheme,
        assign,
        requestors: Vec::new(),
        slice_bytes: SLICE_BYTES,
        parallel: 0,
    };
    (stand.bench.say)("warming up");
    stand.recover(&order("pipeline", "balanced"))?;
    for round in 1..=results.setup.runs {
        stand.note(results, round, (DIRECT, Kind::Bare, Shape::Curve), x, stand.direct(block_bytes)?);
        for (name, kind, scheme, assign) in CONTENDERS {
            let sample = stand.recover(&order(scheme, assign))?;
            stand.note(results, round, (name, kind, Shape::Curve), x, sample);
        }
    }
    Ok(())
}

fn compare(results: &Results) -> Vec<Comparison> {
    let Some(ours) = results.series(M_PPR) else { return Vec::new() };
    let last = ours.points.len() - 1;
    let saving = |series: &str, against: &str, x: f64, paper: Option<f64>| Comparison {
        what: format!("{series} at {} chunks against {against}", results.x.text(x)),
        form: Form::Saving,
        paper,
        target: Target::AtMost(1.0),
        ours: results.ratio(series, against, x),
        why: {
            let seconds = |name: &str| results.median(name, x).unwrap_or_default();
            format!("{:.2} and {:.2} s", seconds(series), seconds(against))
        },
    };
    let mut comparisons = Vec::new();
    for (place, point) in ours.points.iter().enumerate() {
        let paper = [(0, 0.53), (last, 0.69)].into_iter().find(|&(at, _)| at == place && last > 0);
        comparisons.push(saving(M_PPR, TRADITIONAL, point.x, paper.map(|(_, ratio)| ratio)));
        comparisons.push(saving(M_PPR, PPR_RECENT, point.x, None));
        comparisons.push(saving(BALANCED, M_PPR, point.x, None));
        comparisons.push(beside_bound(results, BALANCED, point.x, None));
    }
    comparisons
}
