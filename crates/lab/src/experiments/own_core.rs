//! What a core repairs in a second where no link is the limit: ours beside bare chains of the same length.

use super::stand::{
    CPU, Contender, HELPER_CHAIN, PIPELINE, PROCESSOR_SHARE, RELAY_CHAIN, Stand, StandSpec, VERIFIED, mean,
};
use super::{Bench, Experiment, Result};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Sample, Unit};
use crate::testbed::LinkRate;

pub const EXPERIMENT: Experiment = Experiment {
    id: "own-core",
    title: "Repaired per core and second, links unlimited",
    paper: "none: it tells when the processor and no longer the network limits a repair.",
    must_show: "ours beside a bare helper chain (pread, XOR, relay) of the same length, which is the bound; with and without \
                verification.",
    run,
    compare,
};

const VERIFYING: &str = PIPELINE;
const UNVERIFIED: &str = "pipeline, unverified";

/// Bits of the lost block over processor time, all participants together.
const BITS_PER_CORE_SECOND: &str = "bits_per_core_s";

/// Repairs of one sample: a daemon's processor time is counted in hundredths of a second, and a repair takes few.
const BATCH: usize = 8;

const SLICES: &[u32] = &[32 << 10, 128 << 10, 1 << 20];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let block_bytes: u64 = bench.sized(64 << 20, 8 << 20);
    let rate = bench.rate.unwrap_or(LinkRate::UNLIMITED);
    let usual = StandSpec::usual(bench, 0.0, vec![("rs-10+4", block_bytes)]);
    Stand::with(bench, &StandSpec { rate, ..usual }, |stand| {
        let mut results = stand.results(&EXPERIMENT, Axis::bytes("slice size"), bench.rounds(10, 2));
        results.setup.slice_bytes = None;
        results.y = Measure::new(BITS_PER_CORE_SECOND, "repaired per core", Unit::GigabitsPerSecond);
        let seconds = Measure::new(VERIFIED, "time", Unit::Seconds);
        let busy = Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent);
        results.beside = vec![seconds, Measure::new(CPU, "processor time", Unit::Seconds), busy];
        results.ratios = Ratio::columns(&[], &[RELAY_CHAIN]);
        results.notes.push(format!(
            "A sample is the mean of {BATCH} repairs. Processor time is user and kernel time of all participants: of ours, \
             the coordinator and every node of the cluster. Connections are not encrypted."
        ));
        measure(stand, block_bytes, &mut results)?;
        Ok(results)
    })
}

fn measure(stand: &mut Stand<'_>, block_bytes: u64, results: &mut Results) -> Result<()> {
    stand.warm_up()?;
    let repair =
        |slice_bytes, verify| Contender::Repair { stripe: 0, scheme: VERIFYING, slice_bytes, verify };
    for round in 1..=results.setup.runs {
        stand.say_round(round, results, "");
        for &slice_bytes in SLICES {
            let contenders = [
                (Label::subject(VERIFYING), repair(slice_bytes, true)),
                (Label::rival(UNVERIFIED), repair(slice_bytes, false)),
                (Label::bare(HELPER_CHAIN), Contender::Helpers { stripe: 0, slice_bytes }),
                (Label::bare(RELAY_CHAIN), Contender::Relay { stripe: 0, slice_bytes }),
            ];
            for (label, contender) in contenders {
                results.add(label, f64::from(slice_bytes), batch(stand, &contender, block_bytes)?);
            }
        }
    }
    for x in SLICES.iter().map(|&slice_bytes| f64::from(slice_bytes)) {
        let Some(bound) = results.median(HELPER_CHAIN, x) else { continue };
        for name in [VERIFYING, UNVERIFIED] {
            results.bound(name, x, bound);
        }
    }
    Ok(())
}

/// The mean of a batch.
fn batch(stand: &Stand<'_>, contender: &Contender, block_bytes: u64) -> Result<Sample> {
    let samples: Vec<Sample> = (0..BATCH).map(|_| stand.measure(contender)).collect::<Result<_>>()?;
    let mut mean = mean(&samples);
    if let Some(cpu) = mean.get(CPU).filter(|&&cpu| cpu > 0.0) {
        mean.insert(BITS_PER_CORE_SECOND.to_owned(), block_bytes as f64 * 8.0 / cpu);
    }
    Ok(mean)
}

fn compare(results: &Results) -> Vec<Comparison> {
    let Some(ours) = results.series(VERIFYING) else { return Vec::new() };
    let beside = |name: &'static str, x: f64| {
        let cpu = |name: &str| results.median_of(name, x, CPU);
        let (ours, bare) = (cpu(name), cpu(HELPER_CHAIN));
        let what = format!("{name} at {} against a bare helper chain", results.x.text(x));
        Comparison::times(what, results.ratio(name, HELPER_CHAIN, x))
            .why(format!("{ours:.3} s of processor time a repair, of the bare chain {bare:.3} s"))
    };
    ours.points.iter().flat_map(|point| [VERIFYING, UNVERIFIED].map(|name| beside(name, point.x))).collect()
}
