//! RP Figure 8(h): repair time of one block where racks' links are narrow.

use super::stand::{DIRECT, Ground, LEAST, Label, Stand, StandSpec, Stripe, VERIFIED, mean};
use super::{Bench, Experiment, why};
use crate::bare;
use crate::cluster::RepairOrder;
use crate::error::LabError;
use crate::report::{Comparison, Form, Measure, Ratio, Results, Sample, Scale, Target, Unit};
use crate::testbed::{LinkRate, Racks};
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

const CONVENTIONAL: &str = "conventional";
const PIPELINE: &str = "pipeline";
const RACK_AWARE: &str = "rack-aware";
const CODE: &str = "rs-6+3";

/// Bytes between racks.
const CROSS_RACK: &str = "cross_rack_bytes";

const SLICE_BYTES: u32 = 32 << 10;
const RACKS: usize = 3;
const HOLDERS: usize = 9;

/// Between racks, Mb/s.
const CORE_MBIT: [f64; 2] = [400.0, 800.0];

/// Inside racks, Mb/s: a quarter of the paper's, which one machine can show for every link. No repair here is limited by it.
const WITHIN_MBIT: f64 = 2_500.0;

/// Random choices of helpers in one sample.
const DRAWS: usize = 8;

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let block_bytes: u64 = bench.sized(32 << 20, 4 << 20);
    let spec = StandSpec {
        // A host without a block in each rack, of which the one in the lost block's rack repairs.
        hosts: HOLDERS + RACKS,
        rate: bench.rate.unwrap_or(LinkRate::mbit(WITHIN_MBIT)),
        stripes: vec![(CODE, block_bytes)],
    };
    let racks = Racks { count: RACKS, core_rate: LinkRate::mbit(CORE_MBIT[0]) };
    let ground = Ground { spares: RACKS, racks: Some(racks), ..Ground::default() };
    Stand::on(bench, &spec, ground, |stand| {
        let names = CORE_MBIT.iter().map(|mbit| format!("{mbit} Mb/s")).collect();
        let scale = Scale::Categories(names);
        let mut results = stand.results(&EXPERIMENT, "between racks", scale, bench.rounds(3, 1));
        results.setup.slice_bytes = Some(SLICE_BYTES.into());
        results.ratios = Ratio::savings(&[CONVENTIONAL]);
        results.ratios.push(Ratio::times(DIRECT));
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

fn measure(stand: &mut Stand<'_>, results: &mut Results) -> Result<(), LabError> {
    let requestor = near_requestor(stand)?;
    stand.stripes[0].requestor = requestor;
    stand.warm_up()?;
    let mut draw = Draw::seeded(0x0008);
    for (index, mbit) in CORE_MBIT.into_iter().enumerate() {
        stand.testbed.set_core_rate(LinkRate::mbit(mbit))?;
        stand.measure_links()?;
        for round in 1..=results.setup.runs {
            (stand.bench.say)(&format!("round {round} of {} at {mbit} Mb/s", results.setup.runs));
            let draws: Vec<Vec<u32>> =
                (0..stand.bench.sized(DRAWS, 2)).map(|_| shuffled(&stand.stripes[0], &mut draw)).collect();
            let x = index as f64;
            for label in [Label::rival(CONVENTIONAL), Label::rival(PIPELINE)] {
                let samples: Vec<Sample> = draws
                    .iter()
                    .map(|helpers| repair(stand, label.name, helpers))
                    .collect::<Result<_, _>>()?;
                results.add(label.name, label.kind, label.shape, x, mean(&samples));
            }
            let label = Label::subject(RACK_AWARE);
            results.add(label.name, label.kind, label.shape, x, repair(stand, RACK_AWARE, &[])?);
            let label = Label::bare(DIRECT);
            results.add(label.name, label.kind, label.shape, x, direct(stand)?);
        }
    }
    Ok(())
}

/// The node without a block in the rack of the block that is repaired.
fn near_requestor(stand: &Stand<'_>) -> Result<u32, LabError> {
    let rack = stand.cluster.host_of(stand.stripes[0].members[0])?.rack;
    let hosts = stand.testbed.hosts();
    let spare = hosts.iter().skip(HOLDERS).find(|host| host.rack == rack);
    let node = spare.and_then(|host| stand.cluster.node_on(host.index));
    node.ok_or_else(|| LabError::BadSpec(format!("no node of rack {rack} is free of blocks")))
}

/// All survivors in random order: the first k help.
fn shuffled(stripe: &Stripe, draw: &mut Draw) -> Vec<u32> {
    let mut helpers = stripe.members[1..].to_vec();
    draw.shuffle(&mut helpers);
    helpers
}

fn repair(stand: &Stand<'_>, scheme: &str, helpers: &[u32]) -> Result<Sample, LabError> {
    let order = stand.stripes[0].order(scheme, SLICE_BYTES);
    let (outcome, mut sample) = stand.repair(&RepairOrder { helpers: helpers.to_vec(), ..order })?;
    sample.insert(CROSS_RACK.to_owned(), stand.cross_rack_bytes(&outcome)? as f64);
    Ok(sample)
}

/// One block over one link between racks.
fn direct(stand: &Stand<'_>) -> Result<Sample, LabError> {
    let bytes = stand.stripes[0].block_bytes;
    let timing = bare::direct_send(&stand.testbed, 1, 2, bytes, SLICE_BYTES as usize)?;
    Ok(Sample::from([(VERIFIED.to_owned(), timing.seconds)]))
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (x, mbit) in (0..).map(f64::from).zip(CORE_MBIT) {
        let paper = |ratio: f64| (mbit == 800.0).then_some(ratio);
        let target =
            |ratio: f64| paper(ratio).map_or(Target::AtMost(1.0), |ratio| Target::AtMost(ratio + 0.03));
        for (name, ratio) in [(PIPELINE, 0.391), (RACK_AWARE, 0.224)] {
            comparisons.push(Comparison {
                what: format!("{name} against conventional, {} between racks", results.x.text(x)),
                form: Form::Saving,
                paper: paper(ratio),
                target: target(ratio),
                ours: results.ratio(name, CONVENTIONAL, x),
                why: why::ratio(results, name, CONVENTIONAL, x, paper(ratio)),
            });
        }
        let crossed = results.summary(RACK_AWARE, x, CROSS_RACK).map(|summary| summary.max);
        comparisons.push(Comparison {
            what: format!("rack-aware, bytes between racks at {} against one block", results.x.text(x)),
            form: Form::Times,
            paper: None,
            target: Target::AtMost(2.0),
            ours: crossed.zip(results.setup.block_bytes).map(|(bytes, block)| bytes / block as f64),
            why: "two helpers are in the requestor's rack; the other four are in two racks of three"
                .to_owned(),
        });
        comparisons.extend([CONVENTIONAL, PIPELINE, RACK_AWARE].map(|name| why::own_bound(results, name, x)));
    }
    comparisons
}
