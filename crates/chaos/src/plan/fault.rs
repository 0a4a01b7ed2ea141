//! What can happen to a cluster.

use serde::{Deserialize, Serialize};

/// Which files of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// Data and sidecar.
    Pairs,
    /// Data alone.
    Data,
    /// Sidecars alone.
    Sidecars,
}

/// What becomes of the catalog's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CatalogDamage {
    /// Bits of pages that are not all zero are flipped.
    Bits {
        /// How many.
        count: usize,
    },
    /// Bits near the id of a block or the name of an object are flipped: mostly those of a row.
    RowBits {
        /// How many.
        count: usize,
    },
    /// The same near one of them, wherever it stands in the file: the row that counts is among these places.
    RowEverywhere,
    /// Pages become what they were at a clean stop before, as if the disk had lost writes.
    Pages {
        /// How many.
        count: usize,
        /// Between the two stops at least.
        by_ms: u64,
    },
}

/// What becomes of a file of records or a snapshot of the catalog that a node keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordsDamage {
    /// A bit of one file is flipped.
    Bit,
    /// One file loses its end.
    Tail,
    /// All files become what they were so long before.
    Back {
        /// How long.
        by_ms: u64,
    },
}

/// Why a running node cannot read some of its copies for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unreadable {
    /// The disk cannot list folders of blocks, or open files in them (EIO).
    Folders,
    /// The folders belong to another user (EACCES).
    FoldersRefused,
    /// Files cannot be opened (EIO).
    Copies,
    /// The files belong to another user (EACCES).
    CopiesRefused,
    /// Their sidecars have an unknown version.
    Versions,
}

impl Unreadable {
    /// Returns the text by which violations, and the switches for them, name the reason.
    pub fn marker(self) -> &'static str {
        match self {
            Unreadable::Folders => "folders unread: EIO",
            Unreadable::FoldersRefused => "folders unread: EACCES",
            Unreadable::Copies => "copies unread: EIO",
            Unreadable::CopiesRefused => "copies unread: EACCES",
            Unreadable::Versions => "copies unread: unknown versions",
        }
    }
}

/// Copies that nodes cannot read for a while.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unread {
    /// The nodes.
    pub nodes: Vec<u32>,
    /// The reason.
    pub why: Unreadable,
    /// Permille of folders or copies that are affected.
    pub permille: u32,
}

/// Way of taking nodes away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Taking {
    /// SIGSTOP.
    Stop,
    /// kill −9.
    Kill,
    /// The nodes run, but their blocks are gone.
    Hide,
}

/// What happens to the cluster. Node 0 is the coordinator. `draw` picks files, among those that are there when it happens.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "kebab-case")]
#[allow(missing_docs)] // `node`, `for_ms` and `draw` mean the same everywhere
pub enum Fault {
    /// kill −9, and started again later.
    Kill { node: u32, for_ms: u64 },
    /// Two nodes at once.
    KillTwo { nodes: [u32; 2], for_ms: u64 },
    /// SIGTERM, and started again at once.
    Restart { node: u32 },
    /// SIGSTOP, and SIGCONT later.
    Stop { node: u32, for_ms: u64 },
    /// Every connection of it is reset.
    CutConnections { node: u32 },
    /// Nothing passes to or from it.
    Partition { node: u32, for_ms: u64 },
    /// Nothing passes between these two.
    CutPair { nodes: [u32; 2], for_ms: u64 },
    /// Files of blocks lie elsewhere for one start of the node.
    Hide { node: u32, files: Files, permille: u32, for_ms: u64, draw: u64 },
    /// Bytes of files of blocks change, for good.
    Flip { node: u32, files: Files, count: usize, draw: u64 },
    /// Files of blocks are cut, for good.
    Truncate { node: u32, files: Files, count: usize, draw: u64 },
    /// Sidecars are of a version from the future for one start.
    FutureVersion { node: u32, count: usize, for_ms: u64, draw: u64 },
    /// The folder of all blocks is elsewhere while the node runs, as after a failed mount or a lost permission.
    FolderAway { node: u32, for_ms: u64 },
    /// The process may open so many more files than it has open. With `restart_coordinator` the coordinator restarts meanwhile.
    FewDescriptors { node: u32, free: u64, for_ms: u64, restart_coordinator: bool },
    /// The disk is full but for so many bytes.
    FullDisk { node: u32, left_bytes: u64, for_ms: u64 },
    /// A copy of the node's folder runs beside it, with its number.
    Clone { node: u32, for_ms: u64 },
    /// The node's folder becomes what it was so long before.
    SetBackNode { node: u32, by_ms: u64 },
    /// The coordinator's folder becomes what it was so long before.
    SetBackCoordinator { by_ms: u64 },
    /// Every folder becomes what it was so long before.
    SetBackCluster { by_ms: u64 },
    /// Two nodes run with each other's folders for a while.
    Swap { nodes: [u32; 2], for_ms: u64 },
    /// Another coordinator runs over a copy of the catalog, with some of the nodes, for a while.
    SecondCoordinator { nodes: Vec<u32>, by_ms: u64, for_ms: u64 },
    /// The catalog is gone, and is recovered from the nodes.
    LoseCatalog,
    /// The wall's clock of a daemon is wrong by so much, and then right again. The monotonic one goes on.
    ClockJump { node: u32, by_ms: i64, for_ms: u64 },
    /// The disk cannot return files of some blocks (EIO).
    ReadErrors { node: u32, files: Files, permille: u32, for_ms: u64, draw: u64 },
    /// The disk takes nothing for some files (EIO).
    WriteErrors { node: u32, permille: u32, for_ms: u64, draw: u64 },
    /// Nothing of blocks may be opened (EACCES).
    NoPermission { node: u32, for_ms: u64 },
    /// The coordinator ends, its catalog's file is damaged for good, and it starts again. It is killed only while nothing is under
    /// way. With `is_watched` nothing else happens for some seconds: every object is read, and no copy may go.
    HurtCatalog { damage: CatalogDamage, is_killed: bool, is_watched: bool, draw: u64 },
    /// What the first `count` of these nodes that keep records of the catalog have of it is damaged for good, while they are down.
    HurtRecords { nodes: Vec<u32>, count: usize, damage: RecordsDamage, for_ms: u64, draw: u64 },
    /// A bit of the identity is flipped for one start, which must be refused.
    HurtIdentity { node: u32, for_ms: u64, draw: u64 },
    /// A running node cannot read some of its copies.
    Unread { unread: Unread, for_ms: u64, draw: u64 },
    /// Nothing else happens. Copies may become unreadable. Then as many nodes are taken away as `health` allows: everything that it called
    /// readable must be read, and nothing else.
    Trial { unread: Option<Unread>, taking: Taking, draw: u64 },
    /// All data of blocks are gone, whatever that costs. No seed draws it: it is how the harness is tried out.
    Vandalize,
}

impl Fault {
    /// Names of all faults that seeds draw.
    pub const KINDS: &[&str] = &[
        "kill coordinator",
        "kill node",
        "kill two nodes",
        "restart coordinator",
        "restart node",
        "stop coordinator",
        "stop node",
        "cut connections",
        "partition",
        "cut pair",
        "hide pairs",
        "hide data",
        "hide sidecars",
        "flip sidecar",
        "flip data",
        "truncate sidecar",
        "truncate data",
        "future version",
        "folder away",
        "few descriptors, coordinator",
        "few descriptors over a restart",
        "few descriptors",
        "full disk",
        "clone node",
        "set back node",
        "set back coordinator",
        "set back cluster",
        "swap folders",
        "second coordinator",
        "lose catalog",
        "clock jump, coordinator",
        "clock jump",
        "read errors",
        "write errors",
        "no permission",
        "flip catalog",
        "flip catalog row",
        "flip catalog rows",
        "set back catalog page",
        "set back catalog pages",
        "flip records",
        "truncate records",
        "set back records",
        "flip identity",
        "unreadable folders (EIO)",
        "unreadable folders (EACCES)",
        "unreadable copies (EIO)",
        "unreadable copies (EACCES)",
        "unknown versions",
        "trial of health, unread copies",
        "trial of health",
    ];

    /// Its name in tables and switches.
    pub fn kind(&self) -> &'static str {
        match self {
            Fault::Kill { node: 0, .. } => "kill coordinator",
            Fault::Kill { .. } => "kill node",
            Fault::KillTwo { .. } => "kill two nodes",
            Fault::Restart { node: 0 } => "restart coordinator",
            Fault::Restart { .. } => "restart node",
            Fault::Stop { node: 0, .. } => "stop coordinator",
            Fault::Stop { .. } => "stop node",
            Fault::CutConnections { .. } => "cut connections",
            Fault::Partition { .. } => "partition",
            Fault::CutPair { .. } => "cut pair",
            Fault::Hide { files: Files::Pairs, .. } => "hide pairs",
            Fault::Hide { files: Files::Data, .. } => "hide data",
            Fault::Hide { files: Files::Sidecars, .. } => "hide sidecars",
            Fault::Flip { files: Files::Sidecars, .. } => "flip sidecar",
            Fault::Flip { .. } => "flip data",
            Fault::Truncate { files: Files::Sidecars, .. } => "truncate sidecar",
            Fault::Truncate { .. } => "truncate data",
            Fault::FutureVersion { .. } => "future version",
            Fault::FolderAway { .. } => "folder away",
            Fault::FewDescriptors { node: 0, .. } => "few descriptors, coordinator",
            Fault::FewDescriptors { restart_coordinator: true, .. } => "few descriptors over a restart",
            Fault::FewDescriptors { .. } => "few descriptors",
            Fault::FullDisk { .. } => "full disk",
            Fault::Clone { .. } => "clone node",
            Fault::SetBackNode { .. } => "set back node",
            Fault::SetBackCoordinator { .. } => "set back coordinator",
            Fault::SetBackCluster { .. } => "set back cluster",
            Fault::Swap { .. } => "swap folders",
            Fault::SecondCoordinator { .. } => "second coordinator",
            Fault::LoseCatalog => "lose catalog",
            Fault::ClockJump { node: 0, .. } => "clock jump, coordinator",
            Fault::ClockJump { .. } => "clock jump",
            Fault::ReadErrors { .. } => "read errors",
            Fault::WriteErrors { .. } => "write errors",
            Fault::NoPermission { .. } => "no permission",
            Fault::HurtCatalog { damage: CatalogDamage::Bits { .. }, .. } => "flip catalog",
            Fault::HurtCatalog { damage: CatalogDamage::RowBits { .. }, .. } => "flip catalog row",
            Fault::HurtCatalog { damage: CatalogDamage::RowEverywhere, .. } => "flip catalog rows",
            Fault::HurtCatalog { damage: CatalogDamage::Pages { count: 1, .. }, .. } => {
                "set back catalog page"
            }
            Fault::HurtCatalog { damage: CatalogDamage::Pages { .. }, .. } => "set back catalog pages",
            Fault::HurtRecords { damage: RecordsDamage::Bit, .. } => "flip records",
            Fault::HurtRecords { damage: RecordsDamage::Tail, .. } => "truncate records",
            Fault::HurtRecords { damage: RecordsDamage::Back { .. }, .. } => "set back records",
            Fault::HurtIdentity { .. } => "flip identity",
            Fault::Unread { unread: Unread { why, .. }, .. } => match why {
                Unreadable::Folders => "unreadable folders (EIO)",
                Unreadable::FoldersRefused => "unreadable folders (EACCES)",
                Unreadable::Copies => "unreadable copies (EIO)",
                Unreadable::CopiesRefused => "unreadable copies (EACCES)",
                Unreadable::Versions => "unknown versions",
            },
            Fault::Trial { unread: Some(_), .. } => "trial of health, unread copies",
            Fault::Trial { .. } => "trial of health",
            Fault::Vandalize => "vandalize",
        }
    }

    /// Whether the library does it that daemons are started with.
    pub fn is_by_shim(&self) -> bool {
        match self {
            Fault::ClockJump { .. }
            | Fault::ReadErrors { .. }
            | Fault::WriteErrors { .. }
            | Fault::NoPermission { .. } => true,
            Fault::Unread { unread, .. } | Fault::Trial { unread: Some(unread), .. } => {
                unread.why != Unreadable::Versions
            }
            _ => false,
        }
    }

    /// Whether the fault lasts whatever happens to the process, so that the process may have another fault at the same time.
    pub fn is_beside_processes(&self) -> bool {
        self.is_by_shim() && !matches!(self, Fault::Trial { .. })
    }

    /// Whether it is drawn beside the rest, as damage to what is not a block's is.
    pub fn is_beside_blocks(&self) -> bool {
        matches!(self, Fault::HurtCatalog { .. } | Fault::HurtRecords { .. } | Fault::HurtIdentity { .. })
    }

    /// Whether it takes away, or sets back, what the catalog could be made of again: one of these at a time, so that the
    /// catalog's file and what two nodes keep of it never go together. All that need every daemon and silence are among them.
    pub fn hurts_history(&self) -> bool {
        matches!(
            self,
            Fault::HurtCatalog { .. }
                | Fault::HurtRecords { .. }
                | Fault::Clone { .. }
                | Fault::SetBackNode { .. }
                | Fault::SetBackCoordinator { .. }
                | Fault::SetBackCluster { .. }
                | Fault::Swap { .. }
                | Fault::SecondCoordinator { .. }
                | Fault::LoseCatalog
                | Fault::Vandalize
        )
    }

    /// The daemons that it has for itself, 0 being the coordinator. `None`: all of them, and no client works.
    pub fn has(&self) -> Option<Vec<u32>> {
        match self {
            Fault::SetBackCluster { .. }
            | Fault::HurtCatalog { .. }
            | Fault::LoseCatalog
            | Fault::Trial { .. }
            | Fault::Vandalize => None,
            // Which of them keep records is seen when it happens.
            Fault::HurtRecords { nodes, .. } => Some(nodes.clone()),
            Fault::KillTwo { nodes, .. } | Fault::CutPair { nodes, .. } | Fault::Swap { nodes, .. } => {
                Some(nodes.to_vec())
            }
            Fault::SetBackCoordinator { .. } => Some(vec![0]),
            // Changed files must not be copied, moved or set back meanwhile.
            Fault::Unread { unread, .. } if unread.why == Unreadable::Versions => Some(unread.nodes.clone()),
            // They last whatever becomes of the process.
            Fault::ClockJump { .. }
            | Fault::ReadErrors { .. }
            | Fault::WriteErrors { .. }
            | Fault::Unread { .. }
            | Fault::NoPermission { .. } => Some(Vec::new()),
            Fault::SecondCoordinator { nodes, .. } => Some([&[0], &nodes[..]].concat()),
            Fault::FewDescriptors { node, restart_coordinator: true, .. } => Some(vec![0, *node]),
            Fault::Kill { node, .. }
            | Fault::Restart { node }
            | Fault::Stop { node, .. }
            | Fault::CutConnections { node }
            | Fault::Partition { node, .. }
            | Fault::Hide { node, .. }
            | Fault::Flip { node, .. }
            | Fault::Truncate { node, .. }
            | Fault::FutureVersion { node, .. }
            | Fault::FolderAway { node, .. }
            | Fault::FewDescriptors { node, .. }
            | Fault::FullDisk { node, .. }
            | Fault::Clone { node, .. }
            | Fault::SetBackNode { node, .. }
            | Fault::HurtIdentity { node, .. } => Some(vec![*node]),
        }
    }
}
