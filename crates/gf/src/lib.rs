//! Finite fields and what storage codes do with them.
//!
//! - [`Field`] and [`Matrix`]: exact algebra on a few numbers (generators, inverses, repair equations).
//! - [`Kernels`]: multiplication of whole regions of bytes, one table of functions per SIMD level.
//! - [`Field::Gf65536`]: GF(2^16) as a tower over GF(2^8), whose matrices become matrices over GF(2^8).
//! - [`Product`]: a matrix compiled for regions, `outputs = matrix × inputs`.
//! - [`Fingerprint`]: 128 bytes per chunk that obey every equation the bytes obey.
//!
//! The crate does no I/O and reads no environment; the only thing it asks of the machine is which instructions
//! the processor has. Regions are caller's memory throughout: nothing is kept, nothing but [`Product`] allocates.

mod error;
mod field;
mod fingerprint;
mod kernel;
mod matrix;
mod product;
mod tower;

pub use error::GfError;
pub use field::Field;
pub use fingerprint::{FINGERPRINT_BYTES, FINGERPRINT_VERSION, Fingerprint, WORD_BYTES};
pub use kernel::{HopFingerprints, Kernels, Level, force_level, kernels};
pub use matrix::{Matrix, MatrixError};
pub use product::Product;

/// Unit of checksums and fingerprints: the sidecar of a block holds one of each per chunk. Part of the on-disk
/// format.
pub const CHUNK_BYTES: usize = 32 * 1024;
