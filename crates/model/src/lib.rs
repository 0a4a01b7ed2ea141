//! The words that all crates share: identities, who takes part, what a stripe is, what went wrong.
//!
//! Messages, rows of the catalog and sidecars are stored forms of these types, with formats of their own; each converts to
//! the model in one place. So nothing here knows how it is stored: no serde, no Protocol Buffers. Nor is there chance here:
//! who makes an id brings its bits.

mod assign;
mod block;
mod fault;
pub mod hdfs;
mod id;
mod node;
pub mod note;
mod placement;
mod record;
mod stamp;
mod switch;
mod traffic;
mod unread;

pub use assign::Assign;
pub use block::{
    BlockCopy, BlockFacts, Contents, Flaw, Flawed, Location, MAX_OBJECT_BLOCKS, MemberState, Part, Reason,
    StoredCopy, StripePlace, Sums,
};
pub use fault::{Cause, Fault};
pub use id::{BadId, BlockId, ClusterId, FlowId, PutId, StoreId, StripeId, Token};
pub use node::{Incarnation, NodeId, Peer};
pub use placement::{Placement, StripePlacement};
pub use record::{Position, RECORD_HEAD_BYTES, RecordHash, RecordHead};
pub use stamp::{Stamp, Term};
pub use switch::{BadAction, Switch};
pub use traffic::{Budgets, Traffic};
pub use unread::Unread;
