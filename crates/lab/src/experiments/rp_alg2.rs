//! RP Algorithm 2: how long the search for the best path takes.

mod search;

use super::on_paper::{Timed, timed};
use super::{Bench, Experiment};
use crate::error::{Result, bad};
use crate::report::{
    Axis, Comparison, Label, Measure, Ratio, Results, Sample, Setup, Summary, Unit, sample as sample_of,
};
use plan::Draw;
use plan::path::{LinkMatrix, SEARCH_STEPS, weighted_path};
use search::{Found, Weights, brute_force, printed};

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-alg2",
    title: "Search for the path whose slowest link is fastest",
    paper: "repair pipelining, §4.3: at (14,10), over 1,000 runs, brute force takes 27 s on average and Algorithm 2 0.9 ms.",
    must_show: "ours as good as every search that tried all paths; its median at (14,10) at most 100 µs, at (40,32) at most \
                5 ms.",
    run,
    compare,
};

const OURS: &str = "ours";
const PRINTED: &str = "Algorithm 2 as printed";
const BRUTE_FORCE: &str = "brute force";

/// Median over the seeds of a sample.
const MEDIAN: &str = "median_s";
/// … mean.
const MEAN: &str = "mean_s";
/// … largest.
const SLOWEST: &str = "slowest_s";
/// Part of the seeds for which the search ended by itself, and so proved its answer.
const ENDED: &str = "ended";
/// Part of the seeds that an exhaustive search ended for, too, for which the answers are equally good.
const AGREES: &str = "agrees";

/// Ours in a sample.
const SEEDS: u64 = 1_000;

/// Extensions of a path that Algorithm 2 may try: some seconds' worth. Then its time is a lower limit.
const PRINTED_STEPS: u64 = 200_000_000;
/// … in a quick run.
const FEW_STEPS: u64 = 5_000_000;

/// Random problems of one kind.
struct Case {
    name: &'static str,
    n: usize,
    k: usize,
    /// Weights are one of so many values.
    values: usize,
    /// Seeds of a sample for Algorithm 2 and for brute force, which take long.
    printed: u64,
    brute_force: u64,
}

/// Weights that are hardly ever equal.
const DISTINCT: usize = 1 << 40;

const CASES: [Case; 6] = [
    Case { name: "(9,6)", n: 9, k: 6, values: DISTINCT, printed: 100, brute_force: 100 },
    Case { name: "(12,8)", n: 12, k: 8, values: DISTINCT, printed: 100, brute_force: 5 },
    Case { name: "(14,10)", n: 14, k: 10, values: DISTINCT, printed: 25, brute_force: 1 },
    Case { name: "(14,10), three weights", n: 14, k: 10, values: 3, printed: 20, brute_force: 0 },
    Case { name: "(20,16)", n: 20, k: 16, values: DISTINCT, printed: 2, brute_force: 0 },
    Case { name: "(40,32)", n: 40, k: 32, values: DISTINCT, printed: 2, brute_force: 0 },
];

/// Of the paper's numbers and our bars.
const HEADLINE: f64 = 2.0;
const LONGEST: f64 = 5.0;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let x = Axis::named("(n,k)", CASES.iter().map(|case| case.name));
    let y = Measure::new(MEDIAN, "median search", Unit::Microseconds);
    let mut results = bench.record(&EXPERIMENT, Setup::here("one thread", bench.rounds(3, 1)), x, y);
    results.log_y = true;
    results.ratios = Ratio::columns(&[], &[OURS]);
    results.beside = vec![
        Measure::new(MEAN, "mean", Unit::Microseconds),
        Measure::new(SLOWEST, "slowest", Unit::Microseconds),
        Measure::new(ENDED, "searches that ended", Unit::Percent),
        Measure::new(AGREES, "as good as an exhaustive search", Unit::Percent),
    ];
    results.notes.push(format!(
        "Weights of all links are drawn evenly and independently; helpers are all nodes but the requestor. A sample of ours is \
         the median over {} seeds; Algorithm 2 and brute force search the first 1 to 100 of them. Algorithm 2 tries helpers \
         in the order of their numbers and is stopped after {} extensions of a path: then its time is a lower limit.",
        bench.sized(SEEDS, 50),
        bench.sized(PRINTED_STEPS, FEW_STEPS)
    ));
    for round in 0..results.setup.runs as u64 {
        for (x, case) in (0..).map(f64::from).zip(&CASES) {
            (bench.say)(&format!("round {} of {}: {}", round + 1, results.setup.runs, case.name));
            for (label, sample) in sampled(bench, case, round)? {
                results.add(label, x, sample);
            }
        }
    }
    Ok(results)
}

/// One sample of each search.
fn sampled(bench: &Bench<'_>, case: &Case, round: u64) -> Result<Vec<(Label, Sample)>> {
    let few = |seeds: u64| if bench.quick { seeds.min(3) } else { seeds };
    // In a quick run brute force stays with what it does at once.
    let brute_seeds = if bench.quick && case.n > 12 { 0 } else { few(case.brute_force) };
    let mut runs: [Vec<Timed<Found>>; 3] = Default::default();
    let mut references: Vec<Option<f64>> = Vec::new();
    for seed in 0..bench.sized(SEEDS, 50) {
        let weights = weights(case, round * SEEDS + seed);
        let exhaustive = (seed < brute_seeds).then(|| timed(|| brute_force(&weights, case.k)));
        let steps = bench.sized(PRINTED_STEPS, FEW_STEPS);
        let printed = (seed < few(case.printed)).then(|| timed(|| printed(&weights, case.k, steps)));
        let matrix = LinkMatrix::from_rows(&weights).map_err(bad)?;
        let helpers: Vec<usize> = (1..case.n).collect();
        let (seconds, path) = timed(|| weighted_path(&matrix, &helpers, case.k, 0, SEARCH_STEPS));
        let path = path.map_err(bad)?;
        let ours = (seconds, Found { max_weight: path.max_weight, ended: path.proven });
        let known = exhaustive.iter().chain(&printed).find(|(_, found)| found.ended);
        references.push(known.map(|(_, found)| found.max_weight));
        runs[0].push(ours);
        runs[1].extend(printed);
        runs[2].extend(exhaustive);
    }
    let labels = [Label::subject(OURS), Label::rival(PRINTED), Label::rival(BRUTE_FORCE)];
    let samples = labels.into_iter().zip(&runs).filter(|(_, runs)| !runs.is_empty());
    Ok(samples.map(|(label, runs)| (label, sample(runs, &references))).collect())
}

/// Node 0 is the requestor.
fn weights(case: &Case, seed: u64) -> Weights {
    let mut draw = Draw::seeded(seed);
    let mut row =
        |_| (0..case.n).map(|_| (1 + draw.below(case.values)) as f64 / case.values as f64).collect();
    (0..case.n).map(&mut row).collect()
}

fn sample(runs: &[Timed<Found>], references: &[Option<f64>]) -> Sample {
    let seconds = || runs.iter().map(|(seconds, _)| *seconds);
    let part = |count: usize, of: usize| count as f64 / of as f64;
    let mut sample = sample_of([
        (MEAN, seconds().sum::<f64>() / runs.len() as f64),
        (ENDED, part(runs.iter().filter(|(_, found)| found.ended).count(), runs.len())),
    ]);
    if let Some(summary) = Summary::of(seconds()) {
        sample.extend(sample_of([(MEDIAN, summary.median), (SLOWEST, summary.max)]));
    }
    let compared: Vec<bool> = runs
        .iter()
        .zip(references)
        .filter_map(|((_, found), reference)| Some(found.max_weight == (*reference)?))
        .collect();
    if !compared.is_empty() {
        sample.insert(AGREES.to_owned(), part(compared.iter().filter(|same| **same).count(), compared.len()));
    }
    sample
}

fn compare(results: &Results) -> Vec<Comparison> {
    let metric = |name: &str, x: f64, metric: &str| results.summary(name, x, metric);
    let mut comparisons = Vec::new();
    for (x, case) in (0..).map(f64::from).zip(&CASES) {
        let Some(agrees) = metric(OURS, x, AGREES) else { continue };
        let what = format!("ours at {}: as good as an exhaustive search, part of the seeds", case.name);
        let compared = Comparison::times(what, Some(agrees.min)).at_least(1.0);
        comparisons.push(compared.why("largest weights of the paths compared, equal to the bit"));
    }
    for (x, limit_s, text) in [(HEADLINE, 100e-6, "100 µs"), (LONGEST, 5e-3, "5 ms")] {
        let what = format!("ours at {}, median, against {text}", results.x.text(x));
        let compared = Comparison::times(what, results.median(OURS, x).map(|seconds| seconds / limit_s));
        let slowest = metric(OURS, x, SLOWEST)
            .map(|slowest| format!("the slowest seed took {:.3} ms", slowest.max * 1e3));
        comparisons.push(compared.at_most(1.0).why(slowest.unwrap_or_default()));
    }
    let mean = |name: &str| Some(metric(name, HEADLINE, MEAN)?.median);
    for (name, paper) in [(PRINTED, Some(27.0 / 0.9e-3)), (OURS, None)] {
        let what = format!("brute force at (14,10), mean, against {name}");
        let times = mean(BRUTE_FORCE).zip(mean(name)).map(|(slow, fast)| slow / fast);
        let compared = Comparison::times(what, times).paper(paper).at_least(1.0);
        comparisons.push(compared.why("the paper's machine: 27 s and 0.9 ms"));
    }
    comparisons
}
