//! Erasure codes as data: what a stripe's blocks are combinations of, how lost ones follow from others, which losses
//! are survived. A code does no I/O, allocates no block and knows no node; flows make its equations move bytes.
//!
//! ```text
//!   rs-2+2, α = 1: a stripe of n = 4 blocks, k = 2 of data        generator, nα × kα
//!
//!   block 0 = d0                                                      1  0
//!   block 1 = d1                                                      0  1
//!   block 2 = 3·d0 + 2·d1                                             3  2
//!   block 3 = 2·d0 + 3·d1                                             2  3
//! ```
//!
//! With α > 1 a block is α symbols, one after another, and the generator has α rows per block.
//!
//! ```
//! let code = codes::Code::parse("rs-2+2")?;
//! assert_eq!((code.n(), code.k(), code.tolerance()), (4, 2, 2));
//! // Block 0 is lost; its helpers, in order of preference, are 3, 2 and 1. Two are needed.
//! let equation = code.decode(&[0], &[3, 2, 1])?;
//! assert_eq!(equation.blocks(), [3, 2]);
//! # Ok::<(), codes::CodeError>(())
//! ```
//!
//! A family is a file that builds generators from a name, and one line in [`families`] (docs/first-change.md).
//!
//! Absent: bytes of blocks, placement, nodes, I/O, chance. An API: programs outside this repository may use it as a
//! calculator. Names and their matrices are for ever; types may change with a version, as CHANGELOG.md tells.

mod cauchy;
mod code;
mod codebook;
mod dependencies;
mod draw;
mod equation;
mod error;
mod inspect;
mod lrc;
mod random;
pub mod rapidraid;
mod recovery;
mod registry;
pub mod reliability;
mod replication;
mod rotated;
mod rs;
mod rs16;
mod rs_legacy;
mod single_parity;
mod tolerance;
mod xor;

pub use code::{Code, SymbolId};
pub use codebook::{Codebook, Standing};
pub use dependencies::Dependencies;
pub use equation::Equation;
pub use error::CodeError;
pub use inspect::{BlockRepair, InspectReport};
pub use recovery::{Fewest, ONLY_IN_NEED, Recovery};
pub use registry::{Family, families};
pub use tolerance::{Reach, ToleranceCount};
pub use xor::{Loss, Method, ParitySets, Reading};
