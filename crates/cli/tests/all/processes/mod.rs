//! The product as a user meets it: the real binary, real daemons, real files, real kills.
//!
//! Every test has a cluster of its own in a temporary folder; see [`rig`].

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may give up

mod bad_input;
mod by_hand;
mod chaos;
mod coded;
mod daemons;
mod damage;
mod full;
mod hosts;
mod incarnations;
mod journey;
mod kill;
mod noise;
mod rig;
mod salvage;
mod trees;
mod unknown;
mod waits;
