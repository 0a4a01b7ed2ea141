//! Whole clusters in this process: a real coordinator and real nodes over gRPC and TCP, on disks that can lose power.

// Helper functions of tests may fail loudly; the lint's exception covers only the tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod another_pair;
mod archive;
mod branches;
mod catalog;
mod choices;
mod coded;
mod comparison;
mod daemon;
mod endings;
mod faults;
mod forgetting;
mod heard;
mod hedges;
mod leases;
mod letting_go;
mod local;
mod objects;
mod pauses;
mod power_cut;
mod rapidraid;
mod reads;
mod recovery;
mod reports;
mod rig;
mod room;
mod settings;
mod stripes;
mod succession;
mod syncs;
mod xor;
