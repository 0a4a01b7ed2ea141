//! A disk in memory that forgets what was not synced.

mod content;
mod faults;
mod media;

use crate::power::Verdict;
use crate::{Disk, DiskError, DiskFile, Entry, LockGuard, PowerSwitch, Result, SyncPoint, check_relative};
pub use faults::KeptPages;
use media::{Media, NodeId};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The power-cut test double of a disk. The [crate](crate)'s top says what it must keep; by default it keeps no more.
///
/// A handle belongs to one life of the disk: after [`PowerSwitch::restart`] it stays dead, so that threads left over
/// from before the cut cannot touch what survived; [`reopen`](Self::reopen) gives a handle of the new life.
#[derive(Clone, Debug)]
pub struct CrashDisk {
    media: Arc<Mutex<Media>>,
    power: Arc<PowerSwitch>,
    life: u64,
}

impl CrashDisk {
    /// An empty disk on that switch.
    pub fn new(power: &Arc<PowerSwitch>) -> Self {
        let life = power.life();
        let media = Media::new(power.register(), life);
        Self { media: Arc::new(Mutex::new(media)), power: Arc::clone(power), life }
    }

    /// A handle of the disk's present life. If the power was restarted since, only what survived is there.
    pub fn reopen(&self) -> Self {
        let life = self.power.life();
        self.media().revive(life, self.power.seed());
        Self { media: Arc::clone(&self.media), power: Arc::clone(&self.power), life }
    }

    /// Makes writes fail with [`DiskError::NoSpace`] from now on, once all files together would exceed `bytes`.
    pub fn set_capacity(&self, bytes: u64) {
        self.media().capacity = Some(bytes);
    }

    /// Changes a file's bytes behind everybody's back and for good, as a failing medium does.
    pub fn damage(&self, path: &Path, change: impl Fn(&mut Vec<u8>)) -> Result<()> {
        let mut media = self.media();
        let node = media.find_file(path)?;
        media.content(node).damage(change);
        Ok(())
    }

    /// From now on (or no longer) files cannot be opened and folders not listed, as in a process without descriptors.
    pub fn starve(&self, on: bool) {
        self.media().is_starved = on;
    }

    /// Sets whether changes and syncs fail, as on a file system that is mounted read-only.
    pub fn set_read_only(&self, on: bool) {
        self.media().is_read_only = on;
    }

    fn media(&self) -> MutexGuard<'_, Media> {
        self.media.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, call: impl FnOnce(&mut Media) -> Result<T>) -> Result<T> {
        let mut media = self.media();
        if !self.power.is_on(self.life) {
            return Err(DiskError::PowerCut);
        }
        call(&mut media)
    }

    /// Carries out a durable call. An interrupted one is applied, unsynced, before it fails: whether any of it
    /// survives is then a matter of the seed.
    fn change<T>(&self, call: impl FnOnce(&mut Media) -> Result<T>) -> Result<T> {
        let mut media = self.media();
        match self.power.spend(self.life) {
            Verdict::Go => media.is_writable().and_then(|()| call(&mut media)),
            Verdict::Interrupted => {
                let _ = call(&mut media);
                Err(DiskError::PowerCut)
            }
            Verdict::Dead => Err(DiskError::PowerCut),
        }
    }

    /// Carries out a sync, unless the switch ignores it. An interrupted one has no effect: what it would have made
    /// durable is unsynced, so that any part of it may survive.
    fn sync_with(&self, point: SyncPoint, call: impl FnOnce(&mut Media) -> Result<()>) -> Result<()> {
        let mut media = self.media();
        match self.power.spend(self.life) {
            Verdict::Go if self.power.heeds(point) => media.is_writable().and_then(|()| call(&mut media)),
            Verdict::Go => Ok(()),
            Verdict::Interrupted | Verdict::Dead => Err(DiskError::PowerCut),
        }
    }

    /// [`read`](Self::read) for what takes a descriptor.
    fn look<T>(&self, path: &Path, call: impl FnOnce(&mut Media) -> Result<T>) -> Result<T> {
        /// Too many open files, as Linux numbers it.
        const EMFILE: i32 = 24;
        self.read(|media| match media.is_starved {
            true => Err(DiskError::from_io(path, std::io::Error::from_raw_os_error(EMFILE))),
            false => call(media),
        })
    }

    fn file(&self, node: NodeId, path: &Path, may_write: bool) -> Box<dyn DiskFile> {
        Box::new(CrashFile { disk: self.clone(), node, path: path.into(), may_write })
    }
}

impl Disk for CrashDisk {
    fn create_new(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        Ok(self.file(self.change(|media| media.create_file(path))?, path, true))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        Ok(self.file(self.look(path, |media| media.find_file(path))?, path, false))
    }

    fn open_write(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        Ok(self.file(self.look(path, |media| media.find_file(path))?, path, true))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.change(|media| media.rename(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.change(|media| media.remove(path))
    }

    fn sync_folder(&self, path: &Path, point: SyncPoint) -> Result<()> {
        self.sync_with(point, |media| media.sync_folder(path))
    }

    fn create_folder(&self, path: &Path) -> Result<()> {
        self.change(|media| media.create_folder(path))
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        self.change(|media| media.remove_folder(path))
    }

    fn list(&self, folder: &Path) -> Result<Vec<Entry>> {
        self.look(folder, |media| media.list(folder))
    }

    fn len(&self, path: &Path) -> Result<u64> {
        self.read(|media| {
            let node = media.find_file(path)?;
            Ok(media.content(node).len())
        })
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        check_relative(path)?;
        self.read(|media| Ok(media.find(path).is_ok()))
    }

    fn lock(&self, path: &Path) -> Result<LockGuard> {
        check_relative(path)?;
        self.read(|media| media.lock(path))?;
        Ok(LockGuard::new(CrashLock { disk: self.clone(), path: path.into() }))
    }

    fn free_bytes(&self) -> Result<u64> {
        self.read(|media| Ok(media.free_bytes()))
    }
}

/// A held lock; the lock file itself is not simulated.
struct CrashLock {
    disk: CrashDisk,
    path: PathBuf,
}

impl Drop for CrashLock {
    fn drop(&mut self) {
        self.disk.media().unlock(&self.path, self.disk.life);
    }
}

/// An open file.
#[derive(Debug)]
struct CrashFile {
    disk: CrashDisk,
    node: NodeId,
    path: PathBuf,
    may_write: bool,
}

impl CrashFile {
    fn check_writable(&self) -> Result<()> {
        if self.may_write {
            return Ok(());
        }
        Err(DiskError::Io { path: self.path.clone(), source: std::io::ErrorKind::PermissionDenied.into() })
    }
}

impl DiskFile for CrashFile {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.disk.read(|media| Ok(media.content(self.node).read_at(offset, out)))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.disk.change(|media| {
            media.reserve(self.node, &self.path, offset.saturating_add(bytes.len() as u64))?;
            media.content(self.node).write_at(offset, bytes);
            Ok(())
        })
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.check_writable()?;
        self.disk.change(|media| media.set_len(self.node, &self.path, bytes))
    }

    fn len(&self) -> Result<u64> {
        self.disk.read(|media| Ok(media.content(self.node).len()))
    }

    fn sync(&self, point: SyncPoint) -> Result<()> {
        self.disk.sync_with(point, |media| {
            media.content(self.node).sync();
            Ok(())
        })
    }

    fn advise_willneed(&self, _range: Range<u64>) {}

    fn advise_dontneed(&self, _range: Range<u64>) {}
}
