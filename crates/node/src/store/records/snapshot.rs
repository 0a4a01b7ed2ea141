//! A snapshot in its file: written, and judged.

use super::{Counting, FOLDER, Held, Turn, next_number, remove_pair, snapshot_path};
use crate::store::Result;
use crate::store::temp::TempFile;
use disk::{Disk, DiskFile, SyncPoint};
use model::{ClusterId, Position, RecordHash, Stamp, Term};
use std::path::Path;

const MAGIC: [u8; 8] = *b"SLholder";
const VERSION: u16 = 1;

/// Bytes before the snapshot.
pub(super) const HEADER_BYTES: usize = 8 + 2 + 16 + 3 * 8 + HASH_BYTES;
pub(super) const HASH_BYTES: usize = 32;

/// Read at once when a snapshot is judged: large enough to be cheap, small beside a snapshot.
const JUDGE_BYTES: u64 = 1 << 20;

/// A snapshot that is being taken. Dropping it leaves what was held.
#[derive(Debug)]
pub struct SnapshotWriter {
    turn: Turn,
    file: TempFile,
    at: Position,
    /// Of the file, so far.
    bytes: u64,
    /// Apart, for it is large.
    hasher: Box<blake3::Hasher>,
}

impl SnapshotWriter {
    pub(super) fn begin(turn: Turn, cluster: ClusterId, at: Position) -> Result<Self> {
        let file = TempFile::create(&turn.folder)?;
        let mut writer = Self { turn, file, at, bytes: 0, hasher: Box::default() };
        writer.write(&header(cluster, &at))?;
        Ok(writer)
    }

    /// How far it has come.
    pub fn at(&self) -> Position {
        self.at
    }

    /// The next of its bytes.
    ///
    /// Errors: the disk's; it cannot be gone on with then.
    pub fn write(&mut self, piece: &[u8]) -> Result<()> {
        self.file.file().write_at(self.bytes, piece)?;
        self.hasher.update(piece);
        self.bytes += piece.len() as u64;
        Ok(())
    }

    /// It is whole: it is held from now on, durably, in place of all that was.
    ///
    /// Errors: the disk's. Then either is held: what was, or this.
    pub fn finish(self) -> Result<Held> {
        let Self { turn, file, at, bytes, hasher } = self;
        let before = turn.known();
        file.file().write_at(bytes, hasher.finalize().as_bytes())?;
        file.sync(SyncPoint::HeldSnapshot)?;
        let number = next_number(turn.disk())?;
        // From here on it may be what counts after a power cut, though nobody could be told so.
        turn.doubt();
        file.rename(&snapshot_path(number))?;
        turn.disk().sync_folder(Path::new(FOLDER), SyncPoint::HeldFolder)?;
        let snapshot_bytes = bytes - HEADER_BYTES as u64;
        let held = Held { snapshot: at, last: at, snapshot_bytes, record_bytes: 0 };
        turn.counts(Some(Counting { number, held, end: 0, is_named: false }));
        if let Ok(Some(before)) = before {
            remove_pair(turn.disk(), before.number);
        }
        Ok(held)
    }
}

fn header(cluster: ClusterId, at: &Position) -> Vec<u8> {
    let Position { stamp: Stamp { term: Term { number, word }, change }, hash } = at;
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend_from_slice(&MAGIC);
    header.extend_from_slice(&VERSION.to_le_bytes());
    header.extend_from_slice(&cluster.to_bytes());
    [number, word, change].into_iter().for_each(|value| header.extend_from_slice(&value.to_le_bytes()));
    header.extend_from_slice(hash);
    header
}

/// What a snapshot's file is.
pub(super) enum Judged {
    /// A snapshot of so many bytes, as it was written.
    Whole {
        /// How far it has come.
        at: Position,
        /// Its length.
        bytes: u64,
    },
    /// It cannot be used, for that reason.
    Unusable(&'static str),
}

/// Reads it all. Errors: the disk's, unless they are about the medium: they say nothing of what is stored.
pub(super) fn judge(disk: &dyn Disk, number: u64, cluster: Option<ClusterId>) -> Result<Judged> {
    let read = || -> disk::Result<Judged> {
        let file = disk.open(&snapshot_path(number))?;
        let bytes = file.len()?;
        let Some(content_bytes) = bytes.checked_sub((HEADER_BYTES + HASH_BYTES) as u64) else {
            return Ok(Judged::Unusable("it is cut off"));
        };
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(0, &mut header)?;
        let at = match parse(&header, cluster) {
            Ok(at) => at,
            Err(why) => return Ok(Judged::Unusable(why)),
        };
        let mut hash = [0; HASH_BYTES];
        let hash_at = bytes - HASH_BYTES as u64;
        file.read_exact_at(hash_at, &mut hash)?;
        match hash_to(file.as_ref(), hash_at)? == hash {
            true => Ok(Judged::Whole { at, bytes: content_bytes }),
            false => Ok(Judged::Unusable("its hash does not hold")),
        }
    };
    match read() {
        Err(error) if error.is_unreadable() => Ok(Judged::Unusable("the disk cannot read it")),
        read => Ok(read?),
    }
}

fn parse(
    header: &[u8; HEADER_BYTES],
    cluster: Option<ClusterId>,
) -> std::result::Result<Position, &'static str> {
    let short = "its header is cut off";
    let (magic, rest) = header.split_first_chunk::<8>().ok_or(short)?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or(short)?;
    let (of, rest) = rest.split_first_chunk::<16>().ok_or(short)?;
    let (number, rest) = rest.split_first_chunk::<8>().ok_or(short)?;
    let (word, rest) = rest.split_first_chunk::<8>().ok_or(short)?;
    let (change, hash) = rest.split_first_chunk::<8>().ok_or(short)?;
    let hash: RecordHash = hash.try_into().map_err(|_| short)?;
    if *magic != MAGIC {
        return Err("it does not begin like one");
    }
    if u16::from_le_bytes(*version) != VERSION {
        return Err("it is of a version that this program does not know");
    }
    if cluster.map(ClusterId::to_bytes) != Some(*of) {
        return Err("it is of another cluster");
    }
    let term = Term { number: u64::from_le_bytes(*number), word: u64::from_le_bytes(*word) };
    Ok(Position { stamp: Stamp { term, change: u64::from_le_bytes(*change) }, hash })
}

/// BLAKE3 of the file's bytes up to there.
fn hash_to(file: &dyn DiskFile, end: u64) -> disk::Result<[u8; HASH_BYTES]> {
    let (mut hasher, mut buffer, mut at) = (blake3::Hasher::new(), Vec::new(), 0);
    while at < end {
        buffer.resize((end - at).min(JUDGE_BYTES) as usize, 0);
        file.read_exact_at(at, &mut buffer)?;
        hasher.update(&buffer);
        at += buffer.len() as u64;
    }
    Ok(*hasher.finalize().as_bytes())
}
