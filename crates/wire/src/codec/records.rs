//! What travels where records of the catalog are kept or read back.

use super::invalid;
use crate::proto;
use model::{ClusterId, Fault, Position, Stamp};
use proto::records_message::Kind;

/// A message of such a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Carried {
    /// What the pieces are that follow. Where a snapshot was before, that is whole now.
    Begin(Begin),
    /// Some bytes of it.
    Piece(Vec<u8>),
}

/// What pieces are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begin {
    /// Whose catalog it is.
    pub cluster: ClusterId,
    /// The last change of who sends it.
    pub by: Stamp,
    /// How far the snapshot has come, or what the records follow.
    pub at: Position,
    /// A snapshot; else records, each behind its length (8 bytes, little-endian).
    pub snapshot: bool,
}

impl From<Carried> for proto::RecordsMessage {
    fn from(carried: Carried) -> proto::RecordsMessage {
        let kind = match carried {
            Carried::Begin(Begin { cluster, by, at, snapshot }) => Kind::Begin(proto::RecordsBegin {
                cluster: cluster.to_vec(),
                by: Some(by.into()),
                at: Some(at.into()),
                snapshot,
            }),
            Carried::Piece(bytes) => Kind::Piece(bytes),
        };
        proto::RecordsMessage { kind: Some(kind) }
    }
}

impl TryFrom<proto::RecordsMessage> for Carried {
    type Error = Fault;

    fn try_from(message: proto::RecordsMessage) -> Result<Carried, Fault> {
        let begin = match message.kind.ok_or_else(|| invalid("a message of no kind"))? {
            Kind::Begin(begin) => begin,
            Kind::Piece(bytes) => return Ok(Carried::Piece(bytes)),
        };
        let at = begin.at.unwrap_or_default();
        if !matches!(at.hash.len(), 0 | 32) {
            return Err(invalid("the hash of a record has another length"));
        }
        Ok(Carried::Begin(Begin {
            cluster: ClusterId::from_slice(&begin.cluster).map_err(|_| invalid("no cluster is named"))?,
            by: begin.by.map(Stamp::from).unwrap_or_default(),
            at: at.into(),
            snapshot: begin.snapshot,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Term;

    #[test]
    fn messages_come_back_as_they_were_and_half_ones_are_refused() {
        let stamp = Stamp { term: Term { number: 2, word: 3 }, change: 4 };
        let at = Position { stamp, hash: [9; 32] };
        let begin = Begin { cluster: ClusterId(7), by: stamp, at, snapshot: true };
        for carried in [Carried::Begin(begin), Carried::Piece(vec![1, 2])] {
            assert_eq!(Carried::try_from(proto::RecordsMessage::from(carried.clone())), Ok(carried));
        }
        let message = proto::RecordsMessage::from(Carried::Begin(begin));
        let Some(Kind::Begin(sent)) = message.kind else { panic!() };
        let short = proto::Position { hash: vec![9; 31], ..sent.at.clone().unwrap() };
        let nowhere = proto::RecordsBegin { at: None, ..sent.clone() };
        for wrong in [
            proto::RecordsBegin { cluster: vec![1; 15], ..sent.clone() },
            proto::RecordsBegin { at: Some(short), ..sent },
        ] {
            Carried::try_from(proto::RecordsMessage { kind: Some(Kind::Begin(wrong)) }).unwrap_err();
        }
        Carried::try_from(proto::RecordsMessage::default()).unwrap_err();
        let first = Carried::try_from(proto::RecordsMessage { kind: Some(Kind::Begin(nowhere)) });
        assert_eq!(first, Ok(Carried::Begin(Begin { at: Position::default(), ..begin })));
    }
}
