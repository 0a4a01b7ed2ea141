//! What an experiment found: kept with every raw sample, shown as a table, drawn as a figure, judged beside the paper.
//!
//! ```text
//!   experiment ──▶ Results ──┬── save    results/<id>.json
//!                            ├── table   standard output, docs/results.md
//!                            ├── figure  results/<id>.svg
//!                            └── compare (the experiment's own) ──▶ Comparison: met or missed, and why
//! ```

mod comparison;
mod document;
mod figure;
mod results;
mod setup;
mod statistics;
mod table;

pub use comparison::{Comparison, Form, Target};
pub use document::{Chapter, document, judged};
pub use figure::figure;
pub use results::{
    Axis, Kind, Label, Measure, Point, Ratio, Results, Sample, Scale, Series, Shape, Spread, Unit, sample,
};
pub use setup::{Machine, Setup};
pub use statistics::{Summary, percentile};
pub use table::{Style, table};
