//! What the world sees of the store.

mod damage;
mod format;
mod heard;
mod incarnations;
mod migration;
mod names;
mod power_cut;
mod records;
mod records_failing;
mod records_power_cut;
mod refusing;
mod room;
mod salvage;
mod write_read;

use super::*;
use disk::{CrashDisk, Disk, PowerSwitch};
use gf::CHUNK_BYTES;
use model::{ClusterId, Stamp};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NODE: NodeId = NodeId(7);

/// An empty store on a simulated disk.
struct Bench {
    power: Arc<PowerSwitch>,
    disk: CrashDisk,
}

impl Bench {
    fn new() -> Self {
        let power = PowerSwitch::new();
        let disk = CrashDisk::new(&power);
        Store::format(&as_dyn(&disk), NODE).unwrap();
        Self { power, disk }
    }

    fn store(&self) -> Store {
        open(&self.disk).unwrap()
    }
}

/// Opens a store of which nothing is reserved.
fn open(disk: &CrashDisk) -> Result<Store> {
    Store::open(as_dyn(disk), NODE, 0)
}

fn as_dyn(disk: &CrashDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

/// Bytes without a pattern that a chunk could repeat.
fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    let mut out = vec![0; bytes];
    hasher.finalize_xof().fill(&mut out);
    out
}

/// A whole block of one symbol that belongs to nothing.
fn plain(stored_bytes: usize) -> NewBlock {
    let stored_bytes = stored_bytes as u64;
    let birth = Stamp::default();
    NewBlock { birth, stored_bytes, alpha: 1, symbol_bytes: stored_bytes, part: None, note: Vec::new() }
}

fn put(store: &Store, block: BlockId, generation: u64, bytes: &[u8]) -> Result<Staged> {
    let mut writer = store.writer(block, generation, bytes.len() as u64)?;
    for (index, piece) in bytes.chunks(CHUNK_BYTES).enumerate() {
        writer.write((index * CHUNK_BYTES) as u64, piece, None)?;
    }
    writer.finish(plain(bytes.len()), None)
}

/// All bytes of a block, checked.
fn get(store: &Store, block: BlockId, generation: u64) -> Result<Vec<u8>> {
    let reader = store.reader(block, generation)?;
    let mut bytes = vec![0; reader.stored_bytes() as usize];
    reader.read_verified(0, &mut bytes)?;
    Ok(bytes)
}

/// Of its first generation.
fn data_path(block: BlockId) -> PathBuf {
    data_path_of(block, 1)
}

fn sidecar_path(block: BlockId) -> PathBuf {
    sidecar_path_of(block, 1)
}

fn data_path_of(block: BlockId, generation: u64) -> PathBuf {
    Path::new("blocks").join(&block.to_string()[..2]).join(format!("{block}.{generation}"))
}

fn sidecar_path_of(block: BlockId, generation: u64) -> PathBuf {
    data_path_of(block, generation).with_added_extension("meta")
}

/// All copies, by their names.
fn copies(store: &Store) -> Vec<(BlockId, u64)> {
    let copies = store.list().flat_map(|listing| listing.unwrap().copies);
    copies.map(|copy| (copy.block, copy.generation)).collect()
}

/// What a listing cannot judge.
fn unjudged(store: &Store) -> Vec<Unjudged> {
    store.list().flat_map(|listing| listing.unwrap().unjudged).collect()
}

fn file(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}
