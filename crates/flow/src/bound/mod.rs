//! Flows bound to the world: who stands at which site, which blocks are read and written, the secret of each edge.
//!
//! ```text
//!   Proved + Binding ──bind──▶ FlowPlan ── message ──▶ FlowPlan<Flow>, at its driver
//!                                                        │  standing(), part(site)
//!                                                        ▼
//!                                     NodeStages, at each node: a stage with the ends of its edges
//! ```
//!
//! [`bind`] makes a plan; nobody parses or checks what it made. What arrives in a message is checked once, where it
//! arrives: a plan by [`FlowPlan::arrived`], what a node is to run by [`NodeStages::new`].

pub mod frame_slices;
mod header;
mod lane_rate;
mod part;
mod plan;

pub use header::FlowHeader;
pub use part::{EdgeEnd, Ends, InputSpec, NodeStages, OutputSpec, StageSpec};
pub use plan::{Binding, BlockRead, BlockWrite, BoundEdge, FlowPlan, Participant, bind};

use model::{Cause, Fault};

fn invalid(what: &str) -> Fault {
    Fault::new(Cause::Invalid, what)
}

fn narrow(value: u32) -> Result<u16, Fault> {
    u16::try_from(value).map_err(|_| invalid("a number beyond 16 bits"))
}
