//! Definitions of tables: the values of the two trees of tables.

use super::header::{Root, u32_at};
use super::node::Widths;

const NORMAL: u8 = 3;
const MULTIMAP: u8 = 4;

/// Offsets in redb's `InternalTableDefinition`.
mod at {
    /// After the type (1 byte) and the number of rows (8).
    pub(super) const HAS_ROOT: usize = 9;
    /// Page (8), checksum (16), length (8).
    pub(super) const ROOT: usize = 10;
    /// Each width is a byte that says whether it is fixed, and four that say how wide.
    pub(super) const KEY_WIDTH: usize = 42;
    pub(super) const VALUE_WIDTH: usize = 47;
    /// After the alignments of keys and values, four bytes each.
    pub(super) const KEY_TYPE_BYTES: usize = 60;
    pub(super) const KEY_TYPE: usize = 64;
}

/// What a definition says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Definition {
    Table {
        /// `None` if the table is empty.
        root: Option<Root>,
        widths: Widths,
        /// Whether keys are ordered as their bytes are.
        is_bytewise: bool,
    },
    /// A multimap table, which the walk does not follow.
    Multimap,
}

impl Definition {
    /// `None` if the bytes are no definition.
    pub(super) fn decode(bytes: &[u8]) -> Option<Definition> {
        match *bytes.first()? {
            NORMAL => {}
            MULTIMAP => return Some(Definition::Multimap),
            _ => return None,
        }
        let root = match *bytes.get(at::HAS_ROOT)? {
            0 => None,
            _ => Some(Root::decode(bytes.get(at::ROOT..)?)?),
        };
        let widths = Widths { key: width(bytes, at::KEY_WIDTH)?, value: width(bytes, at::VALUE_WIDTH)? };
        let type_bytes = u32_at(bytes, at::KEY_TYPE_BYTES)? as usize;
        let key_type = bytes.get(at::KEY_TYPE..at::KEY_TYPE.checked_add(type_bytes)?)?;
        // The first byte says who defined the type.
        let is_bytewise = matches!(key_type.get(1..), Some(b"&[u8]" | b"&str"));
        Some(Definition::Table { root, widths, is_bytewise })
    }
}

fn width(bytes: &[u8], at: usize) -> Option<Option<usize>> {
    let width = u32_at(bytes, at + 1)? as usize;
    Some((*bytes.get(at)? != 0).then_some(width))
}
