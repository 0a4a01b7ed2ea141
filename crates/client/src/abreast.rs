//! Several members of a stripe that are read abreast: the same bytes of each, slice by slice, so that whoever takes them keeps
//! nothing until its turn.
//!
//! ```text
//!   flow ──▶ row 0: aaaa      piece: aaaabbbb     as soon as every row has come so far
//!            row 1: bbbb
//! ```

use crate::intake::{Beside, Intake, Received};
use crate::outlet::hand_over;
use crate::writer::Pieces;
use exec::{Delivery, Sink};
use flow::{Flow, FlowPlan, Output};
use model::{Cause, Fault};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Sends pieces that hold as many bytes of each member, one member after another.
pub(crate) struct Abreast(Arc<Mutex<State>>);

struct State {
    members: Vec<u16>,
    /// Bytes of all members before this were sent.
    next: u64,
    end: u64,
    /// Of each member, what has come from `next` on.
    come: Vec<Vec<u8>>,
    /// Which member each row of the present flow is; `None`: nothing counts.
    rows: Option<Vec<usize>>,
    /// `None` once the other end is gone.
    pieces: Option<Pieces>,
    waited: Duration,
}

impl Abreast {
    /// Of these members, in this order.
    pub fn new(members: Vec<u16>, pieces: Pieces) -> Abreast {
        let come = vec![Vec::new(); members.len()];
        let (next, end, waited) = (0, 0, Duration::ZERO);
        let state = State { members, next, end, come, rows: None, pieces: Some(pieces), waited };
        Abreast(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intake for Abreast {
    fn open(&mut self, plan: &FlowPlan<Flow>, range: Range<u64>) -> Sink {
        let outputs = plan.flow.stages().flat_map(|(_, stage)| &stage.outputs);
        let symbols = outputs.filter_map(|output| match output {
            Output::Read { symbols } => Some(symbols.iter().map(|symbol| symbol.member.0)),
            _ => None,
        });
        self.state().begin(symbols.flatten().collect(), range);
        let state = Arc::clone(&self.0);
        Box::new(move |delivery: Delivery<'_>| {
            state.lock().unwrap_or_else(PoisonError::into_inner).take(&delivery)
        })
    }

    /// What is rebuilt is long.
    fn beside(&self) -> Option<Beside> {
        None
    }

    fn close(&mut self) -> Received {
        let mut state = self.state();
        state.rows = None;
        // The error of whoever took the bytes tells why.
        let gone = state.pieces.is_none().then(|| io::ErrorKind::BrokenPipe.into());
        let waited = std::mem::take(&mut state.waited);
        Received { reached: state.next, held: Vec::new(), gone, waited }
    }
}

impl State {
    /// A flow brings these members' rows, from the beginning of `range` on.
    fn begin(&mut self, rows: Vec<u16>, range: Range<u64>) {
        // A row that nobody asked for is of no member.
        let place = |row: &u16| self.members.iter().position(|member| member == row).unwrap_or(usize::MAX);
        self.rows = Some(rows.iter().map(place).collect());
        (self.next, self.end) = (range.start, range.end);
        self.come.iter_mut().for_each(Vec::clear);
    }

    fn take(&mut self, delivery: &Delivery<'_>) -> Result<(), Fault> {
        let ended = || Fault::new(Cause::Aborted, "the read has ended");
        let place = self.rows.as_ref().ok_or_else(ended)?.get(delivery.row).copied().unwrap_or(usize::MAX);
        let Some(come) = self.come.get_mut(place) else {
            return Err(Fault::new(Cause::Bug, format!("row {} was not asked for", delivery.row)));
        };
        let due = self.next + come.len() as u64;
        let end = delivery.offset.saturating_add(delivery.room as u64).min(self.end);
        if end <= due {
            return Ok(());
        }
        // Slices come in order, and whole; the first may begin before what is wanted.
        let Some(skipped) = due.checked_sub(delivery.offset) else {
            return Err(Fault::new(Cause::Bug, format!("row {} came out of order", delivery.row)));
        };
        let wanted = skipped as usize..(end - delivery.offset) as usize;
        let stored = wanted.start.min(delivery.bytes.len())..wanted.end.min(delivery.bytes.len());
        let length = come.len() + wanted.len();
        come.extend_from_slice(&delivery.bytes[stored]);
        come.resize(length, 0);
        self.send()
    }

    /// What has come of all members.
    fn send(&mut self) -> Result<(), Fault> {
        let abreast = self.come.iter().map(Vec::len).min().unwrap_or(0);
        if abreast == 0 {
            return Ok(());
        }
        let mut piece = Vec::with_capacity(abreast * self.come.len());
        for come in &mut self.come {
            piece.extend(come.drain(..abreast));
        }
        let closed = || Fault::new(Cause::Aborted, "the output was closed");
        let pieces = self.pieces.as_ref().ok_or_else(closed)?;
        let sent = hand_over(pieces, piece, &mut self.waited);
        if !sent {
            self.pieces = None;
            return Err(closed());
        }
        self.next += abreast as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    const SLICE: u64 = 4;

    fn delivery(row: usize, slice: u64, bytes: &[u8]) -> Delivery<'_> {
        Delivery { row, slice, offset: slice * SLICE, room: SLICE as usize, bytes }
    }

    #[test]
    fn pieces_hold_as_many_bytes_of_each_member_in_the_order_asked_for() {
        let (pieces, out) = sync_channel(16);
        let abreast = Abreast::new(vec![7, 2], pieces);
        assert!(abreast.state().take(&delivery(0, 0, b"abcd")).is_err(), "no flow was opened");
        // The flow's first row is member 2; the read begins within a slice, and ends within one.
        abreast.state().begin(vec![2, 7], 1..7);
        let take = |row, slice, bytes: &[u8]| abreast.state().take(&delivery(row, slice, bytes));
        take(0, 0, b"abcd").unwrap();
        assert!(out.try_recv().is_err());
        take(1, 0, b"AB").unwrap();
        assert_eq!(out.try_recv().unwrap(), b"B\0\0bcd");
        assert_eq!(take(0, 3, b"").unwrap_err().cause, Cause::Bug);
        assert_eq!(take(2, 1, b"").unwrap_err().cause, Cause::Bug);
        // Another attempt goes on where all rows have come, and brings whole slices.
        take(0, 1, b"efgh").unwrap();
        abreast.state().begin(vec![7, 2], 4..7);
        take(0, 1, b"EFGH").unwrap();
        take(1, 1, b"efgh").unwrap();
        assert_eq!((out.try_recv().unwrap(), abreast.state().next), (b"EFGefg".to_vec(), 7));
        drop(out);
        abreast.state().begin(vec![7, 2], 4..7);
        take(0, 1, b"EFGH").unwrap();
        assert_eq!(take(1, 1, b"efgh").unwrap_err().cause, Cause::Aborted);
    }
}
