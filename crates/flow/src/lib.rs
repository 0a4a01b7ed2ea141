//! Flows: graphs of stages that combine and pass on slices.
pub mod graph;
pub use graph::*;
