//! The model as messages, and back: each type is converted in one place.

pub mod fault;
