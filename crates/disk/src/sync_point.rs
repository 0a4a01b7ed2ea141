/// Every place where the product waits for a disk, by what is made durable there. Tests switch each one off in turn
/// and must then see something lost; a sync that nobody would miss has no reason to exist.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SyncPoint {
    /// Contents of a block's sidecar, before it gets its final name.
    BlockSidecar,
    /// Contents of a block, before it gets its final name.
    BlockData,
    /// Final names of a block and its sidecar.
    BlockFolder,
    /// Removal of a block.
    BlockDeleted,
    /// New names of the blocks of a store of an older version, before its identity says that they have them.
    Migrated,
    /// The folders of a new store.
    FormatFolders,
    /// Contents of a store's identity file.
    Format,
    /// Final name of the identity file.
    FormatFolder,
    /// A commit of the embedded catalog.
    Catalog,
    /// Name of a new catalog file.
    CatalogFolder,
    /// A snapshot of the catalog at a node that keeps its records, before it gets its final name.
    HeldSnapshot,
    /// Records that a node keeps.
    HeldRecords,
    /// Names of snapshots and files of records.
    HeldFolder,
}

impl SyncPoint {
    /// All of them, so that a test can go through them.
    pub const ALL: [SyncPoint; 13] = [
        SyncPoint::BlockSidecar,
        SyncPoint::BlockData,
        SyncPoint::BlockFolder,
        SyncPoint::BlockDeleted,
        SyncPoint::Migrated,
        SyncPoint::FormatFolders,
        SyncPoint::Format,
        SyncPoint::FormatFolder,
        SyncPoint::Catalog,
        SyncPoint::CatalogFolder,
        SyncPoint::HeldSnapshot,
        SyncPoint::HeldRecords,
        SyncPoint::HeldFolder,
    ];
}
