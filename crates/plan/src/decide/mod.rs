//! What is decided about flows: what they should take, and what to do when one breaks. Pure: no clock, no lock, no I/O.

mod course;
mod usual;

pub use course::{Bounds, Course, Next};
pub use usual::{InTheory, Usual};
