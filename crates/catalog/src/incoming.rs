//! A catalog that comes from a node that keeps its records: the snapshot, then the records that follow it. It is made beside the
//! one that is there, and takes its place whole, or not at all.

use crate::backend::{Backend, Redb};
use crate::backup::{END, HASH_BYTES, HEAD_BYTES, SNAPSHOT, SNAPSHOT_1};
use crate::entry::{Entry, Split, split};
use crate::error::{CatalogError, Result};
use crate::record::follow;
use crate::rows::{CATALOG_FORMAT, FIRST_FORMAT_WITH_RECORDS, MetaKey, PositionRow, PutRow};
use crate::soundness::exchange;
use crate::table::{Change, Read, Snapshot, malformed};
use crate::{aside, history, meta_of_any};
use disk::{Disk, DiskError, SyncPoint};
use model::{ClusterId, Position, Stamp};
use std::path::Path;
use std::sync::Arc;

/// What is written in one transaction.
const BATCH_BYTES: usize = 4 << 20;

/// A record longer than this is none: that of a put of the most blocks has some 100 MB.
const MAX_RECORD_BYTES: u64 = 256 << 20;

/// A put that was pending is not given up by a lease: it may have been committed by a change that is lost.
pub(crate) const UNSETTLED_MS: u64 = u64::MAX;

/// See the module. Dropped before its end it leaves a file that the next one replaces.
pub struct Incoming {
    disk: Arc<dyn Disk>,
    rows: Redb,
    /// What came and is not yet written.
    bytes: Vec<u8>,
    part: Part,
}

/// What becomes of the catalog whose place is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Former {
    /// It is an earlier state of the new one, and goes.
    Earlier,
    /// It has this last change, which the new one does not know, and is kept aside (`aside.rs`).
    Branch(Stamp),
    /// It is damaged, and is kept aside (`soundness/renew.rs`).
    Damaged,
}

enum Part {
    /// A snapshot, and the hash of what was written of it.
    Snapshot(Box<blake3::Hasher>),
    Records(Position),
}

impl Incoming {
    /// Where it is made.
    pub(crate) const FILE: &str = "catalog.redb.coming";

    /// Begins with a snapshot.
    ///
    /// # Errors
    /// [`CatalogError::Failed`], [`CatalogError::InUse`].
    pub fn begin(disk: &Arc<dyn Disk>) -> Result<Incoming> {
        match disk.remove(Path::new(Incoming::FILE)) {
            Ok(()) | Err(DiskError::NotFound { .. }) => {}
            Err(error) => return Err(CatalogError::Failed(error.to_string())),
        }
        let rows = Redb::open_at(disk, Path::new(Incoming::FILE))?;
        let part = Part::Snapshot(Box::default());
        Ok(Incoming { disk: Arc::clone(disk), rows, bytes: Vec::new(), part })
    }

    /// Takes bytes of the snapshot, or of the records, each behind its length (8 bytes, little-endian).
    ///
    /// # Errors
    /// [`CatalogError::Malformed`] for what does not follow from what came before.
    pub fn take(&mut self, piece: &[u8]) -> Result<()> {
        self.bytes.extend(piece);
        if self.bytes.len() < BATCH_BYTES {
            return Ok(());
        }
        match &mut self.part {
            Part::Snapshot(_) => self.write_rows(),
            Part::Records(_) => self.write_records(),
        }
    }

    /// The snapshot is complete; records follow. It must be of that position.
    pub fn end_snapshot(&mut self, at: Position) -> Result<()> {
        self.write_rows()?;
        let Part::Snapshot(hash) = &mut self.part else { return Err(bad("two snapshots")) };
        hash.update(&[END]);
        let is_whole = self.bytes.first() == Some(&END)
            && self.bytes.get(1..) == Some(hash.finalize().as_bytes().as_slice());
        if !is_whole {
            return Err(bad("it is cut off or was changed"));
        }
        let mut found = None;
        self.rows.view(&mut |rows| {
            let snapshot = Snapshot::strict(rows);
            found = Some((history::position(&snapshot)?, meta_of_any(&snapshot)?));
            Ok(())
        })?;
        let Some((position, meta)) = found else { return Err(bad("it cannot be read")) };
        // One of a version before is made one of this version when it is opened.
        if !(FIRST_FORMAT_WITH_RECORDS..=CATALOG_FORMAT).contains(&meta.format) {
            return Err(CatalogError::Format { found: meta.format, known: CATALOG_FORMAT });
        }
        if position != at {
            return Err(bad("it is of another change than was said"));
        }
        self.bytes.clear();
        self.part = Part::Records(at);
        Ok(())
    }

    /// Whether a change is known to what came, and how far that goes.
    pub fn remembers(&mut self, stamp: Stamp) -> Result<(bool, Stamp)> {
        self.write_records()?;
        let Part::Records(position) = self.part else { return Err(bad("the snapshot is cut off")) };
        let mut found = false;
        self.rows.view(&mut |rows| {
            found = history::remembers(&Snapshot::strict(rows), stamp)?;
            Ok(())
        })?;
        Ok((found, position.stamp))
    }

    /// Whose catalog it is.
    pub fn cluster(&self) -> Result<ClusterId> {
        let mut cluster = None;
        self.rows.view(&mut |rows| {
            cluster = Some(meta_of_any(&Snapshot::strict(rows))?.cluster);
            Ok(())
        })?;
        cluster.ok_or_else(|| bad("it cannot be read"))
    }

    /// All of it came. The new catalog takes the place of the one that is there, which must be closed. Returns how far the new one has
    /// come.
    pub fn finish(mut self, former: Former) -> Result<Position> {
        let position = self.end()?;
        // No change of the history: who keeps the records has what was written, and does the same with it.
        self.rows.change(&mut |rows| {
            let txn = Change::new(rows);
            for (put, row) in txn.all::<PutRow>(&[])? {
                txn.put(&put, &PutRow { lease_until_ms: UNSETTLED_MS, ..row })?;
            }
            Ok(())
        })?;
        self.rows.close();
        if former == Former::Damaged {
            exchange(self.disk.as_ref(), Incoming::FILE)?;
            return Ok(position);
        }
        // Nobody opens it meanwhile.
        let _lock = aside::lock(self.disk.as_ref())?;
        if let Former::Branch(last) = former {
            aside::put_aside(self.disk.as_ref(), last)?;
        }
        let failed = |error: DiskError| CatalogError::Failed(error.to_string());
        self.disk.rename(Path::new(Incoming::FILE), Path::new(Redb::FILE)).map_err(failed)?;
        self.disk.sync_folder(Path::new(""), SyncPoint::CatalogFolder).map_err(failed)?;
        Ok(position)
    }

    /// All of it came, and is to take the place of a file with the same last change.
    pub(crate) fn into_rows(mut self) -> Result<(Arc<dyn Disk>, Redb, Position)> {
        let position = self.end()?;
        Ok((self.disk, self.rows, position))
    }

    fn end(&mut self) -> Result<Position> {
        self.write_records()?;
        let Part::Records(position) = self.part else { return Err(bad("the snapshot is cut off")) };
        if self.bytes.is_empty() { Ok(position) } else { Err(bad("a record is cut off")) }
    }

    /// Writes the whole entries of a snapshot that are there.
    fn write_rows(&mut self) -> Result<()> {
        let Part::Snapshot(hash) = &mut self.part else { return Err(bad("it has ended")) };
        let mut rest = self.bytes.as_slice();
        if hash.count() == 0 {
            let Some((head, after)) = rest.split_at_checked(HEAD_BYTES) else { return Ok(()) };
            if ![SNAPSHOT.head(), SNAPSHOT_1.head()].iter().any(|known| known == head) {
                return Err(bad("none of a catalog, or of another version"));
            }
            hash.update(head);
            rest = after;
        }
        let before = rest;
        let mut entries = Vec::new();
        while let Split::Entry(entry @ Entry { value: Some(_), .. }, after) = split(rest) {
            entries.push(entry);
            rest = after;
        }
        // Whatever else is no entry ends the snapshot, or is found not to.
        let is_end = rest.first() == Some(&END) && rest.len() <= 1 + HASH_BYTES;
        if !is_end && !rest.is_empty() && split(rest) != Split::CutOff {
            return Err(bad("an entry that is none"));
        }
        hash.update(&before[..before.len() - rest.len()]);
        self.rows
            .change(&mut |rows| entries.iter().try_for_each(|entry| entry.apply(rows)))
            .map_err(theirs)?;
        let left = self.bytes.len() - rest.len();
        self.bytes.drain(..left);
        Ok(())
    }

    /// Makes the changes of the whole records that are there.
    fn write_records(&mut self) -> Result<()> {
        let Part::Records(mut position) = self.part else { return Err(bad("it is cut off")) };
        let (mut rest, mut changes) = (self.bytes.as_slice(), Vec::new());
        while let Some((length, after)) = rest.split_first_chunk() {
            let length = u64::from_le_bytes(*length);
            if length > MAX_RECORD_BYTES {
                return Err(malformed("record", "it is too long"));
            }
            let Some((record, after)) = after.split_at_checked(length as usize) else { break };
            let (at, entries) = follow(&position, record)?;
            changes.extend(entries);
            (position, rest) = (at, after);
        }
        let Position { stamp, hash } = position;
        let written = self.rows.change(&mut |rows| {
            changes.iter().try_for_each(|entry| entry.apply(rows))?;
            Change::new(rows).put(&MetaKey, &PositionRow { stamp, hash })
        });
        written.map_err(theirs)?;
        let left = self.bytes.len() - rest.len();
        self.bytes.drain(..left);
        self.part = Part::Records(position);
        Ok(())
    }
}

fn bad(why: &str) -> CatalogError {
    malformed("snapshot", why)
}

/// A row that fails its check came with what a node keeps: it says nothing of the catalog that is there.
fn theirs(error: CatalogError) -> CatalogError {
    match error {
        CatalogError::DamagedRow { table, key, why } => {
            CatalogError::Malformed { what: "snapshot", why: format!("row {table} {key}: {why}") }
        }
        other => other,
    }
}
