//! Damaged copies: they are noted as flawed, so that their blocks lack a copy, which the healer makes. Nothing is deleted for
//! it: that is the collector's business, when others stand in for the copy.

use crate::clock::Clock;
use crate::records::Records;
use catalog::Catalog;
use model::{BlockCopy, Flaw};
use std::sync::Arc;

/// What is done about damaged copies.
#[derive(Debug)]
pub(crate) struct Damaged {
    records: Records,
    clock: Arc<Clock>,
}

impl Damaged {
    /// Nothing is damaged as far as is known.
    pub fn new(records: Records, clock: Arc<Clock>) -> Damaged {
        Damaged { records, clock }
    }

    /// Nodes say that their copies are damaged: they are counted on no more. Returns those of which the catalog knows it now;
    /// what is not committed yet, or was never heard of, is to be told again.
    pub async fn found(&self, copies: Vec<BlockCopy>) -> Vec<BlockCopy> {
        if copies.is_empty() {
            return copies;
        }
        let now_ms = self.clock.now_ms();
        let note = move |catalog: &Catalog| {
            let (counted, mut known) = catalog.counted_and_known(&copies)?;
            // Of most that are told again nothing is known yet: then nothing is written.
            let noted = match counted.is_empty() {
                true => Vec::new(),
                false => catalog.note_flaws(&counted, Flaw::Damaged, now_ms)?,
            };
            known.extend(&noted);
            Ok((known, noted))
        };
        match self.records.run(note).await {
            Ok((known, noted)) => {
                for BlockCopy { block, node, generation } in &noted {
                    tracing::warn!(%block, %node, generation, "damage found: its node says so");
                }
                known
            }
            Err(error) => {
                tracing::warn!(%error, "damaged copies could not be noted; they are when their node tells of them again");
                Vec::new()
            }
        }
    }
}
