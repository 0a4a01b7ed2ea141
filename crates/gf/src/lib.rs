//! Finite fields and what storage codes do with them.
//!
//! - [`Field`] and [`Matrix`]: exact algebra on a few numbers (generators, inverses, repair equations).
//! - [`Kernels`]: multiplication of whole regions of bytes, one table of functions per SIMD level.
//! - [`Field::Gf65536`]: GF(2^16) as a tower over GF(2^8), whose matrices become matrices over GF(2^8).
//! - [`Product`]: a matrix compiled for regions, `outputs = matrix × inputs`.
//! - [`Fingerprint`]: 128 bytes per chunk that obey every equation the bytes obey.
//!
//! Absent: I/O, threads, clocks, the environment, and any idea of blocks, codes or nodes. The only thing that the crate
//! asks of the machine is which instructions the processor has. Regions are the caller's memory throughout: nothing is
//! kept, nothing but [`Product`] allocates.
//!
//! An API: programs outside this repository may use it. The bytes that it computes are for ever (data on disk depend on
//! them); its types may change with a version, as CHANGELOG.md tells.

mod error;
mod field;
mod fingerprint;
mod kernel;
mod matrix;
mod product;
mod sums;
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
