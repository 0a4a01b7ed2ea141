//! `stripeline bare`: one process of the bare sends and chains that repairs are compared with; `stripeline bare-send`: such
//! a send over the loopback.

use crate::amount::{Rate, Size, seconds};
use crate::context::Context;
use anyhow::Result;
use clap::Args;
use lab::bare::{Hop, loopback_send, run_hop};
use serde_json::json;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Written and charged at once over the loopback: as much as a slice.
const PIECE_BYTES: usize = 32 << 10;

/// What this process does: see [`Hop`].
#[derive(Args, Debug)]
pub struct BareArgs {
    /// Receive on a free port of this address
    #[arg(long, value_name = "IP")]
    listen: Option<IpAddr>,
    /// Send there
    #[arg(long, value_name = "ADDR")]
    to: Option<SocketAddr>,
    /// XOR this file into what passes
    #[arg(long)]
    file: Option<PathBuf>,
    /// Bytes in all
    #[arg(long)]
    bytes: u64,
    /// Bytes read and written at once
    #[arg(long)]
    slice_bytes: usize,
    /// Token bucket for sending; 0: none
    #[arg(long, default_value_t = 0)]
    egress_bytes_per_s: u64,
    /// Token bucket for receiving; 0: none
    #[arg(long, default_value_t = 0)]
    ingress_bytes_per_s: u64,
}

/// What to send over the loopback.
#[derive(Args, Debug)]
pub struct SendArgs {
    /// Bytes to send
    #[arg(long, default_value = "64MiB")]
    bytes: Size,
    /// Rate of the token buckets, one at each end
    #[arg(long, default_value = "none")]
    rate: Rate,
}

pub fn run(args: BareArgs) -> Result<()> {
    let BareArgs { listen, to, file, bytes, slice_bytes, egress_bytes_per_s, ingress_bytes_per_s } = args;
    // A send of zero bytes at a time would never end.
    let slice_bytes = slice_bytes.max(1);
    Ok(run_hop(&Hop { listen, to, file, bytes, slice_bytes, egress_bytes_per_s, ingress_bytes_per_s })?)
}

pub fn run_send(context: &Context, args: &SendArgs) -> Result<()> {
    let took = measure(args.bytes, args.rate)?;
    context.out.answer(&json!({"bytes": args.bytes.0, "us": took.as_micros()}), || {
        format!("{} in {}", args.bytes, seconds(took))
    })
}

/// One plain connection over the loopback, a process at each end, through token buckets of that rate: how long until the
/// last byte was received.
pub fn measure(bytes: Size, rate: Rate) -> Result<Duration> {
    Ok(Duration::from_secs_f64(loopback_send(bytes.0, PIECE_BYTES, rate.0)?.seconds))
}
