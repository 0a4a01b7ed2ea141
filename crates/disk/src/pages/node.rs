//! The two kinds of pages. Nothing that a page holds can make reading it panic.
//!
//! ```text
//!   leaf:   1, 0, pairs u16, [key ends u32…], [value ends u32…], keys, values
//!   branch: 2, 0, keys u16, 0 u32, child checksums u128…, child pages u64…, [key ends u32…], keys
//! ```
//! Ends are offsets in the page, and are there only for variable widths. A checksum covers a page up to the end of its
//! last value or key.

use super::header::{Root, u32_at, u64_at, u128_at};

const LEAF: u8 = 1;
const BRANCH: u8 = 2;
const LEAF_HEAD: usize = 4;
const BRANCH_HEAD: usize = 8;

/// Widths of keys and values in bytes; `None` for variable ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Widths {
    pub(super) key: Option<usize>,
    pub(super) value: Option<usize>,
}

/// A page.
#[derive(Debug)]
pub(super) enum Node<'a> {
    Leaf(Leaf<'a>),
    Branch(Branch<'a>),
}

impl<'a> Node<'a> {
    /// Reads a page as far as needed for its checksum. The error says what is wrong.
    pub(super) fn decode(page: &'a [u8], widths: Widths) -> Result<Node<'a>, &'static str> {
        let (&kind, &[low, high]) =
            page.first().zip(page.get(2..4).and_then(<[u8]>::first_chunk)).ok_or("the page is cut")?;
        let count = usize::from(u16::from_le_bytes([low, high]));
        if count == 0 {
            return Err("the page has no entries");
        }
        let node = match kind {
            LEAF => Node::Leaf(Leaf { page, count, widths }),
            BRANCH => Node::Branch(Branch { page, keys: count, key_width: widths.key }),
            _ => return Err("the page is neither leaf nor branch"),
        };
        node.covered().ok_or("the page's last entry ends beyond the page")?;
        Ok(node)
    }

    /// What the checksum covers.
    pub(super) fn covered(&self) -> Option<&'a [u8]> {
        match self {
            Node::Leaf(leaf) => leaf.page.get(..leaf.value_end(leaf.count - 1)?),
            Node::Branch(branch) => branch.page.get(..branch.end()?),
        }
    }
}

/// A page of rows.
#[derive(Debug)]
pub(super) struct Leaf<'a> {
    page: &'a [u8],
    /// At least one.
    count: usize,
    widths: Widths,
}

impl<'a> Leaf<'a> {
    /// Keys with their values; `None` for what does not lie within the page.
    pub(super) fn rows(&self) -> impl Iterator<Item = Option<(&'a [u8], &'a [u8])>> + '_ {
        (0..self.count).map(|n| Some((self.key(n)?, self.value(n)?)))
    }

    fn key(&self, n: usize) -> Option<&'a [u8]> {
        let start = if n == 0 { self.keys_start() } else { self.key_end(n - 1)? };
        self.page.get(start..self.key_end(n)?)
    }

    fn value(&self, n: usize) -> Option<&'a [u8]> {
        let start = if n == 0 { self.key_end(self.count - 1)? } else { self.value_end(n - 1)? };
        self.page.get(start..self.value_end(n)?)
    }

    fn keys_start(&self) -> usize {
        let ends = usize::from(self.widths.key.is_none()) + usize::from(self.widths.value.is_none());
        LEAF_HEAD + 4 * ends * self.count
    }

    fn key_end(&self, n: usize) -> Option<usize> {
        match self.widths.key {
            Some(width) => width.checked_mul(n + 1)?.checked_add(self.keys_start()),
            None => Some(u32_at(self.page, LEAF_HEAD + 4 * n)? as usize),
        }
    }

    fn value_end(&self, n: usize) -> Option<usize> {
        match self.widths.value {
            Some(width) => width.checked_mul(n + 1)?.checked_add(self.key_end(self.count - 1)?),
            None => {
                let key_ends = if self.widths.key.is_none() { self.count } else { 0 };
                Some(u32_at(self.page, LEAF_HEAD + 4 * (key_ends + n))? as usize)
            }
        }
    }
}

/// A page of references to other pages.
#[derive(Debug)]
pub(super) struct Branch<'a> {
    page: &'a [u8],
    /// At least one; there is one child more.
    keys: usize,
    key_width: Option<usize>,
}

impl Branch<'_> {
    /// The children, in key order.
    pub(super) fn children(&self) -> impl DoubleEndedIterator<Item = Root> + '_ {
        let pages = BRANCH_HEAD + 16 * (self.keys + 1);
        (0..=self.keys).filter_map(move |n| {
            Some(Root {
                page: u64_at(self.page, pages + 8 * n)?,
                checksum: u128_at(self.page, BRANCH_HEAD + 16 * n)?,
            })
        })
    }

    /// Key `n`, which is at or above every key below child `n`, and below every key below child `n + 1`.
    pub(super) fn key(&self, n: usize) -> Option<&[u8]> {
        let children_end = BRANCH_HEAD + 24 * (self.keys + 1);
        let keys_start = children_end + if self.key_width.is_none() { 4 * self.keys } else { 0 };
        let end = |n: usize| match self.key_width {
            Some(width) => width.checked_mul(n + 1)?.checked_add(keys_start),
            None => Some(u32_at(self.page, children_end + 4 * n)? as usize),
        };
        if n >= self.keys {
            return None;
        }
        let start = if n == 0 { keys_start } else { end(n - 1)? };
        self.page.get(start..end(n)?)
    }

    fn end(&self) -> Option<usize> {
        let children_end = BRANCH_HEAD + 24 * (self.keys + 1);
        let end = match self.key_width {
            Some(width) => width.checked_mul(self.keys)?.checked_add(children_end),
            None => Some(u32_at(self.page, children_end + 4 * (self.keys - 1))? as usize),
        }?;
        (end >= children_end).then_some(end)
    }
}
