//! The storage node.

pub mod store;
