//! The trees of a file, and the references that lead into them.

use super::header::Root;
use super::node::Widths;
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
}
