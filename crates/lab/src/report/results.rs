//! The record of one experiment: its setup and every raw sample, with what is needed to show them.

use super::comparison::Form;
use super::setup::Setup;
use super::statistics::Summary;
use crate::error::{LabError, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Version of the JSON; a reader refuses others.
const FORMAT: u32 = 1;

/// What one repair, read or send showed: metric → value in SI units (seconds, bits per second, a share of 1).
pub type Sample = BTreeMap<String, f64>;

/// One experiment's outcome.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Version of this record.
    pub format: u32,
    /// The experiment.
    pub id: String,
    /// For people.
    pub title: String,
    /// Small blocks and few runs: shows that it works, measures nothing.
    pub quick: bool,
    /// On what.
    pub setup: Setup,
    /// What varies.
    pub x: Axis,
    /// What is compared.
    pub y: Measure,
    /// Whether the figure's y axis is logarithmic.
    pub log_y: bool,
    /// What the table shows beside, as medians.
    pub beside: Vec<Measure>,
    /// How far samples lie apart is shown so.
    pub spread: Spread,
    /// Columns that relate one series to another.
    pub ratios: Vec<Ratio>,
    /// The samples.
    pub series: Vec<Series>,
    /// What a reader has to know besides.
    pub notes: Vec<String>,
}

/// What varies along the figure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// Such as "slice size".
    pub label: String,
    /// Its values.
    pub scale: Scale,
}

/// What an axis' values are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Numbers of bytes, by powers of two.
    Bytes,
    /// Names; a point's x is an index into them.
    Categories(Vec<String>),
}

/// A metric and how it is shown.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Measure {
    /// Key in the samples.
    pub metric: String,
    /// For people, without unit.
    pub label: String,
    /// How it is shown.
    pub unit: Unit,
}

/// Units that values are shown in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// s
    Seconds,
    /// ms
    Milliseconds,
    /// µs
    Microseconds,
    /// Gb/s, of bits per second
    GigabitsPerSecond,
    /// %, of a share of 1
    Percent,
    /// MiB, of bytes
    Mebibytes,
    /// MiB/s, of bytes per second
    MebibytesPerSecond,
    /// /s, of a number per second
    PerSecond,
    /// blocks, of a number of them
    Blocks,
    /// nines, −log10 of a probability
    Nines,
}

/// Which spread stands beside a median.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Smallest and largest.
    MinMax,
    /// The 99th percentile: for latencies, of which there are many samples.
    P99,
}

/// A column that relates every series to one of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ratio {
    /// Name of the series that is 1.
    pub against: String,
    /// How it is shown.
    pub form: Form,
}

/// Samples of one scheme, or of one thing to compare with.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Name in table and legend.
    pub name: String,
    /// Whose it is.
    pub kind: Kind,
    /// How it is drawn.
    pub shape: Shape,
    /// By rising x.
    pub points: Vec<Point>,
}

/// Whose times they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The scheme that the experiment is about.
    Subject,
    /// A scheme to compare it with, run by the same daemons.
    Rival,
    /// A bare program without storage, verification or control: what the machine can do.
    Bare,
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A line through its points.
    Curve,
    /// Measured at one x, drawn as a level across all.
    Level,
}

/// The series that samples go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Whose it is.
    pub kind: Kind,
    /// How it is drawn.
    pub shape: Shape,
}

/// All samples at one x.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Bytes, or an index of a category.
    pub x: f64,
    /// What the model says is the best possible, in the metric of y, SI units.
    pub bound: Option<f64>,
    /// In the order in which they were taken.
    pub samples: Vec<Sample>,
}

impl Results {
    /// An empty record of this version.
    pub fn new(id: &str, title: &str, quick: bool, setup: Setup, x: Axis, y: Measure) -> Results {
        Results {
            format: FORMAT,
            id: id.to_owned(),
            title: title.to_owned(),
            quick,
            setup,
            x,
            y,
            log_y: false,
            beside: Vec::new(),
            spread: Spread::MinMax,
            ratios: Vec::new(),
            series: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Where they are kept in `folder`. A quick run never has the name of a full one.
    pub fn file(folder: &Path, id: &str, quick: bool, extension: &str) -> PathBuf {
        folder.join(format!("{id}{}.{extension}", if quick { ".quick" } else { "" }))
    }

    /// Writes the record; its path.
    ///
    /// # Errors
    /// [`LabError::Io`].
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        let path = Results::file(folder, &self.id, self.quick, "json");
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| LabError::BadResults { path: path.clone(), reason: e.to_string() })?;
        fs::create_dir_all(folder).map_err(LabError::io(format!("make {}", folder.display())))?;
        fs::write(&path, text + "\n").map_err(LabError::io(format!("write {}", path.display())))?;
        Ok(path)
    }

    /// Reads a record; `None` if there is no such file.
    ///
    /// # Errors
    /// [`LabError::Io`], [`LabError::BadResults`].
    pub fn load(path: &Path) -> Result<Option<Results>> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LabError::io(format!("read {}", path.display()))(error)),
        };
        let bad = |reason: String| LabError::BadResults { path: path.to_owned(), reason };
        let Version { format } = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        if format != FORMAT {
            return Err(bad(format!("its format is {format}, this program reads {FORMAT}")));
        }
        serde_json::from_str(&text).map(Some).map_err(|e| bad(e.to_string()))
    }

    /// A series by name.
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Summary of `metric` of a series at `x`; a series with one point has that everywhere.
    pub fn summary(&self, series: &str, x: f64, metric: &str) -> Option<Summary> {
        self.series(series)?.at(x)?.summary(metric)
    }

    /// Median of `metric` of a series at `x`; 0 where there is none.
    pub fn median_of(&self, series: &str, x: f64, metric: &str) -> f64 {
        self.summary(series, x, metric).map_or(0.0, |summary| summary.median)
    }

    /// Median of what is compared.
    pub fn median(&self, series: &str, x: f64) -> Option<f64> {
        Some(self.summary(series, x, &self.y.metric)?.median)
    }

    /// Medians of two series at `x`, the first over the second.
    pub fn ratio(&self, series: &str, against: &str, x: f64) -> Option<f64> {
        Some(self.median(series, x)? / self.median(against, x)?).filter(|ratio| ratio.is_finite())
    }

    /// Median over the model's bound at `x`.
    pub fn of_bound(&self, series: &str, x: f64) -> Option<f64> {
        Some(self.median(series, x)? / self.series(series)?.at(x)?.bound?)
    }

    /// Appends a sample to a series, which begins with its first sample.
    pub fn add(&mut self, label: Label, x: f64, sample: Sample) {
        let at = self.series.iter().position(|s| s.name == label.name).unwrap_or_else(|| {
            self.series.push(Series::new(label));
            self.series.len() - 1
        });
        let points = &mut self.series[at].points;
        match points.iter_mut().find(|point| point.x == x) {
            Some(point) => point.samples.push(sample),
            None => points.push(Point { x, bound: None, samples: vec![sample] }),
        }
    }

    /// Sets what the model allows a series at `x`.
    pub fn bound(&mut self, series: &str, x: f64, bound: f64) {
        let points = self.series.iter_mut().filter(|s| s.name == series).flat_map(|s| &mut s.points);
        for point in points.filter(|point| point.x == x) {
            point.bound = Some(bound);
        }
    }

    /// Takes every bound from what the samples themselves say is possible, under `metric`: the median of a point.
    pub fn bounds_from(&mut self, metric: &str) {
        for point in self.series.iter_mut().flat_map(|series| &mut series.points) {
            if let Some(summary) = point.summary(metric) {
                point.bound = Some(summary.median);
            }
        }
    }

    /// The x at which the series' median is smallest.
    pub fn best_x(&self, series: &str) -> Option<f64> {
        let points = self.series(series)?.points.iter();
        let medians = points.filter_map(|point| Some((point.x, point.summary(&self.y.metric)?.median)));
        medians.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(x, _)| x)
    }
}

/// Values by their metrics.
pub fn sample<const N: usize>(metrics: [(&str, f64); N]) -> Sample {
    metrics.into_iter().map(|(metric, value)| (metric.to_owned(), value)).collect()
}

impl Label {
    /// The scheme that the experiment is about.
    pub const fn subject(name: &'static str) -> Label {
        Label { name, kind: Kind::Subject, shape: Shape::Curve }
    }

    /// A scheme to compare with.
    pub const fn rival(name: &'static str) -> Label {
        Label { name, kind: Kind::Rival, shape: Shape::Curve }
    }

    /// A bare program.
    pub const fn bare(name: &'static str) -> Label {
        Label { name, kind: Kind::Bare, shape: Shape::Curve }
    }

    /// The same as a level: measured at one x, and compared with all.
    pub const fn level(self) -> Label {
        Label { shape: Shape::Level, ..self }
    }
}

impl Ratio {
    /// Columns of savings against some series, then of multiples of others.
    pub fn columns(savings: &[&str], multiples: &[&str]) -> Vec<Ratio> {
        let column = |form| move |name: &&str| Ratio { against: (*name).to_owned(), form };
        let savings = savings.iter().map(column(Form::Saving));
        savings.chain(multiples.iter().map(column(Form::Times))).collect()
    }
}

impl Axis {
    /// An axis of numbers of bytes.
    pub fn bytes(label: &str) -> Axis {
        Axis { label: label.to_owned(), scale: Scale::Bytes }
    }

    /// An axis of names.
    pub fn named(label: &str, names: impl IntoIterator<Item = impl ToString>) -> Axis {
        let names = names.into_iter().map(|name| name.to_string()).collect();
        Axis { label: label.to_owned(), scale: Scale::Categories(names) }
    }

    /// A value of this axis for people.
    pub fn text(&self, x: f64) -> String {
        match &self.scale {
            Scale::Bytes => cli::amount::Size(x as u64).to_string(),
            Scale::Categories(names) => names.get(x as usize).cloned().unwrap_or_default(),
        }
    }
}

impl Measure {
    /// A metric for people.
    pub fn new(metric: &str, label: &str, unit: Unit) -> Measure {
        Measure { metric: metric.to_owned(), label: label.to_owned(), unit }
    }

    /// Label and unit.
    pub fn heading(&self) -> String {
        format!("{} [{}]", self.label, self.unit.symbol())
    }
}

impl Unit {
    /// Its symbol.
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Milliseconds => "ms",
            Unit::Microseconds => "µs",
            Unit::GigabitsPerSecond => "Gb/s",
            Unit::Percent => "%",
            Unit::Mebibytes => "MiB",
            Unit::MebibytesPerSecond => "MiB/s",
            Unit::PerSecond => "/s",
            Unit::Blocks => "blocks",
            Unit::Nines => "nines",
        }
    }

    /// An SI value in this unit.
    pub fn scale(self, value: f64) -> f64 {
        match self {
            Unit::Seconds => value,
            Unit::Milliseconds => value * 1e3,
            Unit::Microseconds => value * 1e6,
            Unit::GigabitsPerSecond => value / 1e9,
            Unit::Percent => value * 1e2,
            Unit::Mebibytes | Unit::MebibytesPerSecond => value / f64::from(1 << 20),
            Unit::PerSecond | Unit::Blocks | Unit::Nines => value,
        }
    }

    /// An SI value in this unit to three or four digits.
    pub fn text(self, value: f64) -> String {
        let scaled = self.scale(value);
        let digits = match scaled.abs() {
            s if s >= 100.0 => 0,
            s if s >= 10.0 => 1,
            s if s >= 1.0 && self != Unit::Seconds => 2,
            _ => 3,
        };
        format!("{scaled:.digits$}")
    }
}

impl Series {
    /// An empty one.
    pub fn new(Label { name, kind, shape }: Label) -> Series {
        Series { name: name.to_owned(), kind, shape, points: Vec::new() }
    }

    /// The point at `x`, or the only one there is.
    pub fn at(&self, x: f64) -> Option<&Point> {
        let exact = self.points.iter().find(|point| point.x == x);
        exact.or(self.points.first().filter(|_| self.shape == Shape::Level))
    }
}

impl Point {
    /// Summary of a metric, of the samples that have it.
    pub fn summary(&self, metric: &str) -> Option<Summary> {
        Summary::of(self.samples.iter().filter_map(|sample| sample.get(metric).copied()))
    }
}
