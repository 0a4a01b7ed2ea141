//! What repairs usually take, learned as they end.

use plan::decide::Usual;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Repairs of a recovery share links with each other, and are remembered apart.
#[derive(Debug)]
pub(crate) struct UsualTimes {
    alone: Mutex<Usual>,
    among_many: Mutex<Usual>,
}

impl UsualTimes {
    /// Nothing is known yet.
    pub fn new() -> UsualTimes {
        UsualTimes { alone: Mutex::new(Usual::alone()), among_many: Mutex::new(Usual::among_many()) }
    }

    /// Of repairs by themselves, or of those of a recovery.
    pub fn of(&self, among_many: bool) -> MutexGuard<'_, Usual> {
        let usual = if among_many { &self.among_many } else { &self.alone };
        usual.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What repairs took so far says nothing of the next ones.
    pub fn forget(&self) {
        [false, true].iter().for_each(|&among_many| self.of(among_many).forget());
    }
}
