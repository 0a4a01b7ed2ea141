//! What every participant of a flow knows of it.

use super::{frame_slices, invalid};
use crate::graph::Geometry;
use crate::limits;
use gf::Field;
use model::{Fault, FlowId, Traffic};

/// What every participant knows of a flow.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowHeader {
    /// Identity.
    pub flow: FlowId,
    /// Attempt, from 1.
    pub attempt: u32,
    /// The field of its matrices.
    pub field: Field,
    /// How blocks are cut.
    pub geometry: Geometry,
    /// Whether fingerprints travel with the slices and are checked.
    pub verify: bool,
    /// A stage ends this long after its driver's last sign of life.
    pub lease_ms: u32,
    /// A stage that waits longer for input says so.
    pub stall_ms: u32,
    /// Grants reach at most this far past the lowest undelivered slice.
    pub window_slices: u32,
    /// … and of all lanes together at most so many slices for each lane are granted and not delivered.
    pub lane_window_slices: u32,
    /// Stages carry one slice at a time and wait for its acknowledgement on the data connection. Only for chains: elsewhere
    /// it could deadlock.
    pub serial: bool,
    /// What was written of a block stays for a lease when the flow breaks, so that a later attempt can go on from there.
    pub keep: bool,
    /// Slices that share a frame ([`frame_slices`]), at least 1. For whom it can be more [`bind`](super::bind) finds out.
    pub frame_slices: u32,
    /// Whose budget it is charged to.
    pub traffic: Traffic,
}

impl FlowHeader {
    /// A first attempt with the usual limits, for a client.
    pub fn new(flow: FlowId, field: Field, geometry: Geometry) -> FlowHeader {
        let window = limits::WINDOW_BYTES / u64::from(geometry.slice_bytes.max(1));
        let window = u32::try_from(window).unwrap_or(u32::MAX).max(limits::MIN_WINDOW_SLICES);
        FlowHeader {
            flow,
            attempt: 1,
            field,
            geometry,
            verify: true,
            lease_ms: limits::LEASE_MS,
            stall_ms: limits::STALL_MS + geometry.slice_bytes / limits::PATIENCE_BYTES_PER_MS,
            window_slices: window,
            lane_window_slices: window,
            serial: false,
            keep: false,
            frame_slices: 1,
            traffic: Traffic::Client,
        }
    }

    /// Checks a header that arrived.
    ///
    /// # Errors
    /// A fault that says what is out of its bounds.
    pub fn check(&self) -> Result<(), Fault> {
        let Geometry { block_bytes, alpha, slice_bytes } = self.geometry;
        if !limits::slice_bytes_ok(slice_bytes) {
            return Err(invalid(
                "slice length: it must divide 32 KiB or be a multiple of it, from 1 KiB to 256 MiB",
            ));
        }
        if block_bytes > limits::MAX_BLOCK_BYTES || !(1..=limits::MAX_ALPHA).contains(&u32::from(alpha)) {
            return Err(invalid("block length or symbols per block"));
        }
        if self.attempt == 0 || self.lease_ms == 0 || self.stall_ms == 0 || self.window_slices == 0 {
            return Err(invalid("attempt, lease, stall time and window are at least 1"));
        }
        if !frame_slices::header_ok(self) {
            return Err(invalid("slices that share a frame"));
        }
        Ok(())
    }
}
