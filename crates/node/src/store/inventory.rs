//! What is stored.

use super::names::pairs;
use super::{Folder, Result, Store};
use model::StoredCopy;

/// How much is stored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Blocks.
    pub blocks: u64,
    /// Their bytes, sidecars not counted.
    pub stored_bytes: u64,
    /// Data without a sidecar and sidecars without data, when the store was opened.
    pub half_blocks: u64,
}

impl Store {
    /// Number and length of the blocks, as counted when the store was opened and kept since; no disk access.
    pub fn usage(&self) -> Usage {
        *self.folder.names.usage()
    }

    /// All blocks in the order of their ids, a folder at a time, without a lock: what is written or deleted meanwhile
    /// may or may not be listed. A block whose sidecar or length is wrong comes as [`StoreError::Corrupt`]; other
    /// errors mean that a part of the list is missing.
    ///
    /// [`StoreError::Corrupt`]: super::StoreError::Corrupt
    pub fn list(&self) -> impl Iterator<Item = Result<StoredCopy>> + Send + use<> {
        let store = self.clone();
        (0..=u8::MAX).flat_map(move |first_byte| list_folder(&store.folder, first_byte))
    }
}

fn list_folder(folder: &Folder, first_byte: u8) -> Vec<Result<StoredCopy>> {
    let pairs = match pairs(folder.disk.as_ref(), first_byte) {
        Ok(pairs) => pairs,
        Err(error) => return vec![Err(error)],
    };
    pairs
        .into_iter()
        .filter(|(_, pair)| pair.data && pair.sidecar)
        .map(|(block, _)| {
            let (sidecar, _) = folder.names.open(folder.disk.as_ref(), block)?;
            let (generation, stored_bytes) = (sidecar.meta.generation, sidecar.meta.stored_bytes);
            Ok(StoredCopy { block, generation, stored_bytes })
        })
        // Deleted since the folder was listed.
        .filter(|listed| !matches!(listed, Err(super::StoreError::NotFound { .. })))
        .collect()
}
