//! Plain sockets that carry bytes from process to process: what repairs are compared with. Nothing of the executor runs
//! here, but for its token buckets where a measurement has no testbed. Nothing is checked but that all bytes arrive.
//!
//! `bare`, a command of both programs, is one process of it ([`Hop::run`]); `stripeline bare-send` a send over the loopback.

mod chain;
mod hop;

pub use chain::{Place, Timing, time};
pub use hop::Hop;

use crate::amount::{Rate, Size, seconds};
use crate::output::Output;
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Written and charged at once over the loopback: as much as a slice.
const PIECE_BYTES: usize = 32 << 10;

/// What to send over the loopback.
#[derive(Args, Debug)]
pub(crate) struct SendArgs {
    /// Bytes to send
    #[arg(long, default_value = "64MiB")]
    bytes: Size,
    /// Rate of the token buckets, one at each end
    #[arg(long, default_value = "none")]
    rate: Rate,
}

/// A bare program failed.
#[derive(Debug, thiserror::Error)]
#[error("bare {role}: {message}")]
pub struct BareError {
    /// Which one: see [`Hop::role`].
    pub role: &'static str,
    /// What it said.
    pub message: String,
}

pub(crate) fn run_send(out: Output, args: &SendArgs) -> Result<()> {
    let took = measure(args.bytes, args.rate)?;
    out.answer(&json!({"bytes": args.bytes.0, "us": took.as_micros()}), || {
        format!("{} in {}", args.bytes, seconds(took))
    })
}

/// One plain connection over the loopback, a process at each end, through token buckets of that rate: how long until the
/// last byte was received.
pub(crate) fn measure(bytes: Size, rate: Rate) -> Result<Duration> {
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let hop = Hop {
        bytes: bytes.0,
        slice_bytes: PIECE_BYTES,
        egress_bytes_per_s: rate.0,
        ingress_bytes_per_s: rate.0,
        ..Hop::default()
    };
    let timing = time(&[Place::here(here), Place::here(here)], |_| hop.clone())?;
    Ok(Duration::from_secs_f64(timing.seconds))
}
