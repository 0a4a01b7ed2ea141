//! Ranges and ticks in drawn units.

use crate::report::results::{Results, Scale, Shape, Unit};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use std::ops::Range;

/// Room beyond the data, as a part of their range.
const MARGIN: f64 = 0.06;

/// So many labels fit below the chart without touching.
const MOST_X_TICKS: f64 = 13.0;

/// About so many ticks on a linear y axis.
const LINEAR_TICKS: f64 = 6.0;

/// One axis in drawn units: linear, with exactly these ticks.
#[derive(Clone)]
pub struct DrawnAxis {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for DrawnAxis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let part = (value - self.range.start) / (self.range.end - self.range.start);
        from + (f64::from(to - from) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Where a value is drawn.
pub struct Axes {
    pub x_range: Range<f64>,
    pub y_range: Range<f64>,
    pub x_ticks: Vec<f64>,
    pub y_ticks: Vec<f64>,
    log_y: bool,
    unit: Unit,
    bytes: bool,
}

impl Axes {
    /// Axes that all values fit in; `None` if there are none.
    pub fn of(results: &Results) -> Option<Axes> {
        let bytes = results.x.scale == Scale::Bytes;
        let mut axes = Axes {
            x_range: 0.0..1.0,
            y_range: 0.0..1.0,
            x_ticks: Vec::new(),
            y_ticks: Vec::new(),
            log_y: results.log_y,
            unit: results.y.unit,
            bytes,
        };
        axes.x_ticks = match &results.x.scale {
            Scale::Categories(names) => (0..names.len()).map(|index| index as f64).collect(),
            Scale::Bytes => axes.x_values(results),
        };
        axes.x_range = widened(&axes.x_ticks, if bytes { MARGIN } else { 0.0 }, 0.5)?;
        let room = (axes.x_range.end - axes.x_range.start) / MOST_X_TICKS;
        let mut last = f64::NEG_INFINITY;
        axes.x_ticks.retain(|&tick| {
            let kept = tick - last >= room;
            last = if kept { tick } else { last };
            kept
        });
        let values = axes.y_values(results);
        (axes.y_range, axes.y_ticks) = if results.log_y { logarithmic(&values)? } else { linear(&values)? };
        Some(axes)
    }

    /// A value of the x axis in drawn units.
    pub fn x(&self, x: f64) -> f64 {
        if self.bytes { x.log2() } else { x }
    }

    /// An SI value in drawn units.
    pub fn y(&self, si: f64) -> f64 {
        let value = self.unit.scale(si);
        if self.log_y { value.log10() } else { value }
    }

    pub fn drawn_x(&self) -> DrawnAxis {
        DrawnAxis { range: self.x_range.clone(), ticks: self.x_ticks.clone() }
    }

    pub fn drawn_y(&self) -> DrawnAxis {
        DrawnAxis { range: self.y_range.clone(), ticks: self.y_ticks.clone() }
    }

    pub fn x_text(&self, results: &Results, drawn: f64) -> String {
        results.x.text(if self.bytes { drawn.exp2().round() } else { drawn.round() })
    }

    pub fn y_text(&self, drawn: f64) -> String {
        let value = if self.log_y { 10_f64.powf(drawn) } else { drawn };
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    fn x_values(&self, results: &Results) -> Vec<f64> {
        // Levels lie across; only if there is nothing else do they make the axis.
        let of =
            |shape: Shape| results.series.iter().filter(move |s| s.shape == shape).flat_map(|s| &s.points);
        let mut values: Vec<f64> = of(Shape::Curve).map(|point| self.x(point.x)).collect();
        if values.is_empty() {
            values = of(Shape::Level).map(|point| self.x(point.x)).collect();
        }
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    fn y_values(&self, results: &Results) -> Vec<f64> {
        let metric = &results.y.metric;
        let points = results.series.iter().flat_map(|series| &series.points);
        let values = points.flat_map(|point| {
            let summary = point.summary(metric);
            let spread = summary.map(|s| [s.min, s.max, s.median]).into_iter().flatten();
            spread.chain(point.bound).collect::<Vec<_>>()
        });
        values.map(|value| self.y(value)).filter(|value| value.is_finite()).collect()
    }
}

/// The range of the values with a margin at each end: a part of it, and at least `least`.
fn widened(values: &[f64], margin: f64, least: f64) -> Option<Range<f64>> {
    let min = values.iter().copied().min_by(f64::total_cmp)?;
    let max = values.iter().copied().max_by(f64::total_cmp)?;
    let room = ((max - min) * margin).max(least);
    Some(min - room..max + room)
}

/// Ticks at 1, 2 and 5 times powers of ten; only at powers if that were too many.
fn logarithmic(values: &[f64]) -> Option<(Range<f64>, Vec<f64>)> {
    let range = widened(values, MARGIN, 0.02)?;
    let few = range.end - range.start <= 4.0;
    let steps: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = range.start.floor() as i32..=range.end.ceil() as i32;
    let ticks = decades.flat_map(|decade| steps.iter().map(move |step| step.log10() + f64::from(decade)));
    let ticks = ticks.filter(|tick| range.contains(tick)).collect();
    Some((range, ticks))
}

/// From zero, with ticks at round numbers.
fn linear(values: &[f64]) -> Option<(Range<f64>, Vec<f64>)> {
    let top = values.iter().copied().max_by(f64::total_cmp)?.max(f64::MIN_POSITIVE) * (1.0 + MARGIN);
    let rough = top / LINEAR_TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|&step| step >= rough)?;
    let ticks = (0..).map(|index| f64::from(index) * step).take_while(|&tick| tick <= top).collect();
    Some((0.0..top, ticks))
}
