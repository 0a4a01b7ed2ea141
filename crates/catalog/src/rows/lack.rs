//! Blocks that lack copies.

use serde::{Deserialize, Serialize};

/// Index: a block that has fewer copies than it is to have, whoever lives. Kept by `Change::set_block`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct LackRow {
    /// Copies that it lacks.
    pub copies: u32,
}
