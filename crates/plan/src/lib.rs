//! Decisions about nodes: who helps, who receives, what is placed where, what is repaired first, what follows a fault; and of whole flows, by
//! which scheme, in which slices, at which price ([`decide`]). Pure: what a decision depends on is passed in, chance included
//! ([`Draw`]), so that the simulator and the daemons decide alike.
//!
//! Absent: I/O, clocks, randomness of its own, the state of a cluster: callers keep that. An API: programs outside this
//! repository may use it as a calculator (`stripeline plan` does); types may change with a version, as CHANGELOG.md
//! tells.

pub mod archive;
mod assign;
pub mod balance;
pub mod by_node;
pub mod decide;
mod draw;
mod error;
mod flow_graph;
pub mod grace;
pub mod helpers;
pub mod m_ppr;
mod numbers;
pub mod paper;
pub mod path;
pub mod pipeline;
pub mod placement;
pub mod rates;
pub mod recovery;
pub mod reliability;
pub mod requestor;
pub mod topology;

pub use archive::{Archival, ArchiveRequest, Kept, archive};
pub use by_node::ByNode;
pub use draw::Draw;
pub use error::PlanError;
pub use helpers::LeastRecent;
pub use pipeline::{PipelineRequest, fetched, pipeline};
pub use rates::LinkRates;
pub use recovery::Urgency;
pub use requestor::{Requestors, requestor};
pub use topology::{Host, RackId, Topology};
