//! What the daemons say to each other: the control protocol (gRPC, [`proto`]) and the slice protocol (framed
//! TCP, [`frame`]). Versioned, bounded, and checksummed; nothing that arrives here can panic a daemon.

pub mod call;
pub mod codec;
pub mod frame;
pub mod limits;

pub use prost::Message;

/// Version of both protocols; a peer that speaks another is refused.
pub const PROTOCOL_VERSION: u32 = 1;

/// The generated messages and services of `proto/stripeline.proto`.
#[allow(missing_docs, clippy::all, unused_qualifications)]
pub mod proto {
    tonic::include_proto!("stripeline.v1");
}
