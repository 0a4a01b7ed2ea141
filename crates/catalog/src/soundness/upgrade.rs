//! The first start over a catalog of a format before 8: every page is checked, and every row gets a checksum. Each transaction takes
//! some of the rows, and the mark of the new format is written last, so the next start goes on if this one breaks off.

use super::check::FirstDamage;
use super::checksum::{is_of_before, protected};
use crate::Catalog;
use crate::backend::Scan;
use crate::error::{CatalogError, Result};
use crate::rows::{CandidateRow, TABLES};
use crate::table::{Change, Read};
use model::{BlockFacts, BlockId, Reason};
use std::collections::BTreeSet;

/// Rows that get their checksums in one transaction.
const ROWS_AT_ONCE: usize = 16_384;

impl Catalog {
    /// Gives every row a checksum.
    ///
    /// # Errors
    /// [`CatalogError::DamagedFile`] if a page is damaged: nothing is written then.
    pub(crate) fn protect_rows(&self) -> Result<()> {
        let mut pages = FirstDamage(None);
        self.backend.view(&mut |_| self.backend.look_at_pages(&mut pages).map(|_| ()))?;
        pages.0.map_or(Ok(()), |damage| Err(CatalogError::DamagedFile(damage)))?;
        for table in TABLES {
            let mut from = Some(Vec::new());
            while let Some(key) = from {
                from = self.protect_some(table, &key)?;
            }
        }
        Ok(())
    }

    /// Protects rows of a table from a key on. Returns the key to go on from, if there are more.
    fn protect_some(&self, table: &'static str, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let (mut rows, mut next) = (Vec::new(), None);
        self.backend.view(&mut |txn| {
            txn.scan(table, from, &mut |key, value| {
                if rows.len() == ROWS_AT_ONCE {
                    next = Some(key.to_vec());
                    return Ok(Scan::Stop);
                }
                rows.push((key.to_vec(), value.to_vec()));
                Ok(Scan::Next)
            })
        })?;
        self.backend.change(&mut |txn| {
            for (key, value) in rows.iter().filter(|(_, value)| is_of_before(value)) {
                txn.put(table, key, &protected(table, key, value)?)?;
            }
            Ok(())
        })?;
        Ok(next)
    }
}

impl Change<'_> {
    /// Settles the candidates of an older catalog, which let a copy go because its block's row was missing. If another candidate of
    /// the block says that the block was deleted, this one says so from now on. Else its row is removed: it is an unknown copy, and
    /// stays.
    pub(crate) fn settle_candidates(&self) -> Result<()> {
        let candidates = self.all::<CandidateRow>(&[])?;
        let deleted: BTreeSet<BlockId> = candidates
            .iter()
            .filter(|(_, row)| row.reason == Reason::Deleted)
            .map(|(copy, _)| copy.block)
            .collect();
        for (copy, row) in candidates {
            if row.reason.is_word() || self.get::<BlockFacts>(&copy.block)?.is_some() {
                continue;
            }
            match deleted.contains(&copy.block) && row.reason != Reason::LetGo {
                true => self.put(&copy, &CandidateRow { reason: Reason::Deleted, ..row })?,
                false => _ = self.remove::<CandidateRow>(&copy)?,
            }
        }
        Ok(())
    }
}
