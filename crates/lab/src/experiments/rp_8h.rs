//! RP Figure 8(h): repair time of one block where racks' links are narrow.

use super::stand::{CONVENTIONAL, DIRECT, Ground, LEAST, PIPELINE, SLICE_BYTES, Stand, StandSpec, mean};
use super::{Bench, Experiment, why};
use crate::cluster::RepairOrder;
use crate::error::{Result, bad};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Sample, Unit};
use crate::testbed::{LinkRate, Racks};
use model::NodeId;
use plan::Draw;

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-8h",
    title: "Single-block repair time where racks' links are narrow",
    paper: "repair pipelining, Figure 8(h); RS(9,6) over three racks of three, 10 Gb/s inside racks, 400 and 800 Mb/s between \
            them. At 800 Mb/s repair pipelining saves 60.9 % of conventional repair's time without rack awareness and 77.6 % \
            with it. Conventional repair and plain repair pipelining take random helpers.",
    must_show: "−60.9 % without and −77.6 % with rack awareness at 800 Mb/s, within three points; with it, never more than 2 \
                blocks between racks, and within 10 % of its own bound.",
    run,
    compare,
};

const RACK_AWARE: &str = "rack-aware";

/// Bytes between racks.
const CROSS_RACK: &str = "cross_rack_bytes";

const RACKS: usize = 3;
const HOLDERS: usize = 9;

/// Between racks, Mb/s.
const CORE_MBIT: [f64; 2] = [400.0, 800.0];

/// Inside racks, Mb/s: a quarter of the paper's, which one machine can show for every link. No repair here is limited by it.
const WITHIN_MBIT: f64 = 2_500.0;

/// Random choices of helpers in one sample.
const DRAWS: usize = 8;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let racks = Racks { count: RACKS, core_rate: LinkRate::mbit(CORE_MBIT[0]) };
    let spec = StandSpec {
        // A host without a block in each rack, of which the one in the lost block's rack repairs.
        hosts: HOLDERS + RACKS,
        ground: Ground { spares: RACKS, racks: Some(racks), ..Ground::default() },
        ..StandSpec::usual(bench, WITHIN_MBIT, vec![("rs-6+3", bench.sized(32 << 20, 4 << 20))])
    };
    Stand::with(bench, &spec, |stand| {
        let axis = Axis::named("between racks", CORE_MBIT.map(|mbit| format!("{mbit} Mb/s")));
        let mut results = stand.results(&EXPERIMENT, axis, bench.rounds(3, 1));
        results.ratios = Ratio::columns(&[CONVENTIONAL], &[DIRECT]);
        results.beside.insert(0, Measure::new(CROSS_RACK, "between racks", Unit::Mebibytes));
        results.notes.push(format!(
            "Inside racks {} (10 Gb/s in the paper), which is no repair's limit. Blocks of 64 MiB in the paper. The requestor is in the lost block's rack and holds none of the \
             stripe, so that two helpers are near it. A sample of conventional repair and of pipeline is the mean of {} \
             repairs, each with its own random helpers in random order, the same for both; of rack-aware, which always takes \
             as few racks as it can, one repair. A bound is the time that the busiest link takes for what was moved. The \
             direct send crosses racks.",
            spec.rate,
            bench.sized(DRAWS, 2)
        ));
        measure(stand, &mut results)?;
        results.bounds_from(LEAST);
        Ok(results)
    })
}

fn measure(stand: &mut Stand<'_>, results: &mut Results) -> Result<()> {
    let requestor = near_requestor(stand)?;
    stand.stripes[0].requestor = requestor;
    stand.warm_up()?;
    let mut draw = Draw::seeded(0x0008);
    for (x, mbit) in (0..).map(f64::from).zip(CORE_MBIT) {
        stand.testbed.set_core_rate(LinkRate::mbit(mbit))?;
        stand.measure_links()?;
        for round in 1..=results.setup.runs {
            stand.say_round(round, results, &format!(" at {mbit} Mb/s"));
            let draws: Vec<Vec<NodeId>> = (0..stand.bench.sized(DRAWS, 2))
                .map(|_| stand.stripes[0].shuffled_helpers(&mut draw))
                .collect();
            for label in [Label::rival(CONVENTIONAL), Label::rival(PIPELINE)] {
                let samples = draws.iter().map(|helpers| repair(stand, label.name, helpers));
                results.add(label, x, mean(&samples.collect::<Result<Vec<_>, _>>()?));
            }
            results.add(Label::subject(RACK_AWARE), x, repair(stand, RACK_AWARE, &[])?);
            // One block over one link between racks.
            results.add(Label::bare(DIRECT), x, stand.send_between(1, 2)?);
        }
    }
    Ok(())
}

/// The node without a block in the rack of the block that is repaired.
fn near_requestor(stand: &Stand<'_>) -> Result<NodeId> {
    let rack = |node: NodeId| stand.cluster.host_of(node).map(|host| host.rack);
    let wanted = rack(stand.stripes[0].members[0])?;
    let near = stand.spares.iter().copied().find(|&node| rack(node).is_ok_and(|rack| rack == wanted));
    near.ok_or_else(|| bad(format!("no node of rack {wanted} is free of blocks")))
}

fn repair(stand: &Stand<'_>, scheme: &str, helpers: &[NodeId]) -> Result<Sample> {
    let order = stand.stripes[0].order(scheme, SLICE_BYTES);
    let (outcome, mut sample) = stand.repair(&RepairOrder { helpers: helpers.to_vec(), ..order })?;
    sample.insert(CROSS_RACK.to_owned(), stand.cross_rack_bytes(&outcome)? as f64);
    Ok(sample)
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (x, mbit) in (0..).map(f64::from).zip(CORE_MBIT) {
        let at = results.x.text(x);
        for (name, ratio) in [(PIPELINE, 0.391), (RACK_AWARE, 0.224)] {
            let paper = (mbit == 800.0).then_some(ratio);
            let what = format!("{name} against conventional, {at} between racks");
            let saving = why::saving(results, what, [name, CONVENTIONAL], x, paper);
            comparisons.push(saving.at_most(paper.map_or(1.0, |ratio| ratio + 0.03)));
        }
        let crossed = results.summary(RACK_AWARE, x, CROSS_RACK).map(|summary| summary.max);
        let crossed = crossed.zip(results.setup.block_bytes).map(|(bytes, block)| bytes / block as f64);
        let what = format!("rack-aware, bytes between racks at {at} against one block");
        comparisons.push(
            Comparison::times(what, crossed)
                .at_most(2.0)
                .why("two helpers are in the requestor's rack; the other four are in two racks of three"),
        );
        comparisons.extend(why::own_bounds(results, &[CONVENTIONAL, PIPELINE, RACK_AWARE], x));
    }
    comparisons
}
