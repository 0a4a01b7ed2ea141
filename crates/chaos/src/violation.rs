//! What a schedule can find, by kinds that stay the same; and the switches that say what is not held against the product yet.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What went wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An acknowledged content cannot be read though everything was put right and runs.
    Lost,
    /// Other bytes than those acknowledged were given as right.
    Wrong,
    /// What was deleted is there again.
    Resurrected,
    /// A file on a disk that the catalog does not account for, or one that it counts on and that is not there.
    Unaccounted,
    /// A command or the end of a daemon took longer than its bound.
    Hang,
    /// A process panicked.
    Panic,
    /// `cluster status` or `scrub` says something else than what is the case, or what fails does not say why.
    UntrueStatus,
    /// Something that should end by itself did not: a job, a flow, a deletion, a node's return.
    NotEnded,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::Lost,
        Kind::Wrong,
        Kind::Resurrected,
        Kind::Unaccounted,
        Kind::Hang,
        Kind::Panic,
        Kind::UntrueStatus,
        Kind::NotEnded,
    ];

    /// As it is written everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Lost => "lost",
            Kind::Wrong => "wrong",
            Kind::Resurrected => "resurrected",
            Kind::Unaccounted => "unaccounted",
            Kind::Hang => "hang",
            Kind::Panic => "panic",
            Kind::UntrueStatus => "untrue-status",
            Kind::NotEnded => "not-ended",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that went wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// Of what kind.
    pub kind: Kind,
    /// When, milliseconds after the start.
    pub at_ms: u64,
    /// The story.
    pub what: String,
    /// The switch that keeps it from failing the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<&'static str>,
}
