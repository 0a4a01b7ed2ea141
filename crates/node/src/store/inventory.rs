//! What is stored, by its names: an inventory opens no block.

use super::names::{CopyId, Found};
use super::{Result, Store};

/// How much is stored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Copies of blocks.
    pub blocks: u64,
    /// Their bytes, sidecars not counted.
    pub stored_bytes: u64,
    /// Data without a sidecar and sidecars without data, when the store was opened and as far as is known since.
    pub half_blocks: u64,
}

/// What one of the store's folders holds.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Listing {
    /// Copies of which both files are there, in the order of their ids. Whether they are sound is not known: an inventory
    /// opens nothing.
    pub copies: Vec<CopyId>,
    /// Names that say nothing for sure.
    pub unjudged: Vec<Unjudged>,
}

/// A name that cannot be judged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unjudged {
    /// Only the data of this copy are there, its sidecar is not.
    Data(CopyId),
    /// Only the sidecar of this copy is there.
    Sidecar(CopyId),
    /// No copy has such a name.
    Strange(String),
}

impl Unjudged {
    /// Of which copy it is a half.
    pub fn copy(self) -> Option<CopyId> {
        match self {
            Unjudged::Data(copy) | Unjudged::Sidecar(copy) => Some(copy),
            Unjudged::Strange(_) => None,
        }
    }
}

impl Store {
    /// Number and length of the copies, as counted when the store was opened and kept since; no disk access. What came or went
    /// by other hands than this process's is counted when its folder is listed.
    pub fn usage(&self) -> Usage {
        self.folder.names.totals().usage()
    }

    /// Returns a folder whose files turned out to be longer or shorter than they were written, so that listing it counts them again.
    pub fn miscounted_folder(&self) -> Option<u8> {
        self.folder.names.totals().doubtful()
    }

    /// Everything, a folder at a time, without a lock: what is written or deleted meanwhile may or may not be listed. Each
    /// step holds one folder's names and one descriptor. An error means that a folder is missing from the list.
    pub fn list(&self) -> impl Iterator<Item = Result<Listing>> + Send + use<> {
        let store = self.clone();
        (0..=u8::MAX).map(move |first_byte| store.list_folder(first_byte))
    }

    /// The blocks whose ids begin with that byte.
    pub fn list_folder(&self, first_byte: u8) -> Result<Listing> {
        let Found { pairs, strange } = self.folder.names.list(self.folder.disk.as_ref(), first_byte)?;
        let mut listing = Listing::default();
        for (copy, pair) in pairs {
            match (pair.data, pair.sidecar) {
                (true, true) => listing.copies.push(copy),
                (true, false) => listing.unjudged.push(Unjudged::Data(copy)),
                _ => listing.unjudged.push(Unjudged::Sidecar(copy)),
            }
        }
        listing.unjudged.extend(strange.into_iter().map(Unjudged::Strange));
        Ok(listing)
    }
}
