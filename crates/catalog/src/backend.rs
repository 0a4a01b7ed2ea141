//! What the catalog needs of a database: tables of bytes in the order of their keys, and transactions.
//!
//! To add one, implement [`Backend`]; nothing else in the catalog knows what is below.

mod guard;
mod memory;
mod redb;

pub use self::guard::quiet_panics;
pub use self::memory::Memory;
pub use self::redb::Redb;

use crate::error::Result;
use disk::{Disk, PageReport, PageVisitor};
use std::fmt::Debug;
use std::sync::Arc;

/// Whether a scan goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// With the next row.
    Next,
    /// Not at all.
    Stop,
}

/// Gets the key and the value of a row.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<Scan> + 'a;

/// Reading, from a snapshot or within a change. A table that nothing was ever put into is empty.
pub trait Rows {
    /// The value at a key.
    fn get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Visits rows from key `from` on, in the order of their keys.
    fn scan(&self, table: &'static str, from: &[u8], visit: &mut Visit<'_>) -> Result<()>;
}

/// Reading and writing within a change, which sees what it wrote.
pub trait RowsMut: Rows {
    /// Writes a row, in place of the one that was there.
    fn put(&self, table: &'static str, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a row. Whether there was one.
    fn remove(&self, table: &'static str, key: &[u8]) -> Result<bool>;
}

/// A transaction. Dropped, it never was.
pub trait Transaction: RowsMut + Send {
    /// Once this returns without an error all that was written is durable; with an error nothing more is done with the
    /// database, for nobody knows.
    ///
    /// # Errors
    /// [`CatalogError::Failed`](crate::CatalogError::Failed), [`CatalogError::Closed`](crate::CatalogError::Closed).
    fn commit(self: Box<Self>) -> Result<()>;
}

/// A database. Calls block.
pub trait Backend: Debug + Send + Sync {
    /// Runs `view` on a snapshot.
    fn view(&self, view: &mut dyn FnMut(&dyn Rows) -> Result<()>) -> Result<()>;

    /// Begins a transaction. The catalog has one at a time, in which it makes the changes of several callers.
    fn begin(&self) -> Result<Box<dyn Transaction>>;

    /// Runs `change` as a transaction of its own: with an error, whoever's, none of it happened.
    ///
    /// # Errors
    /// Of `change`, and of the database.
    fn change(&self, change: &mut dyn FnMut(&dyn RowsMut) -> Result<()>) -> Result<()> {
        let txn = self.begin()?;
        change(&*txn)?;
        txn.commit()
    }

    /// Whether each change is run twice, and must do the same both times: it depends on the rows and on nothing else. For tests.
    fn runs_twice(&self) -> bool {
        false
    }

    /// Waits for running calls, closes the file, has another one take its name by `exchange`, and opens what then has the name.
    ///
    /// # Errors
    /// Of `exchange`, and of the opening: then later calls fail with [`CatalogError::Closed`](crate::CatalogError::Closed).
    fn replace(&self, exchange: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _ = exchange;
        Err(crate::CatalogError::Bug("this back end has no file".to_owned()))
    }

    /// Looks at the file as it is on the disk, below all that the database keeps in memory. To be called within a view, so that
    /// no page of it is written anew meanwhile. `None`: there is no file.
    fn look_at_pages(&self, visit: &mut dyn PageVisitor) -> Result<Option<PageReport>> {
        let _ = visit;
        Ok(None)
    }

    /// Whether the database went back to an older commit when it was opened: by a power cut in the middle of the last one, which nobody
    /// was told of, or because that one is damaged.
    fn was_rolled_back(&self) -> bool {
        false
    }

    /// The disk that the file is on; `None`: there is no file.
    fn disk(&self) -> Option<&Arc<dyn Disk>> {
        None
    }

    /// Waits for running calls and lets go of all files. Later calls fail with
    /// [`CatalogError::Closed`](crate::CatalogError::Closed).
    fn close(&self);
}
