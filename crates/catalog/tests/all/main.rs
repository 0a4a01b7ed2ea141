//! The catalog as other crates see it: by its public names alone.

#![allow(missing_docs)]

mod coded;
mod forgetting;
mod laws;
mod offline;
mod other_back_end;
mod recodes;
mod sharing;
mod virtuals;
