use std::io;
use std::path::{Path, PathBuf};

/// What a disk answers.
pub type Result<T> = std::result::Result<T, DiskError>;

/// Why a disk refused. Paths are relative to the disk's root where the disk was asked by path.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The disk (or a quota on it) is full. What was written before may be there in part.
    #[error("no space left on the disk for {path}")]
    NoSpace {
        /// The file being written.
        path: PathBuf,
    },
    /// There is no such file or folder.
    #[error("{path} does not exist")]
    NotFound {
        /// What was asked for.
        path: PathBuf,
    },
    /// The name is taken.
    #[error("{path} exists already")]
    AlreadyExists {
        /// The taken name.
        path: PathBuf,
    },
    /// Another process, or another part of this one, holds the lock.
    #[error("{path} is locked by another process")]
    AlreadyLocked {
        /// The lock file.
        path: PathBuf,
    },
    /// The test double's power is cut: nothing works any more until it is restarted.
    #[error("the power is cut")]
    PowerCut,
    /// Anything else that the operating system said.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl DiskError {
    /// Types an operating system's error on `path`.
    pub(crate) fn from_io(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DiskError::NoSpace { path },
            io::ErrorKind::NotFound => DiskError::NotFound { path },
            io::ErrorKind::AlreadyExists => DiskError::AlreadyExists { path },
            _ => DiskError::Io { path, source },
        }
    }

    /// Whether the medium could not return the bytes. Everything else says nothing about what is stored: too few
    /// descriptors, too little memory, missing permission.
    pub fn is_unreadable(&self) -> bool {
        /// As Linux numbers it; no `ErrorKind` names it.
        const EIO: i32 = 5;
        match self {
            DiskError::Io { source, .. } => {
                source.raw_os_error() == Some(EIO) || source.kind() == io::ErrorKind::UnexpectedEof
            }
            _ => false,
        }
    }

    /// Whether the disk takes no writes now: it is full, read-only, or forbids them. Reads may still succeed.
    pub fn refuses_writes(&self) -> bool {
        match self {
            DiskError::NoSpace { .. } => true,
            DiskError::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::ReadOnlyFilesystem
                    | io::ErrorKind::PermissionDenied
                    | io::ErrorKind::NotADirectory
            ),
            _ => false,
        }
    }

    /// The kind of `std::io` error that says the same.
    fn kind(&self) -> io::ErrorKind {
        match self {
            DiskError::NoSpace { .. } => io::ErrorKind::StorageFull,
            DiskError::NotFound { .. } => io::ErrorKind::NotFound,
            DiskError::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
            DiskError::AlreadyLocked { .. } => io::ErrorKind::ResourceBusy,
            DiskError::PowerCut => io::ErrorKind::BrokenPipe,
            DiskError::Io { source, .. } => source.kind(),
        }
    }
}

/// For libraries that write through a disk but speak `std::io` (the embedded catalog).
impl From<DiskError> for io::Error {
    fn from(error: DiskError) -> Self {
        io::Error::new(error.kind(), error)
    }
}
