//! PPR Figure 7(e): what the nodes' cache of blocks adds to what PPR saves.

use super::ppr::{CODES, Case, cases, few_codes, place};
use super::stand::{
    CONVENTIONAL, Contender, Ground, Lineup, PPR, SLICE_BYTES, Sends, Stand, StandSpec, VERIFIED,
};
use super::{Bench, Experiment, why};
use crate::error::{Result, bad};
use crate::report::{Comparison, Label, Ratio, Results};

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

fn run(bench: &Bench<'_>) -> Result<Results> {
    let cases = cases(&few_codes(bench), bench.sized(SIZES, &[2 << 20]));
    let mut measured: Option<Results> = None;
    for cache_bytes in [0, CACHE_BYTES] {
        (bench.say)(if cache_bytes == 0 { "without a cache" } else { "with a cache" });
        let ground = Ground { cache_bytes, ..Ground::default() };
        let usual = StandSpec::usual(bench, 1000.0, cases.iter().map(Case::stripe).collect());
        let results = Stand::with(bench, &StandSpec { ground, ..usual }, |stand| {
            let mut results = measured.take().unwrap_or_else(|| record(stand, &cases));
            // Whatever helps has been read once.
            stand.warm_up()?;
            take(stand, cache_bytes > 0, &mut results)?;
            Ok(results)
        })?;
        measured = Some(results);
    }
    measured.ok_or_else(|| bad("nothing was measured"))
}

fn record(stand: &Stand<'_>, cases: &[Case]) -> Results {
    let mut results = stand.results(&EXPERIMENT, Case::axis(cases), stand.bench.rounds(3, 1));
    results.log_y = true;
    results.ratios = Ratio::columns(&[CONVENTIONAL, PPR], &[]);
    results.notes.push(
        "Before each repair the operating system is told to forget all files of all nodes, so that what is not in a node's \
         cache is read from the disk, which all nodes share. One cluster runs without a cache and then one with it: they do \
         not take turns."
            .to_owned(),
    );
    results
}

/// Every case once a round; conventional repair and the bounds only without a cache.
fn take(stand: &Stand<'_>, cached: bool, results: &mut Results) -> Result<()> {
    let mut lineup = Lineup::default();
    for stripe in 0..stand.stripes.len() {
        let ppr = if cached { Label::subject(CACHED) } else { Label::rival(PPR) };
        lineup.add(ppr, stripe as f64, Contender::repair(stripe, PPR, SLICE_BYTES));
        if !cached {
            lineup.add_schemes(stripe, stripe as f64, &[Label::rival(CONVENTIONAL)]);
        }
    }
    let mut sends = Sends::new();
    for round in 1..=results.setup.runs {
        stand.say_round(round, results, "");
        for (label, x, contender) in &lineup.entries {
            stand.cluster.forget_files()?;
            results.add(*label, *x, stand.measure(contender)?);
        }
        for bytes in stand.stripes.iter().map(|stripe| stripe.block_bytes) {
            sends.entry(bytes).or_default().extend(stand.direct(bytes)?.get(VERIFIED).copied());
        }
    }
    stand.bounds(&lineup, &sends, results);
    Ok(())
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (code, largest) in CODES.iter().flat_map(|code| [(code, false), (code, true)]) {
        let Some(x) = place(results, code, largest) else { continue };
        let what = format!("ppr with the cache at {} against without", results.x.text(x));
        let compared = Comparison::saving(what, results.ratio(CACHED, PPR, x)).at_most(1.02);
        let bounds = format!("{}; {}", why::bound(results, CACHED, x), why::bound(results, PPR, x));
        comparisons.push(compared.paper((largest && code.k == 12).then_some(0.98)).why(bounds));
    }
    comparisons
}
