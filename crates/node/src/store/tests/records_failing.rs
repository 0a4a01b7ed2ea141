//! A sync of what is held fails, and the disk goes on: no more is said to be held than a power cut leaves.

use super::records::{Chain, append, bench, hold_snapshot, read, snapshot_of};
use super::*;
use disk::{DiskFile, Entry};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Seeds for what survives unsynced.
const SEEDS: u64 = 20;

/// A disk that, once it is told to, fails the next sync of one kind, and until it is told otherwise all changes of length.
#[derive(Clone, Debug)]
struct Failing {
    disk: CrashDisk,
    point: SyncPoint,
    is_next: Arc<AtomicBool>,
    keeps_tails: Arc<AtomicBool>,
}

impl Failing {
    fn fail(&self) {
        self.is_next.store(true, Ordering::Relaxed);
        self.keeps_tails.store(true, Ordering::Relaxed);
    }

    fn check(&self, point: SyncPoint) -> disk::Result<()> {
        if point == self.point && self.is_next.swap(false, Ordering::Relaxed) {
            let source = std::io::Error::other("planted");
            return Err(DiskError::Io { path: PathBuf::new(), source });
        }
        Ok(())
    }

    fn file(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(FailingFile { file, disk: self.clone() })
    }
}

impl Disk for Failing {
    fn create_new(&self, path: &Path) -> disk::Result<Box<dyn DiskFile>> {
        Ok(self.file(self.disk.create_new(path)?))
    }
    fn open(&self, path: &Path) -> disk::Result<Box<dyn DiskFile>> {
        Ok(self.file(self.disk.open(path)?))
    }
    fn open_write(&self, path: &Path) -> disk::Result<Box<dyn DiskFile>> {
        Ok(self.file(self.disk.open_write(path)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> disk::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> disk::Result<()> {
        self.disk.remove(path)
    }
    fn sync_folder(&self, path: &Path, point: SyncPoint) -> disk::Result<()> {
        // That of the store's own folder is no part of these tests.
        if path != Path::new("") {
            self.check(point)?;
        }
        self.disk.sync_folder(path, point)
    }
    fn create_folder(&self, path: &Path) -> disk::Result<()> {
        self.disk.create_folder(path)
    }
    fn remove_folder(&self, path: &Path) -> disk::Result<()> {
        self.disk.remove_folder(path)
    }
    fn list(&self, folder: &Path) -> disk::Result<Vec<Entry>> {
        self.disk.list(folder)
    }
    fn len(&self, path: &Path) -> disk::Result<u64> {
        self.disk.len(path)
    }
    fn exists(&self, path: &Path) -> disk::Result<bool> {
        self.disk.exists(path)
    }
    fn lock(&self, path: &Path) -> disk::Result<LockGuard> {
        self.disk.lock(path)
    }
    fn free_bytes(&self) -> disk::Result<u64> {
        self.disk.free_bytes()
    }
}

#[derive(Debug)]
struct FailingFile {
    file: Box<dyn DiskFile>,
    disk: Failing,
}

impl DiskFile for FailingFile {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> disk::Result<usize> {
        self.file.read_at(offset, out)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> disk::Result<()> {
        self.file.write_at(offset, bytes)
    }
    fn set_len(&self, bytes: u64) -> disk::Result<()> {
        if self.disk.keeps_tails.load(Ordering::Relaxed) {
            return Err(DiskError::Io { path: PathBuf::new(), source: std::io::Error::other("planted") });
        }
        self.file.set_len(bytes)
    }
    fn len(&self) -> disk::Result<u64> {
        self.file.len()
    }
    fn sync(&self, point: SyncPoint) -> disk::Result<()> {
        self.disk.check(point)?;
        self.file.sync(point)
    }
    fn advise_willneed(&self, range: Range<u64>) {
        self.file.advise_willneed(range);
    }
    fn advise_dontneed(&self, range: Range<u64>) {
        self.file.advise_dontneed(range);
    }
}

/// A store that holds the chain from its first change to its third, on a disk whose syncs of that kind may fail.
fn failing(point: SyncPoint, chain: &Chain) -> (Arc<PowerSwitch>, Failing, Store) {
    let (Bench { power, disk }, store) = bench();
    hold_snapshot(&store, chain.at(1), &snapshot_of(1)).unwrap();
    append(&store, chain.at(1), chain.records(1, 3)).unwrap().unwrap();
    drop(store);
    let failing = Failing { disk, point, is_next: Arc::default(), keeps_tails: Arc::default() };
    let store = Store::open(Arc::new(failing.clone()), NODE, 0).unwrap();
    (power, failing, store)
}

fn last(store: &Store) -> Option<model::Position> {
    read(store).unwrap().map(|(held, ..)| held.last)
}

#[test]
fn what_a_failed_sync_leaves_in_memory_is_not_said_to_be_held() {
    let chain = Chain::new(6, &[3_000]);
    let (_, failing, store) = failing(SyncPoint::HeldRecords, &chain);
    failing.fail();
    append(&store, chain.at(3), chain.records(3, 5)).unwrap_err();
    assert_eq!(store.held(), None, "not known before it is read again");
    assert_eq!(last(&store), Some(chain.at(3)), "the tail is there, and may be gone after a power cut");
    append(&store, chain.at(3), chain.records(3, 5)).unwrap_err();
    failing.keeps_tails.store(false, Ordering::Relaxed);
    assert_eq!(last(&store), Some(chain.at(3)));
    append(&store, chain.at(3), chain.records(3, 6)).unwrap().unwrap();
    assert_eq!(last(&store), Some(chain.at(6)));
}

/// Its name may be there after a power cut, and count: nothing is taken for the older one meanwhile.
#[test]
fn a_snapshot_whose_name_could_not_be_synced_is_read_again_before_more_is_taken() {
    let chain = Chain::new(6, &[300]);
    for seed in 0..SEEDS {
        let (power, failing, store) = failing(SyncPoint::HeldFolder, &chain);
        failing.fail();
        failing.keeps_tails.store(false, Ordering::Relaxed);
        hold_snapshot(&store, chain.at(3), &snapshot_of(3)).unwrap_err();
        assert_eq!(store.held(), None, "not known before it is read again");
        append(&store, chain.at(3), chain.records(3, 5)).unwrap().unwrap();
        power.survive_at_random(seed);
        power.restart();
        let store = open(&failing.disk.reopen()).unwrap();
        assert_eq!(last(&store), Some(chain.at(5)), "seed {seed}");
    }
}
