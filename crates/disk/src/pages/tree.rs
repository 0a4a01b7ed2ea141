//! The trees of a file, and the references that lead into them.

use super::header::Root;
use super::node::{Branch, Widths};
use std::rc::Rc;

/// What the leaves of a tree hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Holds {
    /// Names and definitions of tables.
    Tables,
    /// Rows of the table of that name.
    Rows(String),
}

/// A tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tree {
    pub(super) holds: Holds,
    pub(super) is_system: bool,
    pub(super) widths: Widths,
    /// Whether keys are ordered as their bytes are.
    pub(super) is_bytewise: bool,
}

impl Tree {
    /// The tree of all tables, of users or of the system.
    pub(super) fn tables(is_system: bool) -> Rc<Tree> {
        let widths = Widths { key: None, value: None };
        Rc::new(Tree { holds: Holds::Tables, is_system, widths, is_bytewise: true })
    }

    /// Its name in a [`PageDamage`](super::PageDamage).
    pub(super) fn label(&self) -> String {
        let system = if self.is_system { "system " } else { "" };
        match &self.holds {
            Holds::Tables => format!("{system}tables"),
            Holds::Rows(name) => format!("{system}table {name}"),
        }
    }
}

/// Between which keys those of a page lie, by the branch pages above it: a wrong one leads searches to the wrong page, though the page
/// above passed its checksum, as it does once damage was copied into a later commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    /// They are above this one.
    pub(super) above: Option<Rc<[u8]>>,
    /// They are at most this one.
    pub(super) up_to: Option<Rc<[u8]>>,
}

impl Bounds {
    pub(super) fn hold(&self, key: &[u8]) -> bool {
        self.above.as_deref().is_none_or(|above| above < key)
            && self.up_to.as_deref().is_none_or(|up_to| key <= up_to)
    }

    /// Those of child `n` of a branch page within these.
    pub(super) fn of_child(&self, branch: &Branch<'_>, n: usize) -> Bounds {
        let above = n.checked_sub(1).and_then(|before| branch.key(before)).map(Rc::from);
        let up_to = branch.key(n).map(Rc::from);
        Bounds { above: above.or_else(|| self.above.clone()), up_to: up_to.or_else(|| self.up_to.clone()) }
    }
}

/// A reference to a page that is still to be read.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) tree: Rc<Tree>,
    pub(super) to: Root,
    /// Pages above it in its tree.
    pub(super) depth: u8,
    /// Whether the page that holds the reference, and all above it, passed their checksums.
    pub(super) is_trusted: bool,
    /// Offset of the page that holds the reference.
    pub(super) from: u64,
    /// Between which keys those of the page lie; nothing if keys are not ordered as their bytes are.
    pub(super) bounds: Bounds,
}
