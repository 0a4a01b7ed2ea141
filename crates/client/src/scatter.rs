//! Virtual blocks of one stripe, read together into a file, where each byte has its place: k streams give all of them at once,
//! slice by slice, and nothing waits for its turn.
//!
//! ```text
//!   c0 … c(k−1) ══▶ decoded ─┬▶ d0: ──▶                  the file: d0 | d1 | …
//!                            ├▶ d1: ──▶                  a read counts each block as long as its symbols are:
//!                            └▶ …                        what is beyond its stored bytes is there from the beginning
//! ```

use crate::covered::Covered;
use crate::intake::{Beside, Intake, Received};
use crate::options::Progress;
use exec::{Delivery, Sink};
use flow::{Flow, FlowPlan, Output};
use model::{Cause, Fault};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A block of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Which member of the stripe it is.
    pub member: u16,
    /// Where it begins in the file.
    pub at: u64,
    /// Its length.
    pub stored_bytes: u64,
}

/// Takes what flows bring of some blocks.
pub(crate) struct Scatter(Arc<Mutex<State>>);

struct State {
    file: Arc<File>,
    places: Vec<Place>,
    /// Bytes from one block to the next, as a read counts them.
    each: u64,
    there: Covered,
    /// Of the present flow; `None`: nothing counts.
    rows: Option<Rows>,
    failure: Option<io::Error>,
    written: u64,
    progress: Option<(Progress, u64, u64)>,
}

/// Of each row that a flow delivers: the first byte, as a read counts it.
struct Rows {
    symbol_bytes: u64,
    begin: Vec<u64>,
}

impl Scatter {
    /// Into these places, each so many bytes after the one before it. `progress` is told how many bytes are there, after so many
    /// others and of so many in all.
    pub fn new(
        file: Arc<File>,
        places: Vec<Place>,
        each: u64,
        progress: Option<(Progress, u64, u64)>,
    ) -> Scatter {
        let mut there = Covered::default();
        for (begin, place) in (0..).map(|number| number * each).zip(&places) {
            there.add(begin + place.stored_bytes..begin + each);
        }
        let state = State { file, places, each, there, rows: None, failure: None, written: 0, progress };
        Scatter(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intake for Scatter {
    fn open(&mut self, plan: &FlowPlan<Flow>, _: Range<u64>) -> Sink {
        let rows = self.state().rows_of(plan);
        self.state().rows = Some(rows);
        let state = Arc::clone(&self.0);
        Box::new(move |delivery: Delivery<'_>| {
            state.lock().unwrap_or_else(PoisonError::into_inner).take(&delivery)
        })
    }

    /// Blocks that are read together are long.
    fn beside(&self) -> Option<Beside> {
        None
    }

    fn close(&mut self) -> Received {
        let mut state = self.state();
        state.rows = None;
        let reached = state.there.first_gap();
        let held = state.there.after(reached);
        Received { reached, held, gone: state.failure.take(), waited: Duration::ZERO }
    }
}

impl State {
    fn rows_of(&self, plan: &FlowPlan<Flow>) -> Rows {
        let symbol_bytes = plan.flow.geometry.symbol_bytes();
        let outputs = plan.flow.stages().flat_map(|(_, stage)| &stage.outputs);
        let symbols = outputs.filter_map(|output| match output {
            Output::Read { symbols } => Some(symbols),
            _ => None,
        });
        let begin = |symbol: &flow::Symbol| {
            let number = self.places.iter().position(|place| place.member == symbol.member.0);
            // A member that was not asked for lies behind all places: nothing of it is written.
            let number = number.unwrap_or(self.places.len()) as u64;
            number * self.each + u64::from(symbol.index) * symbol_bytes
        };
        Rows { symbol_bytes, begin: symbols.flatten().map(begin).collect() }
    }

    fn take(&mut self, delivery: &Delivery<'_>) -> Result<(), Fault> {
        let Some(rows) = &self.rows else {
            return Err(Fault::new(Cause::Aborted, "the read has ended"));
        };
        let begin = rows.begin.get(delivery.row).copied();
        let end = delivery.offset.saturating_add(delivery.room as u64).min(rows.symbol_bytes);
        let Some(begin) = begin.filter(|begin| *begin < self.each * self.places.len() as u64) else {
            return Err(Fault::new(Cause::Bug, format!("row {} was not asked for", delivery.row)));
        };
        let range = begin + delivery.offset..begin + end.max(delivery.offset);
        if let Err(error) = self.write(&range, delivery.bytes) {
            self.failure = Some(error);
            self.rows = None;
            return Err(Fault::new(Cause::Aborted, "the output cannot be written"));
        }
        self.there.add(range);
        Ok(())
    }

    /// Writes what of `range` is stored: `bytes`, and zeros behind them.
    fn write(&mut self, range: &Range<u64>, bytes: &[u8]) -> io::Result<()> {
        let (number, offset) = (range.start / self.each, range.start % self.each);
        let Some(place) = self.places.get(number as usize) else { return Ok(()) };
        let length = (range.end - range.start).min(place.stored_bytes.saturating_sub(offset));
        let bytes = &bytes[..bytes.len().min(length as usize)];
        self.file.write_all_at(bytes, place.at + offset)?;
        let zeros = vec![0; length as usize - bytes.len()];
        self.file.write_all_at(&zeros, place.at + offset + bytes.len() as u64)?;
        self.written += length;
        if let Some((progress, before, total)) = &self.progress {
            progress((before + self.written).min(*total), Some(*total));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_to_their_places_in_any_order_and_zeros_where_nothing_is_stored() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        // Two blocks of ten bytes' room, the second one of seven, after three bytes of something else.
        let place = |member, at, stored_bytes| Place { member, at, stored_bytes };
        let places = vec![place(4, 3, 10), place(1, 13, 7)];
        let scatter = Scatter::new(Arc::clone(&file), places, 10, None);
        let take = |row, offset, room, bytes: &[u8]| {
            let slice = 0;
            scatter.state().take(&Delivery { row, slice, offset, room, bytes }).map_err(|fault| fault.cause)
        };
        assert_eq!(take(0, 0, 4, b"abcd"), Err(Cause::Aborted), "no flow was opened");
        scatter.state().rows = Some(Rows { symbol_bytes: 10, begin: vec![10, 0, 20] });
        assert_eq!(take(0, 4, 6, b"VW"), Ok(()));
        assert_eq!(take(1, 4, 6, b"efghij"), Ok(()));
        assert_eq!(take(0, 0, 4, b"RSTU"), Ok(()));
        assert_eq!(scatter.state().there.first_gap(), 0);
        assert_eq!(take(1, 0, 4, b"abcd"), Ok(()));
        assert_eq!(take(2, 0, 4, b"????"), Err(Cause::Bug), "not asked for");
        assert_eq!(scatter.state().there.first_gap(), 20);
        let mut written = [9; 20];
        file.read_exact_at(&mut written, 0).unwrap();
        assert_eq!(&written, b"\0\0\0abcdefghijRSTUVW\0");
    }
}
