//! What the region half of this crate refuses. (Matrices have [`MatrixError`](crate::MatrixError).)

use crate::{Field, Level};

/// A request that cannot be met on this machine, in this process or over this field.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GfError {
    /// The processor lacks the instructions of a SIMD level.
    #[error("this processor cannot run the {0} kernels (it can run: {list})", list = available())]
    LevelUnavailable(Level),
    /// A level was forced after the kernels were first used.
    #[error("cannot switch to the {wanted} kernels: the {chosen} kernels are in use already")]
    LevelChosen {
        /// What was asked for.
        wanted: Level,
        /// What the process runs with.
        chosen: Level,
    },
    /// A text that names no level.
    #[error("`{0}` is no kernel level (levels: scalar, ssse3, avx2, gfni512)")]
    UnknownLevel(String),
    /// There are no region kernels for a matrix's field.
    #[error("no region kernels for {0}")]
    UnsupportedField(Field),
}

fn available() -> String {
    Level::available().iter().map(Level::to_string).collect::<Vec<_>>().join(", ")
}
