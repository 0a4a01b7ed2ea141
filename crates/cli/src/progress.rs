//! Bars on standard error while something takes long; nothing where nobody watches.

use crate::output::Output;
use client::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Arc;

/// A bar that counts bytes.
pub fn bytes_bar(out: Output, what: &str) -> ProgressBar {
    let known = "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}";
    bar(out, what, known)
}

/// A bar that counts something else: the job says what.
pub fn count_bar(out: Output, what: &str) -> ProgressBar {
    bar(out, what, "{msg} [{bar:30}] {pos}/{len} {elapsed}")
}

/// A callback that moves a bar; where the whole is unknown, the bar only counts.
pub fn following(bar: &ProgressBar) -> Progress {
    let bar = bar.clone();
    Arc::new(move |done, total| {
        match total {
            Some(total) => bar.set_length(total),
            None => bar.unset_length(),
        }
        bar.set_position(done);
    })
}

fn bar(out: Output, what: &str, template: &str) -> ProgressBar {
    // Standard error that is no terminal hides the bar by itself.
    let target = if out.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(None, target);
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style).with_message(what.to_owned())
}
