//! A cluster of processes on this machine: for trying out, for tests, for the demonstration.
//!
//! ```text
//!   DIR/cluster.json              what the cluster consists of
//!       lock                      held while it is being changed
//!       coordinator/  node-1/ …   a folder for each daemon:
//!           data/                     what it stores
//!           ready.json                where it listens; it writes this itself
//!           process.json              which process it is; whoever started it writes this
//!           log                       what it says
//!           *.spare                   room for the next of these files, in case the disk is full
//! ```

mod home;
mod lifecycle;
mod process;
mod state;

pub use home::{DaemonDir, Home, Ready, folder_of};
pub use lifecycle::{Running, UpArgs, bring_up, start_node, stop_all};
pub use process::{cpu_seconds, no_more_daemons, own_start};
