//! What a node keeps of the catalog.

use model::{Position, RecordHead};
use wire::proto;
use wire::proto::records_message::Kind;

/// A snapshot and the records that follow it.
#[derive(Clone, Default)]
pub struct Kept {
    snapshot: (Position, Vec<u8>),
    records: Vec<u8>,
    last: Position,
}

impl Kept {
    /// Takes what was sent, if it follows what is there.
    pub fn take(&mut self, begin: &proto::RecordsBegin, bytes: Vec<u8>) {
        let at = begin.at.clone().map(Position::from).unwrap_or_default();
        if begin.snapshot {
            *self = Kept { snapshot: (at, bytes), records: Vec::new(), last: at };
        } else if at == self.last {
            let mut rest = bytes.as_slice();
            while let Some((length, after)) = rest.split_first_chunk() {
                let (record, after) = after.split_at(u64::from_le_bytes(*length) as usize);
                let (head, _) = RecordHead::of(record).expect("a record");
                assert_eq!(head.before, self.last.hash, "a record that follows the one before");
                self.last = Position { stamp: head.stamp, hash: *blake3::hash(record).as_bytes() };
                rest = after;
            }
            self.records.extend(bytes);
        }
    }

    pub fn told(&self) -> Option<proto::HeldRecords> {
        (self.last != Position::default()).then(|| proto::HeldRecords {
            last: Some(self.last.into()),
            snapshot_bytes: self.snapshot.1.len() as u64,
            record_bytes: self.records.len() as u64,
        })
    }

    /// All of it, as it is read.
    pub fn messages(&self) -> Vec<proto::RecordsMessage> {
        let begin = |at: Position, snapshot| {
            Kind::Begin(proto::RecordsBegin { at: Some(at.into()), snapshot, ..Default::default() })
        };
        let parts = [
            begin(self.snapshot.0, true),
            Kind::Piece(self.snapshot.1.clone()),
            begin(self.snapshot.0, false),
            Kind::Piece(self.records.clone()),
        ];
        parts.map(|kind| proto::RecordsMessage { kind: Some(kind) }).into()
    }
}
