//! PPR Figure 8: total repair time of many chunks that are lost at once.

use super::stand::{DIRECT, Stand};
use super::whole_node::{NodeSpec, Order, RATE, TOTAL, beside_bound, bound};
use super::{Bench, Experiment, Result};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Unit};
use model::NodeId;

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
const CONTENDERS: [(Label, &str, &str); 6] = [
    (Label::subject(M_PPR), "ppr", "m-ppr"),
    (Label::rival(PPR_RECENT), "ppr", "least-recent"),
    (Label::rival(TRADITIONAL), "conventional", "lowest-index"),
    (Label::subject(BALANCED), "pipeline", "balanced"),
    (Label::rival(PIPELINE_RECENT), "pipeline", "least-recent"),
    (Label::rival(PIPELINE_M_PPR), "pipeline", "m-ppr"),
];

/// Servers that are killed, one set after another.
const KILLED: &[u32] = &[1, 2, 4];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let killed = bench.sized(KILLED, &[1]);
    let spec = NodeSpec {
        holders: bench.sized(24, 8),
        requestors: 0,
        rate: bench.rate_or(100.0),
        code: bench.sized("rs-12+4", "rs-4+2"),
        block_bytes: bench.sized(4 << 20, 256 << 10),
        stripes: 10,
    };
    spec.stand(bench, |stand| {
        let sets = killed.iter().map(|&count| (1..=count).map(NodeId).collect::<Vec<_>>());
        let sets = sets.map(|dead| Ok((stand.lost(&dead, &[])?, dead))).collect::<Result<Vec<_>>>()?;
        let axis = Axis::named("chunks lost", sets.iter().map(|(lost, _)| lost.len()));
        let mut results = spec.results(stand, &EXPERIMENT, axis, bench.rounds(2, 1));
        results.y = Measure::new(TOTAL, "total repair time", Unit::Seconds);
        results.beside[0] = Measure::new(RATE, "recovery rate", Unit::MebibytesPerSecond);
        results.ratios = Ratio::columns(&[TRADITIONAL], &[]);
        results.notes.push(format!(
            "{} chunk servers, scaled down from 83 with chunks of 64 MB; {killed:?} of them killed. Traditional repair takes \
             the k helpers of the lowest indexes. PPR forwards whole chunks.",
            spec.holders
        ));
        for (x, (lost, dead)) in (0..).map(f64::from).zip(&sets) {
            dead.iter().try_for_each(|&node| stand.cluster.stop_node(node))?;
            measure(stand, x, dead, spec.block_bytes, &mut results)?;
            bound(&mut results, &[BALANCED, PIPELINE_RECENT, PIPELINE_M_PPR], x, lost);
        }
        Ok(results)
    })
}

fn measure(
    stand: &Stand<'_>,
    x: f64,
    dead: &[NodeId],
    block_bytes: u64,
    results: &mut Results,
) -> Result<()> {
    let order = |scheme, assign| Order { nodes: dead.to_vec(), ..Order::new(scheme, assign) };
    let turns = CONTENDERS.map(|(label, scheme, assign)| (label, x, order(scheme, assign)));
    let warm_up = order("pipeline", "balanced");
    stand.take_recoveries(&warm_up, (Label::bare(DIRECT), x), block_bytes, &turns, results)
}

fn compare(results: &Results) -> Vec<Comparison> {
    let Some(ours) = results.series(M_PPR) else { return Vec::new() };
    let last = ours.points.len() - 1;
    let saving = |series: &str, against: &str, x: f64| {
        let seconds = |name: &str| results.median(name, x).unwrap_or_default();
        let what = format!("{series} at {} chunks against {against}", results.x.text(x));
        let compared = Comparison::saving(what, results.ratio(series, against, x)).at_most(1.0);
        compared.why(format!("{:.2} and {:.2} s", seconds(series), seconds(against)))
    };
    let mut comparisons = Vec::new();
    for (place, point) in ours.points.iter().enumerate() {
        let paper = [(0, 0.53), (last, 0.69)].into_iter().find(|&(at, _)| at == place && last > 0);
        comparisons.push(saving(M_PPR, TRADITIONAL, point.x).paper(paper.map(|(_, ratio)| ratio)));
        comparisons.push(saving(M_PPR, PPR_RECENT, point.x));
        comparisons.push(saving(BALANCED, M_PPR, point.x));
        comparisons.push(beside_bound(results, BALANCED, point.x, None));
    }
    comparisons
}
