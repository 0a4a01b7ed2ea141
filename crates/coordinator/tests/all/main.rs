//! A coordinator over nodes that are doubles: what it plans, promises, and remembers after a loss of power.

// Helper functions of tests may fail loudly; the lint's exception covers only the tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod answering;
mod archival;
mod balance;
mod catalog;
mod comparison;
mod damage;
mod healing;
mod in_process;
mod incarnations;
mod letting_go;
mod life_of_an_object;
mod orders;
mod power_cuts;
mod recodes;
mod schemes;
mod support;
mod time;
mod unknown;
mod unread;
mod written;
