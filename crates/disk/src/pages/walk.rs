//! The walk itself.

use super::header::{Header, Root, Slot};
use super::node::{Branch, Leaf, Node};
use super::place::{Place, Seen};
use super::table::Definition;
use super::tree::{Bounds, Holds, Reference, Tree};
use super::{PageDamage, PageReport, PageVisitor};
use crate::{DiskFile, Result};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::rc::Rc;
use xxhash_rust::xxh3::xxh3_128;

/// A branch has two children at least, so 2^32 pages of 4 KiB, all that 32 levels can hold, are 16 TiB.
const MAX_DEPTH: u8 = 32;

/// References that wait to be followed: some hundred for each level of a real tree. The bound is for made-up files.
const MAX_WAITING: usize = 1 << 20;

/// References below damaged pages that wait for the end of the walk: those of some hundred branch pages. With more
/// damage than that, the file is to be replaced anyway.
const MAX_DOUBTFUL: usize = 1 << 16;

/// Walks of the system trees, each of which ended because a commit replaced them meanwhile. They are a few pages, read
/// faster than a commit is synced.
const SYSTEM_TRIES: u32 = 32;

/// Why a part of the walk ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The visitor said so.
    Stopped,
    /// A commit replaced the system trees.
    Replaced,
}

/// A walk over one file.
pub(super) struct Walk<'a> {
    file: &'a dyn DiskFile,
    visitor: &'a mut dyn PageVisitor,
    header: Header,
    seen: Seen,
    /// Read last page, or more: grows to the largest page.
    buffer: Vec<u8>,
    /// A stack: children lie in reverse order, so that rows come in the order of keys.
    waiting: Vec<Reference>,
    doubtful: Vec<Reference>,
    /// Damaged pages of system trees, so that another try does not tell them again.
    told: BTreeSet<u64>,
    report: PageReport,
}

impl<'a> Walk<'a> {
    pub(super) fn new(file: &'a dyn DiskFile, visitor: &'a mut dyn PageVisitor) -> Self {
        Self {
            file,
            visitor,
            header: Header::default(),
            seen: Seen::default(),
            buffer: Vec::new(),
            waiting: Vec::new(),
            doubtful: Vec::new(),
            told: BTreeSet::new(),
            report: PageReport::default(),
        }
    }

    pub(super) fn run(mut self) -> Result<PageReport> {
        self.header = Header::read(self.file)?;
        self.report.is_complete = true;
        for why in self.header.faults.clone() {
            self.tell(Place::HEADER, "header", why);
        }
        if self.phases()?.is_break() {
            self.report.is_complete = false;
        }
        Ok(self.report)
    }

    /// System trees first: they change with each commit, and the commit that is settled on then is walked.
    fn phases(&mut self) -> Result<ControlFlow<End>> {
        let Some(slot) = self.system_trees()? else { return Ok(ControlFlow::Break(End::Stopped)) };
        self.report.transaction = slot.transaction;
        self.push_root(false, slot.user);
        if self.follow()?.is_break() {
            return Ok(ControlFlow::Break(End::Stopped));
        }
        // Last, so that a wrong reference cannot claim a page before the right one does.
        while let Some(reference) = self.doubtful.pop() {
            self.waiting.push(reference);
            if let ControlFlow::Break(End::Stopped) = self.follow()? {
                return Ok(ControlFlow::Break(End::Stopped));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Walks the system trees of the newest commit, and returns the commit. `None` if there is none, or if the
    /// visitor ended the walk.
    fn system_trees(&mut self) -> Result<Option<Slot>> {
        let before = self.report;
        for _ in 0..SYSTEM_TRIES {
            let Some(slot) = self.header.newest() else { return Ok(None) };
            self.report = before;
            self.seen = Seen::none(self.header.file_bytes);
            self.push_root(true, slot.system);
            match self.follow()? {
                ControlFlow::Continue(()) => return Ok(Some(slot)),
                ControlFlow::Break(End::Stopped) => return Ok(None),
                ControlFlow::Break(End::Replaced) => self.header = Header::read(self.file)?,
            }
            self.doubtful.clear();
        }
        self.report = PageReport { is_complete: false, ..before };
        self.seen = Seen::none(self.header.file_bytes);
        Ok(self.header.newest())
    }

    fn push_root(&mut self, is_system: bool, root: Option<Root>) {
        let from = Place::HEADER.offset;
        self.waiting.extend(root.map(|to| Reference {
            tree: Tree::tables(is_system),
            to,
            depth: 0,
            is_trusted: true,
            from,
            bounds: Bounds::default(),
        }));
    }

    /// Follows all references that wait.
    fn follow(&mut self) -> Result<ControlFlow<End>> {
        while let Some(reference) = self.waiting.pop() {
            let step = match self.visitor.goes_on() {
                true => self.page(&reference)?,
                false => ControlFlow::Break(End::Stopped),
            };
            if step.is_break() {
                self.waiting.clear();
                return Ok(step);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reads and checks one page, hands on its rows and notes its references.
    fn page(&mut self, reference: &Reference) -> Result<ControlFlow<End>> {
        let Some(place) = Place::decode(reference.to.page, self.header.file_bytes) else {
            let from = Place { offset: reference.from, ..Place::HEADER };
            return self.damaged(reference, from, "it refers to a page outside of the file");
        };
        if reference.depth > MAX_DEPTH {
            return self.damaged(reference, place, "the tree is deeper than any");
        }
        if !self.seen.mark(place) {
            return self.damaged(reference, place, "two references lead to the page");
        }
        // Taken, so that the node may borrow the page while the walk notes what it finds.
        let mut buffer = std::mem::take(&mut self.buffer);
        let step = match self.read(place, &mut buffer)? {
            Some(page) => self.node(reference, place, page),
            None => self.damaged(reference, place, "the page cannot be read"),
        };
        self.buffer = buffer;
        step
    }

    /// The bytes of a page; `None` if the medium does not return them.
    fn read<'b>(&mut self, place: Place, buffer: &'b mut Vec<u8>) -> Result<Option<&'b [u8]>> {
        let bytes = place.bytes as usize;
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        self.report.pages += 1;
        self.report.bytes += place.bytes;
        let page = &mut buffer[..bytes];
        match self.file.read_at(place.offset, page) {
            Ok(got) => Ok((got == bytes).then_some(page)),
            Err(error) if error.is_unreadable() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn node(&mut self, reference: &Reference, place: Place, page: &[u8]) -> Result<ControlFlow<End>> {
        let node = match Node::decode(page, reference.tree.widths) {
            Ok(node) => node,
            Err(why) => return self.damaged(reference, place, why),
        };
        let is_right = node.covered().is_some_and(|bytes| xxh3_128(bytes) == reference.to.checksum);
        if !is_right {
            let step = self.damaged(reference, place, "the page fails its checksum")?;
            if step.is_break() {
                return Ok(step);
            }
        }
        let is_intact = is_right && reference.is_trusted;
        match node {
            Node::Branch(branch) => {
                self.branch(reference, place, &branch, is_intact);
                Ok(ControlFlow::Continue(()))
            }
            Node::Leaf(leaf) => self.leaf(reference, place, &leaf, is_intact),
        }
    }

    fn branch(&mut self, reference: &Reference, place: Place, branch: &Branch<'_>, is_intact: bool) {
        for (n, to) in branch.children().collect::<Vec<_>>().into_iter().enumerate().rev() {
            let depth = reference.depth + 1;
            let tree = Rc::clone(&reference.tree);
            let bounds = match tree.is_bytewise {
                true => reference.bounds.of_child(branch, n),
                false => Bounds::default(),
            };
            self.wait(Reference { tree, to, depth, is_trusted: is_intact, from: place.offset, bounds });
        }
    }

    /// Notes a reference for its turn.
    fn wait(&mut self, reference: Reference) {
        let (list, bound) = match reference.is_trusted {
            true => (&mut self.waiting, MAX_WAITING),
            false => (&mut self.doubtful, MAX_DOUBTFUL),
        };
        if list.len() < bound {
            list.push(reference);
        } else {
            self.report.is_complete = false;
        }
    }

    fn leaf(
        &mut self,
        reference: &Reference,
        place: Place,
        leaf: &Leaf<'_>,
        is_intact: bool,
    ) -> Result<ControlFlow<End>> {
        let tree = &reference.tree;
        let mut last: Option<&[u8]> = None;
        let mut why = None;
        for row in leaf.rows() {
            let Some((key, value)) = row else {
                why = why.or(Some("an entry does not lie within the page"));
                continue;
            };
            if tree.is_bytewise && last.is_some_and(|last| last >= key) {
                why = why.or(Some("the keys of the page do not rise"));
            }
            if !reference.bounds.hold(key) {
                why = why.or(Some("a key is not between those of the page above"));
            }
            last = Some(key);
            match &tree.holds {
                Holds::Rows(_) if tree.is_system => {}
                Holds::Rows(table) => {
                    self.report.rows += 1;
                    self.visitor.row(table, key, value, is_intact);
                }
                Holds::Tables => why = self.table(tree, place, key, value, is_intact).err().or(why),
            }
        }
        // A page that fails its checksum was told of.
        match why {
            Some(why) if is_intact => self.damaged(reference, place, why),
            _ => Ok(ControlFlow::Continue(())),
        }
    }

    /// Notes the root of a table. The error says what is wrong with its definition.
    fn table(
        &mut self,
        tables: &Tree,
        place: Place,
        name: &[u8],
        definition: &[u8],
        is_intact: bool,
    ) -> std::result::Result<(), &'static str> {
        let name = std::str::from_utf8(name).map_err(|_| "the name of a table is not text")?;
        let (root, widths, is_bytewise) =
            match Definition::decode(definition).ok_or("the definition of a table is not one")? {
                Definition::Table { root, widths, is_bytewise } => (root, widths, is_bytewise),
                Definition::Multimap => {
                    self.report.is_complete = false;
                    return Ok(());
                }
            };
        let Some(to) = root else { return Ok(()) };
        let holds = Holds::Rows(name.to_owned());
        let tree = Rc::new(Tree { holds, is_system: tables.is_system, widths, is_bytewise });
        let bounds = Bounds::default();
        self.wait(Reference { tree, to, depth: 0, is_trusted: is_intact, from: place.offset, bounds });
        Ok(())
    }

    /// Tells of a damaged page, unless it need not be one: below a damaged page, a wrong reference is the damage that
    /// was told; and a page of a system tree may have been replaced since.
    fn damaged(
        &mut self,
        reference: &Reference,
        place: Place,
        why: &'static str,
    ) -> Result<ControlFlow<End>> {
        if !reference.is_trusted {
            return Ok(ControlFlow::Continue(()));
        }
        if reference.tree.is_system {
            // One read: a torn header means that a commit is being written, and costs another try.
            if Header::read_once(self.file)?.transaction() != self.header.transaction() {
                return Ok(ControlFlow::Break(End::Replaced));
            }
            if !self.told.insert(place.offset) {
                return Ok(ControlFlow::Continue(()));
            }
        }
        self.tell(place, &reference.tree.label(), why);
        Ok(ControlFlow::Continue(()))
    }

    fn tell(&mut self, place: Place, tree: &str, why: &'static str) {
        let Place { offset, bytes } = place;
        self.visitor.damage(PageDamage { offset, bytes, tree: tree.to_owned(), why });
    }
}
