//! What is decided about flows: what they should take, and what to do when one breaks. Pure: no clock, no lock, no I/O.

mod detours;
mod usual;

pub use detours::Detours;
pub use usual::{InTheory, Usual};
