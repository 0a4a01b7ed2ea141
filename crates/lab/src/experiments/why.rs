//! Why a comparison came out as it did, said from what was measured and from nothing else.

use super::stand::PROCESSOR_SHARE;
use crate::report::{Comparison, Form, Results, Target};

/// Above this share of all processors, they and not the network may decide.
pub const BUSY: f64 = 0.85;

/// So close to its bound, a scheme has what the network gives: direct sends differ by as much.
const AT_BOUND: f64 = 1.03;

/// A note beside bounds of codes that do not read k blocks.
pub const BYTES_MOVED: &str = "A bound here is the time that the busiest port takes for the bytes that were moved, for these \
                               codes do not read k blocks.";

/// What every scheme is asked for.
const NEAR_BOUND: f64 = 1.1;

/// What stands between `series` at `x` and its bound.
pub fn bound(results: &Results, series: &str, x: f64) -> String {
    let Some(of_bound) = results.of_bound(series, x) else { return String::new() };
    let share = results.median_of(series, x, PROCESSOR_SHARE);
    let reason = match share {
        _ if of_bound <= AT_BOUND => ": the network decides".to_owned(),
        share if share >= BUSY => {
            format!(", the processors {:.0} % busy: they decide, not the network", share * 100.0)
        }
        share => format!(
            ", the processors {:.0} % busy: neither they nor the network are used up, so it waits",
            share * 100.0
        ),
    };
    format!("{series} at {} its bound{reason}", Form::Times.text(of_bound))
}

/// What stands between a series whose measure is a rate and its bound.
pub fn rate(results: &Results, series: &str, x: f64) -> String {
    let Some(of_bound) = results.of_bound(series, x) else { return String::new() };
    let share = results.median_of(series, x, PROCESSOR_SHARE);
    let reason = match share {
        _ if of_bound >= 1.0 / AT_BOUND => ": the network decides",
        share if share >= BUSY => ": they decide, not the network",
        _ => ": neither they nor the busiest link are used up, so it waits",
    };
    format!("{series} at {of_bound:.3} of its bound, the processors {:.0} % busy{reason}", share * 100.0)
}

/// What stands behind a ratio of two series at `x`: the ratio of their bounds, whether ours or the paper's lies beyond
/// it, and where each series stands.
pub fn ratio(results: &Results, series: &str, against: &str, x: f64, paper: Option<f64>) -> String {
    let bound_of = |name: &str| results.series(name)?.at(x)?.bound;
    let limit = bound_of(series).zip(bound_of(against)).map(|(ours, theirs)| ours / theirs);
    let mut parts = Vec::new();
    if let Some(limit) = limit {
        parts.push(format!("the model's limit is {}", Form::Saving.text(limit)));
        if results.ratio(series, against, x).is_some_and(|ours| ours < limit) {
            parts.push(format!("ours lies beyond it because {against} misses its own bound"));
        }
        if paper.is_some_and(|paper| paper < limit) {
            parts.push(format!("the paper's lies beyond it, so that its {against} missed its own bound"));
        }
    }
    parts.extend([bound(results, series, x), bound(results, against, x)]);
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// What one series saves of another's time at `x`, beside the paper's figure. It must be faster at all, unless more is asked.
pub fn saving(
    results: &Results,
    what: String,
    [series, against]: [&str; 2],
    x: f64,
    paper: Option<f64>,
) -> Comparison {
    let why = ratio(results, series, against, x, paper);
    Comparison::saving(what, results.ratio(series, against, x)).paper(paper).at_most(1.0).why(why)
}

/// The same where it is least and where it is most, of all `xs`, beside the least and the most of the paper. It must be the
/// paper's least, if there is one. `place` stands before an x in a sentence: "at", "in".
pub fn savings(
    results: &Results,
    [series, against]: [&str; 2],
    xs: &[f64],
    place: &str,
    paper: Option<(f64, f64)>,
) -> Vec<Comparison> {
    let ratio = |x: &f64| results.ratio(series, against, *x).unwrap_or(f64::NAN);
    let by_ratio = |a: &f64, b: &f64| ratio(a).total_cmp(&ratio(b));
    let least = xs.iter().copied().max_by(by_ratio);
    let most = xs.iter().copied().min_by(by_ratio);
    let target = paper.map_or(Target::None, |(least, _)| Target::AtMost(least));
    let judged = |x: f64, which: &str, paper: Option<f64>, target: Target| {
        let at = results.x.text(x);
        let what = format!("{series} against {against} where it saves {which}, {place} {at}");
        saving(results, what, [series, against], x, paper).target(target)
    };
    let least = least.map(|x| judged(x, "least", paper.map(|range| range.0), target));
    let most = most.map(|x| judged(x, "most", paper.map(|range| range.1), Target::None));
    least.into_iter().chain(most).collect()
}

/// How far each series is from its own bound, and that it must be within a tenth of it.
pub fn own_bounds(results: &Results, series: &[&str], x: f64) -> Vec<Comparison> {
    let judged = |series: &&str| {
        let what = format!("{series} at {} against its own bound", results.x.text(x));
        let compared = Comparison::times(what, results.of_bound(series, x));
        compared.at_most(NEAR_BOUND).why(bound(results, series, x))
    };
    series.iter().map(judged).collect()
}
