//! Colours, markers, and the legend that names them.

use super::{Area, Drawn, font, text};
use crate::report::results::{Results, Scale, Shape, Spread};
use plotters::prelude::{BLACK, Circle, PathElement, Polygon, RGBColor, Rectangle, Text, TriangleMarker};
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Of Okabe and Ito, which colour-blind readers can tell apart; ours first.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(60, 60, 60),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(150, 150, 150),
];

/// Radius of a marker in pixels.
const MARKER: i32 = 5;

/// Width of the sample of a line beside its name, in pixels.
const SAMPLE_WIDTH: i32 = 44;

/// Height of an entry in pixels.
const ENTRY: i32 = 26;

pub fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// A marker of the series at a pixel; shapes differ as well as colours.
pub fn marker(root: &Area<'_>, (x, y): (i32, i32), index: usize) -> Drawn {
    let filled = colour(index).filled();
    let m = MARKER;
    match index % 4 {
        0 => root.draw(&Circle::new((x, y), m, filled)),
        1 => root.draw(&Rectangle::new([(x - m, y - m), (x + m, y + m)], filled)),
        2 => root.draw(&TriangleMarker::new((x, y), m + 1, filled)),
        _ => {
            let diamond = [(0, -m), (m, 0), (0, m), (-m, 0)].map(|(dx, dy)| (x + dx, y + dy));
            root.draw(&Polygon::new(diamond.to_vec(), filled))
        }
    }
    .map_err(text)
}

/// Names every series, and what dashes and bars stand for.
pub fn draw(root: &Area<'_>, (left, top): (i32, i32), results: &Results) -> Drawn {
    let categories = matches!(results.x.scale, Scale::Categories(_));
    let mut y = top + 3 * ENTRY / 2;
    for (index, series) in results.series.iter().enumerate() {
        let sample = (left, left + SAMPLE_WIDTH, y);
        let mut name = series.name.clone();
        if series.shape == Shape::Level {
            stroke(root, sample, &[10, 5], colour(index), 2)?;
            let at = series.points.first().filter(|_| !categories).map(|point| results.x.text(point.x));
            name += &at.map_or(String::new(), |at| format!(" at {at}"));
        } else if categories {
            let bar = [(left + 8, y - 7), (left + SAMPLE_WIDTH - 8, y + 7)];
            root.draw(&Rectangle::new(bar, colour(index).filled())).map_err(text)?;
        } else {
            stroke(root, sample, &[], colour(index), 2)?;
            marker(root, (left + SAMPLE_WIDTH / 2, y), index)?;
        }
        label(root, (left, y), name)?;
        y += ENTRY;
    }
    if results.series.iter().flat_map(|series| &series.points).any(|point| point.bound.is_some()) {
        stroke(root, (left, left + SAMPLE_WIDTH, y), &[3, 4], BLACK, 1)?;
        label(root, (left, y), "bound of the model".to_owned())?;
        y += ENTRY;
    }
    let middle = left + SAMPLE_WIDTH / 2;
    for path in [
        [(middle, y - 8), (middle, y + 8)],
        [(middle - 5, y - 8), (middle + 5, y - 8)],
        [(middle - 5, y + 8), (middle + 5, y + 8)],
    ] {
        root.draw(&PathElement::new(path, BLACK.stroke_width(1))).map_err(text)?;
    }
    let spread = match results.spread {
        Spread::MinMax => "median, min to max",
        Spread::P99 => "median, up to p99",
    };
    label(root, (left, y), spread.to_owned())
}

fn label(root: &Area<'_>, (left, y): (i32, i32), name: String) -> Drawn {
    let style = font(14.0).pos(Pos::new(HPos::Left, VPos::Center));
    root.draw(&Text::new(name, (left + SAMPLE_WIDTH + 8, y), style)).map_err(text)
}

/// A horizontal stroke; `dashes` on and off in turn, none for a whole one.
fn stroke(
    root: &Area<'_>,
    (from, to, y): (i32, i32, i32),
    dashes: &[i32],
    colour: RGBColor,
    width: u32,
) -> Drawn {
    let (on, off) = match dashes {
        [on, off] => (*on, *off),
        _ => (to - from, 0),
    };
    let mut x = from;
    while x < to {
        let path = [(x, y), ((x + on).min(to), y)];
        root.draw(&PathElement::new(path, colour.stroke_width(width))).map_err(text)?;
        x += (on + off).max(1);
    }
    Ok(())
}
