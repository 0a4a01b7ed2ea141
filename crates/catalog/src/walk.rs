//! Walks through a whole table, a bounded piece at a time: nobody waits for one, and no transaction is long.

use crate::Catalog;
use crate::backend::Scan;
use crate::error::Result;
use crate::table::{Read, Row, typed};

/// Rows that are looked through at a time.
const ROWS_AT_ONCE: usize = 8_192;

/// Keys of a table, and the key to go on from; `None`: these were the last.
pub(crate) type Piece<K> = (Vec<K>, Option<Vec<u8>>);

impl Catalog {
    /// The keys of rows that are wanted, `limit` at most, from a key on.
    pub(crate) fn some_rows<R: Row>(
        &self,
        from: &[u8],
        limit: usize,
        is_wanted: impl Fn(&R::Key, &R) -> bool,
    ) -> Result<Piece<R::Key>> {
        self.view(|txn| {
            let (mut seen, mut found, mut next) = (0, Vec::new(), None);
            txn.raw_scan(R::TABLE, from, &mut |bytes, value| {
                if seen == ROWS_AT_ONCE || found.len() == limit {
                    next = Some(bytes.to_vec());
                    return Ok(Scan::Stop);
                }
                seen += 1;
                let (key, row) = typed::<R>(bytes, value)?;
                if is_wanted(&key, &row) {
                    found.push(key);
                }
                Ok(Scan::Next)
            })?;
            Ok((found, next))
        })
    }
}
