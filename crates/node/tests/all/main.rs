//! Flows over real sockets and stores: repaired bytes, bytes on each link, and who is blamed when something is wrong.

// Helper functions of tests may fail loudly; the lint's exception covers only the tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod datanode;
mod faults;
mod hdfs;
mod holding;
mod membership;
mod mending;
mod orders;
mod repair;
mod rig;
mod scrub;
mod sessions;
mod slow;
mod table;
mod tokens;
