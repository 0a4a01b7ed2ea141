//! Bounds of messages and calls, each with its reason. Those of flows are `flow::limits`.

/// Length of an object's name in bytes; names also key the catalog.
pub const MAX_NAME_BYTES: usize = 1024;

/// A control message larger than this is refused. A plan of a (256, k) stripe fits many times.
pub const MAX_CONTROL_BYTES: usize = 32 << 20;

/// Maximum length of a fault's detail; longer ones are truncated, because details are logged and repeated in answers. This program's own have a
/// few hundred bytes.
pub const MAX_DETAIL_BYTES: usize = 2_048;

/// A driver gives a sign of life this often at least.
pub const KEEP_ALIVE_MS: u64 = 2_000;

/// Connecting to a living node on a data-centre network takes well below this.
pub const CONNECT_TIMEOUT_MS: u64 = 3_000;

/// Whoever is called answers within this time: half of it for the node that is called to be prepared too.
pub const ANSWER_TIMEOUT_MS: u64 = 4_000;
