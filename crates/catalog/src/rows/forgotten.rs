//! Stores that operators gave up.

use crate::form;
use model::NodeId;
use serde::{Deserialize, Serialize};

/// A store that is gone for good, by an operator's word. Its row stays: should the store return, it is refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForgottenRow {
    /// The number that it had.
    #[serde(with = "form")]
    pub node: NodeId,
    /// Since when.
    pub since_ms: u64,
    /// Nothing names it any more, and its number is free.
    pub is_over: bool,
    /// Copies that were counted on, or flawed, and are listed no more.
    pub dropped: u64,
    /// Superfluous copies whose deletion is waited for no more.
    pub candidates: u64,
    /// Blocks that had fewer copies than they are to have when its copy was dropped.
    pub short: u64,
    /// Blocks that could not be had without it when it was given up.
    pub lost: u64,
    /// Objects that have such blocks.
    pub lost_objects: u64,
    /// The first of their names.
    pub lost_names: Vec<String>,
}
