//! Results as a figure: medians with their spread, levels across, bounds dashed.
//!
//! Both axes are linear in *drawn units*: logarithms of bytes to base 2, of values to base 10 where the results ask for
//! it, indices of categories.

mod axes;
mod legend;

use super::results::{Point, Results, Scale, Series, Shape, Spread};
use crate::error::{LabError, Result};
use axes::{Axes, DrawnAxis};
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::prelude::{
    Cartesian2d, DrawingArea, IntoDrawingArea, PathElement, RGBColor, Rectangle, SVGBackend,
};
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::{Color, ShapeStyle, TextStyle, WHITE};

/// Size in pixels, for a page's width.
const SIZE: (u32, u32) = (1080, 560);

/// Right of the chart, for the legend.
const LEGEND_WIDTH: u32 = 270;

/// Half the width of the caps of error bars, in pixels.
const CAP: i32 = 5;

/// Part of a category's width that its bars take.
const BARS_WIDTH: f64 = 0.8;

/// Dashes of levels, bounds: on and off in pixels.
const LEVEL_DASH: (u32, u32) = (10, 5);
const BOUND_DASH: (u32, u32) = (3, 4);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<DrawnAxis, DrawnAxis>>;
type Drawn = Result<(), String>;

/// The figure as SVG.
///
/// # Errors
/// [`LabError::Figure`], if there is nothing to draw.
pub fn figure(results: &Results) -> Result<String> {
    let mut svg = String::new();
    draw(results, &mut svg).map_err(|reason| LabError::Figure { id: results.id.clone(), reason })?;
    Ok(svg)
}

fn draw(results: &Results, svg: &mut String) -> Drawn {
    let axes = Axes::of(results).ok_or("nothing was measured")?;
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(text)?;
    let quick = if results.quick { " — quick run: measures nothing" } else { "" };
    let titled =
        root.titled(&format!("{}: {}{quick}", results.id, results.title), font(20.0)).map_err(text)?;
    let (left, right) = titled.split_horizontally(SIZE.0 - LEGEND_WIDTH);
    let mut chart = ChartBuilder::on(&left)
        .margin(12)
        .margin_right(24)
        .x_label_area_size(52)
        .y_label_area_size(72)
        .build_cartesian_2d(axes.drawn_x(), axes.drawn_y())
        .map_err(text)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(220, 220, 220))
        .x_desc(&results.x.label)
        .y_desc(results.y.heading())
        .axis_desc_style(font(16.0))
        .label_style(font(14.0))
        .x_labels(axes.x_ticks.len())
        .y_labels(axes.y_ticks.len())
        .x_label_formatter(&|x| axes.x_text(results, *x))
        .y_label_formatter(&|y| axes.y_text(*y))
        .draw()
        .map_err(text)?;
    for (index, series) in results.series.iter().enumerate() {
        Brush { root: &root, results, axes: &axes, series, index }.paint(&mut chart)?;
    }
    legend::draw(&root, right.get_base_pixel(), results)?;
    root.present().map_err(text)
}

/// Draws one series.
struct Brush<'a, 'svg> {
    /// The whole picture, for what is placed by the pixel.
    root: &'a Area<'svg>,
    results: &'a Results,
    axes: &'a Axes,
    series: &'a Series,
    index: usize,
}

impl Brush<'_, '_> {
    fn paint(&self, chart: &mut Chart<'_>) -> Drawn {
        match (&self.results.x.scale, self.series.shape) {
            (_, Shape::Level) => self.level(chart),
            (Scale::Bytes, Shape::Curve) => self.curve(chart),
            (Scale::Categories(_), Shape::Curve) => self.bars(chart),
        }
    }

    fn colour(&self) -> RGBColor {
        legend::colour(self.index)
    }

    fn median(&self, point: &Point) -> Option<f64> {
        Some(self.axes.y(point.summary(&self.results.y.metric)?.median))
    }

    fn level(&self, chart: &mut Chart<'_>) -> Drawn {
        let Some(point) = self.series.points.first() else { return Ok(()) };
        let Some(y) = self.median(point) else { return Ok(()) };
        let ends = [(self.axes.x_range.start, y), (self.axes.x_range.end, y)];
        dashed(chart, ends, LEVEL_DASH, self.colour().stroke_width(2))?;
        if let Some(bound) = point.bound.map(|bound| self.axes.y(bound)) {
            dashed(chart, ends.map(|(x, _)| (x, bound)), BOUND_DASH, self.colour().stroke_width(1))?;
        }
        match self.results.x.scale {
            // A level says at which x it was measured; beside bars that would hide them.
            Scale::Bytes => self.marked(chart, self.axes.x(point.x), point),
            Scale::Categories(_) => Ok(()),
        }
    }

    fn curve(&self, chart: &mut Chart<'_>) -> Drawn {
        let at = |point: &Point| Some((self.axes.x(point.x), self.median(point)?));
        let line: Vec<_> = self.series.points.iter().filter_map(at).collect();
        chart.draw_series(LineSeries::new(line, self.colour().stroke_width(2))).map_err(text)?;
        let bound = |point: &Point| Some((self.axes.x(point.x), self.axes.y(point.bound?)));
        let bounds: Vec<_> = self.series.points.iter().filter_map(bound).collect();
        dashed(chart, bounds, BOUND_DASH, self.colour().stroke_width(1))?;
        self.series.points.iter().try_for_each(|point| self.marked(chart, self.axes.x(point.x), point))
    }

    fn bars(&self, chart: &mut Chart<'_>) -> Drawn {
        let curves = || self.results.series.iter().enumerate().filter(|(_, s)| s.shape == Shape::Curve);
        let width = BARS_WIDTH / curves().count().max(1) as f64;
        let place = curves().take_while(|&(index, _)| index < self.index).count();
        for point in &self.series.points {
            let Some(y) = self.median(point) else { continue };
            let left = point.x - BARS_WIDTH / 2.0 + width * place as f64;
            let bar = [(left, self.axes.y_range.start), (left + width * 0.92, y)];
            chart.draw_series([Rectangle::new(bar, self.colour().filled())]).map_err(text)?;
            if let Some(bound) = point.bound {
                let y = self.axes.y(bound);
                let black = RGBColor(0, 0, 0).stroke_width(1);
                dashed(chart, [(left, y), (left + width * 0.92, y)], BOUND_DASH, black)?;
            }
            self.spread(chart, left + width * 0.46, point, RGBColor(0, 0, 0))?;
        }
        Ok(())
    }

    /// The median as a marker, with its spread.
    fn marked(&self, chart: &mut Chart<'_>, x: f64, point: &Point) -> Drawn {
        let Some(y) = self.median(point) else { return Ok(()) };
        self.spread(chart, x, point, self.colour())?;
        legend::marker(self.root, chart.backend_coord(&(x, y)), self.index)
    }

    fn spread(&self, chart: &mut Chart<'_>, x: f64, point: &Point, colour: RGBColor) -> Drawn {
        let Some(summary) = point.summary(&self.results.y.metric) else { return Ok(()) };
        let (low, high) = match self.results.spread {
            Spread::MinMax => (summary.min, summary.max),
            Spread::P99 => (summary.median, summary.p99),
        };
        let ends = [low, high].map(|y| chart.backend_coord(&(x, self.axes.y(y))));
        let caps = ends.map(|(x, y)| vec![(x - CAP, y), (x + CAP, y)]);
        for path in caps.into_iter().chain([ends.to_vec()]) {
            self.root.draw(&PathElement::new(path, colour.stroke_width(1))).map_err(text)?;
        }
        Ok(())
    }
}

fn dashed(
    chart: &mut Chart<'_>,
    points: impl IntoIterator<Item = (f64, f64)>,
    (on, off): (u32, u32),
    style: ShapeStyle,
) -> Drawn {
    let points: Vec<_> = points.into_iter().collect();
    if points.len() > 1 {
        chart.draw_series(DashedLineSeries::new(points, on, off, style)).map_err(text)?;
    }
    Ok(())
}

/// The figure's font.
fn font(size: f64) -> TextStyle<'static> {
    plotters::style::IntoTextStyle::into_text_style(("sans-serif", size), &SIZE)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Axis, Label, Measure, Setup, Unit, sample};

    fn results(scale: Scale) -> Results {
        let xs: Vec<f64> = match &scale {
            Scale::Bytes => vec![1024.0, 32_768.0, 1_048_576.0],
            Scale::Categories(names) => (0..names.len()).map(|index| index as f64).collect(),
        };
        let x = Axis { label: "slice size".to_owned(), scale };
        let y = Measure::new("s", "repair time", Unit::Seconds);
        let mut results = Results::new("rp-8a", "a < b & c", false, Setup::here("none", 3), x, y);
        results.log_y = results.x.scale == Scale::Bytes;
        let point = |x: f64, s: f64| Point {
            x,
            bound: Some(s * 0.9),
            samples: [s, s * 1.1, s * 1.3].map(|s| sample([("s", s)])).to_vec(),
        };
        let mut chain = Series::new(Label::subject("pipeline"));
        chain.points = xs.iter().map(|&x| point(x, 0.6)).collect();
        let mut star = Series::new(Label::rival("conventional"));
        star.points = xs.iter().map(|&x| point(x, 5.7)).collect();
        let mut direct = Series::new(Label::bare("direct send").level());
        direct.points = vec![point(xs[1], 0.56)];
        results.series = vec![chain, star, direct];
        results
    }

    #[test]
    fn a_figure_names_axes_units_and_series_and_is_the_same_every_time() {
        let results = results(Scale::Bytes);
        let svg = figure(&results).unwrap();
        for wanted in ["slice size", "repair time [s]", "pipeline", "conventional", "direct send at 32 KiB"] {
            assert!(svg.contains(wanted), "{wanted}");
        }
        assert!(svg.contains("a &lt; b &amp; c"));
        assert_eq!(svg, figure(&results).unwrap());
    }

    #[test]
    fn names_become_groups_of_bars_with_a_bar_for_each_series() {
        let names = Scale::Categories(["(9,6)", "(12,8)", "(14,10)"].map(str::to_owned).to_vec());
        let results = results(names);
        let svg = figure(&results).unwrap();
        let bars = |colour: &str| svg.matches(&format!("fill=\"{colour}\"")).count();
        // Three bars and the sample in the legend.
        assert_eq!((bars("#0072B2"), bars("#D55E00")), (4, 4));
    }

    #[test]
    fn nothing_measured_is_no_figure() {
        let empty = Results { series: Vec::new(), ..results(Scale::Bytes) };
        assert!(matches!(figure(&empty), Err(LabError::Figure { .. })));
    }
}
