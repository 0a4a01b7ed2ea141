//! Whether the catalog's own file is as it was written (HEALING.md, "The catalog's own file").
//!
//! ```text
//!   opened ──▶ unchecked ──a check that finds nothing──▶ sound
//!                  └──────────── damage is met ────────────┴──▶ damaged ──made anew from what nodes keep──▶ opened again
//! ```
//!
//! Copies are let go only while the file is sound. While it is damaged nothing is changed, and reads see the rows that pass their
//! checks. A damaged row is evidence against that row only.

mod check;
pub(crate) mod checksum;
mod offline;
mod references;
mod renew;
mod salvage;
mod touched;
mod upgrade;

pub use check::{Checked, Progress, first_damaged_page};
pub use offline::{Examined, FileKind, examine};
pub(crate) use renew::exchange;
pub use renew::{damaged_files, restore_name};
pub use salvage::{Salvaged, salvage};
pub use touched::Touched;

use crate::error::{CatalogError, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many findings are kept with their text; further ones are only counted.
pub const MAX_TOLD: usize = 64;

/// The condition of the catalog's file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// No check of all of it has ended since it was opened.
    Unchecked,
    /// A check of all of it found nothing, and no damage was met since.
    Sound,
    /// It is not as it was written.
    Damaged(Damage),
}

/// What is wrong with the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Damage {
    /// The first findings, [`MAX_TOLD`] at most.
    pub findings: Vec<String>,
    /// How many findings there are, kept ones among them.
    pub count: u64,
}

/// Keeps a file's condition.
#[derive(Debug)]
pub(crate) struct Soundness {
    condition: Mutex<Condition>,
    /// Whether the condition is [`Condition::Damaged`]: asked before each change, without the lock.
    is_damaged: AtomicBool,
}

impl Soundness {
    /// A new file is sound; one that was there is unchecked.
    pub fn new(is_new: bool) -> Soundness {
        let condition = if is_new { Condition::Sound } else { Condition::Unchecked };
        Soundness { condition: Mutex::new(condition), is_damaged: AtomicBool::new(false) }
    }

    pub fn condition(&self) -> Condition {
        self.lock().clone()
    }

    /// Notes the error if it tells of damage.
    pub fn note(&self, error: &CatalogError) {
        if error.is_damage() {
            self.found(error.damage());
        }
    }

    /// Notes a finding: the file is damaged from now on.
    pub fn found(&self, finding: String) {
        let mut condition = self.lock();
        self.is_damaged.store(true, Ordering::Release);
        let damage = match &mut *condition {
            Condition::Damaged(damage) => damage,
            other => {
                *other = Condition::Damaged(Damage::default());
                let Condition::Damaged(damage) = other else { return };
                damage
            }
        };
        // The same finding, met again, counts once.
        if damage.findings.contains(&finding) {
            return;
        }
        damage.count += 1;
        if damage.findings.len() < MAX_TOLD {
            damage.findings.push(finding);
        }
    }

    /// A check of all of the file found nothing. Damage that was met before stays.
    pub fn passed(&self) {
        let mut condition = self.lock();
        if *condition == Condition::Unchecked {
            *condition = Condition::Sound;
        }
    }

    /// Whether copies may be let go, as far as the file is concerned.
    pub fn is_sound(&self) -> bool {
        *self.lock() == Condition::Sound
    }

    /// Whether changes may be made.
    ///
    /// # Errors
    /// [`CatalogError::ChangesWait`] while the file is damaged.
    pub fn may_change(&self) -> Result<()> {
        if !self.is_damaged.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*self.lock() {
            Condition::Damaged(damage) => Err(CatalogError::ChangesWait(damage.to_string())),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Condition> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.findings.first().map_or("no finding", String::as_str))?;
        match self.count.saturating_sub(1) {
            0 => Ok(()),
            others => write!(f, ", and {others} more"),
        }
    }
}

impl CatalogError {
    /// The finding alone, without the advice of the error's sentence.
    fn damage(&self) -> String {
        match self {
            CatalogError::DamagedRow { table, key, why } => format!("row {table} {key}: {why}"),
            CatalogError::DamagedFile(why) => why.clone(),
            other => other.to_string(),
        }
    }
}
