//! Which symbols of a lost block one flow decodes, and which part of them: what a read wants of several symbols shares
//! what it takes to decode them, as in a repair.
//!
//! ```text
//!              slices of a symbol →
//!   symbol 0   . . . . . 1 1 1       a read from the end of symbol 0 to the beginning of symbol 3, by three flows:
//!   symbol 1   2 2 2 2 2 1 1 1       1: of 0, 1, 2   2: of 1, 2   3: of 1, 2, 3
//!   symbol 2   3 3 3 2 2 1 1 1       (each is planned when the one before it has ended)
//!   symbol 3   3 3 3 . . . . .
//! ```
//!
//! Every flow begins where the first byte that is wanted lies, so that its first symbol goes out as it comes. The
//! others wait at the reader until their turn, and a reader says for how much it has room.

use super::choose::STAR_READ_BYTES;
use super::{DecideError, Result, slice_run};
use flow::limits;
use std::ops::Range;

/// Parts that a reader holds: at most one in each symbol, and one more where an attempt broke off.
const MAX_HELD: usize = 2 * limits::MAX_ALPHA as usize;

/// Bytes of a block that a reader still lacks.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Rising, apart from each other, none empty.
    lacking: Vec<Range<u64>>,
    /// What the reader can still keep.
    room_bytes: u64,
}

/// A run of the same bytes of several symbols.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Symbols {
    /// Which, rising; at the first one something is due at once.
    pub of: Vec<u16>,
    /// Wanted bytes of each symbol. Slices that hold any of them are carried whole.
    pub bytes: Range<u64>,
    /// From the first byte that is wanted so many come in order.
    pub in_order: u64,
}

impl Wanted {
    /// All of `range` but what is `held`, by a reader that can keep so many bytes until their turn.
    ///
    /// # Errors
    /// [`DecideError::Invalid`]: more parts are held than a reader has.
    pub fn new(range: Range<u64>, held: &[Range<u64>], room_bytes: u64) -> Result<Wanted> {
        if held.len() > MAX_HELD {
            return Err(DecideError::Invalid(format!("{} parts held, at most {MAX_HELD}", held.len())));
        }
        let mut held = held.to_vec();
        held.sort_by_key(|part| part.start);
        let (mut lacking, mut next, mut held_bytes) = (Vec::new(), range.start, 0);
        for part in held {
            let part = part.start.max(next)..part.end.min(range.end);
            if part.start >= part.end {
                continue;
            }
            lacking.push(next..part.start);
            held_bytes += part.end - part.start;
            next = part.end;
        }
        lacking.push(next..range.end);
        lacking.retain(|part| part.start < part.end);
        Ok(Wanted { lacking, room_bytes: room_bytes.saturating_sub(held_bytes) })
    }

    /// The first bytes that are lacking, without a gap.
    pub fn first(&self) -> Option<Range<u64>> {
        self.lacking.first().cloned()
    }

    /// Symbols for the next flow; `None` if nothing is lacking.
    pub fn symbols(&self, symbol_bytes: u64, slice_bytes: u64) -> Option<Symbols> {
        let (first, last) = (self.lacking.first()?, self.lacking.last()?);
        let leading = first.start / symbol_bytes;
        let from = first.start % symbol_bytes / slice_bytes;
        let mut symbols = Vec::new();
        let mut end = u64::MAX;
        for symbol in leading..=(last.end - 1) / symbol_bytes {
            let runs = self.runs(symbol, symbol_bytes, slice_bytes);
            let Some(run) = runs.iter().find(|run| run.end > from) else { continue };
            // The run ends where the set of symbols that lack the same slices changes.
            let (joins, common) = match run.start <= from {
                true => (true, end.min(run.end)),
                false => (false, end.min(run.start)),
            };
            let bytes = (common - from).saturating_mul(slice_bytes);
            // Few bytes more are cheaper than another flow.
            let is_worth = common == end || symbols.is_empty() || bytes > STAR_READ_BYTES;
            let is_kept = bytes.saturating_mul(symbols.len() as u64) <= self.room_bytes || symbols.is_empty();
            if is_worth && is_kept {
                end = common;
                symbols.extend(joins.then_some(symbol as u16));
            }
        }
        let limit = |symbol: u64| {
            (symbol * symbol_bytes + end.saturating_mul(slice_bytes).min(symbol_bytes)).min(last.end)
        };
        let parts = symbols.iter().flat_map(|&symbol| {
            let base = u64::from(symbol) * symbol_bytes;
            let part = base + from * slice_bytes..limit(u64::from(symbol));
            self.lacking.iter().filter_map(move |lacking| {
                let part = part.start.max(lacking.start)..part.end.min(lacking.end);
                (part.start < part.end).then(|| part.start - base..part.end - base)
            })
        });
        let bytes = parts.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))?;
        Some(Symbols { of: symbols, bytes, in_order: limit(leading) - first.start })
    }

    /// Runs of slices of a symbol that are lacking, rising and apart.
    fn runs(&self, symbol: u64, symbol_bytes: u64, slice_bytes: u64) -> Vec<Range<u64>> {
        let base = symbol * symbol_bytes;
        let mut runs: Vec<Range<u64>> = Vec::new();
        for lacking in &self.lacking {
            let (start, end) = (lacking.start.max(base), lacking.end.min(base + symbol_bytes));
            if start >= end {
                continue;
            }
            let run = (start - base) / slice_bytes..(end - base).div_ceil(slice_bytes);
            match runs.last_mut() {
                Some(last) if last.end >= run.start => last.end = run.end,
                _ => runs.push(run),
            }
        }
        runs
    }
}

impl Symbols {
    /// Bytes of all of them.
    pub fn total(&self) -> u64 {
        (self.bytes.end - self.bytes.start).saturating_mul(self.of.len() as u64)
    }

    /// First slice and number of slices of this length.
    pub fn slices(&self, slice_bytes: u32) -> (u64, u64) {
        slice_run(self.bytes.start, self.bytes.end - self.bytes.start, slice_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const SLICE: u64 = 32 << 10;
    const SYMBOL: u64 = 8 * SLICE;
    const PLENTY: u64 = u64::MAX;

    /// Reads `range` as a client does, flow by flow, with room for so much; each flow's symbols, first slice and number of
    /// slices. Panics if a byte is missing at the end or the room does not suffice.
    fn flows(range: Range<u64>, slice: u64, room: u64) -> Vec<(Vec<u16>, u64, u64)> {
        let mut flows = Vec::new();
        let (mut next, mut held) = (range.start, BTreeSet::new());
        while next < range.end {
            // In slices of the block: a symbol is a whole number of them here.
            let part = |&at: &u64| at * slice..((at + 1) * slice).min(range.end);
            let parts: Vec<Range<u64>> = held.iter().map(part).collect();
            let symbols = Wanted::new(next..range.end, &parts, room).unwrap().symbols(SYMBOL, slice).unwrap();
            let (first, count) = symbols.slices(slice as u32);
            assert_eq!(u64::from(symbols.of[0]), next / SYMBOL, "the first symbol is due");
            for (place, &symbol) in symbols.of.iter().enumerate() {
                let at = u64::from(symbol) * SYMBOL / slice;
                let brought = at + first..at + first + count;
                assert!(brought.clone().all(|at| !held.contains(&at)), "brought twice");
                assert!(brought.end * slice > next && brought.start * slice < range.end, "not wanted");
                if place > 0 {
                    held.extend(brought);
                    let kept: u64 = held.iter().map(|at| slice.min(range.end - at * slice)).sum();
                    assert!(kept <= room, "no room");
                }
            }
            let due = next + symbols.in_order;
            assert_eq!(due, ((next / SYMBOL * (SYMBOL / slice) + first + count) * slice).min(range.end));
            next = due;
            while held.remove(&(next / slice)) {
                next = ((next / slice + 1) * slice).min(range.end);
            }
            flows.push((symbols.of, first, count));
        }
        flows
    }

    #[test]
    fn a_whole_block_is_one_flow_of_all_its_symbols() {
        assert_eq!(flows(0..4 * SYMBOL, SLICE, PLENTY), [(vec![0, 1, 2, 3], 0, 8)]);
        let short = flows(0..3 * SYMBOL + 5, SLICE, PLENTY);
        assert_eq!(short, [(vec![0, 1, 2, 3], 0, 1), (vec![0, 1, 2], 1, 7)]);
        // A short slice in common is not worth cutting a flow for.
        let short = flows(0..3 * SYMBOL + 5, 4 << 10, PLENTY);
        assert_eq!(short, [(vec![0, 1, 2], 0, 64), (vec![3], 0, 1)]);
        // Slices of whole symbols: any range is one flow.
        assert_eq!(flows(SYMBOL - 1..2 * SYMBOL + 1, SYMBOL, PLENTY), [(vec![0, 1, 2], 0, 1)]);
    }

    #[test]
    fn a_range_within_a_symbol_is_one_symbol() {
        assert_eq!(flows(SYMBOL + 1..SYMBOL + 2, SLICE, PLENTY), [(vec![1], 0, 1)]);
        assert_eq!(flows(SYMBOL + SLICE..2 * SYMBOL, SLICE, PLENTY), [(vec![1], 1, 7)]);
        let symbols =
            Wanted::new(SYMBOL + 100..SYMBOL + 200, &[], 0).unwrap().symbols(SYMBOL, SLICE).unwrap();
        assert_eq!(symbols, Symbols { of: vec![1], bytes: 100..200, in_order: SLICE.min(100) });
        assert_eq!(symbols.total(), 100);
    }

    #[test]
    fn a_range_that_ends_within_symbols_takes_three_flows_at_most() {
        // As drawn above.
        assert_eq!(
            flows(5 * SLICE..3 * SYMBOL + 3 * SLICE, SLICE, PLENTY),
            [(vec![0, 1, 2], 5, 3), (vec![1, 2, 3], 0, 3), (vec![1, 2], 3, 2)]
        );
        // The end of the first symbol and the beginning of the last overlap.
        assert_eq!(
            flows(3 * SLICE..2 * SYMBOL + 5 * SLICE, SLICE, PLENTY),
            [(vec![0, 1, 2], 3, 2), (vec![0, 1], 5, 3), (vec![1, 2], 0, 3)]
        );
        // Nothing in common: one after the other.
        assert_eq!(flows(2 * SYMBOL - 1..2 * SYMBOL + 1, SLICE, PLENTY), [(vec![1], 7, 1), (vec![2], 0, 1)]);
    }

    #[test]
    fn any_range_is_read_whole_within_the_room_there_is() {
        let edges = [0, 1, SLICE - 1, SLICE, 3 * SLICE + 7, SYMBOL - 1];
        for slice in [1 << 10, SLICE, 2 * SLICE, SYMBOL] {
            for (first, last) in (0..4).flat_map(|i| (i..4).map(move |j| (i, j))) {
                for (from, to) in edges.iter().flat_map(|&f| edges.iter().map(move |&t| (f, t))) {
                    let range = first * SYMBOL + from..last * SYMBOL + to + 1;
                    if range.is_empty() {
                        continue;
                    }
                    for room in [0, SLICE, SYMBOL, 2 * SYMBOL + SLICE, PLENTY] {
                        let flows = flows(range.clone(), slice, room);
                        let most = if room == PLENTY { 3 } else { 8 };
                        assert!(flows.len() <= most, "{range:?}, slices of {slice}, {room}: {flows:?}");
                        assert!(room > 0 || flows.iter().all(|(symbols, ..)| symbols.len() == 1));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_held_is_not_planned_again() {
        let part = |offset: u64, length: u64| offset..offset + length;
        let parts = [part(SYMBOL, 3 * SLICE), part(2 * SYMBOL, 2 * SLICE), part(0, 7), part(9 * SYMBOL, 1)];
        let wanted = Wanted::new(3 * SLICE..3 * SYMBOL, &parts, PLENTY).unwrap();
        assert_eq!(wanted.first(), Some(3 * SLICE..SYMBOL));
        let symbols = wanted.symbols(SYMBOL, SLICE).unwrap();
        assert_eq!((symbols.of.as_slice(), symbols.slices(SLICE as u32)), (&[0, 1, 2][..], (3, 5)));
        let all = Wanted::new(0..SYMBOL, &[part(0, SYMBOL)], 0).unwrap();
        assert!(all.first().is_none() && all.symbols(SYMBOL, SLICE).is_none());
        let many = vec![part(0, 0); MAX_HELD + 1];
        assert!(Wanted::new(0..1, &many, 0).is_err());
    }
}
