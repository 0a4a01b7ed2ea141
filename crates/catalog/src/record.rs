//! Each change as a record: what it put and removed, chained by hashes to the change before (HEALING.md, "Terms, records,
//! holders"). The latest records wait here until the nodes that keep them have taken them; who has fallen behind them gets a
//! snapshot.

use crate::entry::{Entry, Split, split};
use crate::error::Result;
use crate::rows::{HistoryRow, PositionRow};
use crate::table::{Row, Written, malformed};
use model::{Position, RecordHash, RecordHead};
use std::collections::VecDeque;
use std::sync::Arc;

/// Records that wait, bytes in all: seconds of the fastest catalog, so that only who was away longer needs a snapshot.
const TAIL_BYTES: usize = 64 << 20;

/// A change as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its head, and the rows.
    pub bytes: Arc<[u8]>,
    /// Hash of the record before.
    pub before: RecordHash,
    /// How far a catalog has come with it.
    pub at: Position,
}

impl Record {
    /// Where the catalog is, is not among the rows: it follows from the record.
    pub(crate) fn new(head: RecordHead, written: &[Written]) -> Record {
        let mut bytes = head.encode().to_vec();
        for Written { table, key, value } in written {
            if ![HistoryRow::TABLE, PositionRow::TABLE].contains(table) {
                Entry { table, key, value: value.as_deref() }.push_to(&mut bytes);
            }
        }
        let at = Position { stamp: head.stamp, hash: *blake3::hash(&bytes).as_bytes() };
        Record { bytes: bytes.into(), before: head.before, at }
    }
}

/// The rows of a record that follows `position`, and where a catalog is with them.
pub(crate) fn follow<'a>(position: &Position, record: &'a [u8]) -> Result<(Position, Vec<Entry<'a>>)> {
    let bad = |why| malformed("record", why);
    let (head, mut rest) = RecordHead::of(record).ok_or_else(|| bad("it is none, or of another version"))?;
    if head.before != position.hash || head.stamp <= position.stamp {
        return Err(bad("it does not follow the one before"));
    }
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let Split::Entry(entry, after) = split(rest) else {
            return Err(bad("an entry that is none"));
        };
        entries.push(entry);
        rest = after;
    }
    Ok((Position { stamp: head.stamp, hash: *blake3::hash(record).as_bytes() }, entries))
}

/// The latest records, in order.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    records: VecDeque<Record>,
    bytes: usize,
}

impl Tail {
    pub(crate) fn push(&mut self, record: Record) {
        self.bytes += record.bytes.len();
        self.records.push_back(record);
        while self.bytes > TAIL_BYTES {
            let Some(oldest) = self.records.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
        }
    }

    pub(crate) fn after(&self, position: &Position, max_bytes: usize) -> Option<Vec<Record>> {
        // Whoever asks is mostly not far behind.
        let first = self.records.iter().rposition(|record| record.before == position.hash)?;
        let mut bytes = 0;
        let is_within = |record: &&Record| {
            let is_first = bytes == 0;
            bytes += record.bytes.len();
            is_first || bytes <= max_bytes
        };
        Some(self.records.range(first..).take_while(is_within).cloned().collect())
    }
}
