//! Finds damage of a redb file below redb's cache: a walk over all pages of the newest commit.
//!
//! redb 4.4.0 verifies no checksum when it reads a page. Its file is a Merkle tree all the same (its `docs/design.md`):
//!
//! ```text
//!   header ── commit slot ──┬─▶ "tables" ───────▶ "table blocks", …             what users store
//!   (own checksum)          └─▶ "system tables" ─▶ "system table …"             freed pages, allocator state
//!
//!   each arrow holds the XXH3-128 checksum of the page that it points to
//! ```
//!
//! So one pass finds flipped bits, pages that went back to older bytes, and page writes that never arrived.
//!
//! Not found: flipped bits in the unused end of a page, which no checksum covers and redb never reads; a lost write of
//! the header itself, after which the file is its older self ([`LastCommit`](crate::LastCommit) tells); what the trees
//! mean, for example a page in use that the freed tables list as free.
//! Not covered: multimap tables (type 4), which redb's system tables do not use and the catalog does not make. The
//! walk skips them and is then not complete.

mod header;
mod node;
mod place;
mod table;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

use crate::{Disk, Result};
use std::path::Path;

pub(crate) use header::{HEADER_BYTES, Header};

/// Hears what [`walk_pages`] finds.
pub trait PageVisitor {
    /// A row of a user's table, as a leaf page has it. `is_intact`: the page and every page above it passed its
    /// checksum. Intact rows of a table arrive in key order; rows below a damaged page arrive last.
    fn row(&mut self, table: &str, key: &[u8], value: &[u8], is_intact: bool);

    /// A damaged page.
    fn damage(&mut self, damage: PageDamage);

    /// Asked between pages; `false` ends the walk early. May block, to slow the walk down.
    fn goes_on(&mut self) -> bool {
        true
    }
}

/// A page that is not what its parent says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageDamage {
    /// First byte of the page in the file. If the page cannot exist, of the page that refers to it.
    pub offset: u64,
    /// Length of the page.
    pub bytes: u64,
    /// The tree it belongs to: "header", "tables", "table blocks", "system tables", "system table …".
    pub tree: String,
    /// What is wrong, in words for a log.
    pub why: &'static str,
}

/// What a walk went over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageReport {
    /// Pages read, of all trees.
    pub pages: u64,
    /// Their length together.
    pub bytes: u64,
    /// The commit that was walked, as redb counts them.
    pub transaction: u64,
    /// Rows handed to the visitor.
    pub rows: u64,
    /// Whether the walk ended by itself and followed everything that it could read. Damage does not make a walk
    /// incomplete by itself. `false` if the visitor ended it, if no commit slot is usable, if a bound was met, or if
    /// commits replaced the system trees faster than they could be read.
    pub is_complete: bool,
}

/// Verifies every page of the newest commit of the redb file `path`. Damage does not end the walk: it goes on below
/// a damaged page as far as its bytes can be followed.
///
/// The file must have the geometry that [`open_database`](crate::open_database) gives: pages of 4 KiB, regions of
/// 4 GiB. If the database is open, the caller holds a read transaction begun before the call: redb then keeps all
/// pages of users' tables, and the walk itself notices when the pages of system tables are replaced. The database must
/// have been opened by this crate, whose backend writes the header after the pages that it refers to.
///
/// Memory: one bit for each 4 KiB of the file, one page, and a bounded stack.
///
/// # Errors
/// Those of the disk, except for unreadable pages: these are damage.
pub fn walk_pages(disk: &dyn Disk, path: &Path, visitor: &mut dyn PageVisitor) -> Result<PageReport> {
    let file = disk.open(path)?;
    walk::Walk::new(file.as_ref(), visitor).run()
}
