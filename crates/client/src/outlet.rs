//! Where the flows of a read deliver: bytes that are due go to the writer, those of later symbols wait in memory.

use crate::writer::Pieces;
use exec::{Delivery, Sink};
use flow::{Flow, FlowPlan, Output, limits};
use model::{Cause, Fault};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::mpsc::TrySendError;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Bytes of one read that may wait for their turn: a lost block of the usual size is then decoded in one flow,
/// whatever its code. Fewer symbols of longer blocks are decoded at once, and each costs what it costs alone.
pub(crate) const ROOM_BYTES: u64 = limits::DEFAULT_BLOCK_BYTES;

/// Where flows deliver that bring the same bytes, one or several at once.
#[derive(Clone)]
pub(crate) struct Outlet(Arc<Mutex<State>>);

/// What they have brought.
pub(crate) struct Closed {
    /// Bytes of the block before this went to the writer.
    pub reached: u64,
    /// Whether the writer still listens.
    pub listening: bool,
    /// What is not yet due.
    pub held: Held,
    /// How long the flow waited for the writer.
    pub waited: Duration,
}

struct State {
    /// Bytes of the block before this have been sent.
    next: u64,
    /// The last byte wanted, excluded.
    end: u64,
    /// `None` once closed, from this end or the writer's.
    pieces: Option<Pieces>,
    held: Held,
    waited: Duration,
}

impl Outlet {
    /// An outlet for flows that bring bytes of `range`, in addition to what is `held`.
    pub fn open(range: Range<u64>, pieces: Pieces, held: Held) -> Outlet {
        let state =
            State { next: range.start, end: range.end, pieces: Some(pieces), held, waited: Duration::ZERO };
        Outlet(Arc::new(Mutex::new(state)))
    }

    /// The sink that a flow is given. It may block for the writer.
    pub fn sink(&self, plan: &FlowPlan<Flow>) -> Sink {
        self.sink_of(Layout::of(plan))
    }

    fn sink_of(&self, layout: Layout) -> Sink {
        let state = Arc::clone(&self.0);
        // The lock is held while the sink waits for the writer: closing the outlet waits for what is being sent.
        Box::new(move |delivery: Delivery<'_>| lock(&state).take(&layout, &delivery))
    }

    /// Whether something is being delivered, or waits for the writer.
    pub fn is_held_up(&self) -> bool {
        matches!(self.0.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Nothing of the flows counts from here on.
    pub fn close(&self) -> Closed {
        let mut state = lock(&self.0);
        let listening = state.pieces.take().is_some();
        let held = std::mem::take(&mut state.held);
        Closed { reached: state.next, listening, held, waited: state.waited }
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Cuts off what was not asked for, fills up with zeros what is not stored.
    fn take(&mut self, layout: &Layout, delivery: &Delivery<'_>) -> Result<(), Fault> {
        let Some(place) = layout.place_of(delivery) else {
            return Err(Fault::new(Cause::Bug, format!("row {} was not asked for", delivery.row)));
        };
        if self.pieces.is_none() {
            return Err(closed());
        }
        let range = place.start.max(self.next)..place.end.min(self.end);
        if range.is_empty() {
            return Ok(());
        }
        let piece =
            |range: Range<u64>| cut(delivery.bytes, range.start - place.start..range.end - place.start);
        if range.start > self.next {
            return self.held.keep(range, piece);
        }
        self.next = range.end;
        self.send(piece(range))?;
        while let Some(piece) = self.held.due(self.next) {
            self.next += piece.len() as u64;
            self.send(piece)?;
        }
        Ok(())
    }

    fn send(&mut self, piece: Vec<u8>) -> Result<(), Fault> {
        let pieces = self.pieces.as_ref().ok_or_else(closed)?;
        let sent = hand_over(pieces, piece, &mut self.waited);
        if !sent {
            self.pieces = None;
            return Err(closed());
        }
        Ok(())
    }
}

/// Hands a piece to the writer, and counts how long that waits for it; false if nobody listens any more.
pub(crate) fn hand_over(pieces: &Pieces, piece: Vec<u8>, waited: &mut Duration) -> bool {
    match pieces.try_send(piece) {
        Err(TrySendError::Full(piece)) => {
            let since = Instant::now();
            let sent = pieces.send(piece);
            *waited += since.elapsed();
            sent.is_ok()
        }
        sent => sent.is_ok(),
    }
}

fn closed() -> Fault {
    Fault::new(Cause::Aborted, "the output was closed")
}

/// Bytes of a block that came before their turn, [`ROOM_BYTES`] at most.
#[derive(Default)]
pub(crate) struct Held {
    /// The parts by where they begin; they do not overlap.
    pieces: BTreeMap<u64, Vec<u8>>,
    bytes: u64,
}

impl Held {
    /// What is held, as runs.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (&offset, piece) in &self.pieces {
            let length = piece.len() as u64;
            match ranges.last_mut() {
                Some(last) if last.end == offset => last.end += length,
                _ => ranges.push(offset..offset + length),
            }
        }
        ranges
    }

    /// Keeps what of `range` is not held yet.
    fn keep(&mut self, range: Range<u64>, piece: impl Fn(Range<u64>) -> Vec<u8>) -> Result<(), Fault> {
        let before = self.pieces.range(..=range.start).next_back();
        let after = self.pieces.range(range.start + 1..range.end);
        let mut gaps = Vec::new();
        let mut next = range.start;
        for (&start, held) in before.into_iter().chain(after) {
            gaps.push(next..start.max(next));
            next = next.max(start + held.len() as u64);
        }
        gaps.push(next..range.end.max(next));
        for gap in gaps.into_iter().filter(|gap| !gap.is_empty()) {
            let bytes = self.bytes + (gap.end - gap.start);
            if bytes > ROOM_BYTES {
                return Err(Fault::new(Cause::Bug, "more comes before its turn than there is room for"));
            }
            self.bytes = bytes;
            self.pieces.insert(gap.start, piece(gap));
        }
        Ok(())
    }

    /// Takes out what begins at `next`; forgets what lies before.
    fn due(&mut self, next: u64) -> Option<Vec<u8>> {
        while let Some(first) = self.pieces.first_entry() {
            if *first.key() > next {
                return None;
            }
            let (start, mut piece) = first.remove_entry();
            self.bytes -= piece.len() as u64;
            let sent = usize::try_from(next - start).unwrap_or(usize::MAX);
            if sent < piece.len() {
                piece.drain(..sent);
                return Some(piece);
            }
        }
        None
    }
}

/// Where the rows that a plan delivers lie in the block.
struct Layout {
    symbol_bytes: u64,
    /// Symbol of each row.
    symbols: Vec<u64>,
}

impl Layout {
    fn of(plan: &FlowPlan<Flow>) -> Layout {
        let outputs = plan.flow.stages().flat_map(|(_, stage)| &stage.outputs);
        let reads = outputs.filter_map(|output| match output {
            Output::Read { symbols } => Some(symbols.iter().map(|symbol| u64::from(symbol.index))),
            _ => None,
        });
        Layout { symbol_bytes: plan.flow.geometry.symbol_bytes(), symbols: reads.flatten().collect() }
    }

    /// The bytes of the block that a delivery stands for, its zeros included.
    fn place_of(&self, delivery: &Delivery<'_>) -> Option<Range<u64>> {
        let symbol = self.symbols.get(delivery.row)? * self.symbol_bytes;
        let end = delivery.offset.saturating_add(delivery.room as u64).min(self.symbol_bytes);
        Some(symbol + delivery.offset..symbol + end.max(delivery.offset))
    }
}

/// `range` of `bytes`, which are followed by zeros without end.
fn cut(bytes: &[u8], range: Range<u64>) -> Vec<u8> {
    let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    let mut piece = Vec::with_capacity((range.end - range.start) as usize);
    piece.extend_from_slice(&bytes[clamp(range.start)..clamp(range.end)]);
    piece.resize((range.end - range.start) as usize, 0);
    piece
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    const SLICE: u64 = 4;

    /// Rows are symbols 0, 1, 2 of ten bytes.
    fn layout() -> Layout {
        Layout { symbol_bytes: 10, symbols: vec![0, 1, 2] }
    }

    fn delivery(row: usize, slice: u64, bytes: &[u8]) -> Delivery<'_> {
        let offset = slice * SLICE;
        Delivery { row, slice, offset, room: SLICE.min(10 - offset) as usize, bytes }
    }

    struct Delivered {
        bytes: Vec<u8>,
        closed: Closed,
        result: Result<(), Fault>,
    }

    fn deliver(range: Range<u64>, held: Held, slices: &[(usize, u64, &[u8])]) -> Delivered {
        let (pieces, out) = sync_channel(16);
        let outlet = Outlet::open(range, pieces, held);
        let mut sink = outlet.sink_of(layout());
        let result = slices.iter().try_for_each(|&(row, slice, bytes)| sink(delivery(row, slice, bytes)));
        let closed = outlet.close();
        Delivered { bytes: out.try_iter().flatten().collect(), closed, result }
    }

    #[test]
    fn slices_are_trimmed_and_filled_up() {
        let slices: [(usize, u64, &[u8]); 3] = [(0, 0, b"abcd"), (0, 1, b"efgh"), (0, 2, b"i")];
        let delivered = |range, slices| {
            let Delivered { bytes, closed, result } = deliver(range, Held::default(), slices);
            result.unwrap();
            (bytes, closed.reached)
        };
        assert_eq!(delivered(0..10, &slices), (b"abcdefghi\0".to_vec(), 10));
        assert_eq!(delivered(2..6, &slices[..2]), (b"cdef".to_vec(), 6));
        assert_eq!(delivered(5..9, &slices[1..]), (b"fghi".to_vec(), 9));
        // A frame without a payload is a slice of zeros; what comes again is ignored.
        assert_eq!(delivered(0..4, &[(0, 0, b""), (0, 0, b"abcd")]), (vec![0; 4], 4));
    }

    #[test]
    fn rows_wait_for_their_turn_and_go_out_in_order() {
        let slices: [(usize, u64, &[u8]); 6] =
            [(0, 0, b"abcd"), (1, 0, b"klmn"), (0, 1, b"efgh"), (1, 1, b"opqr"), (0, 2, b"ij"), (1, 2, b"s")];
        let all = deliver(1..19, Held::default(), &slices);
        all.result.unwrap();
        assert_eq!((all.bytes.as_slice(), all.closed.reached), (&b"bcdefghijklmnopqrs"[..], 19));
        assert!(all.closed.held.ranges().is_empty() && all.closed.held.bytes == 0);

        // A flow that breaks off leaves what it brought; the next one brings the rest, and some of it again.
        let some = deliver(1..25, Held::default(), &slices[..4]);
        assert_eq!((some.bytes.as_slice(), some.closed.reached), (&b"bcdefgh"[..], 8));
        assert_eq!(some.closed.held.ranges(), vec![10..18]);
        assert_eq!(some.closed.held.bytes, 8);
        let rest: [(usize, u64, &[u8]); 5] =
            [(2, 0, b"uvwx"), (1, 2, b"st"), (1, 1, b"????"), (2, 1, b"y"), (0, 2, b"ij")];
        let rest = deliver(8..25, some.closed.held, &rest);
        rest.result.unwrap();
        assert_eq!((rest.bytes.as_slice(), rest.closed.reached), (&b"ijklmnopqrstuvwxy"[..], 25));
        assert!(rest.closed.listening && rest.closed.held.pieces.is_empty());
    }

    /// Two flows at once, whose rows are other symbols: each byte goes out once, whoever brings it.
    #[test]
    fn of_flows_beside_each_other_what_comes_first_counts() {
        let (pieces, out) = sync_channel(16);
        let outlet = Outlet::open(2..20, pieces, Held::default());
        let mut first = outlet.sink_of(layout());
        let mut beside = outlet.sink_of(Layout { symbol_bytes: 10, symbols: vec![1, 0] });
        first(delivery(0, 0, b"abcd")).unwrap();
        // The hedge's row 1 is symbol 0.
        beside(delivery(1, 0, b"????")).unwrap();
        beside(delivery(1, 1, b"efgh")).unwrap();
        beside(delivery(0, 0, b"klmn")).unwrap();
        first(delivery(0, 1, b"????")).unwrap();
        first(delivery(1, 0, b"????")).unwrap();
        beside(delivery(1, 2, b"ij")).unwrap();
        beside(delivery(0, 1, b"opqr")).unwrap();
        first(delivery(1, 2, b"st")).unwrap();
        assert!(!outlet.is_held_up());
        let closed = outlet.close();
        assert_eq!((closed.reached, closed.held.bytes), (20, 0));
        assert_eq!(out.try_iter().flatten().collect::<Vec<u8>>(), b"cdefghijklmnopqrst");
        assert!(first(delivery(1, 2, b"st")).is_err() && beside(delivery(0, 2, b"st")).is_err());
    }

    #[test]
    fn what_comes_after_the_close_does_not_count() {
        let (pieces, out) = sync_channel(16);
        let outlet = Outlet::open(0..10, pieces, Held::default());
        let mut sink = outlet.sink_of(layout());
        sink(delivery(0, 0, b"abcd")).unwrap();
        let closed = outlet.close();
        assert_eq!((closed.reached, closed.listening), (4, true));
        for row in [0, 1] {
            assert!(sink(delivery(row, 1, b"late")).is_err());
        }
        assert!(outlet.close().held.pieces.is_empty());
        assert_eq!(out.try_iter().flatten().collect::<Vec<u8>>(), b"abcd");
    }

    #[test]
    fn a_row_too_many_and_more_than_there_is_room_for_are_faults() {
        assert_eq!(deliver(0..30, Held::default(), &[(3, 0, b"abcd")]).result.unwrap_err().cause, Cause::Bug);
        let full = Held { pieces: BTreeMap::new(), bytes: ROOM_BYTES - 3 };
        assert_eq!(deliver(0..30, full, &[(1, 0, b"abcd")]).result.unwrap_err().cause, Cause::Bug);
        let nearly = Held { pieces: BTreeMap::new(), bytes: ROOM_BYTES - 4 };
        assert!(deliver(0..30, nearly, &[(1, 0, b"abcd")]).result.is_ok());
    }
}
