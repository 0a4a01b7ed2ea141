//! What the daemons say to each other: the control protocol (gRPC, [`proto`]) and the slice protocol (framed
//! TCP, [`frame`]). Versioned, bounded, and checksummed; nothing that arrives here can panic a daemon. Control ports: [`net`].
//!
//! Absent: the sockets of data ports, and what a plan is for. The bytes are an API (docs/formats.md); the Rust types are internal.

pub mod call;
pub mod codec;
pub mod frame;
pub mod limits;
pub mod mac;
pub mod names;
pub mod net;

pub use prost::Message;

/// Version of both protocols; a peer that speaks another is refused.
pub const PROTOCOL_VERSION: u32 = 6;

/// The messages and services of `proto/stripeline.proto`, generated: `tests/all/generated.rs` compares them, and renews them.
#[allow(missing_docs, clippy::all, clippy::too_many_lines, unused_qualifications)]
#[rustfmt::skip]
#[path = "proto/stripeline.v1.rs"]
pub mod proto;
