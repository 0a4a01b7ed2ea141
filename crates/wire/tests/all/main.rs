//! What arrives on the wire, and the generated code of the protocol.

mod garbage;
mod generated;
mod lanes;
