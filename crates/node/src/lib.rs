//! The storage node: a store of blocks and the helper that carries flows over them.
//!
//! - [`store`]: blocks as plain files with sidecars.
//! - [`server`]: the daemon, startable in-process; [`service`]: what it answers.
//! - [`flows`]: the store as the flow executor sees it; [`cache`]: recently read blocks in memory.
//! - [`membership`]: registering with the coordinator, and heartbeats; [`parts`]: what it is made of.
//! - [`ailment`]: whether its disk can be relied on; if not, it leaves.
//! - [`hdfs`]: blocks of an HDFS DataNode, lent where they lie, and the helper that does it: another store, no house.
//! - `holding`: what it keeps of the catalog, for its coordinator.
//! - [`scrub`]: reading everything, slowly, against the sidecars; [`suspects`]: reading again what seemed wrong.
//!
//! Absent: any decision about other nodes; a node obeys plans and orders. Internal: the program and tests start it; what
//! others may rely on are the files that it writes (docs/formats.md).

pub mod ailment;
pub mod cache;
pub mod clock;
mod ending;
pub mod flows;
pub mod hdfs;
mod holding;
pub mod membership;
pub mod parts;
mod probe;
pub mod scrub;
pub mod server;
pub mod service;
mod sessions;
pub mod store;
pub mod suspects;

pub use server::{Config, Node, NodeError, start};
