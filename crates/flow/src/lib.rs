//! Flows: graphs of stages that combine slices and pass them on, and all that can be said of one before it
//! runs.
//!
//! A [scheme](build::Scheme) builds a [`Flow`]; [`prove`](prove::prove) executes it on coefficient vectors
//! and only then lets it go as a [`Proved`]; [`cost`] predicts its bytes; [`render`] explains it to a person.
//! [`bound`] ties it to nodes and blocks; [`interpret`] runs it on bytes, for tests. A scheme is a file in `build/` and
//! one line (docs/first-change.md).
//!
//! Absent: sockets, clocks, and the choice of who helps, which is `plan`'s. An API: programs
//! outside this repository may use it to build, prove and price flows; types may change with a version, as
//! CHANGELOG.md tells.

pub mod bound;
pub mod build;
pub mod cost;
mod error;
pub mod extent;
pub mod graph;
pub mod interpret;
pub mod limits;
pub mod prove;
pub mod render;
pub mod runs;
mod schedule;
pub mod time;
pub mod validate;

pub use bound::{FlowHeader, FlowPlan};
pub use build::{
    EncodeRequest, EncodeScheme, Helper, MultiBlockRequest, PathShare, RepairRequest, Scheme, Sink, build,
    copy, encode, multi_block, paths, write,
};
pub use cost::{Bottleneck, Cost, Direction, predict};
pub use error::FlowError;
pub use extent::{edge_extents, stored_bytes};
pub use graph::*;
pub use prove::{Proved, prove};
pub use runs::{Deal, LaneShare, Run, deal};
pub use time::{Rates, Time, busiest, time};
