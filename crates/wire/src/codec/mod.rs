//! The model as messages, and back: each type is converted in one place.

pub mod away;
pub mod block;
mod budgets;
pub mod fault;
pub mod group;
pub mod header;
pub mod mac;
pub mod part;
pub mod plan;
pub mod records;
mod stage;
pub mod unknown;

use model::{Cause, Fault};

fn narrow(value: u32) -> Result<u16, Fault> {
    u16::try_from(value).map_err(|_| invalid("a number beyond 16 bits"))
}

fn invalid(what: &str) -> Fault {
    Fault::new(Cause::Invalid, what)
}
