//! A row as backups, snapshots and records have it:
//!
//! ```text
//!   table index (1) │ key length (4) │ value length (4) │ key │ value
//! ```
//!
//! Numbers are little-endian. A record tells a removal by a length of the value that no value has.

use crate::backend::RowsMut;
use crate::error::Result;
use crate::rows::TABLES;
use crate::soundness::checksum::protected;

/// A row's table, its key, and its value; without one it is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'a> {
    pub table: &'static str,
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

/// In place of the length of a value: the row is removed.
const REMOVED: u32 = u32::MAX;

/// What bytes begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Split<'a> {
    /// An entry, and what comes after it.
    Entry(Entry<'a>, &'a [u8]),
    /// The rest of it is not there.
    CutOff,
    /// No table has that index.
    Unknown,
}

impl Entry<'_> {
    pub(crate) fn push_to(&self, bytes: &mut Vec<u8>) {
        let Some(table) = TABLES.iter().position(|name| *name == self.table) else { return };
        bytes.push(table as u8);
        bytes.extend((self.key.len() as u32).to_le_bytes());
        bytes.extend(self.value.map_or(REMOVED, |value| value.len() as u32).to_le_bytes());
        bytes.extend(self.key);
        bytes.extend(self.value.unwrap_or_default());
    }

    /// Makes it so. A row of before checksums gets one: what carries it has its own.
    ///
    /// # Errors
    /// [`CatalogError::DamagedRow`](crate::CatalogError::DamagedRow) for a row whose checksum fails.
    pub(crate) fn apply(&self, rows: &dyn RowsMut) -> Result<()> {
        match self.value {
            Some(value) => rows.put(self.table, self.key, &protected(self.table, self.key, value)?),
            None => rows.remove(self.table, self.key).map(|_| ()),
        }
    }
}

pub(crate) fn split(bytes: &[u8]) -> Split<'_> {
    let Some((&table, rest)) = bytes.split_first() else { return Split::CutOff };
    let Some(&table) = TABLES.get(usize::from(table)) else { return Split::Unknown };
    whole(table, rest).map_or(Split::CutOff, |(entry, rest)| Split::Entry(entry, rest))
}

fn whole<'a>(table: &'static str, bytes: &'a [u8]) -> Option<(Entry<'a>, &'a [u8])> {
    let (key_bytes, rest) = bytes.split_first_chunk::<4>()?;
    let (value_bytes, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_bytes) as usize)?;
    match u32::from_le_bytes(*value_bytes) {
        REMOVED => Some((Entry { table, key, value: None }, rest)),
        length => {
            let (value, rest) = rest.split_at_checked(length as usize)?;
            Some((Entry { table, key, value: Some(value) }, rest))
        }
    }
}
