//! Builders of flows, one file per idea. Each hands out a [`Proved`](crate::Proved) flow or an error, nothing
//! in between.

mod chain;
mod columns;
pub mod copy;
mod cyclic;
pub mod encode;
mod leaving;
pub mod multi_block;
mod paths;
mod request;
mod scheme;
mod star;
#[cfg(test)]
mod tests;
mod tree;
pub mod write;

pub use chain::chain;
pub use cyclic::cyclic;
pub use encode::{EncodeRequest, EncodeScheme};
pub use multi_block::MultiBlockRequest;
pub use paths::{PathShare, paths};
pub use request::{Helper, RepairRequest, Sink};
pub use scheme::{Scheme, build};
pub use star::{first_parity, star};
pub use tree::tree;
