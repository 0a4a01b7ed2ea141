//! Panics of the database: it reads pages without checking them, so a damaged file can make it break off anywhere. Such a panic is an
//! error, and tells that the file is damaged.

use super::{Scan, Visit};
use crate::error::{CatalogError, Result};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Once;

/// Letters of a panic's text that are told.
const MAX_TOLD: usize = 200;

thread_local! {
    /// Calls of the database that this thread is in.
    static WITHIN: Cell<u32> = const { Cell::new(0) };
}

/// Has panics of the database, which become errors, told by these alone. For daemons: the hook is the process's.
pub fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if WITHIN.get() == 0 {
                usual(panic);
            }
        }));
    });
}

/// A call of the database; dropped, the thread is where it was before.
struct Within {
    before: u32,
}

impl Within {
    fn begin() -> Within {
        Within { before: WITHIN.replace(WITHIN.get() + 1) }
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        WITHIN.set(self.before);
    }
}

/// Calls the database.
///
/// # Errors
/// Errors of the call; [`CatalogError::DamagedFile`] if it panics.
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let within = Within::begin();
    let called = catch_unwind(AssertUnwindSafe(call));
    drop(within);
    called.unwrap_or_else(|panic| Err(damaged(&*panic)))
}

/// The same for a scan, in which a panic of the visitor stays one: it is a mistake of ours, and no damage.
pub(super) fn scan_guarded(
    visit: &mut Visit<'_>,
    scan: impl FnOnce(&mut Visit<'_>) -> Result<()>,
) -> Result<()> {
    let is_visiting = Cell::new(false);
    let mut noting = |key: &[u8], value: &[u8]| -> Result<Scan> {
        let within = WITHIN.replace(0);
        is_visiting.set(true);
        let went = visit(key, value);
        is_visiting.set(false);
        WITHIN.set(within);
        went
    };
    let within = Within::begin();
    let scanned = catch_unwind(AssertUnwindSafe(|| scan(&mut noting)));
    drop(within);
    match scanned {
        Ok(scanned) => scanned,
        Err(panic) if is_visiting.get() => resume_unwind(panic),
        Err(panic) => Err(damaged(&*panic)),
    }
}

fn damaged(panic: &(dyn Any + Send)) -> CatalogError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text");
    let text: String = text.chars().take(MAX_TOLD).collect();
    CatalogError::DamagedFile(format!("the database broke off ({text})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_database_is_damage_and_one_of_a_visitor_is_none() {
        let broke_off = guarded::<()>(|| panic!("range end index 7 out of range")).unwrap_err();
        assert!(broke_off.is_damage() && broke_off.to_string().contains("index 7"), "{broke_off}");
        let scan = |visit: &mut Visit<'_>| visit(&[], &[]).map(|_| ());
        let ours = catch_unwind(AssertUnwindSafe(|| scan_guarded(&mut |_, _| panic!("ours"), scan)));
        assert_eq!(ours.unwrap_err().downcast_ref::<&str>(), Some(&"ours"));
        let theirs = scan_guarded(&mut |_, _| Ok(Scan::Next), |_| panic!("theirs"));
        assert!(theirs.is_err_and(|error| error.is_damage()));
        assert_eq!(WITHIN.get(), 0);
    }
}
