//! Ours: a helper that is slow, or stands still, in the middle of a repair or beside a degraded read.

mod reads;

use super::stand::{DIRECT, ORDER, SLICE_BYTES, Stand, StandSpec};
use super::{Bench, Experiment, Result};
use crate::cluster::{LabCluster, RepairOrder};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Sample, Target, Unit};
use crate::testbed::LinkRate;
use model::NodeId;
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    id: "own-straggler",
    title: "Repair and degraded reads with one helper that is slow or stands still",
    paper: "none: both repair papers assume helpers that answer.",
    must_show: "with a helper at a tenth of the rate, or one that stands still in mid-repair, a pipeline that goes around \
                it is faster than one that waits; so is a star if it stands still (a tenth of the rate is what a star of \
                ten gives each helper). Beside them the best path without that helper, known from the beginning. A mended \
                pipeline and a mended read of a block are five times as fast as patient ones if a helper has a tenth of the \
                rate; 99 of 100 hedged reads of 4 KiB take at most three times their median, whatever the helper does; and \
                hedges add less than a hundredth to what healthy reads carry.",
    run,
    compare,
};

const HEALTHY: f64 = 0.0;
const TENTH: f64 = 1.0;
const STALLS: f64 = 2.0;
const CONDITIONS: [&str; 3] = ["all healthy", "one at a tenth of the rate", "one stands still"];

/// The straggler's place among the helpers, in the order of the chain: in the middle.
const PLACE: usize = 5;

/// When it stands still: after this part of what the repair takes otherwise.
const MIDWAY: f64 = 0.3;

const MENDED: &str = "pipeline, mended";
const PATIENT: &str = "pipeline, patient";
const STAR_MENDED: &str = "star, mended";
const STAR_PATIENT: &str = "star, patient";
const WITHOUT: &str = "best path without it";

/// Series, scheme, whether it waits, whether it knows from the beginning.
const CONTENDERS: [(Label, &str, bool, bool); 5] = [
    (Label::subject(MENDED), "pipeline", false, false),
    (Label::rival(PATIENT), "pipeline", true, false),
    (Label::rival(STAR_MENDED), "conventional", false, false),
    (Label::rival(STAR_PATIENT), "conventional", true, false),
    (Label::bare(WITHOUT), "pipeline", true, true),
];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let block_bytes: u64 = bench.sized(64 << 20, 16 << 20);
    let spec = StandSpec::usual(bench, 1000.0, vec![("rs-10+4", block_bytes)]);
    Stand::with(bench, &spec, |stand| {
        let rate = spec.rate;
        let mut results = stand.results(&EXPERIMENT, Axis::named("helpers", CONDITIONS), bench.rounds(3, 1));
        results.y = Measure::new(ORDER, "order to answer", Unit::Seconds);
        results.beside.retain(|measure| measure.metric != ORDER);
        results.beside.push(Measure::new(reads::EXTRA, "bytes of hedges", Unit::Percent));
        results.log_y = true;
        results.ratios = Ratio::columns(&[], &[WITHOUT, DIRECT]);
        results.notes.push(format!(
            "Times are from the order to the answer, so that all attempts count; the times to the last verified byte are \
             those of the last attempt. What is usual is known from the repairs before. The straggler is the helper at \
             place {PLACE} of the chain; it stands still (its process is stopped) after {MIDWAY} of the time that the \
             repair takes when all are healthy. Who is patient mends only around helpers that say nothing for 5 s. Reads come \
             before the repairs, for who has held up repairs is no helper where others suffice; each client meets the \
             straggler after reads with all healthy, and remembers it then."
        ));
        let helpers = helpers(stand)?;
        stand.warm_up()?;
        let straggler = helpers[PLACE];
        reads::measure(stand, straggler, &mut results)?;
        let host = stand.cluster.host_of(straggler)?.index;
        for round in 1..=results.setup.runs {
            for (x, limit) in
                [(HEALTHY, rate), (TENTH, LinkRate { bits_per_s: rate.bits_per_s / 10 }), (STALLS, rate)]
            {
                stand.testbed.set_host_rate(host, limit)?;
                if round == 1 {
                    stand.measure_links()?;
                }
                for (label, scheme, patient, knows) in CONTENDERS {
                    let mut helpers = helpers.clone();
                    helpers.retain(|&node| !knows || node != straggler);
                    let order = stand.stripes[0].order(scheme, SLICE_BYTES);
                    let order = RepairOrder { helpers, patient, ..order };
                    let stop = (x == STALLS && !knows).then(|| midway(&results, label.name));
                    let sample = measure(stand, &order, straggler, stop)?;
                    let seconds = sample.get(ORDER).copied().unwrap_or_default();
                    let told = format!(": {} with {}: {seconds:.3} s", label.name, results.x.text(x));
                    stand.say_round(round, &results, &told);
                    results.add(label, x, sample);
                }
            }
            results.add(Label::bare(DIRECT).level(), HEALTHY, stand.direct(block_bytes)?);
        }
        Ok(results)
    })
}

/// The nodes with other blocks of the stripe, none of them the coordinator's neighbour at [`PLACE`].
fn helpers(stand: &Stand<'_>) -> Result<Vec<NodeId>> {
    let mut helpers = stand.stripes[0].members[1..].to_vec();
    if stand.cluster.host_of(helpers[PLACE])?.index == LabCluster::COORDINATOR_HOST {
        helpers.swap(PLACE, PLACE + 1);
    }
    Ok(helpers)
}

fn midway(results: &Results, series: &str) -> Duration {
    Duration::from_secs_f64(results.median(series, HEALTHY).unwrap_or_default() * MIDWAY)
}

/// One repair, in the middle of which the straggler stands still if `stop` says when.
fn measure(
    stand: &mut Stand<'_>,
    order: &RepairOrder,
    straggler: NodeId,
    stop: Option<Duration>,
) -> Result<Sample> {
    let Some(after) = stop else { return Ok(stand.repair(order)?.1) };
    let cluster = &stand.cluster;
    let repaired = std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(after);
            cluster.freeze_node(straggler);
        });
        stand.repair(order)
    });
    stand.cluster.thaw_node(straggler)?;
    Ok(repaired?.1)
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for x in [TENTH, STALLS] {
        let star = if x == STALLS { Target::AtMost(1.0) } else { Target::None };
        let fifth = Target::AtMost(if x == TENTH { 0.2 } else { 1.0 });
        let beside = [
            (reads::LONG_MENDED, reads::LONG_PATIENT, fifth),
            (MENDED, PATIENT, fifth),
            (STAR_MENDED, STAR_PATIENT, star),
            (MENDED, WITHOUT, Target::None),
        ];
        comparisons.extend(beside.map(|(name, against, target)| {
            let what = format!("{name} against {against}, {}", results.x.text(x));
            Comparison::times(what, results.ratio(name, against, x)).target(target)
        }));
    }
    comparisons.extend([HEALTHY, TENTH, STALLS].map(|x| tail(results, x)));
    let extra = results.series(reads::HEALTHY_READ).and_then(|series| series.at(HEALTHY)).map(|point| {
        let shares = point.samples.iter().filter_map(|sample| sample.get(reads::EXTRA));
        shares.sum::<f64>() / point.samples.len().max(1) as f64
    });
    let what = "what hedges carry of healthy reads, for each byte";
    comparisons.push(Comparison::number(what, extra).at_most(0.01));
    comparisons
}

/// The slowest hundredth of hedged reads, beside the median.
fn tail(results: &Results, x: f64) -> Comparison {
    let hedged = results.summary(reads::HEDGED, x, ORDER);
    let what = format!("p99 of {} against its median, {}", reads::HEDGED, results.x.text(x));
    let patient = results.summary(reads::SHORT_PATIENT, x, ORDER).map_or(0.0, |patient| patient.max);
    // With all healthy it is the machine's own, which own-latency shows.
    let target = if x == HEALTHY { Target::None } else { Target::AtMost(3.0) };
    Comparison::times(what, hedged.as_ref().map(|hedged| hedged.p99 / hedged.median)).target(target).why(
        hedged.map_or(String::new(), |hedged| {
            format!(
                "median {:.2} ms, p99 {:.2} ms, slowest {:.2} ms; the slowest patient one {:.0} ms",
                hedged.median * 1e3,
                hedged.p99 * 1e3,
                hedged.max * 1e3,
                patient * 1e3
            )
        }),
    )
}
