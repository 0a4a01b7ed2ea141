//! What a node keeps of the catalog.

use model::{ClusterId, Position, RecordHead};
use wire::codec::records::{Begin, Carried};
use wire::proto;

/// A snapshot and the records that follow it.
#[derive(Clone, Default)]
pub struct Kept {
    snapshot: (Position, Vec<u8>),
    records: Vec<u8>,
    last: Position,
}

impl Kept {
    /// Takes what was sent, if it follows what is there. A snapshot is whole when something follows it.
    pub fn take(&mut self, messages: Vec<proto::RecordsMessage>) {
        let mut begun: Option<(Begin, Vec<u8>)> = None;
        for message in messages {
            match (Carried::try_from(message).expect("a message"), &mut begun) {
                (Carried::Begin(next), now) => {
                    if let Some((Begin { at, snapshot: true, .. }, bytes)) = now.take() {
                        *self = Kept { snapshot: (at, bytes), records: Vec::new(), last: at };
                    }
                    begun = Some((next, Vec::new()));
                }
                (Carried::Piece(piece), Some((_, bytes))) => bytes.extend(piece),
                (Carried::Piece(_), None) => panic!("pieces of nothing"),
            }
        }
        if let Some((Begin { at, snapshot: false, .. }, bytes)) = begun
            && at == self.last
        {
            self.append(bytes);
        }
    }

    fn append(&mut self, bytes: Vec<u8>) {
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

    pub fn told(&self) -> Option<proto::HeldRecords> {
        (self.last != Position::default()).then(|| proto::HeldRecords {
            last: Some(self.last.into()),
            snapshot_bytes: self.snapshot.1.len() as u64,
            record_bytes: self.records.len() as u64,
        })
    }

    /// All of it, as it is read.
    pub fn messages(&self) -> Vec<proto::RecordsMessage> {
        let begin = |snapshot| {
            let (cluster, by) = (ClusterId(1), self.last.stamp);
            Carried::Begin(Begin { cluster, by, at: self.snapshot.0, snapshot })
        };
        let parts = [
            begin(true),
            Carried::Piece(self.snapshot.1.clone()),
            begin(false),
            Carried::Piece(self.records.clone()),
        ];
        parts.map(proto::RecordsMessage::from).into()
    }
}
