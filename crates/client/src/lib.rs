//! What a program links to use a Stripeline cluster: put, get, and the operator's calls.
//!
//! ```text
//!             names, plans                     ┌──────────────┐
//!   Client ───────────────────────────────────▶│ coordinator  │   no block data passes there
//!     │                                        └──────────────┘
//!     │  slices, straight                      ┌──────────────┐
//!     └───────────────────────────────────────▶│ nodes        │
//!                                              └──────────────┘
//! ```
//!
//! The client is the driver of the flows of its own puts and gets ([`exec::Engine`]): a put's source and a degraded
//! read's requestor run here. When a node fails, the client tells the coordinator whom it suspects and goes on from
//! the first byte that is missing. Memory is bounded by a few blocks for a put and a few slices for a get, whatever
//! the object's size.
//!
//! Absent: a block store, the catalog, and all planning: the coordinator plans. What a client decides is what to do when a
//! flow breaks, or takes longer than usual: whether to go around a node, or to ask others for the same bytes. An API: this is the crate that integrations
//! link; its types may change with a version, as CHANGELOG.md tells.

mod abreast;
mod ask;
mod attempts;
mod attention;
mod block;
mod calls;
mod clock;
mod connect;
mod covered;
mod error;
mod explain;
mod flight;
mod get;
mod group;
mod health;
mod intake;
mod jobs;
mod metadata;
mod moved;
mod options;
mod outlet;
mod parities;
mod parity;
mod patience;
mod permits;
mod put;
mod range;
mod read;
mod scatter;
mod together;
mod unknown;
mod writer;

pub use attention::{Attention, Code as AttentionCode, Verdict};
pub use connect::Client;
pub use error::ClientError;
pub use explain::ReadCost;
pub use flight::Hedges;
pub use get::GetReport;
pub use group::{Found, GroupPieces, GroupRead, GroupReading, GroupReport};
pub use health::{Health, Hindrance, StuckOrder, UnreadCopies};
pub use jobs::{Archival, CatalogChunks, Compaction, Events, JobEvents};
pub use metadata::Gather;
pub use options::{GetOptions, Progress};
pub use patience::{Patience, Waits};
pub use put::PutOptions;
pub use range::ByteRange;
