//! How long it takes to say what a large store holds.

use super::*;
use std::fs;
use std::time::Instant;

const COPIES: u64 = 1_000_000;

/// Descriptors and memory of this process, as Linux counts them.
fn resources() -> (usize, u64) {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().count();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    (descriptors, resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024)
}

/// Run it alone and optimized: `cargo test --release -p node a_million -- --ignored --nocapture`. The files are empty, for
/// nothing looks into them; they need two million inodes below the folder of temporary files.
#[test]
#[ignore = "makes two million files"]
fn a_million_copies_are_listed_by_their_names_in_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let disk: Arc<dyn Disk> = Arc::new(disk::RealDisk::create(&root).unwrap());
    Store::format(&disk, NODE).unwrap();
    for number in 0..COPIES {
        let block = BlockId(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        fs::write(root.join(data_path(block)), b"").unwrap();
        fs::write(root.join(sidecar_path(block)), b"").unwrap();
    }
    for round in ["first", "warm"] {
        let began = Instant::now();
        let store = Store::open(Arc::clone(&disk), NODE, 0).unwrap();
        let opened = began.elapsed();
        assert_eq!(store.usage().blocks, COPIES);
        let (began, before) = (Instant::now(), resources());
        let (mut copies, mut most) = (0, before);
        for listing in store.list() {
            copies += listing.unwrap().copies.len() as u64;
            let now = resources();
            most = (most.0.max(now.0), most.1.max(now.1));
        }
        let listed = began.elapsed();
        println!(
            "{round}: opened in {opened:?}, listed in {listed:?}; descriptors {} -> {}, MiB {} -> {}",
            before.0, most.0, before.1, most.1
        );
        assert_eq!(copies, COPIES);
        assert!(most.0 <= before.0 + 1 && most.1 <= before.1 + 64, "{before:?} -> {most:?}");
        assert!(round == "first" || listed.as_secs() < 10);
    }
}

#[test]
fn a_copy_is_absent_only_by_its_folders_list() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk::RealDisk::open(folder.path()).unwrap());
    Store::format(&disk, NODE).unwrap();
    let (store, block) = (Store::open(disk, NODE, 0).unwrap(), BlockId(7));
    put(&store, block, 1, &content(1, 100)).unwrap();
    assert!(!store.is_absent(block, 1).unwrap() && store.is_absent(block, 2).unwrap());
    fs::rename(folder.path().join("blocks"), folder.path().join("away")).unwrap();
    assert!(store.is_absent(block, 2).is_err(), "a folder that is away says nothing");
}
