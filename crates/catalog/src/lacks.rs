//! What lacks copies, whoever lives: a pure function of a block's row ([`BlockFacts::lacks`]), and an index that is written with
//! it. So nothing that lacks a copy is forgotten by a queue that was full, or by a restart (HEALING.md, "The healer").

use crate::Catalog;
use crate::backend::Scan;
use crate::error::Result;
use crate::rows::LackRow;
use crate::table::{Key, Read};
use model::BlockId;

/// Blocks that are looked up at a time.
const LACKS_AT_ONCE: usize = 1_024;

/// A block that has fewer copies than it is to have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lack {
    /// The block.
    pub block: BlockId,
    /// Copies that it lacks.
    pub copies: u32,
}

impl Catalog {
    /// Some of what lacks copies, by id, from a block on or from the first; and where to go on, `None` at the end.
    pub fn lacks(&self, from: Option<BlockId>) -> Result<(Vec<Lack>, Option<BlockId>)> {
        let from = from.map(|block| Key::to_bytes(&block)).unwrap_or_default();
        self.view(|txn| {
            let (mut lacks, mut next) = (Vec::new(), None);
            txn.scan_from::<LackRow>(&from, |block, row| {
                if lacks.len() == LACKS_AT_ONCE {
                    next = Some(block);
                    return Ok(Scan::Stop);
                }
                lacks.push(Lack { block, copies: row.copies });
                Ok(Scan::Next)
            })?;
            Ok((lacks, next))
        })
    }
}
