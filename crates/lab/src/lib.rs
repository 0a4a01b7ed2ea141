//! A network of hosts on one machine, the product's own daemons on it, and bare programs to compare them with.
//!
//! ```text
//!   testbed   hosts: network namespaces, veth pairs, bridges, token buckets; measured before they are believed
//!   cluster   a coordinator and nodes on those hosts, a process each
//!   bare      the same bytes over plain sockets: one connection, a chain of relays, a chain of helpers
//!   hdfs      unmodified HDFS on those hosts, by a program of its integration's tests
//!   experiments, report   the papers' figures, measured on all that, and kept beside the papers' numbers
//! ```
//!
//! A thread or a process is on a host when it is in that host's network namespace: [`Host::inside`], [`Host::command`].
//!
//! Absent: anything that daemons or operators need. Internal: experiments change it as they need.

pub mod bare;
mod cluster;
mod error;
pub mod experiments;
mod hdfs;
pub mod report;
mod scratch;
mod testbed;

pub use cluster::{ClusterSpec, LabCluster, LinkTraffic, RepairOrder, RepairOutcome};
pub use error::LabError;
pub use testbed::{Host, LinkRate, LinkReport, MeasuredLink, Racks, Spec, Testbed};
