//! What a node stores, by names, in digests: node and coordinator calculate them alike, so that only the names in folders that
//! differ need to travel.

use model::BlockId;

/// Folders of blocks in a store, one for each first byte of an id.
pub const FOLDERS: usize = 256;

/// BLAKE3 of the names in a folder.
pub type FolderDigest = [u8; 32];

/// The folder of a block.
pub fn folder_of(block: BlockId) -> u8 {
    block.to_bytes()[0]
}

/// Goes before halves: a half is not the copy.
const HALVES: &[u8] = b"halves";

/// Of copies, (block, generation), and of those of which only one of both files is there, each in the order of their ids.
pub fn folder_digest(
    names: impl IntoIterator<Item = (BlockId, u64)>,
    halves: impl IntoIterator<Item = (BlockId, u64)>,
) -> FolderDigest {
    let mut hasher = blake3::Hasher::new();
    let mut add = |(block, generation): (BlockId, u64), before: &[u8]| {
        hasher.update(before).update(&block.to_bytes()).update(&generation.to_be_bytes());
    };
    names.into_iter().for_each(|name| add(name, &[]));
    halves.into_iter().for_each(|name| add(name, HALVES));
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_every_generation_counts() {
        let digests = [
            folder_digest([], []),
            folder_digest([(BlockId(1), 1)], []),
            folder_digest([(BlockId(1), 2)], []),
            folder_digest([(BlockId(2), 1)], []),
            folder_digest([(BlockId(1), 1), (BlockId(1), 2)], []),
            folder_digest([], [(BlockId(1), 1)]),
            folder_digest([(BlockId(1), 1)], [(BlockId(1), 2)]),
        ];
        for (at, digest) in digests.iter().enumerate() {
            assert!(!digests[..at].contains(digest), "{at}");
        }
        assert_eq!(folder_of(BlockId(0xab << 120)), 0xab);
    }
}
