//! The laboratory: its testbeds, and experiments in small.

mod experiments;
mod testbed;
