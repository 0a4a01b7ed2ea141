//! Results as a table: on a terminal and in the documentation.

use super::comparison::Form;
use super::results::{Point, Results, Series, Spread};
use comfy_table::{CellAlignment, ColumnConstraint, Table, presets};

/// Blanks between two columns on a terminal.
const COLUMN_GAP: u16 = 2;

/// Where no value is.
const NONE: &str = "–";

/// How a table is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Aligned, without lines.
    Plain,
    /// Markdown.
    Markdown,
}

/// A row for each x and series: median, spread, bound, ratios, and what is shown beside.
pub fn table(results: &Results, style: Style) -> String {
    let mut header = vec![results.x.label.clone(), "scheme".to_owned(), results.y.heading()];
    header.push(match results.spread {
        Spread::MinMax => "min … max".to_owned(),
        Spread::P99 => "p99".to_owned(),
    });
    let bounded = results.series.iter().flat_map(|series| &series.points).any(|point| point.bound.is_some());
    if bounded {
        header.extend(["bound".to_owned(), "of bound".to_owned()]);
    }
    header.extend(results.ratios.iter().map(|ratio| match ratio.form {
        Form::Saving => format!("vs {}", ratio.against),
        Form::Times | Form::Number => format!("× {}", ratio.against),
    }));
    header.extend(results.beside.iter().map(super::results::Measure::heading));
    let rows = rows(results).into_iter().map(|(series, point)| cells(results, series, point, bounded));
    set(header, rows, 2, style)
}

/// A table whose first `left` columns are words and whose other columns are numbers.
pub(crate) fn set(
    header: Vec<String>,
    rows: impl IntoIterator<Item = Vec<String>>,
    left: usize,
    style: Style,
) -> String {
    let mut table = Table::new();
    table.load_preset(match style {
        Style::Plain => presets::NOTHING,
        Style::Markdown => presets::ASCII_MARKDOWN,
    });
    table.set_header(header).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        if style == Style::Plain {
            column.set_padding((0, COLUMN_GAP));
        }
        column.set_constraint(ColumnConstraint::ContentWidth);
        column.set_cell_alignment(if index < left { CellAlignment::Left } else { CellAlignment::Right });
    }
    let lines: Vec<String> = table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// All points by x, then in the order of the series.
fn rows(results: &Results) -> Vec<(&Series, &Point)> {
    let mut rows: Vec<_> = results
        .series
        .iter()
        .flat_map(|series| series.points.iter().map(move |point| (series, point)))
        .collect();
    rows.sort_by(|a, b| a.1.x.total_cmp(&b.1.x));
    rows
}

fn cells(results: &Results, series: &Series, point: &Point, bounded: bool) -> Vec<String> {
    let unit = results.y.unit;
    let mut cells = vec![results.x.text(point.x), series.name.clone()];
    let summary = point.summary(&results.y.metric);
    cells.push(summary.map_or(NONE.to_owned(), |s| unit.text(s.median)));
    cells.push(summary.map_or(NONE.to_owned(), |s| match results.spread {
        Spread::MinMax => format!("{} … {}", unit.text(s.min), unit.text(s.max)),
        Spread::P99 => unit.text(s.p99),
    }));
    if bounded {
        cells.push(point.bound.map_or(NONE.to_owned(), |bound| unit.text(bound)));
        let of_bound = summary.zip(point.bound).map(|(s, bound)| Form::Times.text(s.median / bound));
        cells.push(of_bound.unwrap_or(NONE.to_owned()));
    }
    for ratio in &results.ratios {
        let value =
            (ratio.against != series.name).then(|| results.ratio(&series.name, &ratio.against, point.x));
        cells.push(value.flatten().map_or(NONE.to_owned(), |value| ratio.form.text(value)));
    }
    for measure in &results.beside {
        let summary = point.summary(&measure.metric);
        cells.push(summary.map_or(NONE.to_owned(), |s| measure.unit.text(s.median)));
    }
    cells
}
