//! A flow's header as a message.

use super::{invalid, narrow};
use crate::proto;
use flow::{FlowHeader, Geometry};
use gf::Field;
use model::{Fault, FlowId, Traffic};

/// The message.
pub fn encode(h: &FlowHeader) -> proto::FlowHeader {
    proto::FlowHeader {
        flow: h.flow.to_vec(),
        attempt: h.attempt,
        field: field_number(h.field),
        geometry: Some(proto::Geometry {
            block_bytes: h.geometry.block_bytes,
            alpha: u32::from(h.geometry.alpha),
            slice_bytes: h.geometry.slice_bytes,
        }),
        verify: h.verify,
        lease_ms: h.lease_ms,
        stall_ms: h.stall_ms,
        window_slices: h.window_slices,
        serial: h.serial,
        keep: h.keep,
        frame_slices: h.frame_slices,
        lane_window_slices: h.lane_window_slices,
        traffic: traffic_number(h.traffic),
    }
}

/// Reads and checks a header.
///
/// # Errors
/// A fault that says what is wrong.
pub fn decode(header: Option<&proto::FlowHeader>) -> Result<FlowHeader, Fault> {
    let h = header.ok_or_else(|| invalid("no header"))?;
    let g = h.geometry.as_ref().ok_or_else(|| invalid("no geometry"))?;
    let (block_bytes, alpha, slice_bytes) = (g.block_bytes, narrow(g.alpha)?, g.slice_bytes);
    let header = FlowHeader {
        flow: FlowId::from_slice(&h.flow).map_err(|_| invalid("flow id"))?,
        attempt: h.attempt,
        field: field_from_number(h.field)?,
        geometry: Geometry { block_bytes, alpha, slice_bytes },
        verify: h.verify,
        lease_ms: h.lease_ms,
        stall_ms: h.stall_ms,
        window_slices: h.window_slices,
        lane_window_slices: match h.lane_window_slices {
            0 => h.window_slices,
            slices => slices.min(h.window_slices),
        },
        serial: h.serial,
        keep: h.keep,
        frame_slices: h.frame_slices.max(1),
        traffic: traffic_from_number(h.traffic)?,
    };
    header.check()?;
    Ok(header)
}

/// The protocol's number of a kind of traffic.
pub fn traffic_number(traffic: Traffic) -> u32 {
    match traffic {
        Traffic::Client => 0,
        Traffic::Healing => 1,
        Traffic::Archival => 2,
    }
}

/// The kind of traffic of a protocol number.
///
/// # Errors
/// [`Cause::Invalid`](model::Cause::Invalid) for a number that is none.
pub fn traffic_from_number(number: u32) -> Result<Traffic, Fault> {
    match number {
        0 => Ok(Traffic::Client),
        1 => Ok(Traffic::Healing),
        2 => Ok(Traffic::Archival),
        _ => Err(invalid("a kind of traffic that this version does not know")),
    }
}

/// The protocol's number of a field.
fn field_number(field: Field) -> u32 {
    field.order().ilog2()
}

/// The field of a protocol number.
fn field_from_number(number: u32) -> Result<Field, Fault> {
    match number {
        8 => Ok(Field::Gf256),
        _ => Err(invalid("a field that this version does not know")),
    }
}
