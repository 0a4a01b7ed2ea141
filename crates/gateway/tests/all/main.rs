//! Members of block groups of HDFS, decoded by helpers beside folders of DataNodes: real sockets, a real coordinator, no Java.

// Helper functions of tests may fail loudly; the lint's exception covers only the tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../../../node/tests/all/datanode.rs"]
mod datanode;
mod faults;
mod groups;
mod rig;
