//! Flows: proved, priced, and run on bytes.

// Helper functions of tests may fail loudly; the lint's exception covers only the tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod bytes;
mod cost;
mod encodings;
mod plans;
mod proof;
mod rapidraid;
