//! A reader takes slices in order; lanes bring them in any. What comes early waits, at most a window of it.

use crate::lock;
use crate::stage::{Delivery, Sink};
use model::Fault;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A piece that came early.
struct Piece {
    row: usize,
    offset: u64,
    room: usize,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Early {
    pieces: Vec<Piece>,
    is_whole: bool,
}

struct State {
    sink: Sink,
    /// The slice that the reader is due.
    next: u64,
    early: BTreeMap<u64, Early>,
}

/// A reader that the ends of several lanes share.
#[derive(Clone)]
pub struct InOrder(Arc<Mutex<State>>);

impl InOrder {
    /// For a reader who takes slices from `first`.
    pub fn new(sink: Sink, first: u64) -> InOrder {
        InOrder(Arc::new(Mutex::new(State { sink, next: first, early: BTreeMap::new() })))
    }

    /// A piece of a slice. Blocks while the reader does.
    pub fn take(&self, delivery: Delivery<'_>) -> Result<(), Fault> {
        let mut state = lock(&self.0);
        if delivery.slice == state.next {
            return (state.sink)(delivery);
        }
        let Delivery { row, offset, room, bytes, .. } = delivery;
        let piece = Piece { row, offset, room, bytes: bytes.to_vec() };
        state.early.entry(delivery.slice).or_default().pieces.push(piece);
        Ok(())
    }

    /// All pieces of a slice were handed over.
    pub fn end(&self, slice: u64) -> Result<(), Fault> {
        let mut state = lock(&self.0);
        let State { sink, next, early } = &mut *state;
        if slice != *next {
            early.entry(slice).or_default().is_whole = true;
            return Ok(());
        }
        *next += 1;
        while let Some(first) = early.first_entry().filter(|e| e.key() == next) {
            let slice = *first.key();
            let Early { pieces, is_whole } = first.remove();
            for piece in &pieces {
                let Piece { row, offset, room, bytes } = piece;
                sink(Delivery { row: *row, slice, offset: *offset, room: *room, bytes })?;
            }
            if !is_whole {
                break;
            }
            *next += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lanes_bring_early_waits_for_its_turn() {
        let got = Arc::new(Mutex::new(Vec::new()));
        let seen = got.clone();
        let sink: Sink = Box::new(move |d| {
            seen.lock().unwrap().push((d.slice, d.row, d.bytes.to_vec()));
            Ok(())
        });
        let reader = InOrder::new(sink, 5);
        let piece = |slice, row| {
            let bytes = [slice as u8, row as u8];
            reader.take(Delivery { row, slice, offset: slice * 2, room: 2, bytes: &bytes }).unwrap();
        };
        let slices = || got.lock().unwrap().iter().map(|&(slice, row, _)| (slice, row)).collect::<Vec<_>>();
        piece(7, 0);
        piece(6, 0);
        piece(7, 1);
        reader.end(7).unwrap();
        piece(5, 0);
        assert_eq!(slices(), [(5, 0)]);
        piece(5, 1);
        reader.end(5).unwrap();
        // Slice 6 is due, and has come in part.
        assert_eq!(slices(), [(5, 0), (5, 1), (6, 0)]);
        piece(6, 1);
        reader.end(6).unwrap();
        assert_eq!(slices(), [(5, 0), (5, 1), (6, 0), (6, 1), (7, 0), (7, 1)]);
        assert_eq!(got.lock().unwrap().last().unwrap().2, [7, 1]);
    }
}
