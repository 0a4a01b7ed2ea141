//! Walks through a whole table, a bounded piece at a time: nobody waits for one, and no transaction is long.

use crate::Catalog;
use crate::backend::Scan;
use crate::error::Result;
use crate::table::{Key, Read, Row, typed};
use model::{BlockFacts, BlockId};

/// Rows that are looked through at a time.
const ROWS_AT_ONCE: usize = 8_192;

/// Keys of a table, and the key to go on from; `None`: these were the last.
pub(crate) type Piece<K> = (Vec<K>, Option<Vec<u8>>);

impl Catalog {
    /// Blocks that have fewer copies than they are to have, whoever lives, or than there are `nodes` to hold them; and where to
    /// go on, `None` at the end. Begins at `from`, or with the first. Those of which no copy is noted at all, in no stripe, are
    /// left out: nothing can be made of them.
    pub fn lacking(&self, from: Option<BlockId>, nodes: usize) -> Result<(Vec<BlockId>, Option<BlockId>)> {
        let from = from.map(|block| Key::to_bytes(&block)).unwrap_or_default();
        let lacks = |_: &BlockId, row: &BlockFacts| {
            let is_hopeless = row.stripe.is_none() && row.locations.is_empty() && row.flawed.is_empty();
            row.locations.len() < row.wanted().min(nodes) && !is_hopeless
        };
        let (blocks, next) = self.some_rows(&from, usize::MAX, lacks)?;
        Ok((blocks, next.and_then(|key| Key::from_bytes(&key))))
    }

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
