//! Saves what can be read of a catalog that cannot be opened: because redb refuses the file, or because a row is damaged that the
//! catalog needs. The rows that pass their checks are copied from the file's pages into a new file, which takes its place. A row in
//! it says that it is damaged, so nothing is changed in it; it serves reads until the catalog is renewed.

use super::check::told;
use super::checksum::{is_of_before, protected};
use super::renew::{SALVAGED as FILE, exchange};
use super::{Damage, MAX_TOLD};
use crate::backend::{Backend, Redb};
use crate::error::{CatalogError, Result};
use crate::rows::{DamageRow, MetaKey, TABLES};
use crate::table::Change;
use disk::{Disk, DiskError, PageDamage, PageVisitor};
use std::path::Path;
use std::sync::Arc;

/// Rows that are written in one transaction.
const ROWS_AT_ONCE: usize = 16_384;

/// What came of a damaged file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Salvaged {
    /// Rows that passed their checks.
    pub rows: u64,
    /// What did not pass.
    pub damage: Damage,
}

/// Salvages the catalog of this disk, which is closed; `why` says what kept it from being opened. Returns the name under which the
/// damaged file is kept, and what was saved.
///
/// # Errors
/// [`CatalogError::InUse`], [`CatalogError::Failed`].
pub fn salvage(disk: &Arc<dyn Disk>, why: &CatalogError) -> Result<(String, Salvaged)> {
    let salvaged = copy(disk.as_ref(), Path::new(Redb::FILE), disk, why.is_damage().then(|| why.damage()))?;
    Ok((exchange(disk.as_ref(), FILE)?, salvaged))
}

/// Salvages the file `path` of the disk `from`, which is only read, into the catalog of the disk `to`.
pub(crate) fn salvage_to(from: &dyn Disk, path: &Path, to: &Arc<dyn Disk>) -> Result<Salvaged> {
    let salvaged = copy(from, path, to, None)?;
    to.rename(Path::new(FILE), Path::new(Redb::FILE)).map_err(failed)?;
    Ok(salvaged)
}

fn copy(from: &dyn Disk, path: &Path, to: &Arc<dyn Disk>, why: Option<String>) -> Result<Salvaged> {
    match to.remove(Path::new(FILE)) {
        Ok(()) | Err(DiskError::NotFound { .. }) => {}
        Err(error) => return Err(failed(error)),
    }
    let rows = Redb::open_at(to, Path::new(FILE))?;
    let mut taking = Taking { rows: &rows, waiting: Vec::new(), salvaged: Salvaged::default(), failed: None };
    why.into_iter().for_each(|why| taking.found(why));
    disk::walk_pages(from, path, &mut taking).map_err(failed)?;
    taking.write();
    let Taking { salvaged, failed: error, .. } = taking;
    error.map_or(Ok(()), Err)?;
    if salvaged.damage.count > 0 {
        let row = DamageRow { findings: salvaged.damage.findings.clone(), count: salvaged.damage.count };
        rows.change(&mut |txn| Change::new(txn).put(&MetaKey, &row))?;
    }
    rows.close();
    Ok(salvaged)
}

struct Taking<'a> {
    rows: &'a Redb,
    /// A table, a key, a row with its checksum, and whether every page above it passed its own.
    waiting: Vec<(&'static str, Vec<u8>, Vec<u8>, bool)>,
    salvaged: Salvaged,
    failed: Option<CatalogError>,
}

impl Taking<'_> {
    fn found(&mut self, finding: String) {
        let damage = &mut self.salvaged.damage;
        damage.count += 1;
        if damage.findings.len() < MAX_TOLD {
            damage.findings.push(finding);
        }
    }

    fn write(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let written = self.rows.change(&mut |txn| {
            for (table, key, row, is_intact) in &waiting {
                // A row from below a damaged page may be an older one: it does not replace another.
                if *is_intact || txn.get(table, key)?.is_none() {
                    txn.put(table, key, row)?;
                }
            }
            Ok(())
        });
        self.failed = self.failed.take().or(written.err());
    }
}

impl PageVisitor for Taking<'_> {
    fn row(&mut self, table: &str, key: &[u8], value: &[u8], is_intact: bool) {
        let Some(table) = TABLES.into_iter().find(|known| *known == table) else { return };
        // A row without a checksum is covered by its page's alone.
        let row = match is_of_before(value) && !is_intact {
            true => return self.found(format!("row {table} {}: it has no checksum", crate::error::hex(key))),
            false => protected(table, key, value),
        };
        match row {
            Ok(row) => self.waiting.push((table, key.to_vec(), row.into_owned(), is_intact)),
            Err(error) => return self.found(error.damage()),
        }
        self.salvaged.rows += 1;
        if self.waiting.len() >= ROWS_AT_ONCE {
            self.write();
        }
    }

    fn damage(&mut self, damage: PageDamage) {
        self.found(told(&damage));
    }

    fn goes_on(&mut self) -> bool {
        self.failed.is_none()
    }
}

fn failed(error: DiskError) -> CatalogError {
    CatalogError::Failed(error.to_string())
}
