//! What the network and plain sockets can do: the bounds that repairs are compared with. Nothing of the executor runs
//! here, but for its token buckets where a measurement has no testbed.
//!
//! ```text
//!   direct send     source ─────────────────────────────────▶ receiver
//!   relay chain     source ──▶ relay ──▶ … ──▶ relay ───────▶ receiver     read a slice, write it
//!   helper chain    pread ───▶ pread, xor ──▶ pread, xor ───▶ receiver     … with a local file XORed in
//! ```
//!
//! Each is a process of its own ([`run_hop`]), on the host that it stands for. Nothing is checked but that all bytes
//! arrive.

mod chain;
mod hop;

pub use chain::{Timing, direct_send, helper_chain, loopback_send, relay_chain};
pub use hop::{Hop, run_hop};
