//! Builders of flows, one file per idea. Each hands out a [`Proved`](crate::Proved) flow or an error, nothing
//! in between.

mod chain;
mod columns;
pub mod copy;
pub mod encode;
pub mod multi_block;
mod request;
mod scheme;
mod star;
mod tree;
pub mod write;

pub use chain::chain;
pub use encode::EncodeRequest;
pub use multi_block::MultiBlockRequest;
pub use request::{Helper, RepairRequest, Sink};
pub use scheme::{Scheme, build};
pub use star::star;
pub use tree::tree;
