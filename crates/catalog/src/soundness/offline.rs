//! A check of a catalog's file that this program does not serve from, or of a backup. It only reads: rows that pass their checks are
//! copied into a scratch folder, and references are checked there.
//!
//! ```text
//!   catalog.redb, catalog.redb.damaged-1 ─▶ each page, each row ─┐
//!                                                                ├─▶ rows that pass, in the scratch folder ─▶ references ─▶ objects
//!   backup ─▶ its checksum, each row ────────────────────────────┘
//! ```
//!
//! A coordinator that has the file open may change it meanwhile: what looks damaged is then read again.

use super::checksum::verified;
use super::salvage::{Salvaged, salvage_to};
use super::touched::{Touched, touched};
use super::{Condition, Damage, Soundness};
use crate::Catalog;
use crate::backend::{Backend, Redb};
use crate::backup::{self, restore};
use crate::entry::{Entry, Split, split};
use crate::error::{CatalogError, Result};
use crate::rows::CATALOG_FORMAT;
use disk::{Disk, DiskError, DiskFile, PageDamage, PageVisitor};
use std::path::Path;
use std::sync::Arc;

/// What redb's files begin with.
const REDB_MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";

/// Bytes of a magic that may be damaged: with more, a file is taken for something else.
const MAX_DAMAGED_MAGIC: usize = 3;

/// A file that its coordinator changes while it is read is read so often: a commit takes milliseconds, a pass over a large file minutes.
const MAX_PASSES: usize = 4;

/// Rows of a damaged backup that are written in one transaction.
const ROWS_AT_ONCE: usize = 16_384;

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A catalog's own file, under whatever name.
    Catalog,
    /// What `catalog backup` wrote.
    Backup,
}

/// What a check of a file came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Examined {
    /// What it is.
    pub kind: FileKind,
    /// The format of the catalog, or of the backup; `None` if that cannot be read.
    pub format: Option<u32>,
    /// Rows that passed their checks.
    pub rows: u64,
    /// Rows have checksums of their own. Older formats have none: of their rows only the page, or the whole backup, is checked.
    pub has_checksums: bool,
    /// What did not pass.
    pub damage: Damage,
    /// The first objects that this touches.
    pub touched: Vec<Touched>,
    /// How many more it touches.
    pub others: u64,
    /// A coordinator has the file open: this is how it was a moment ago.
    pub is_in_use: bool,
    /// It was changed during each pass over it, so that what looks damaged may be none.
    pub has_moved: bool,
}

impl Examined {
    /// Nothing was found.
    pub fn is_sound(&self) -> bool {
        self.damage.count == 0
    }
}

/// Checks a file, which is only read. `scratch` is an empty disk with room for a copy of it.
///
/// # Errors
/// [`CatalogError::Invalid`] if it is no catalog and no backup of one, or if there is no room for the copy; [`CatalogError::Format`] for
/// one of another version; [`CatalogError::Failed`] if it cannot be read.
pub fn examine(from: &dyn Disk, path: &Path, scratch: &Arc<dyn Disk>) -> Result<Examined> {
    let file = from.open(path).map_err(failed)?;
    let bytes = file.len().map_err(failed)?;
    let kind = kind_of(file.as_ref(), path)?.ok_or_else(|| {
        CatalogError::Invalid(format!("{} is no catalog and no backup of one", path.display()))
    })?;
    let free = scratch.free_bytes().map_err(failed)?;
    if free < bytes {
        return Err(CatalogError::Invalid(format!(
            "the check copies its {bytes} bytes, and {free} are free for that: set TMPDIR to a folder with more room"
        )));
    }
    match kind {
        FileKind::Catalog => of_catalog(from, path, scratch),
        FileKind::Backup => of_backup(&all(file.as_ref(), bytes)?, scratch),
    }
}

/// What a file is by its first bytes, some of which may be damaged, or by its name.
fn kind_of(file: &dyn DiskFile, path: &Path) -> Result<Option<FileKind>> {
    let mut head = [0; 9];
    let read = file.read_at(0, &mut head).map_err(failed)?;
    let begins_with = |magic: &[u8], damaged| {
        let differing = magic.iter().zip(&head).filter(|(magic, byte)| magic != byte).count();
        read >= magic.len() && differing <= damaged
    };
    for damaged in [0, MAX_DAMAGED_MAGIC] {
        if begins_with(REDB_MAGIC, damaged) {
            return Ok(Some(FileKind::Catalog));
        }
        if begins_with(backup::MAGIC, damaged) {
            return Ok(Some(FileKind::Backup));
        }
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Ok((name == Redb::FILE).then_some(FileKind::Catalog))
}

fn all(file: &dyn DiskFile, bytes: u64) -> Result<Vec<u8>> {
    let too_long = |_| CatalogError::Failed("it is longer than memory".to_owned());
    let mut read = vec![0; usize::try_from(bytes).map_err(too_long)?];
    file.read_exact_at(0, &mut read).map_err(failed)?;
    Ok(read)
}

fn of_catalog(from: &dyn Disk, path: &Path, scratch: &Arc<dyn Disk>) -> Result<Examined> {
    let is_in_use = is_in_use(from, path);
    let (salvaged, has_moved) = pass(from, path, scratch, is_in_use)?;
    let soundness = Soundness::new(false);
    let Salvaged { rows, damage: Damage { findings, count } } = salvaged;
    let untold = count - findings.len() as u64;
    findings.into_iter().for_each(|finding| soundness.found(finding));
    let catalog = Catalog::of(Box::new(Redb::open(scratch)?), false);
    let format = format_of(&catalog, &soundness);
    let mut examined = Examined {
        kind: FileKind::Catalog,
        format: None,
        rows,
        has_checksums: true,
        damage: Damage::default(),
        touched: Vec::new(),
        others: 0,
        is_in_use,
        has_moved,
    };
    let result = format.and_then(|format| {
        examined.format = format;
        examined.has_checksums = format.is_none_or(|format| format == CATALOG_FORMAT);
        examined.finish(&catalog, &soundness, untold)
    });
    catalog.close();
    result.map(|()| examined)
}

/// The format of the copy, which is made one of this program's; `None` if the row that tells it did not pass.
fn format_of(catalog: &Catalog, soundness: &Soundness) -> Result<Option<u32>> {
    let format = match catalog.format_of_before() {
        Ok(None) => return Ok(Some(CATALOG_FORMAT)),
        Ok(Some(format)) => format,
        Err(error) if error.is_damage() => return Ok(None),
        Err(error) => return Err(error),
    };
    match catalog.take_over() {
        Err(error) if error.is_damage() => soundness.note(&error),
        taken => taken?,
    }
    Ok(Some(format))
}

/// Copies what passes. Whether the file was changed meanwhile, as often as this was tried.
fn pass(from: &dyn Disk, path: &Path, to: &Arc<dyn Disk>, is_in_use: bool) -> Result<(Salvaged, bool)> {
    let mut passes = 0;
    loop {
        let before = last_commit(from, path)?;
        let salvaged = salvage_to(from, path, to)?;
        passes += 1;
        // Pages that all pass are those of one commit.
        let is_sure = salvaged.damage.count == 0 || !is_in_use || last_commit(from, path)? == before;
        if is_sure || passes == MAX_PASSES {
            return Ok((salvaged, !is_sure));
        }
    }
}

fn last_commit(from: &dyn Disk, path: &Path) -> Result<u64> {
    struct Nothing;
    impl PageVisitor for Nothing {
        fn row(&mut self, _: &str, _: &[u8], _: &[u8], _: bool) {}
        fn damage(&mut self, _: PageDamage) {}
        fn goes_on(&mut self) -> bool {
            false
        }
    }
    Ok(disk::walk_pages(from, path, &mut Nothing).map_err(failed)?.transaction)
}

/// Whether a coordinator has it open. A lock that cannot be tried is taken for none.
fn is_in_use(from: &dyn Disk, path: &Path) -> bool {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let lock = Path::new(&lock);
    // To try a lock makes its file.
    from.exists(lock).unwrap_or(false) && matches!(from.lock(lock), Err(DiskError::AlreadyLocked { .. }))
}

fn of_backup(bytes: &[u8], scratch: &Arc<dyn Disk>) -> Result<Examined> {
    let soundness = Soundness::new(false);
    let version = backup::version(bytes);
    let rows = match backup::parse(bytes) {
        Ok(entries) => match restore(scratch, bytes) {
            Ok(()) => entries.len() as u64,
            Err(error) => take_some(bytes, version, error, scratch, &soundness)?,
        },
        Err(error) => match version {
            Some(found) if backup::is_whole(bytes) && !backup::is_known(found) => {
                return Err(CatalogError::Format { found, known: CATALOG_FORMAT });
            }
            _ => take_some(bytes, version, error, scratch, &soundness)?,
        },
    };
    let has_checksums = version.is_none_or(|version| version >= backup::FIRST_WITH_CHECKSUMS);
    let mut examined = Examined {
        kind: FileKind::Backup,
        format: version.filter(|version| backup::is_known(*version)),
        rows,
        has_checksums,
        damage: Damage::default(),
        touched: Vec::new(),
        others: 0,
        is_in_use: false,
        has_moved: false,
    };
    // Without checksums of rows nothing can be said of any of them.
    if rows > 0 {
        let catalog = Catalog::of(Box::new(Redb::open(scratch)?), false);
        let finished = examined.finish(&catalog, &soundness, 0);
        catalog.close();
        finished?;
    } else {
        examined.damage = damage_of(&soundness, 0);
    }
    Ok(examined)
}

/// Copies the rows of a damaged backup that pass their own checks, as far as it can be followed. Returns how many.
fn take_some(
    bytes: &[u8],
    version: Option<u32>,
    why: CatalogError,
    scratch: &Arc<dyn Disk>,
    soundness: &Soundness,
) -> Result<u64> {
    match why {
        CatalogError::Malformed { why, .. } => {
            soundness.found(format!("the backup: {}", why.trim_end_matches(backup::NOTHING_CHANGED)));
        }
        error if error.is_damage() => soundness.note(&error),
        error => return Err(error),
    }
    if version.is_none_or(|version| version < backup::FIRST_WITH_CHECKSUMS) {
        return Ok(0);
    }
    let rows = Redb::open(scratch)?;
    let (mut taken, mut rest) = (0, bytes.get(backup::HEAD_BYTES..).unwrap_or_default());
    let mut batch: Vec<Entry<'_>> = Vec::new();
    let write = |batch: &mut Vec<Entry<'_>>| {
        rows.change(&mut |txn| batch.iter().try_for_each(|entry| entry.apply(txn)))?;
        batch.clear();
        Ok::<(), CatalogError>(())
    };
    while rest.first() != Some(&backup::END) {
        let Split::Entry(entry, after) = split(rest) else {
            let at = bytes.len() - rest.len();
            soundness
                .found(format!("the backup: at byte {at} no row follows; nothing behind it can be read"));
            break;
        };
        rest = after;
        match verified(entry.table, entry.key, entry.value.unwrap_or_default()) {
            Ok(_) => {
                taken += 1;
                batch.push(entry);
            }
            Err(error) => soundness.note(&error),
        }
        if batch.len() == ROWS_AT_ONCE {
            write(&mut batch)?;
        }
    }
    write(&mut batch)?;
    rows.close();
    Ok(taken)
}

impl Examined {
    /// Checks the references between the rows that passed, and finds what is touched.
    fn finish(&mut self, catalog: &Catalog, soundness: &Soundness, untold: u64) -> Result<()> {
        catalog.check_into(soundness, &|_| true)?;
        self.damage = damage_of(soundness, untold);
        if !self.is_sound() {
            (self.touched, self.others) = touched(catalog)?;
        }
        Ok(())
    }
}

fn damage_of(soundness: &Soundness, untold: u64) -> Damage {
    match soundness.condition() {
        Condition::Damaged(Damage { findings, count }) => Damage { findings, count: count + untold },
        _ => Damage::default(),
    }
}

fn failed(error: DiskError) -> CatalogError {
    CatalogError::Failed(error.to_string())
}
