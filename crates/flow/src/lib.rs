//! Flows: graphs of stages that combine slices and pass them on, and all that can be said of one before it
//! runs.
//!
//! A [scheme](build::Scheme) builds a [`Flow`]; [`prove`](prove::prove) executes it on coefficient vectors
//! and only then lets it go as a [`Proved`]; [`cost`] predicts its bytes; [`render`] explains it to a person;
//! [`interpret`] runs it on bytes, for tests.
//! Nothing here does I/O.

pub mod build;
pub mod cost;
mod error;
pub mod extent;
pub mod graph;
pub mod interpret;
pub mod pace;
pub mod prove;
pub mod render;
pub mod runs;
mod schedule;
pub mod time;
pub mod validate;

pub use build::{
    EncodeRequest, Helper, MultiBlockRequest, RepairRequest, Scheme, SharedPath, Sink, build, copy, encode,
    multi_block, paths, write,
};
pub use cost::{Bottleneck, Cost, Direction, predict};
pub use error::FlowError;
pub use extent::{edge_extents, stored_bytes};
pub use graph::*;
pub use pace::{Detours, Pace};
pub use prove::{Proved, prove};
pub use runs::{Deal, LaneShare, Run, deal};
pub use time::{Rates, busiest, time};
