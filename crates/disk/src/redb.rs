//! The embedded catalog's storage: redb over a [`Disk`], so that its writes are cut and counted like all others.

mod backend;
mod open;

pub use backend::RedbBackend;
pub use open::{LastCommit, Opened, open_database, open_database_noting};
