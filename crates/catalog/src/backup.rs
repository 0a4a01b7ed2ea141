//! Consistent copies of all tables in one stream: backups for people, and snapshots, with which those begin that keep the
//! catalog's records.
//!
//! ```text
//!   magic (8 bytes) │ version (4) │ entry (`entry.rs`) … │ end (1 byte, 0xff) │ BLAKE3 of all before (32)
//! ```
//!
//! Numbers are little-endian. Rows are as stored, each with its own version. A snapshot has all of them. A backup leaves out
//! what is in flight: by the time of a restore it has been committed or given up, and nobody here knows which.

use crate::backend::{Redb, Scan};
use crate::entry::{Entry, Split, split};
use crate::error::damaged_row;
use crate::error::{CatalogError, Result};
use crate::history::position;
use crate::incarnation::NO_START;
use crate::rows::{
    CandidateRow, Doubt, DoubtRow, EndedPutRow, GatheredRow, GatheringRow, HoldersRow, IntentRow, MetaKey,
    MetaRow, NodeRow, PlannedRow, PutBlockRow, PutRow, TABLES,
};
use crate::soundness::Condition;
use crate::soundness::checksum::{protected, verified};
use crate::table::{Change, Key, Read, Row, Snapshot, malformed};
use crate::{Catalog, meta, renewed};
use disk::Disk;
use model::{BlockCopy, BlockFacts, Position};
use std::sync::Arc;

/// A kind of stream.
pub(crate) struct Kind {
    magic: &'static [u8; 8],
    version: u32,
}

const BACKUP: Kind = Kind { magic: b"STRPLCAT", version: 8 };

/// The version before, of catalogs of formats 6 and 7, had rows without checksums.
const BACKUP_6: Kind = Kind { version: 6, ..BACKUP };

/// The version before that knew no buckets.
const BACKUP_5: Kind = Kind { version: 5, ..BACKUP };

/// The one before that had nodes without hosts.
const BACKUP_4: Kind = Kind { version: 4, ..BACKUP };

/// The first that is still read had [`HistoryRow`](crate::rows::HistoryRow) for [`PositionRow`](crate::rows::PositionRow).
const BACKUP_3: Kind = Kind { version: 3, ..BACKUP };

/// What a backup begins with.
pub(crate) const MAGIC: &[u8; 8] = BACKUP.magic;

/// The first version of backups whose rows end with checksums.
pub(crate) const FIRST_WITH_CHECKSUMS: u32 = 8;

/// How an error says that a restore did nothing.
pub(crate) const NOTHING_CHANGED: &str = "; nothing was changed";

pub(crate) const SNAPSHOT: Kind = Kind { magic: b"STRPLSNP", version: 2 };

/// The version before had rows without checksums.
pub(crate) const SNAPSHOT_1: Kind = Kind { version: 1, ..SNAPSHOT };

pub(crate) const END: u8 = 0xff;
pub(crate) const HASH_BYTES: usize = 32;
pub(crate) const HEAD_BYTES: usize = 8 + 4;

impl Kind {
    pub(crate) fn head(&self) -> Vec<u8> {
        [self.magic.as_slice(), &self.version.to_le_bytes()].concat()
    }
}

/// A restored catalog begins its terms so far above the backup's: what was written after the backup is not to be taken for
/// new. More starts of a coordinator than this between a backup and the loss of its catalog do not happen.
const TERM_LEAP: u64 = 1 << 12;

impl Catalog {
    /// Streams a backup in pieces of about `piece_bytes`; `send` says whether anyone still listens.
    ///
    /// # Errors
    /// [`CatalogError::DamagedRow`] for a row that fails its check: what was sent is no backup then. [`CatalogError::ChangesWait`] if
    /// the catalog's file is damaged elsewhere.
    pub fn backup(&self, piece_bytes: usize, mut send: impl FnMut(Vec<u8>) -> bool) -> Result<()> {
        self.soundness.may_change()?;
        self.view(|txn| stream(txn, &BACKUP, &is_of_a_backup, piece_bytes, &mut send))
    }

    /// Streams a snapshot in the same way, after `begin` was told how far the catalog has come with it. It takes the place of what a
    /// node keeps: so none is made before all of the file was checked.
    ///
    /// # Errors
    /// As for [`backup`](Self::backup); [`CatalogError::Unchecked`].
    pub fn snapshot(
        &self,
        piece_bytes: usize,
        begin: impl FnOnce(Position) -> bool,
        mut send: impl FnMut(Vec<u8>) -> bool,
    ) -> Result<()> {
        self.soundness.may_change()?;
        if self.condition() == Condition::Unchecked {
            return Err(CatalogError::Unchecked);
        }
        self.view(|txn| {
            if begin(position(txn)?) {
                stream(txn, &SNAPSHOT, &|_, _, _| Ok(true), piece_bytes, &mut send)?;
            }
            Ok(())
        })
    }
}

/// Whether a row is part of a stream.
type Takes<'a> = dyn Fn(&Snapshot<'_>, &str, &[u8]) -> Result<bool> + 'a;

fn stream(
    txn: &Snapshot<'_>,
    kind: &Kind,
    takes: &Takes<'_>,
    piece_bytes: usize,
    send: &mut dyn FnMut(Vec<u8>) -> bool,
) -> Result<()> {
    let mut hash = blake3::Hasher::new();
    let mut piece = kind.head();
    let mut listening = true;
    for table in TABLES {
        txn.raw_scan(table, &[], &mut |key, value| {
            verified(table, key, value)?;
            if !takes(txn, table, key)? {
                return Ok(Scan::Next);
            }
            Entry { table, key, value: Some(value) }.push_to(&mut piece);
            if piece.len() >= piece_bytes {
                hash.update(&piece);
                listening = send(std::mem::take(&mut piece));
            }
            Ok(if listening { Scan::Next } else { Scan::Stop })
        })?;
        if !listening {
            return Ok(());
        }
    }
    piece.push(END);
    hash.update(&piece);
    piece.extend(hash.finalize().as_bytes());
    send(piece);
    Ok(())
}

/// Makes a catalog from a backup, on a disk that has none yet (or an empty one).
///
/// Blocks that the restored catalog does not know stay on the nodes: they may have been put after the backup.
///
/// # Errors
/// [`CatalogError::Malformed`] for a backup that is cut off, changed, or of another version;
/// [`CatalogError::Exists`] if the disk's catalog is in use by a cluster.
pub fn restore(disk: &Arc<dyn Disk>, backup: &[u8]) -> Result<()> {
    let entries = parse(backup)?;
    let catalog = Catalog::of(Box::new(Redb::open(disk)?), true);
    let restored = catalog.change(|txn| {
        if txn.get::<MetaRow>(&MetaKey)?.is_some_and(|meta| !meta.unnamed) {
            return Err(CatalogError::Exists);
        }
        for Entry { table, key, value } in &entries {
            let row = protected(table, key, value.unwrap_or_default());
            txn.raw_put(table, key, &row.map_err(|error| malformed("backup", &error.to_string()))?)?;
        }
        leap(txn)
    });
    catalog.close();
    restored
}

/// Checks the restored rows by reading them, and ends their term: from here on this is another history, until what nodes keep of the
/// backup's own is brought over it.
fn leap(txn: &Change) -> Result<()> {
    renewed(txn)?;
    let mut row = meta(txn)?;
    row.unnamed = false;
    txn.put::<MetaRow>(&MetaKey, &row)?;
    for (block, row) in txn.all::<BlockFacts>(&[])? {
        txn.set_block(block, &row)?;
    }
    for (node, row) in txn.all::<NodeRow>(&[])? {
        txn.put(&node, &NodeRow { incarnation: NO_START, ..row })?;
    }
    let why = Doubt::Restored { at: position(txn)?.stamp };
    txn.put(&MetaKey, &DoubtRow { since_ms: 0, why })?;
    txn.leap(TERM_LEAP)
}

/// Whether a row is part of a backup: it tells of nothing that has begun and not ended, and of nobody who keeps records. A
/// candidate of a block that is still there is left out too: what it gave way to may be gone by the time of a restore.
fn is_of_a_backup(txn: &Snapshot<'_>, table: &str, key: &[u8]) -> Result<bool> {
    Ok(match table {
        PutRow::TABLE | PutBlockRow::TABLE | PlannedRow::TABLE | IntentRow::TABLE | EndedPutRow::TABLE => {
            false
        }
        // Blocks of puts that have not ended are in it. What is replicated can be encoded without it.
        GatheringRow::TABLE | GatheredRow::TABLE => false,
        HoldersRow::TABLE | DoubtRow::TABLE => false,
        CandidateRow::TABLE => match BlockCopy::from_bytes(key) {
            Some(copy) => txn.get::<BlockFacts>(&copy.block)?.is_none(),
            None => return Err(damaged_row(CandidateRow::TABLE, key, "the key is none")),
        },
        _ => true,
    })
}

/// The version that a backup names; `None` if it is cut off before that.
pub(crate) fn version(backup: &[u8]) -> Option<u32> {
    let version = backup.get(MAGIC.len()..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*version))
}

/// Whether this program reads backups of that version.
pub(crate) fn is_known(version: u32) -> bool {
    [BACKUP, BACKUP_6, BACKUP_5, BACKUP_4, BACKUP_3].iter().any(|kind| kind.version == version)
}

/// Whether it is all there and as it was written, whatever its version.
pub(crate) fn is_whole(backup: &[u8]) -> bool {
    let whole = |(body, hash): (&[u8], &[u8; HASH_BYTES])| blake3::hash(body).as_bytes() == hash;
    backup.split_last_chunk::<HASH_BYTES>().is_some_and(whole)
}

pub(crate) fn parse(backup: &[u8]) -> Result<Vec<Entry<'_>>> {
    let Some((body, hash)) = backup.split_last_chunk::<HASH_BYTES>() else {
        return Err(damaged(0, "too short"));
    };
    let Some((head, mut rest)) = body.split_at_checked(HEAD_BYTES) else {
        return Err(damaged(0, "too short"));
    };
    if ![BACKUP.head(), BACKUP_6.head(), BACKUP_5.head(), BACKUP_4.head(), BACKUP_3.head()]
        .contains(&head.to_vec())
    {
        return Err(damaged(0, "no backup of a catalog, or of another version"));
    }
    if blake3::hash(body).as_bytes() != hash {
        return Err(damaged(body.len(), "the checksum does not hold: it is cut off or was changed"));
    }
    let mut entries = Vec::new();
    loop {
        let at = body.len() - rest.len();
        if rest == [END] {
            return Ok(entries);
        }
        match split(rest) {
            Split::Entry(entry @ Entry { value: Some(_), .. }, after) => {
                entries.push(entry);
                rest = after;
            }
            _ => return Err(damaged(at, "an entry that is none")),
        }
    }
}

fn damaged(at: usize, why: &str) -> CatalogError {
    CatalogError::Malformed { what: "backup", why: format!("at byte {at}: {why}{NOTHING_CHANGED}") }
}
