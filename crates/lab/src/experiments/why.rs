//! Why a comparison came out as it did, said from what was measured and from nothing else.

use crate::report::{Comparison, Form, Results, Target};

/// Above this share of all processors, they and not the network may decide.
pub const BUSY: f64 = 0.85;

/// So close to its bound, a scheme has what the network gives: direct sends differ by as much.
const AT_BOUND: f64 = 1.03;

/// What every scheme is asked for.
const NEAR_BOUND: f64 = 1.1;

/// What stands between `series` at `x` and its bound.
pub fn bound(results: &Results, series: &str, x: f64) -> String {
    let Some(of_bound) = results.of_bound(series, x) else { return String::new() };
    let share = results.summary(series, x, "processor_share").map_or(0.0, |summary| summary.median);
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

/// How far a series is from its own bound, and that it must be within a tenth of it.
pub fn own_bound(results: &Results, series: &str, x: f64) -> Comparison {
    Comparison {
        what: format!("{series} at {} against its own bound", results.x.text(x)),
        form: Form::Times,
        paper: None,
        target: Target::AtMost(NEAR_BOUND),
        ours: results.of_bound(series, x),
        why: bound(results, series, x),
    }
}
