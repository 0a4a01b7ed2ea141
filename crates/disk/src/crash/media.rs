//! The tree of a simulated disk: folders and files, each as it is and as it would be after a power cut.

use super::content::Content;
use crate::{DiskError, Entry, Result, check_relative};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// Index of a node in [`Media::nodes`].
pub(super) type NodeId = usize;

const ROOT: NodeId = 0;

/// Refused even without a capacity: a wrong offset shall fail the test, not fill the machine's memory.
const MAX_FILE_BYTES: u64 = 1 << 32;

type Names = BTreeMap<OsString, NodeId>;

#[derive(Debug)]
enum Node {
    Folder { live: Names, durable: Names },
    File { content: Content, is_linked: bool },
}

/// What a disk holds.
#[derive(Debug)]
pub(super) struct Media {
    nodes: Vec<Node>,
    locks: BTreeSet<PathBuf>,
    /// Lengths of all files that have a name, together.
    used: u64,
    pub(super) capacity: Option<u64>,
    /// No file can be opened and no folder listed.
    pub(super) is_starved: bool,
    /// Whether every change fails.
    pub(super) is_read_only: bool,
    number: u64,
    life: u64,
}

/// Seeded coin flips (SplitMix64, Steele, Lea and Flood, OOPSLA 2014).
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Chance(seed)
    }

    pub(super) fn flip(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// A number below `end`. The bias is far below what a test could see.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn folder() -> Node {
    Node::Folder { live: Names::new(), durable: Names::new() }
}

impl Media {
    pub(super) fn new(number: u64, life: u64) -> Self {
        Self {
            nodes: vec![folder()],
            locks: BTreeSet::new(),
            used: 0,
            capacity: None,
            is_starved: false,
            is_read_only: false,
            number,
            life,
        }
    }

    /// The node of that name. Paths that could leave the root are refused, as by a real disk.
    pub(super) fn find(&self, path: &Path) -> Result<NodeId> {
        check_relative(path)?;
        let mut at = ROOT;
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            at = match &self.nodes[at] {
                Node::Folder { live, .. } => live.get(name).copied(),
                Node::File { .. } => None,
            }
            .ok_or_else(|| DiskError::NotFound { path: path.into() })?;
        }
        Ok(at)
    }

    pub(super) fn find_file(&self, path: &Path) -> Result<NodeId> {
        let node = self.find(path)?;
        match self.nodes[node] {
            Node::File { .. } => Ok(node),
            Node::Folder { .. } => Err(io(path, ErrorKind::IsADirectory)),
        }
    }

    /// The content of a node that a handle or [`find_file`](Self::find_file) named.
    #[allow(clippy::panic)] // Nodes never change kind, and only nodes of files are handed out.
    pub(super) fn content(&mut self, node: NodeId) -> &mut Content {
        match &mut self.nodes[node] {
            Node::File { content, .. } => content,
            Node::Folder { .. } => panic!("node {node} is a folder"),
        }
    }

    fn names(&mut self, folder: &Path) -> Result<&mut Names> {
        let node = self.find(folder)?;
        match &mut self.nodes[node] {
            Node::Folder { live, .. } => Ok(live),
            Node::File { .. } => Err(io(folder, ErrorKind::NotADirectory)),
        }
    }

    fn add(&mut self, path: &Path, new: Node) -> Result<NodeId> {
        let id = self.nodes.len();
        let (folder, name) = split(path)?;
        let names = self.names(folder)?;
        if names.contains_key(&name) {
            return Err(DiskError::AlreadyExists { path: path.into() });
        }
        names.insert(name, id);
        self.nodes.push(new);
        Ok(id)
    }

    pub(super) fn create_file(&mut self, path: &Path) -> Result<NodeId> {
        self.add(path, Node::File { content: Content::default(), is_linked: true })
    }

    pub(super) fn create_folder(&mut self, path: &Path) -> Result<()> {
        self.add(path, folder()).map(|_| ())
    }

    /// Notes that a file lost its name: its bytes no longer count.
    fn unlink(&mut self, node: NodeId) {
        if let Node::File { content, is_linked } = &mut self.nodes[node]
            && std::mem::replace(is_linked, false)
        {
            self.used -= content.len();
        }
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<()> {
        let moved = self.find_file(from)?;
        let (old_folder, old_name) = split(from)?;
        let (new_folder, new_name) = split(to)?;
        let replaced = self.names(new_folder)?.insert(new_name, moved);
        if replaced == Some(moved) {
            return Ok(());
        }
        self.names(old_folder)?.remove(&old_name);
        if let Some(node) = replaced {
            self.unlink(node);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> Result<()> {
        let node = self.find_file(path)?;
        let (folder, name) = split(path)?;
        self.names(folder)?.remove(&name);
        self.unlink(node);
        Ok(())
    }

    pub(super) fn remove_folder(&mut self, path: &Path) -> Result<()> {
        let node = self.find(path)?;
        match &self.nodes[node] {
            Node::Folder { live, .. } if live.is_empty() => {}
            Node::Folder { .. } => return Err(io(path, ErrorKind::DirectoryNotEmpty)),
            Node::File { .. } => return Err(io(path, ErrorKind::NotADirectory)),
        }
        let (folder, name) = split(path)?;
        self.names(folder)?.remove(&name);
        Ok(())
    }

    /// Returns an error if the disk is read-only.
    pub(super) fn is_writable(&self) -> Result<()> {
        match self.is_read_only {
            true => Err(io(Path::new(""), ErrorKind::ReadOnlyFilesystem)),
            false => Ok(()),
        }
    }

    pub(super) fn sync_folder(&mut self, path: &Path) -> Result<()> {
        let node = self.find(path)?;
        match &mut self.nodes[node] {
            Node::Folder { live, durable } => durable.clone_from(live),
            Node::File { .. } => return Err(io(path, ErrorKind::NotADirectory)),
        }
        Ok(())
    }

    pub(super) fn list(&mut self, path: &Path) -> Result<Vec<Entry>> {
        let names = self.names(path)?.clone();
        Ok(names
            .into_iter()
            .filter_map(|(name, node)| {
                let is_folder = matches!(self.nodes[node], Node::Folder { .. });
                Some(Entry { name: name.into_string().ok()?, is_folder })
            })
            .collect())
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used))
    }

    /// Makes room for a file to reach `end` bytes.
    pub(super) fn reserve(&mut self, node: NodeId, path: &Path, end: u64) -> Result<()> {
        let free = self.free_bytes();
        let Node::File { content, is_linked } = &self.nodes[node] else {
            return Err(io(path, ErrorKind::IsADirectory));
        };
        let growth = end.saturating_sub(content.len());
        if end > MAX_FILE_BYTES || growth > free {
            return Err(DiskError::NoSpace { path: path.into() });
        }
        if *is_linked {
            self.used += growth;
        }
        Ok(())
    }

    pub(super) fn set_len(&mut self, node: NodeId, path: &Path, bytes: u64) -> Result<()> {
        self.reserve(node, path, bytes)?;
        if let Node::File { content, is_linked } = &mut self.nodes[node] {
            if *is_linked {
                self.used -= content.len().saturating_sub(bytes);
            }
            content.set_len(bytes);
        }
        Ok(())
    }

    pub(super) fn lock(&mut self, path: &Path) -> Result<()> {
        if self.locks.insert(path.into()) {
            return Ok(());
        }
        Err(DiskError::AlreadyLocked { path: path.into() })
    }

    pub(super) fn unlock(&mut self, path: &Path, life: u64) {
        if life == self.life {
            self.locks.remove(path);
        }
    }

    /// If the power was restarted since the last call, loses what was not synced; with a seed, only some of it.
    pub(super) fn revive(&mut self, life: u64, seed: Option<u64>) {
        if life == self.life {
            return;
        }
        let mut chance = seed.map(|seed| Chance(seed ^ (self.number << 48) ^ (life << 32)));
        self.life = life;
        self.locks.clear();
        self.used = 0;
        let mut kept = BTreeSet::new();
        let mut todo = vec![ROOT];
        while let Some(node) = todo.pop() {
            if !kept.insert(node) {
                continue;
            }
            match &mut self.nodes[node] {
                Node::Folder { live, durable } => {
                    surviving_names(live, durable, chance.as_mut());
                    todo.extend(live.values());
                }
                Node::File { content, is_linked } => {
                    content.revert(chance.as_mut());
                    *is_linked = true;
                    self.used += content.len();
                }
            }
        }
        for (id, node) in self.nodes.iter_mut().enumerate() {
            if let Node::File { content, .. } = node
                && !kept.contains(&id)
            {
                *content = Content::default();
            }
        }
    }
}

/// Sets both views to what survives: the durable names, each unsynced change at random. A file that was only renamed keeps
/// one of its names.
fn surviving_names(live: &mut Names, durable: &mut Names, chance: Option<&mut Chance>) {
    if let Some(chance) = chance {
        let before: BTreeSet<NodeId> = durable.values().copied().collect();
        let names: BTreeSet<OsString> = live.keys().chain(durable.keys()).cloned().collect();
        for name in names {
            if live.get(&name) != durable.get(&name) && chance.flip() {
                match live.get(&name) {
                    Some(&node) => durable.insert(name, node),
                    None => durable.remove(&name),
                };
            }
        }
        let after: BTreeSet<NodeId> = durable.values().copied().collect();
        for (name, node) in live.iter() {
            if before.contains(node) && !after.contains(node) {
                durable.insert(name.clone(), *node);
            }
        }
    }
    live.clone_from(durable);
}

fn split(path: &Path) -> Result<(&Path, OsString)> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok((folder, name.into())),
        _ => Err(io(path, ErrorKind::InvalidInput)),
    }
}

fn io(path: &Path, kind: ErrorKind) -> DiskError {
    DiskError::Io { path: path.into(), source: kind.into() }
}
