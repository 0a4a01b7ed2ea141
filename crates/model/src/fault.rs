//! The one typed error of flows, which crosses the wire: what went wrong, where, and which edge is suspected.

use crate::id::{BlockId, FlowId};
use crate::node::Peer;
use std::fmt;

/// What went wrong. The numbers are the protocol's: never reuse one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Cause {
    /// A defect of ours, or a message that no version of ours sends.
    Bug = 1,
    /// The node has no room for another flow now. Try again later or elsewhere.
    Busy = 2,
    /// The block, or its sidecar, is not there.
    NotFound = 3,
    /// Stored bytes differ from their sidecar.
    CorruptBlock = 4,
    /// A slice arrived that is not what its fingerprint promises.
    CorruptSlice = 5,
    /// A neighbour closed the stream before its End, or cannot be reached.
    Disconnected = 6,
    /// Input stayed away longer than `stall_ms`.
    Stalled = 7,
    /// The disk is full.
    NoSpace = 8,
    /// The disk failed otherwise.
    Disk = 9,
    /// An attempt older than one the node has seen.
    StaleAttempt = 10,
    /// The driver has gone silent, or ended the flow.
    Aborted = 11,
    /// The whole block came out differently from what was recorded when it was written.
    WrongDigest = 12,
    /// A request that makes no sense: a field out of its bounds.
    Invalid = 13,
    /// The node cannot be reached by its driver.
    Unreachable = 14,
    /// The flow goes on, but far slower than flows like it, and this is who holds it up.
    Slow = 15,
    /// Whoever announced the flow has not shown that he may read the block.
    Denied = 16,
}

impl Cause {
    /// From the protocol's number.
    pub fn from_number(number: u32) -> Cause {
        use Cause::*;
        [
            Busy,
            NotFound,
            CorruptBlock,
            CorruptSlice,
            Disconnected,
            Stalled,
            NoSpace,
            Disk,
            StaleAttempt,
            Aborted,
            WrongDigest,
            Invalid,
            Unreachable,
            Slow,
            Denied,
        ]
        .into_iter()
        .find(|c| *c as u32 == number)
        .unwrap_or(Bug)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Bug => "internal error",
            Cause::Busy => "busy",
            Cause::NotFound => "block not found",
            Cause::CorruptBlock => "stored block is corrupt",
            Cause::CorruptSlice => "slice is corrupt",
            Cause::Disconnected => "connection lost",
            Cause::Stalled => "stalled",
            Cause::NoSpace => "disk full",
            Cause::Disk => "disk error",
            Cause::StaleAttempt => "stale attempt",
            Cause::Aborted => "aborted",
            Cause::WrongDigest => "rebuilt block differs from what was written",
            Cause::Invalid => "invalid request",
            Cause::Unreachable => "node unreachable",
            Cause::Slow => "slow",
            Cause::Denied => "not permitted",
        })
    }
}

/// A stage's or driver's report of a failure.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Fault {
    /// What went wrong.
    pub cause: Cause,
    /// One sentence for a person.
    pub detail: String,
    /// The flow.
    pub flow: Option<FlowId>,
    /// Its attempt.
    pub attempt: u32,
    /// Lane and slice, where it happened.
    pub lane: u32,
    /// The slice.
    pub slice: u64,
    /// Who reports.
    pub reporter: Peer,
    /// The suspected edge, by who is at its ends; twice the same node when its own block or disk is at fault.
    pub suspect: Option<(Peer, Peer)>,
    /// The block concerned.
    pub block: Option<BlockId>,
}

impl Fault {
    /// A fault with nothing but a cause and a sentence.
    pub fn new(cause: Cause, detail: impl Into<String>) -> Fault {
        Fault {
            cause,
            detail: detail.into(),
            flow: None,
            attempt: 0,
            lane: 0,
            slice: 0,
            reporter: Peer::Client,
            suspect: None,
            block: None,
        }
    }

    /// The same, suspecting the edge `from` → `to`.
    pub fn suspecting(mut self, from: impl Into<Peer>, to: impl Into<Peer>) -> Fault {
        self.suspect = Some((from.into(), to.into()));
        self
    }

    /// The same, about a block.
    pub fn about(mut self, block: BlockId) -> Fault {
        self.block = Some(block);
        self
    }

    /// The same, at a slice of a lane.
    pub fn at(mut self, lane: u32, slice: u64) -> Fault {
        self.lane = lane;
        self.slice = slice;
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cause, self.detail)?;
        match self.suspect {
            Some((a, b)) if a == b => write!(f, " (suspect: {a})")?,
            Some((a, b)) => write!(f, " (suspect: edge {a} -> {b})")?,
            None => {}
        }
        if let Some(block) = self.block {
            write!(f, " [block {block}]")?;
        }
        Ok(())
    }
}
