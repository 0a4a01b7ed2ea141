//! What arrives on the wire, and the generated code of the protocol.

mod formats;
mod garbage;
mod generated;
