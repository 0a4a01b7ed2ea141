//! Why a comparison came out as it did, said from what was measured and from nothing else.

use crate::report::{Comparison, Form, Results, Target};

/// Above this share of all processors, they and not the network may decide.
const BUSY: f64 = 0.85;

/// Within this part of its bound, a scheme has what the network gives.
const AT_BOUND: f64 = 1.1;

/// What stands between `series` at `x` and its bound.
pub fn bound(results: &Results, series: &str, x: f64) -> String {
    let of_bound = results
        .series(series)
        .and_then(|s| s.at(x))
        .and_then(|point| Some(point.summary(&results.y.metric)?.median / point.bound?));
    let share = results.summary(series, x, "processor_share").map(|summary| summary.median);
    match (of_bound, share) {
        (Some(of_bound), _) if of_bound <= AT_BOUND => {
            format!("{series} is at {} its bound: the network decides", Form::Times.text(of_bound))
        }
        (Some(of_bound), Some(share)) if share >= BUSY => format!(
            "{series} is at {} its bound and the processors were {:.0} % busy: they decide, not the network",
            Form::Times.text(of_bound),
            share * 100.0
        ),
        (Some(of_bound), Some(share)) => format!(
            "{series} is at {} its bound with the processors {:.0} % busy: neither network nor processors are used up, so it waits",
            Form::Times.text(of_bound),
            share * 100.0
        ),
        (Some(of_bound), None) => format!("{series} is at {} its bound", Form::Times.text(of_bound)),
        (None, _) => String::new(),
    }
}

/// What stands behind a ratio of two series at `x`: the ratio of their bounds, and where each stands.
pub fn ratio(results: &Results, series: &str, against: &str, x: f64) -> String {
    let bound_of = |name: &str| results.series(name)?.at(x)?.bound;
    let limit = bound_of(series).zip(bound_of(against)).map(|(ours, theirs)| ours / theirs);
    let limit = limit.map(|limit| format!("the model's limit is {}", Form::Saving.text(limit)));
    let parts = [limit, Some(bound(results, series, x)), Some(bound(results, against, x))];
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// How far a series is from its own bound, and that it must be within a tenth of it.
pub fn own_bound(results: &Results, series: &str, x: f64) -> Comparison {
    Comparison {
        what: format!("{series} at {} against its own bound", results.x.text(x)),
        form: Form::Times,
        paper: None,
        target: Target::AtMost(AT_BOUND),
        ours: results.of_bound(series, x),
        why: String::new(),
    }
}
