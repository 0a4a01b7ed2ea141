//! PPR Figure 7(e): what the nodes' cache of blocks adds to what PPR saves.

use super::ppr::{CODES, CONVENTIONAL, Case, PPR, SLICE_BYTES, cases, place};
use super::stand::{Contender, Ground, Label, Lineup, Stand, StandSpec, VERIFIED};
use super::{Bench, Experiment, why};
use crate::error::LabError;
use crate::report::{Comparison, Form, Ratio, Results, Scale, Summary, Target};
use crate::testbed::LinkRate;
use std::collections::BTreeMap;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ppr-7e",
    title: "PPR with and without the cache of blocks",
    paper: "PPR, Figure 7(e); the cache helps small k and small chunks; at k = 12 and 64 MB 2 % more are saved.",
    must_show: "what the cache adds, whatever it is: never slower by more than 2 %. Here disks are read while the network \
                sends, so that little is left to save.",
    run,
    compare,
};

/// Its blocks come from the nodes' memory.
const CACHED: &str = "ppr, cached";

/// More than a node stores: whatever was read once is there.
const CACHE_BYTES: u64 = 1 << 30;

const SIZES: &[u64] = &[8 << 20, 64 << 20];

fn run(bench: &Bench<'_>) -> Result<Results, LabError> {
    let codes = if bench.quick { vec![CODES[0], CODES[3]] } else { CODES.to_vec() };
    let cases = cases(&codes, bench.sized(SIZES, &[2 << 20]));
    let spec = StandSpec {
        hosts: 17,
        rate: bench.rate.unwrap_or(LinkRate::mbit(1000.0)),
        stripes: cases.iter().map(Case::stripe).collect(),
    };
    let mut measured: Option<Results> = None;
    for cache_bytes in [0, CACHE_BYTES] {
        (bench.say)(if cache_bytes == 0 { "without a cache" } else { "with a cache" });
        let ground = Ground { cache_bytes, ..Ground::default() };
        let results = Stand::on(bench, &spec, ground, |stand| {
            let mut results = match measured.take() {
                Some(results) => results,
                None => record(stand, &cases),
            };
            // Whatever helps has been read once.
            stand.warm_up()?;
            take(stand, cache_bytes > 0, &mut results)?;
            Ok(results)
        })?;
        measured = Some(results);
    }
    measured.ok_or_else(|| LabError::BadSpec("nothing was measured".to_owned()))
}

fn record(stand: &Stand<'_>, cases: &[Case]) -> Results {
    let names = cases.iter().map(Case::text).collect();
    let x = Scale::Categories(names);
    let mut results = stand.results(&EXPERIMENT, "(k,m), chunk size", x, stand.bench.rounds(3, 1));
    results.setup.slice_bytes = Some(SLICE_BYTES.into());
    results.log_y = true;
    results.ratios = Ratio::savings(&[CONVENTIONAL, PPR]);
    results.notes.push(
        "Before each repair the operating system is told to forget all files of all nodes, so that what is not in a node's \
         cache is read from the disk, which all nodes share. One cluster runs without a cache and then one with it: they do \
         not take turns."
            .to_owned(),
    );
    results
}

/// Every case once a round; conventional repair and the bounds only without a cache.
fn take(stand: &Stand<'_>, cached: bool, results: &mut Results) -> Result<(), LabError> {
    let mut lineup = Lineup::default();
    for stripe in 0..stand.stripes.len() {
        let ppr = if cached { Label::subject(CACHED) } else { Label::rival(PPR) };
        lineup.add(ppr, stripe as f64, Contender::repair(stripe, PPR, SLICE_BYTES));
        if !cached {
            let conventional = Contender::repair(stripe, CONVENTIONAL, SLICE_BYTES);
            lineup.add(Label::rival(CONVENTIONAL), stripe as f64, conventional);
        }
    }
    let mut direct: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for round in 1..=results.setup.runs {
        (stand.bench.say)(&format!("round {round} of {}", results.setup.runs));
        for (label, x, contender) in &lineup.entries {
            stand.cluster.forget_files()?;
            let sample = stand.measure(contender)?;
            results.add(label.name, label.kind, label.shape, *x, sample);
        }
        for bytes in stand.stripes.iter().map(|stripe| stripe.block_bytes) {
            let send = stand.measure(&Contender::Direct { bytes })?;
            direct.entry(bytes).or_default().extend(send.get(VERIFIED).copied());
        }
    }
    for (label, x, contender) in &lineup.entries {
        let Some((stripe, timeslots)) = stand.timeslots(contender) else { continue };
        let slot = direct.get(&stripe.block_bytes).and_then(|sends| Summary::of(sends.iter().copied()));
        if let Some(slot) = slot {
            results.bound(label.name, *x, timeslots * slot.median);
        }
    }
    Ok(())
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (code, largest) in CODES.iter().flat_map(|code| [(code, false), (code, true)]) {
        let Some(x) = place(results, code, largest) else { continue };
        comparisons.push(Comparison {
            what: format!("ppr with the cache at {} against without", results.x.text(x)),
            form: Form::Saving,
            paper: (largest && code.k == 12).then_some(0.98),
            target: Target::AtMost(1.02),
            ours: results.ratio(CACHED, PPR, x),
            why: format!("{}; {}", why::bound(results, CACHED, x), why::bound(results, PPR, x)),
        });
    }
    comparisons
}
