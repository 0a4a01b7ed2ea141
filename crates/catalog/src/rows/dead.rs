//! Data of stripes that belong to no object any more.

use model::{BlockId, StripeId};
use serde::{Deserialize, Serialize};

/// Index key: dead blocks by stripe.
pub(crate) struct DeadKey {
    pub stripe: StripeId,
    pub block: BlockId,
}

/// Index: a block that no object names, and that others of its stripe are decoded with. Kept by `Change::set_block`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DeadRow {
    pub stored_bytes: u64,
}
