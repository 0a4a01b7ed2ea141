//! Damaged copies: they are noted as flawed, and their blocks are repaired one after another. Nothing is deleted for it:
//! that is the collector's business, when others stand in for the copy.

use crate::records::Records;
use model::{BlockCopy, BlockId, Flaw};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Damaged blocks that wait for their repair; what does not fit is found again by the next walk (`lacks.rs`).
const MAX_DAMAGED: usize = 1024;

/// What is done about damaged copies.
#[derive(Debug)]
pub(crate) struct Damaged {
    records: Records,
    /// Blocks that lack a copy and wait for their repair.
    waiting: Mutex<VecDeque<BlockId>>,
}

impl Damaged {
    /// Nothing is damaged as far as is known.
    pub fn new(records: Records) -> Damaged {
        Damaged { records, waiting: Mutex::default() }
    }

    /// Whether there was room for it.
    fn add(&self, block: BlockId) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = waiting.len() < MAX_DAMAGED;
        if has_room && !waiting.contains(&block) {
            waiting.push_back(block);
        }
        has_room
    }

    /// The next block to repair.
    pub fn next(&self) -> Option<BlockId> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// A node says that its copy is damaged: it is counted on no more, and its block is repaired.
    pub async fn found(&self, copy: BlockCopy) {
        let BlockCopy { block, node, generation } = copy;
        match self.records.run(move |catalog| catalog.note_flaws(&[copy], Flaw::Damaged)).await {
            // One that did not count.
            Ok(noted) if noted.is_empty() => {}
            Ok(_) => {
                tracing::warn!(%block, %node, generation, "damage found: its node says so");
                self.repair(block);
            }
            Err(error) => tracing::warn!(%block, %node, %error, "a damaged copy could not be noted"),
        }
    }

    /// The block lacks a copy. Whether there was room to remember that.
    pub fn offer(&self, block: BlockId) -> bool {
        self.add(block)
    }

    /// The block lacks a copy.
    pub fn repair(&self, block: BlockId) {
        if !self.add(block) {
            tracing::warn!(%block, "too many damaged blocks wait for repair; this one is found again");
        }
    }
}
