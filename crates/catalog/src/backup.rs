//! Backup: a consistent copy of all tables in one stream, and back.
//!
//! ```text
//!   magic (8 bytes) │ version (4) │ entry … │ end (1 byte, 0xff) │ BLAKE3 of all before (32)
//!   entry: table index (1) │ key length (4) │ value length (4) │ key │ value
//! ```
//!
//! Numbers are little-endian. Rows are as stored, each with its own version. What is in flight is left out: by the time
//! of a restore it has been committed or given up, and nobody here knows which.

use crate::backend::{Redb, Scan};
use crate::error::{CatalogError, Result};
use crate::rows::{
    CATALOG_FORMAT, CandidateRow, EndedPutRow, IntentRow, MetaKey, MetaRow, PlannedRow, PutBlockRow, PutRow,
    TABLES,
};
use crate::table::{Change, Key, Read, Row, malformed};
use crate::{Catalog, meta};
use disk::Disk;
use model::{BlockCopy, BlockFacts};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"STRPLCAT";
const VERSION: u32 = 3;
const END: u8 = 0xff;
const HASH_BYTES: usize = 32;
const HEAD_BYTES: usize = MAGIC.len() + 4;

/// A restored catalog begins its terms so far above the backup's: what was written after the backup is not to be taken for
/// new. More starts of a coordinator than this between a backup and the loss of its catalog do not happen.
const TERM_LEAP: u64 = 1 << 12;

impl Catalog {
    /// Streams a snapshot in pieces of about `piece_bytes`; `send` says whether anyone still listens.
    pub fn backup(&self, piece_bytes: usize, mut send: impl FnMut(Vec<u8>) -> bool) -> Result<()> {
        self.view(|txn| {
            let mut hash = blake3::Hasher::new();
            let mut piece = [MAGIC.as_slice(), &VERSION.to_le_bytes()].concat();
            let mut listening = true;
            for (index, table) in TABLES.into_iter().enumerate() {
                txn.raw_scan(table, &[], &mut |key, value| {
                    if is_in_flight(txn, table, key)? {
                        return Ok(Scan::Next);
                    }
                    piece.push(index as u8);
                    piece.extend((key.len() as u32).to_le_bytes());
                    piece.extend((value.len() as u32).to_le_bytes());
                    piece.extend(key);
                    piece.extend(value);
                    if piece.len() >= piece_bytes {
                        hash.update(&piece);
                        listening = send(std::mem::take(&mut piece));
                    }
                    Ok(if listening { Scan::Next } else { Scan::Stop })
                })?;
            }
            piece.push(END);
            hash.update(&piece);
            piece.extend(hash.finalize().as_bytes());
            if listening {
                send(piece);
            }
            Ok(())
        })
    }
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
    let catalog = Catalog { backend: Box::new(Redb::open(disk)?) };
    let restored = catalog.change(|txn| {
        if txn.get::<MetaRow>(&MetaKey)?.is_some_and(|meta| !meta.unnamed) {
            return Err(CatalogError::Exists);
        }
        entries.iter().try_for_each(|&(table, key, value)| txn.raw_put(table, key, value))?;
        leap(txn)
    });
    catalog.close();
    restored
}

/// Checks the restored rows by reading them, and ends their term: from here on this is another history.
fn leap(txn: &Change) -> Result<()> {
    let mut row = meta(txn)?;
    if row.format != CATALOG_FORMAT {
        return Err(CatalogError::Format { found: row.format, known: CATALOG_FORMAT });
    }
    row.unnamed = false;
    txn.put::<MetaRow>(&MetaKey, &row)?;
    for (block, row) in txn.all::<BlockFacts>(&[])? {
        txn.set_block(block, &row)?;
    }
    txn.leap(TERM_LEAP)
}

/// Whether a row tells of something that has begun and not ended. A candidate of a block that is still there is among it: what
/// it gave way to may be gone by the time of a restore.
fn is_in_flight(txn: &impl Read, table: &str, key: &[u8]) -> Result<bool> {
    Ok(match table {
        PutRow::TABLE | PutBlockRow::TABLE | PlannedRow::TABLE | IntentRow::TABLE | EndedPutRow::TABLE => {
            true
        }
        CandidateRow::TABLE => match BlockCopy::from_bytes(key) {
            Some(copy) => txn.get::<BlockFacts>(&copy.block)?.is_some(),
            None => return Err(malformed(CandidateRow::TABLE, key, "the key is none")),
        },
        _ => false,
    })
}

/// A table's name, a key and a value.
type Entry<'a> = (&'static str, &'a [u8], &'a [u8]);

fn parse(backup: &[u8]) -> Result<Vec<Entry<'_>>> {
    let Some((body, hash)) = backup.split_last_chunk::<HASH_BYTES>() else {
        return Err(damaged(0, "too short"));
    };
    let Some((head, mut rest)) = body.split_at_checked(HEAD_BYTES) else {
        return Err(damaged(0, "too short"));
    };
    if head[..MAGIC.len()] != *MAGIC || head[MAGIC.len()..] != VERSION.to_le_bytes() {
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
        let (entry, after) = split_entry(rest).ok_or_else(|| damaged(at, "an entry that is none"))?;
        entries.push(entry);
        rest = after;
    }
}

fn split_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (&table, rest) = bytes.split_first()?;
    let (key_bytes, rest) = rest.split_first_chunk::<4>()?;
    let (value_bytes, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_bytes) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value_bytes) as usize)?;
    Some(((TABLES.get(usize::from(table))?, key, value), rest))
}

fn damaged(at: usize, why: &str) -> CatalogError {
    CatalogError::Malformed { table: "backup", key: format!("byte {at}"), why: why.to_owned() }
}
