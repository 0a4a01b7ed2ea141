//! The contract of disks, held against the real one and the double that forgets.

mod catalog;
mod contract;
mod faults;
mod opening;
mod power_cut;
