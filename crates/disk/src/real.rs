//! The disk of the operating system.

use crate::{Disk, DiskError, DiskFile, Entry, LockGuard, Result, SyncPoint, check_relative};
use rustix::fs::{Advice, FlockOperation};
use std::fs::{self, File, OpenOptions};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A sync that takes longer is worth a line in the log: a healthy disk takes milliseconds, and every write waits on it.
const SLOW_SYNC: Duration = Duration::from_secs(2);

/// A folder of the operating system.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
}

impl RealDisk {
    /// The existing folder `root`. [`DiskError::NotFound`] if there is none.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        let kind = fs::metadata(&root).map_err(|e| DiskError::from_io(&root, e))?;
        if kind.is_dir() {
            return Ok(Self { root });
        }
        Err(DiskError::Io { path: root, source: std::io::ErrorKind::NotADirectory.into() })
    }

    /// The folder `root`, made if missing, with every missing folder above it; their names are durable on return.
    pub fn create(root: impl Into<PathBuf>) -> Result<Self> {
        let root = root.into();
        make_durable(&root).map_err(|e| DiskError::from_io(&root, e))?;
        Self::open(root)
    }

    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        check_relative(path)?;
        Ok(self.root.join(path))
    }

    fn open_with(&self, path: &Path, options: &OpenOptions) -> Result<Box<dyn DiskFile>> {
        let file = options.open(self.resolve(path)?).map_err(|e| DiskError::from_io(path, e))?;
        Ok(Box::new(RealFile { file, path: path.into() }))
    }
}

/// Makes `folder` and those above it, each name synced before the next is made.
fn make_durable(folder: &Path) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make_durable(above)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(above)?.sync_all()
}

/// Locks an open file. Fails at once if somebody else holds the lock.
fn locked(path: &Path, file: &File, how: FlockOperation) -> Result<()> {
    match rustix::fs::flock(file, how) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(DiskError::AlreadyLocked { path: path.into() }),
        Err(error) => Err(DiskError::from_io(path, error.into())),
    }
}

/// Runs a sync and complains in the log if it is slow.
fn timed(path: &Path, point: SyncPoint, sync: impl FnOnce() -> rustix::io::Result<()>) -> Result<()> {
    let start = Instant::now();
    sync().map_err(|e| DiskError::from_io(path, e.into()))?;
    let took = start.elapsed();
    if took > SLOW_SYNC {
        tracing::warn!(?point, path = %path.display(), took_ms = took.as_millis() as u64, "slow sync");
    }
    Ok(())
}

impl Disk for RealDisk {
    fn create_new(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        self.open_with(path, OpenOptions::new().read(true).write(true).create_new(true))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        self.open_with(path, OpenOptions::new().read(true))
    }

    fn open_write(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        self.open_with(path, OpenOptions::new().read(true).write(true))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(self.resolve(from)?, self.resolve(to)?).map_err(|e| DiskError::from_io(from, e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(self.resolve(path)?).map_err(|e| DiskError::from_io(path, e))
    }

    fn sync_folder(&self, path: &Path, point: SyncPoint) -> Result<()> {
        let folder = File::open(self.resolve(path)?).map_err(|e| DiskError::from_io(path, e))?;
        timed(path, point, || rustix::fs::fsync(&folder))
    }

    fn create_folder(&self, path: &Path) -> Result<()> {
        fs::create_dir(self.resolve(path)?).map_err(|e| DiskError::from_io(path, e))
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        fs::remove_dir(self.resolve(path)?).map_err(|e| DiskError::from_io(path, e))
    }

    fn list(&self, folder: &Path) -> Result<Vec<Entry>> {
        let typed = |e| DiskError::from_io(folder, e);
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.resolve(folder)?).map_err(typed)? {
            let entry = entry.map_err(typed)?;
            let is_folder = entry.file_type().map_err(typed)?.is_dir();
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(Entry { name, is_folder });
            }
        }
        Ok(entries)
    }

    fn len(&self, path: &Path) -> Result<u64> {
        Ok(fs::metadata(self.resolve(path)?).map_err(|e| DiskError::from_io(path, e))?.len())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        fs::exists(self.resolve(path)?).map_err(|e| DiskError::from_io(path, e))
    }

    fn lock(&self, path: &Path) -> Result<LockGuard> {
        let resolved = self.resolve(path)?;
        let made = OpenOptions::new().write(true).create(true).truncate(false).open(&resolved);
        let made = made.map_err(|e| DiskError::from_io(path, e));
        let root = File::open(&self.root).map_err(|e| DiskError::from_io(&self.root, e))?;
        let file = match made {
            Err(refused) if refused.refuses_writes() => File::open(&resolved).ok(),
            made => Some(made?),
        };
        // Without the file, the root is locked exclusively: the file might be created later and locked by another process.
        let Some(file) = file else {
            return locked(path, &root, FlockOperation::NonBlockingLockExclusive)
                .map(|()| LockGuard::new(root));
        };
        locked(path, &root, FlockOperation::NonBlockingLockShared)?;
        locked(path, &file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(LockGuard::new([file, root]))
    }

    fn free_bytes(&self) -> Result<u64> {
        let stat = rustix::fs::statvfs(&self.root).map_err(|e| DiskError::from_io(&self.root, e.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// An open file of the operating system.
#[derive(Debug)]
struct RealFile {
    file: File,
    path: PathBuf,
}

impl RealFile {
    fn advise(&self, range: Range<u64>, advice: Advice) {
        // A length of zero would mean "to the end of the file".
        let Some(bytes) = NonZeroU64::new(range.end.saturating_sub(range.start)) else { return };
        // A hint that fails changes nothing but speed.
        let _ = rustix::fs::fadvise(&self.file, range.start, Some(bytes), advice);
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < out.len() {
            match self.file.read_at(&mut out[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(got) => done += got,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(DiskError::from_io(&self.path, error)),
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|e| DiskError::from_io(&self.path, e))
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(|e| DiskError::from_io(&self.path, e))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|e| DiskError::from_io(&self.path, e))?.len())
    }

    fn sync(&self, point: SyncPoint) -> Result<()> {
        timed(&self.path, point, || rustix::fs::fdatasync(&self.file))
    }

    fn advise_willneed(&self, range: Range<u64>) {
        self.advise(range, Advice::WillNeed);
    }

    fn advise_dontneed(&self, range: Range<u64>) {
        self.advise(range, Advice::DontNeed);
    }
}
