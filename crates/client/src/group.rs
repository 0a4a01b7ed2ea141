//! Reading members of a block group of HDFS that nobody has, or can be reached: decoded from the others, by a flow whose
//! requestor runs here.

use crate::abreast::Abreast;
use crate::ask::{Ask, OfGroup};
use crate::connect::Client;
use crate::error::Result;
use crate::intake::InOrder;
use crate::outlet::ROOM_BYTES;
use crate::read::Reading;
use model::Traffic;
use model::hdfs::{BlockGroup, BlockToken};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Pieces that wait for whoever takes them: a few slices of each member.
const PIECES_AHEAD: usize = 32;

/// Members of a block group that are wanted.
#[derive(Clone, Debug)]
pub struct GroupRead {
    /// The group, and who has what of it.
    pub group: BlockGroup,
    /// Which members, each once. Their own copies are not used.
    pub wanted: Vec<u16>,
    /// Which bytes of each; those beyond a member's end are zero.
    pub range: Range<u64>,
    /// By which scheme; empty: the coordinator's choice.
    pub scheme: String,
    /// Whose budget it is charged to.
    pub traffic: Traffic,
    /// Nobody is gone around for being slow.
    pub patient: bool,
    /// Tokens of members that are read, where HDFS uses block tokens. Each helper is shown that of its block, without its password.
    pub tokens: BTreeMap<u16, BlockToken>,
}

/// The bytes of a read of a group.
pub struct GroupPieces(Receiver<Vec<u8>>);

/// A read of a group that runs, and ends when it is dropped.
pub struct GroupReading {
    reading: Reading,
    of: Arc<OfGroup>,
}

/// What a read of a group has found out about the blocks that it read, whether it succeeds or not.
pub struct Found(Arc<OfGroup>);

impl Found {
    /// Members in which the helpers that have read them met bytes that differ from their checksums.
    pub fn corrupt(&self) -> Vec<u16> {
        self.0.corrupt.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}

/// How members of a group were read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupReport {
    /// Helpers that were gone around because they were slow.
    pub around: usize,
    /// Further flows for the same bytes, of a short read that was late.
    pub hedges: u64,
}

impl fmt::Display for GroupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} helpers gone around, {} hedges", self.around, self.hedges)
    }
}

impl Client {
    /// Begins to read. Within a tokio runtime.
    pub fn read_group(&self, read: GroupRead) -> (GroupPieces, GroupReading) {
        let GroupRead { group, wanted, range, scheme, traffic, patient, tokens } = read;
        let (sender, pieces) = sync_channel(PIECES_AHEAD);
        let what = format!("decoding members {wanted:?} of block group {}", group.id);
        let corrupt = Mutex::default();
        let of = Arc::new(OfGroup { group, wanted: wanted.clone(), traffic, tokens, corrupt });
        let ask =
            Ask { of_group: Some(Arc::clone(&of)), range, room_bytes: ROOM_BYTES, scheme, ..Ask::default() };
        let client = self.clone();
        let reading = tokio::spawn(async move {
            match wanted.len() {
                // Short ones are hedged.
                1 => client.read_into(ask, what, InOrder::new(sender), patient).await,
                _ => client.read_into(ask, what, Abreast::new(wanted, sender), patient).await,
            }
        });
        (GroupPieces(pieces), GroupReading { reading: Reading::of(reading), of })
    }
}

impl GroupPieces {
    /// The next one: as many bytes of each member, one member after another as they were asked for. Blocks until it is there;
    /// `None` when no more comes, and then [`GroupReading::end`] says why.
    pub fn next_piece(&self) -> Option<Vec<u8>> {
        self.0.recv().ok()
    }
}

impl GroupReading {
    /// What it finds out, from now on and when it has ended.
    pub fn found(&self) -> Found {
        Found(Arc::clone(&self.of))
    }

    /// Waits for the end, and says how it was.
    ///
    /// # Errors
    /// Why not all of it came.
    pub async fn end(self) -> Result<GroupReport> {
        let how = self.reading.end().await?;
        Ok(GroupReport { around: how.around.len(), hedges: how.hedges.asked })
    }
}
