//! The block's fingerprint identifies the sound chunks of a damaged copy.

use super::*;
use gf::Fingerprint;

const BLOCK: BlockId = BlockId(0xaa << 120 | 1);
const BYTES: usize = 5 * CHUNK_BYTES + 1234;
const CHUNKS: u64 = 6;

/// Returns a store with the block, and the block's fingerprint.
fn bench() -> (CrashDisk, Store, Fingerprint) {
    let bench = Bench::new();
    let store = bench.store();
    let staged = put(&store, BLOCK, 1, &content(1, BYTES)).unwrap();
    (bench.disk, store, staged.meta.fingerprint)
}

/// Returns the chunks of a salvaged copy that differ from their fingerprints.
fn unsound(salvaged: &Salvaged) -> Vec<u64> {
    let chunk = |chunk: u64| {
        let start = chunk * CHUNK_BYTES as u64;
        let mut bytes = vec![0; CHUNK_BYTES.min((salvaged.stored_bytes() - start) as usize)];
        let mut fingerprint = [Fingerprint::ZERO];
        salvaged.fingerprints(chunk, &mut fingerprint).unwrap();
        let read = salvaged.read_at(start, &mut bytes);
        let is_sound = read.is_ok() && gf::kernels().fingerprint(&bytes) == fingerprint[0];
        let all = content(1, BYTES);
        let right = &all[start as usize..(start as usize + bytes.len())];
        assert!(!is_sound || bytes == right, "no wrong byte passes");
        is_sound
    };
    (0..CHUNKS).filter(|&index| !chunk(index)).collect()
}

fn salvage(store: &Store, expected: &Fingerprint) -> Result<Vec<u64>> {
    store.salvage(BLOCK, 1, BYTES as u64, expected).map(|salvaged| unsound(&salvaged))
}

fn flip(disk: &CrashDisk, path: &Path, at: u64) {
    disk.flip_bit(path, at, 3).unwrap();
}

#[test]
fn any_damage_of_a_sidecar_leaves_the_data_readable() {
    let entries = CHUNKS * ENTRY_BYTES as u64;
    let length = |disk: &CrashDisk| disk.len(&sidecar_path(BLOCK)).unwrap();
    let (disk, ..) = bench();
    let head = length(&disk) - entries;
    // Damages the magic, the versions, the meta's length, the meta, its checksum, then one entry, then all entries.
    let damages: Vec<Vec<u64>> = (0..head)
        .map(|at| vec![at])
        .chain([vec![head + 5], vec![9, head + 5], (0..head + entries).step_by(50).collect()])
        .collect();
    for damage in damages {
        let (disk, store, fingerprint) = bench();
        damage.iter().for_each(|&at| flip(&disk, &sidecar_path(BLOCK), at));
        assert_eq!(salvage(&store, &fingerprint).unwrap(), [], "{damage:?}");
    }
    let (disk, store, fingerprint) = bench();
    disk.damage(&sidecar_path(BLOCK), |bytes| bytes.truncate(bytes.len() / 2)).unwrap();
    assert_eq!(salvage(&store, &fingerprint).unwrap(), []);
    disk.remove(&sidecar_path(BLOCK)).unwrap();
    assert_eq!(salvage(&store, &fingerprint).unwrap(), []);
}

#[test]
fn damaged_chunks_are_told_from_sound_ones_without_the_head() {
    let (disk, store, fingerprint) = bench();
    flip(&disk, &sidecar_path(BLOCK), 9);
    flip(&disk, &data_path(BLOCK), 2 * CHUNK_BYTES as u64 + 17);
    assert!(matches!(store.reader(BLOCK, 1), Err(StoreError::UnknownVersion { .. })));
    assert_eq!(salvage(&store, &fingerprint).unwrap(), [2]);
    // Truncated chunks are missing; the others stay sound.
    disk.damage(&data_path(BLOCK), |bytes| bytes.truncate(4 * CHUNK_BYTES + 1)).unwrap();
    assert_eq!(salvage(&store, &fingerprint).unwrap(), [2, 4, 5]);
}

#[test]
fn without_the_right_fingerprint_nothing_is_called_sound() {
    let (disk, store, fingerprint) = bench();
    let corrupt = |salvaged| matches!(salvaged, Err(StoreError::Corrupt { .. }));
    assert!(corrupt(salvage(&store, &Fingerprint::ZERO)));
    // With both its entry and its bytes damaged, the chunk is unknown.
    let entry = disk.len(&sidecar_path(BLOCK)).unwrap() - 2 * ENTRY_BYTES as u64 + 9;
    flip(&disk, &sidecar_path(BLOCK), entry);
    assert_eq!(salvage(&store, &fingerprint).unwrap(), []);
    flip(&disk, &data_path(BLOCK), 4 * CHUNK_BYTES as u64);
    assert!(corrupt(salvage(&store, &fingerprint)));
    disk.remove(&data_path(BLOCK)).unwrap();
    assert!(matches!(salvage(&store, &fingerprint), Err(StoreError::NotFound { .. })));
}
