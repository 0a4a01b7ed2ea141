//! One slice at a time, for comparison only (Pipe-S, RP §6.4): receive, read, combine, send, and nothing further until
//! the successor has acknowledged.
//!
//! The acknowledgement is a byte on the data connection, against the direction of the frames: the one exception to the
//! rule that acknowledgements travel on the control stream, because there it would measure the driver and not the
//! helpers. It cannot deadlock: serial flows are chains (`flow::bound` refuses others), the last stage waits for nobody,
//! and so every stage before it gets its acknowledgement in turn.

use super::{Stage, hop};
use crate::connection::{Inlet, Outlet};
use model::Fault;

/// After a slice is combined: tells the predecessor, sends it on, waits for the successor.
pub(crate) fn hand_over(stage: &mut Stage) -> Result<(), Fault> {
    stage.inputs.inlets.iter_mut().try_for_each(Inlet::acknowledge)?;
    hop::send_on(stage)?;
    stage.outputs.flush()?;
    stage.outputs.outlets.iter_mut().try_for_each(Outlet::await_acknowledgement)
}
