//! The checksum that each stored row ends with. It covers the table, the key and the value: a checksum of the value alone does not
//! see that a key was changed, and the row is then just not found (HEALING.md, "The catalog's own file").
//!
//! ```text
//!   0x80 | row version (1) │ postcard of the row … │ XXH3-64 of table, key and all of this row before it (8, little-endian)
//! ```
//!
//! Catalogs up to format 7 had rows without it, whose first byte is below 0x80. Such rows are accepted only from something that has
//! a checksum of its own: a backup, a snapshot, a record, or the pages of a catalog of that format (first start, salvage).
//!
//! One row has no checksum in this format either: the mark of the format, whose bytes are the same in every catalog.

use crate::error::{Result, damaged_row};
use std::borrow::Cow;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The bit of the version byte that says that the row ends with a checksum.
pub(crate) const HAS_CHECKSUM: u8 = 0x80;

const CHECKSUM_BYTES: usize = 8;

/// The table of the mark of the format.
pub(crate) const MARK_TABLE: &str = "meta";

/// The mark of this format, as it is stored: a row of version 1, format 8, and nothing else.
pub(crate) const MARK: [u8; 21] = [1, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Appends the checksum to a row, which begins with its version byte, and marks that byte.
pub(crate) fn protect(table: &str, key: &[u8], row: &mut Vec<u8>) {
    if table == MARK_TABLE {
        return;
    }
    if let Some(version) = row.first_mut() {
        *version |= HAS_CHECKSUM;
    }
    let checksum = checksum(table, key, row);
    row.extend(checksum.to_le_bytes());
}

/// Verifies a stored row and returns it without its checksum: the version byte as it is stored, then the row.
///
/// # Errors
/// [`CatalogError::DamagedRow`](crate::CatalogError::DamagedRow) if the checksum fails, or if there is none.
pub(crate) fn verified<'a>(table: &'static str, key: &[u8], stored: &'a [u8]) -> Result<&'a [u8]> {
    let bad = |why| Err(damaged_row(table, key, why));
    if table == MARK_TABLE {
        return if stored == MARK { Ok(stored) } else { bad("it is not the mark of this format") };
    }
    let Some((row, stored_checksum)) = stored.split_last_chunk::<CHECKSUM_BYTES>() else {
        return bad("it is too short for a row");
    };
    match row.first() {
        Some(version) if version & HAS_CHECKSUM != 0 => {}
        _ => return bad("it has no checksum"),
    }
    if checksum(table, key, row) != u64::from_le_bytes(*stored_checksum) {
        return bad("its checksum fails");
    }
    Ok(row)
}

/// Whether a stored row is of a format before 8, in which rows had no checksums.
pub(crate) fn is_of_before(stored: &[u8]) -> bool {
    stored.first().is_some_and(|version| version & HAS_CHECKSUM == 0)
}

/// Returns the row with its checksum: unchanged if it has one that holds, with one added if it is of a format before 8.
///
/// # Errors
/// As [`verified`].
pub(crate) fn protected<'a>(table: &'static str, key: &[u8], stored: &'a [u8]) -> Result<Cow<'a, [u8]>> {
    if table == MARK_TABLE {
        return Ok(stored.into());
    }
    if is_of_before(stored) {
        let mut row = stored.to_vec();
        protect(table, key, &mut row);
        return Ok(row.into());
    }
    verified(table, key, stored)?;
    Ok(stored.into())
}

fn checksum(table: &str, key: &[u8], row: &[u8]) -> u64 {
    xxh3_64_with_seed(row, xxh3_64_with_seed(key, xxh3_64(table.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CatalogError;

    fn row() -> Vec<u8> {
        let mut row = vec![1, 2, 3, 4, 5];
        protect("blocks", b"key", &mut row);
        row
    }

    /// The bytes stay as they are: catalogs on disk depend on them.
    #[test]
    fn the_checksum_is_stable() {
        assert_eq!(row(), [0x81, 2, 3, 4, 5, 148, 101, 205, 220, 5, 4, 185, 193]);
        assert_eq!(verified("blocks", b"key", &row()).unwrap(), [0x81, 2, 3, 4, 5]);
    }

    #[test]
    fn a_bit_of_table_key_or_row_is_seen() {
        let is_seen = |table, key: &[u8], row: &[u8]| {
            matches!(verified(table, key, row), Err(CatalogError::DamagedRow { .. }))
        };
        for bit in 0..row().len() * 8 {
            let mut row = row();
            row[bit / 8] ^= 1 << (bit % 8);
            assert!(is_seen("blocks", b"key", &row), "bit {bit}");
        }
        for bit in 0..3 * 8 {
            let mut key = b"key".to_vec();
            key[bit / 8] ^= 1 << (bit % 8);
            assert!(is_seen("blocks", &key, &row()), "bit {bit} of the key");
        }
        assert!(is_seen("held", b"key", &row()) && is_seen("blocks", b"key", &[]));
        (1..row().len()).for_each(|cut| assert!(is_seen("blocks", b"key", &row()[..cut]), "cut at {cut}"));
    }

    #[test]
    fn a_row_of_before_gets_one_and_others_must_have_it() {
        let added = protected("blocks", b"key", &[1, 2, 3, 4, 5]).unwrap();
        assert_eq!(*added, row()[..]);
        assert_eq!(*protected("blocks", b"key", &row()).unwrap(), row()[..]);
        let mut spoilt = row();
        spoilt[3] ^= 1;
        assert!(protected("blocks", b"key", &spoilt).is_err());
    }
}
