//! A DataNode's data folders: whose they are, and where in them a block lies.

use disk::{Disk, DiskError, DiskFile, RealDisk};
use model::hdfs::{Datanode, PoolMark};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `current/VERSION` has a few hundred bytes.
const MAX_VERSION_BYTES: u64 = 64 * 1024;

/// Folders that blocks are spread over, at each of two levels, since layout -57 (Hadoop 2.8).
const SUBFOLDERS: i64 = 32;

/// Why folders are not those of a DataNode whose blocks can be lent.
#[derive(Debug, thiserror::Error)]
pub enum FoldersError {
    /// None were named.
    #[error("name the DataNode's data folders (dfs.datanode.data.dir) with --data-dir")]
    None,
    /// A folder of no DataNode.
    #[error("{folder} is no folder of a DataNode: {why}")]
    NotOfADatanode {
        /// The folder.
        folder: PathBuf,
        /// What is missing.
        why: String,
    },
    /// Folders of two DataNodes.
    #[error("{folder} belongs to another DataNode than the folders before it; start one helper for each")]
    OfAnother {
        /// The folder.
        folder: PathBuf,
    },
}

/// The folders of one DataNode, only ever read.
#[derive(Debug)]
pub struct Folders {
    datanode: Datanode,
    disks: Vec<Arc<dyn Disk>>,
}

impl Folders {
    /// The folders at these paths.
    ///
    /// # Errors
    /// [`FoldersError`].
    pub fn at(paths: &[PathBuf]) -> Result<Folders, FoldersError> {
        let mut disks: Vec<(PathBuf, Arc<dyn Disk>)> = Vec::new();
        for path in paths {
            let none = |error: DiskError| not_of_a_datanode(path, error);
            disks.push((path.clone(), Arc::new(RealDisk::open(path).map_err(none)?)));
        }
        Folders::on(disks)
    }

    /// The same on these disks, each with the name that people know.
    ///
    /// # Errors
    /// [`FoldersError`].
    pub fn on(disks: Vec<(PathBuf, Arc<dyn Disk>)>) -> Result<Folders, FoldersError> {
        let mut of: Option<Datanode> = None;
        for (folder, disk) in &disks {
            let found = datanode(disk.as_ref()).map_err(|why| not_of_a_datanode(folder, why))?;
            if of.is_some_and(|known| known != found) {
                return Err(FoldersError::OfAnother { folder: folder.clone() });
            }
            of = Some(found);
        }
        let disks = disks.into_iter().map(|(_, disk)| disk).collect();
        Ok(Folders { datanode: of.ok_or(FoldersError::None)?, disks })
    }

    /// Whose they are.
    pub fn datanode(&self) -> Datanode {
        self.datanode
    }

    /// The data and the `.meta` of a finalized block; `None` if no folder has both. A folder that cannot be read hides what is
    /// in it, which is told if no other has the block.
    ///
    /// # Errors
    /// The disk's.
    pub fn open(&self, pool: PoolMark, block: i64, stamp: u64) -> Result<Option<Files>, DiskError> {
        self.first(|disk| open_on(disk, pool, block, stamp))
    }

    /// The name of a block pool; `None` if no folder has one with that mark.
    ///
    /// # Errors
    /// The disk's.
    pub fn pool(&self, pool: PoolMark) -> Result<Option<String>, DiskError> {
        self.first(|disk| pool_on(disk, pool))
    }

    /// What the first disk has that has it.
    fn first<T>(
        &self,
        of: impl Fn(&dyn Disk) -> Result<Option<T>, DiskError>,
    ) -> Result<Option<T>, DiskError> {
        let mut failure = None;
        for disk in &self.disks {
            match of(disk.as_ref()) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(None), Err)
    }
}

/// The data of a block, and its `.meta`.
pub type Files = (Box<dyn DiskFile>, Box<dyn DiskFile>);

fn open_on(disk: &dyn Disk, pool: PoolMark, block: i64, stamp: u64) -> Result<Option<Files>, DiskError> {
    let Some(pool) = pool_on(disk, pool)? else { return Ok(None) };
    let folder = Path::new("current").join(pool).join("current/finalized").join(subfolder(block));
    let open = |name: String| match disk.open(&folder.join(name)) {
        Ok(file) => Ok(Some(file)),
        Err(DiskError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let Some(meta) = open(format!("blk_{block}_{stamp}.meta"))? else { return Ok(None) };
    Ok(open(format!("blk_{block}"))?.map(|data| (data, meta)))
}

fn pool_on(disk: &dyn Disk, pool: PoolMark) -> Result<Option<String>, DiskError> {
    let here = |entry: &disk::Entry| entry.is_folder && PoolMark::of(&entry.name) == pool;
    Ok(disk.list(Path::new("current"))?.into_iter().find(here).map(|entry| entry.name))
}

/// Where blocks of that id lie, below `finalized`.
pub fn subfolder(block: i64) -> PathBuf {
    let level = |shift: u32| format!("subdir{}", (block >> shift) & (SUBFOLDERS - 1));
    Path::new(&level(16)).join(level(8))
}

/// Whose folder it is.
fn datanode(disk: &dyn Disk) -> Result<Datanode, String> {
    let file = disk.open(Path::new("current/VERSION")).map_err(|error| error.to_string())?;
    let bytes = file.len().map_err(|error| error.to_string())?;
    if bytes > MAX_VERSION_BYTES {
        return Err(format!("current/VERSION has {bytes} bytes"));
    }
    let mut text = vec![0; bytes as usize];
    file.read_exact_at(0, &mut text).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
    };
    match value("storageType").as_deref() {
        Some("DATA_NODE") => {}
        other => return Err(format!("current/VERSION is of {}", other.unwrap_or("no storage type"))),
    }
    let uuid = value("datanodeUuid").ok_or("current/VERSION names no datanodeUuid")?;
    Datanode::parse(&uuid).ok_or_else(|| format!("its DataNode is called {uuid:?}, which is no UUID"))
}

fn not_of_a_datanode(folder: &Path, why: impl ToString) -> FoldersError {
    FoldersError::NotOfADatanode { folder: folder.to_path_buf(), why: why.to_string() }
}
