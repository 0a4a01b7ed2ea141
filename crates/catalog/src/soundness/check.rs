//! A check of all of the catalog: every page of its file as it is on the disk, every row, and every reference both ways. It runs over
//! one read transaction, so changes and reads do not wait for it.

use super::Soundness;
use super::references;
use crate::Catalog;
use crate::backend::{Redb, Scan};
use crate::error::damaged_row;
use crate::error::{CatalogError, Result};
use crate::rows::{
    AuditRow, BucketRow, BudgetsRow, CandidateRow, ClockRow, DamageRow, DeadRow, DisksRow, DoubtRow,
    EndedPutRow, ForgottenRow, GatheredRow, GatheringRow, HeldRow, HistoryRow, HoldersRow, IntentRow, JobRow,
    LackRow, LeavingRow, LinksRow, MarkRow, MetaRow, NodeRow, NodeTaskRow, ObjectRow, OrderRow, PlannedRow,
    PositionRow, PutBlockRow, PutRow, ReturnsRow, SafeModeRow, StripeRow, TaskRow, TermRow, ThrottleRow,
};
use crate::table::{Read, Row, Snapshot, typed};
use disk::{Disk, DiskError, PageDamage, PageVisitor};
use model::BlockFacts;
use std::cell::Cell;
use std::path::Path;

/// Rows between two calls of `goes_on`: some milliseconds.
const ROWS_AT_ONCE: u64 = 1_024;

/// How far a check has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Pages that were read.
    pub pages: u64,
    /// Rows that were read; a row counts again when its references are checked.
    pub rows: u64,
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    /// What was looked at.
    pub seen: Progress,
    /// Bytes of the pages.
    pub page_bytes: u64,
    /// How many findings there are; [`Catalog::condition`] has the first of them.
    pub findings: u64,
    /// Whether it went over everything: it was not ended early, and no page was left out.
    pub is_complete: bool,
}

/// Reports how far a check has come, and ends it if the caller says so.
pub(super) struct Pace<'a> {
    goes_on: &'a dyn Fn(&Progress) -> bool,
    seen: Cell<Progress>,
    is_ended: Cell<bool>,
}

impl Pace<'_> {
    /// Counts a row. Returns whether to go on.
    pub fn row(&self) -> Scan {
        let mut seen = self.seen.get();
        seen.rows += 1;
        self.seen.set(seen);
        if seen.rows.is_multiple_of(ROWS_AT_ONCE) {
            self.ask();
        }
        if self.is_ended.get() { Scan::Stop } else { Scan::Next }
    }

    fn ask(&self) {
        self.is_ended.set(self.is_ended.get() || !(self.goes_on)(&self.seen.get()));
    }
}

/// Notes each finding at once, before the check has ended.
pub(super) struct Findings<'a> {
    soundness: &'a Soundness,
    count: Cell<u64>,
}

impl Findings<'_> {
    /// Notes damage.
    ///
    /// # Errors
    /// Returns the error if it is no damage.
    pub fn add(&self, error: CatalogError) -> Result<()> {
        if !error.is_damage() {
            return Err(error);
        }
        self.count.set(self.count.get() + 1);
        self.soundness.note(&error);
        Ok(())
    }

    /// Notes a row that is missing or does not fit the others.
    pub fn row<R: Row>(&self, key: &R::Key, why: &str) -> Result<()> {
        use crate::table::Key;
        self.add(damaged_row(R::TABLE, &key.to_bytes(), why))
    }
}

impl Catalog {
    /// Checks all of the catalog. The first finding begins safe mode; if a complete check finds nothing, copies may be let go. `goes_on`
    /// is called with the progress, and ends the check early by returning `false`.
    ///
    /// # Errors
    /// [`CatalogError::Failed`], [`CatalogError::Closed`]: nothing is known then. Damage is no error.
    pub fn check(&self, goes_on: &dyn Fn(&Progress) -> bool) -> Result<Checked> {
        let checked = self.check_into(&self.soundness, goes_on)?;
        if checked.is_complete && checked.findings == 0 {
            self.soundness.passed();
        }
        Ok(checked)
    }

    /// The same, but findings are noted in `soundness`.
    pub(crate) fn check_into(
        &self,
        soundness: &Soundness,
        goes_on: &dyn Fn(&Progress) -> bool,
    ) -> Result<Checked> {
        let pace = Pace { goes_on, seen: Cell::default(), is_ended: Cell::new(false) };
        let findings = Findings { soundness, count: Cell::new(0) };
        let mut pages = PagesSeen { bytes: 0, are_all: false };
        let viewed = self.backend.view(&mut |rows| {
            pages = self.check_pages(&pace, &findings)?;
            let snapshot = Snapshot::strict(rows);
            check_all(&snapshot, &pace, &findings)?;
            references::check(&snapshot, &pace, &findings)
        });
        match viewed {
            // The database itself failed over a damaged page.
            Err(error) if error.is_damage() => findings.add(error)?,
            viewed => viewed?,
        }
        let is_complete = pages.are_all && !pace.is_ended.get();
        let (seen, findings) = (pace.seen.get(), findings.count.get());
        Ok(Checked { seen, page_bytes: pages.bytes, findings, is_complete })
    }

    fn check_pages(&self, pace: &Pace<'_>, findings: &Findings<'_>) -> Result<PagesSeen> {
        let mut pages = Pages { pace, findings, failed: None };
        let report = self.backend.look_at_pages(&mut pages)?;
        pages.failed.map_or(Ok(()), Err)?;
        let Some(report) = report else { return Ok(PagesSeen { bytes: 0, are_all: true }) };
        pace.seen.set(Progress { pages: report.pages, ..pace.seen.get() });
        Ok(PagesSeen { bytes: report.bytes, are_all: report.is_complete })
    }
}

struct PagesSeen {
    bytes: u64,
    are_all: bool,
}

struct Pages<'a> {
    pace: &'a Pace<'a>,
    findings: &'a Findings<'a>,
    failed: Option<CatalogError>,
}

impl PageVisitor for Pages<'_> {
    /// Nothing: rows are checked as the database returns them (`rows::check_all`).
    fn row(&mut self, _: &str, _: &[u8], _: &[u8], _: bool) {}

    fn damage(&mut self, damage: PageDamage) {
        let added = self.findings.add(CatalogError::DamagedFile(told(&damage)));
        self.failed = self.failed.take().or(added.err());
    }

    fn goes_on(&mut self) -> bool {
        let seen = self.pace.seen.get();
        self.pace.seen.set(Progress { pages: seen.pages + 1, ..seen });
        self.pace.ask();
        !self.pace.is_ended.get()
    }
}

/// Describes a damaged page to people.
pub(crate) fn told(damage: &PageDamage) -> String {
    let PageDamage { offset, bytes, tree, why } = damage;
    format!("{tree}, {bytes} bytes at byte {offset}: {why}")
}

/// Checks the rows of a table: their keys rise, their checksums hold, and each is a row of this table's kind.
fn check_rows<R: Row>(txn: &Snapshot<'_>, pace: &Pace<'_>, findings: &Findings<'_>) -> Result<()> {
    let mut last: Option<Vec<u8>> = None;
    let scanned = txn.raw_scan(R::TABLE, &[], &mut |key, value| {
        if let Err(error) = typed::<R>(key, value) {
            findings.add(error)?;
        }
        if last.as_deref().is_some_and(|last| last >= key) {
            findings.add(damaged_row(R::TABLE, key, "it does not stand in order"))?;
        }
        last = Some(key.to_vec());
        Ok(pace.row())
    });
    match scanned {
        Err(error) if error.is_damage() => findings.add(error),
        scanned => scanned,
    }
}

/// Checks the rows of every table.
fn check_all(txn: &Snapshot<'_>, pace: &Pace<'_>, findings: &Findings<'_>) -> Result<()> {
    let checks = [
        check_rows::<MarkRow>,
        check_rows::<NodeRow>,
        check_rows::<ObjectRow>,
        check_rows::<BlockFacts>,
        check_rows::<HeldRow>,
        check_rows::<StripeRow>,
        check_rows::<PutRow>,
        check_rows::<PutBlockRow>,
        check_rows::<PlannedRow>,
        check_rows::<IntentRow>,
        check_rows::<JobRow>,
        check_rows::<CandidateRow>,
        check_rows::<LinksRow>,
        check_rows::<AuditRow>,
        check_rows::<LeavingRow>,
        check_rows::<TaskRow>,
        check_rows::<HistoryRow>,
        check_rows::<TermRow>,
        check_rows::<SafeModeRow>,
        check_rows::<ThrottleRow>,
        check_rows::<NodeTaskRow>,
        check_rows::<ClockRow>,
        check_rows::<EndedPutRow>,
        check_rows::<PositionRow>,
        check_rows::<HoldersRow>,
        check_rows::<DoubtRow>,
        check_rows::<ForgottenRow>,
        check_rows::<GatheringRow>,
        check_rows::<GatheredRow>,
        check_rows::<BucketRow>,
        check_rows::<DeadRow>,
        check_rows::<DisksRow>,
        check_rows::<LackRow>,
        check_rows::<BudgetsRow>,
        check_rows::<ReturnsRow>,
        check_rows::<DamageRow>,
        check_rows::<MetaRow>,
        check_rows::<OrderRow>,
    ];
    checks.into_iter().try_for_each(|check| check(txn, pace, findings))
}

/// Returns a description, for people, of the first damaged page of the catalog's file on this disk. Only reads the file; the catalog need not be
/// open. Skips a file of more than `most_bytes`.
///
/// # Errors
/// [`CatalogError::Failed`].
pub fn first_damaged_page(disk: &dyn Disk, most_bytes: u64) -> Result<Option<String>> {
    let mut first = FirstDamage(None);
    match disk.len(Path::new(Redb::FILE)) {
        Ok(bytes) if bytes > most_bytes => return Ok(None),
        // An empty folder has no page to check. Any other error says nothing about the pages.
        Err(DiskError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(CatalogError::Failed(error.to_string())),
        Ok(_) => {}
    }
    let walked = disk::walk_pages(disk, Path::new(Redb::FILE), &mut first);
    walked.map_err(|error| CatalogError::Failed(error.to_string()))?;
    Ok(first.0)
}

/// Keeps the first damage of a walk and ends the walk there.
pub(super) struct FirstDamage(pub(super) Option<String>);

impl PageVisitor for FirstDamage {
    fn row(&mut self, _: &str, _: &[u8], _: &[u8], _: bool) {}

    fn damage(&mut self, damage: PageDamage) {
        self.0.get_or_insert_with(|| told(&damage));
    }

    fn goes_on(&mut self) -> bool {
        self.0.is_none()
    }
}
