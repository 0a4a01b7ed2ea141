//! Recently read blocks in memory (PPR §4.4, §6.3): the least recently used ones give way. The coordinator is told which
//! blocks are whole here, and m-PPR prefers them as sources.
//!
//! A block is kept by chunks, as reads bring them, under the generation that was read: another generation is another block.
//! What is read from here is checked against the sidecar like what is read from the disk.

use gf::CHUNK_BYTES;
use model::BlockId;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Blocks that are reported: those that were read last say most about what is read next, and a heartbeat stays small.
pub const MAX_REPORTED: usize = 1_024;

const CHUNK: u64 = CHUNK_BYTES as u64;

/// A cache that holds at most so many bytes; 0 holds nothing and costs nothing.
#[derive(Debug)]
pub struct BlockCache {
    most_bytes: u64,
    state: Mutex<State>,
}

/// A block and its generation.
type Key = (BlockId, u64);

#[derive(Debug, Default)]
struct State {
    bytes: u64,
    clock: u64,
    blocks: BTreeMap<Key, Cached>,
    /// By last use.
    order: BTreeMap<u64, Key>,
}

#[derive(Debug)]
struct Cached {
    used: u64,
    stored_bytes: u64,
    held_bytes: u64,
    chunks: BTreeMap<u64, Box<[u8]>>,
}

impl BlockCache {
    /// Empty.
    pub fn new(most_bytes: u64) -> BlockCache {
        BlockCache { most_bytes, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills `out` from `offset` of a block, if all of it is here.
    pub fn read(&self, block: BlockId, generation: u64, offset: u64, out: &mut [u8]) -> bool {
        if self.most_bytes == 0 {
            return false;
        }
        let mut state = self.lock();
        let Some(cached) = state.blocks.get(&(block, generation)) else { return false };
        let mut filled = 0;
        while filled < out.len() {
            let at = offset + filled as u64;
            let chunk = cached.chunks.get(&(at / CHUNK));
            let rest = chunk.and_then(|chunk| chunk.get((at % CHUNK) as usize..));
            let Some(rest) = rest.filter(|rest| !rest.is_empty()) else { return false };
            let count = rest.len().min(out.len() - filled);
            out[filled..filled + count].copy_from_slice(&rest[..count]);
            filled += count;
        }
        state.touch((block, generation));
        true
    }

    /// Keeps the whole chunks of what was read at `offset` of a block of `stored_bytes`; the least recently used blocks
    /// give way.
    pub fn keep(&self, block: BlockId, generation: u64, stored_bytes: u64, offset: u64, bytes: &[u8]) {
        // A block that does not fit would push out all others and never be whole.
        if self.most_bytes == 0 || stored_bytes > self.most_bytes {
            return;
        }
        let (key, end) = ((block, generation), offset + bytes.len() as u64);
        let mut state = self.lock();
        let mut index = offset.div_ceil(CHUNK);
        while index * CHUNK < stored_bytes {
            let (from, to) = (index * CHUNK, ((index + 1) * CHUNK).min(stored_bytes));
            if to > end {
                break;
            }
            state.insert(key, stored_bytes, index, &bytes[(from - offset) as usize..(to - offset) as usize]);
            index += 1;
        }
        state.touch(key);
        while state.bytes > self.most_bytes
            && let Some((_, oldest)) = state.order.pop_first()
        {
            state.drop_block(oldest);
        }
    }

    /// The copy is gone or damaged.
    pub fn forget(&self, block: BlockId, generation: u64) {
        if self.most_bytes > 0 {
            self.lock().drop_block((block, generation));
        }
    }

    /// Blocks that are whole here, the last read first, at most [`MAX_REPORTED`].
    pub fn whole(&self) -> Vec<BlockId> {
        let state = self.lock();
        let is_whole = |key: &&Key| state.blocks.get(key).is_some_and(|c| c.held_bytes == c.stored_bytes);
        state.order.values().rev().filter(is_whole).take(MAX_REPORTED).map(|(block, _)| *block).collect()
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }
}

impl State {
    fn touch(&mut self, key: Key) {
        if let Some(cached) = self.blocks.get_mut(&key) {
            self.clock += 1;
            self.order.remove(&cached.used);
            cached.used = self.clock;
            self.order.insert(self.clock, key);
        }
    }

    fn insert(&mut self, key: Key, stored_bytes: u64, index: u64, part: &[u8]) {
        let new = || Cached { used: 0, stored_bytes, held_bytes: 0, chunks: BTreeMap::new() };
        let cached = self.blocks.entry(key).or_insert_with(new);
        if let Entry::Vacant(free) = cached.chunks.entry(index) {
            free.insert(part.into());
            cached.held_bytes += part.len() as u64;
            self.bytes += part.len() as u64;
        }
    }

    fn drop_block(&mut self, key: Key) {
        if let Some(cached) = self.blocks.remove(&key) {
            self.bytes -= cached.held_bytes;
            self.order.remove(&cached.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(seed: u8, length: usize) -> Vec<u8> {
        (0..length).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
    }

    #[test]
    fn what_was_read_is_read_again_from_memory_and_the_oldest_gives_way() {
        let cache = BlockCache::new(5 * CHUNK);
        let block = |n: u128| BlockId(n);
        let stored = 2 * CHUNK_BYTES + 100;
        let contents: Vec<Vec<u8>> = (0..3).map(|n| bytes(n, stored)).collect();
        // Read in two pieces, the first of which ends within a chunk, which is not kept then.
        cache.keep(block(0), 7, stored as u64, 0, &contents[0][..CHUNK_BYTES + 5]);
        let mut out = vec![0; CHUNK_BYTES + 5];
        assert!(!cache.read(block(0), 7, 0, &mut out) && cache.whole().is_empty());
        cache.keep(block(0), 7, stored as u64, CHUNK, &contents[0][CHUNK_BYTES..]);
        assert_eq!((cache.whole(), cache.bytes()), (vec![block(0)], stored as u64));
        let mut out = vec![0; stored - 50];
        assert!(cache.read(block(0), 7, 50, &mut out) && out == contents[0][50..]);
        assert!(!cache.read(block(0), 8, 0, &mut out), "another generation");
        assert!(!cache.read(block(0), 7, 60, &mut vec![0; stored]), "beyond its end");

        cache.keep(block(1), 1, stored as u64, 0, &contents[1]);
        assert_eq!(cache.whole(), [block(1), block(0)]);
        assert!(cache.read(block(0), 7, 0, &mut out));
        cache.keep(block(2), 1, stored as u64, 0, &contents[2]);
        assert_eq!(cache.whole(), [block(2), block(0)], "the least recently used one went");
        assert!(cache.bytes() <= 5 * CHUNK);

        cache.forget(block(0), 8);
        assert_eq!(cache.whole(), [block(2), block(0)], "another generation");
        cache.forget(block(0), 7);
        assert_eq!((cache.whole(), cache.bytes()), (vec![block(2)], stored as u64));
    }

    #[test]
    fn what_cannot_fit_is_not_kept_and_nothing_is_kept_without_room() {
        for most in [0, 2 * CHUNK] {
            let cache = BlockCache::new(most);
            let long = bytes(1, 3 * CHUNK_BYTES);
            cache.keep(BlockId(1), 1, long.len() as u64, 0, &long);
            assert!(cache.bytes() == 0 && !cache.read(BlockId(1), 1, 0, &mut [0; 8]));
        }
    }
}
