//! The requestor of programs in other languages: over one loopback port they ask for members of a block group of HDFS, and get
//! their bytes, decoded by a flow that this process drives.
//!
//! ```text
//!   DataNode ── request ──▶ gateway ── plan? ──▶ coordinator
//!   (a plugin)               │  ▲
//!            ◀── frames ─────┘  └══ slices ═══ helpers beside other DataNodes
//! ```
//!
//! - [`protocol`]: requests and frames as bytes (docs/formats.md).
//! - [`serve`]: who may ask how much at once.
//!
//! Whoever cannot be served is told why in a frame, at once or in the middle, and does it some other way.
//!
//! Absent: what blocks are for, and any state: nothing is kept between two requests. Internal: the program starts it.

pub mod protocol;
pub mod serve;

pub use serve::{Gateway, GatewayError, start};
