//! The catalog's history: terms, one for each life of a coordinator, and the changes of each, counted (HEALING.md, "Stores,
//! births" and "Terms, records, holders").

use crate::Catalog;
use crate::error::damaged_row;
use crate::error::{CatalogError, Result};
use crate::record::Record;
use crate::rows::{Doubt, DoubtRow, HistoryRow, MetaKey, MetaRow, PositionRow, TermRow};
use crate::table::{Change, Key, Read, Row};
use crate::{meta, put_block};
use model::{Position, RecordHead, Stamp, Term};
use std::sync::PoisonError;

impl Catalog {
    /// Begins a new term, above all that this catalog has seen and above `heard`, which may come from elsewhere. `word` is
    /// drawn by chance. Versions of objects and generations of blocks that are given out from now on are above any that
    /// an earlier term can have given out, even one that this catalog has forgotten.
    ///
    /// # Errors
    /// [`CatalogError::Invalid`] after 2^24 terms.
    pub fn begin_term(&self, word: u64, heard: u64) -> Result<Term> {
        self.with_reserve(|| self.begin_term_at(word, heard))
    }

    fn begin_term_at(&self, word: u64, heard: u64) -> Result<Term> {
        self.change(|txn| {
            let Position { stamp: Stamp { term: last, change }, hash } = position(txn)?;
            if last.number > 0 {
                txn.put(&last.number, &TermRow { word: last.word, changes: change })?;
            }
            let number = last.number.max(heard).saturating_add(1);
            if number > MAX_TERM {
                return Err(CatalogError::Invalid(format!(
                    "{number} terms: a catalog has at most {MAX_TERM}"
                )));
            }
            let term = Term { number, word };
            txn.put(&MetaKey, &PositionRow { stamp: Stamp { term, change: 0 }, hash })?;
            let meta = meta(txn)?;
            txn.put(&MetaKey, &MetaRow { next_version: meta.next_version.max(first_of(number)), ..meta })?;
            Ok(term)
        })
    }

    /// The last change of the backup that it was restored from, as long as nothing has happened since.
    pub fn restored_at(&self) -> Result<Option<Stamp>> {
        let untouched = self.position()?.stamp.term.word == RESTORED_WORD;
        let doubt = self.view(|txn| txn.get_if_sound::<DoubtRow>(&MetaKey))?;
        match doubt.map(|row| row.why) {
            Some(Doubt::Restored { at }) if untouched => Ok(Some(at)),
            _ => Ok(None),
        }
    }

    /// The last change.
    pub fn last_change(&self) -> Result<Stamp> {
        Ok(self.position()?.stamp)
    }

    /// Whether every life from that term on told of changes only once holders had them. Returns `false` if any of these terms is unknown.
    ///
    /// # Errors
    /// [`CatalogError::Failed`], or damage of a row.
    pub fn waited_since(&self, number: u64) -> Result<bool> {
        self.view(|txn| waited_since(txn, number))
    }

    /// Whether a change with that stamp was made here, or in a life of this catalog before: what it wrote is known, or was
    /// let go. `false`: nothing is known of it.
    pub fn remembers(&self, stamp: Stamp) -> Result<bool> {
        self.view(|txn| remembers(txn, stamp))
    }
}

impl Catalog {
    /// The records that come after a position, one at least if there is one, else of `max_bytes` at most. `None`: they are
    /// not at hand, or it is no position of this catalog; a snapshot goes on from there.
    pub fn records_after(&self, position: &Position, max_bytes: usize) -> Result<Option<Vec<Record>>> {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if self.position()? == *position {
            return Ok(Some(Vec::new()));
        }
        Ok(tail.after(position, max_bytes))
    }
}

/// Terms: versions and generations leave 40 bits to the changes of each.
const MAX_TERM: u64 = 1 << 24;

/// The word of the term in which a backup is restored: no life of a coordinator draws it, and the first that serves ends the term.
const RESTORED_WORD: u64 = 0;

/// Bits of a version or generation below its term.
const TERM_BITS: u32 = 40;

/// The first version, or generation, of a term. The first term begins at 1, as everything does.
pub(crate) fn first_of(term: u64) -> u64 {
    (term.saturating_sub(1) << TERM_BITS) + put_block::FIRST_GENERATION
}

/// The same where the row must be there: every change writes it, so without it the file is damaged.
pub(crate) fn position_row(txn: &impl Read) -> Result<Position> {
    let row = txn.get::<PositionRow>(&MetaKey)?;
    let row = row.ok_or_else(|| damaged_row(PositionRow::TABLE, &MetaKey.to_bytes(), "it is missing"))?;
    Ok(Position { stamp: row.stamp, hash: row.hash })
}

pub(crate) fn position(txn: &impl Read) -> Result<Position> {
    let PositionRow { stamp, hash } = txn.get::<PositionRow>(&MetaKey)?.unwrap_or_default();
    Ok(Position { stamp, hash })
}

/// See [`Catalog::waited_since`].
pub(crate) fn waited_since(txn: &impl Read, number: u64) -> Result<bool> {
    let now = position(txn)?.stamp.term;
    let mut waited = number <= now.number && now.waits_for_holders();
    for number in number..now.number {
        if !waited {
            break;
        }
        let row = txn.get::<TermRow>(&number)?;
        waited = row.is_some_and(|row| Term { number, word: row.word }.waits_for_holders());
    }
    Ok(waited)
}

/// Returns the term in which a version of an object was given out.
pub(crate) fn term_of_version(version: u64) -> u64 {
    (version >> TERM_BITS) + 1
}

pub(crate) fn remembers(txn: &impl Read, stamp: Stamp) -> Result<bool> {
    let Stamp { term, change } = stamp;
    let now = position(txn)?.stamp;
    if term == now.term {
        return Ok(term.number > 0 && change <= now.change);
    }
    let row = txn.get::<TermRow>(&term.number)?;
    Ok(row.is_some_and(|row| row.word == term.word && change <= row.changes))
}

impl Change<'_> {
    /// Ends the present term, and leaves so many numbers unused. Births of before are remembered no more: what was in flight
    /// then may have been committed since, and a copy of it would pass for one that was let go.
    pub(crate) fn leap(&self, terms: u64) -> Result<()> {
        let number = position(self)?.stamp.term.number;
        for (number, _) in self.all::<TermRow>(&[])? {
            self.remove::<TermRow>(&number)?;
        }
        let stamp = Stamp { term: Term { number: number + terms, word: RESTORED_WORD }, change: 0 };
        self.put(&MetaKey, &PositionRow { stamp, hash: [0; 32] })
    }

    /// The stamp of this change.
    pub(crate) fn stamp(&self) -> Result<Stamp> {
        let Stamp { term, change } = position(self)?.stamp;
        Ok(Stamp { term, change: change + 1 })
    }

    /// Counts this change, and makes its record: the last thing that it does.
    pub(crate) fn count_itself(&self) -> Result<Record> {
        let head = RecordHead { stamp: self.stamp()?, before: position(self)?.hash };
        let record = Record::new(head, &self.journal());
        let Position { stamp, hash } = record.at;
        self.put(&MetaKey, &PositionRow { stamp, hash })?;
        Ok(record)
    }

    /// A catalog that kept no records goes on where it was; its first record follows none.
    pub(crate) fn begin_records(&self) -> Result<()> {
        let HistoryRow { term, change } = self.get::<HistoryRow>(&MetaKey)?.unwrap_or_default();
        self.remove::<HistoryRow>(&MetaKey)?;
        self.put(&MetaKey, &PositionRow { stamp: Stamp { term, change }, hash: [0; 32] })
    }

    /// The generation of a copy that comes after `last`.
    pub(crate) fn next_generation(&self, last: u64) -> Result<u64> {
        Ok((last + 1).max(first_of(position(self)?.stamp.term.number)))
    }
}
