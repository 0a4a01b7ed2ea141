//! How objects are read.

use crate::range::ByteRange;
use std::sync::Arc;

/// Told the bytes so far, and the whole if it is known.
pub type Progress = Arc<dyn Fn(u64, Option<u64>) + Send + Sync>;

/// How an object is read. The default reads all of it as the coordinator thinks best.
#[derive(Clone, Default)]
pub struct GetOptions {
    /// The part that is wanted; `None` for all.
    pub range: Option<ByteRange>,
    /// Scheme of degraded reads; empty or "auto": the coordinator chooses.
    pub scheme: String,
    /// Bytes of a slice; 0 for the default.
    pub slice_bytes: u32,
    /// Nodes that are slow are waited for.
    pub patient: bool,
    /// Told the bytes that went out.
    pub progress: Option<Progress>,
}
