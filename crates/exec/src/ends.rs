//! Where the lanes of a flow end in this process: blocks that they write together, one reader that takes from them all.

use crate::engine::StageIo;
use crate::in_order::InOrder;
use crate::stage::Reader;
use crate::written::Beginning;
use wire::proto;

/// The ends of one flow, while its stages are opened.
pub(crate) struct Ends {
    reader: Option<Reader>,
    kept: proto::Prepared,
    begins: bool,
}

impl Ends {
    /// Of a flow of so many lanes.
    pub fn new(io: &mut StageIo, lanes: u32) -> Ends {
        let first = io.first_slice;
        let reader = io.sink.take().map(|sink| match lanes {
            0..=1 => Reader::Alone(sink),
            _ => Reader::InOrder(InOrder::new(sink, first)),
        });
        Ends { reader, kept: proto::Prepared::default(), begins: false }
    }

    /// The reader, for one more stage.
    pub fn reader(&mut self) -> Option<Reader> {
        match &self.reader {
            Some(Reader::InOrder(reader)) => Some(Reader::InOrder(reader.clone())),
            _ => self.reader.take(),
        }
    }

    /// A block was opened to be written.
    pub fn note(&mut self, beginning: Beginning) {
        self.kept.writes = true;
        match beginning {
            Beginning::New => self.begins = true,
            Beginning::Opened => {}
            Beginning::Resumed(lacks) => self.kept.lacks.extend(lacks),
        }
    }

    /// What is there of the blocks that are written.
    pub fn kept(self) -> proto::Prepared {
        proto::Prepared { resumes: self.kept.writes && !self.begins, ..self.kept }
    }
}
