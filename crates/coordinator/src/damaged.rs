//! Damaged copies: they are noted as flawed, so that their blocks lack a copy, which the healer makes. Nothing is deleted for
//! it: that is the collector's business, when others stand in for the copy.

use crate::records::Records;
use model::{BlockCopy, Flaw};

/// What is done about damaged copies.
#[derive(Debug)]
pub(crate) struct Damaged {
    records: Records,
}

impl Damaged {
    /// Nothing is damaged as far as is known.
    pub fn new(records: Records) -> Damaged {
        Damaged { records }
    }

    /// A node says that its copy is damaged: it is counted on no more.
    pub async fn found(&self, copy: BlockCopy) {
        let BlockCopy { block, node, generation } = copy;
        match self.records.run(move |catalog| catalog.note_flaws(&[copy], Flaw::Damaged)).await {
            // One that did not count.
            Ok(noted) if noted.is_empty() => {}
            Ok(_) => tracing::warn!(%block, %node, generation, "damage found: its node says so"),
            Err(error) => tracing::warn!(%block, %node, %error, "a damaged copy could not be noted"),
        }
    }
}
