//! What can go wrong in the laboratory.

use crate::testbed::MeasuredLink;
use cli::bare::BareError;
use cli::processor::NoTimes;
use client::ClientError;
use std::io;
use std::path::PathBuf;

/// What the laboratory answers.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

/// Why a testbed, a cluster on it, or a measurement did not come about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Namespaces belong to root.
    #[error("a testbed is made of network namespaces, and those need root; run this as root")]
    NotRoot,
    /// A program that the testbed drives is not installed.
    #[error("the testbed needs the program '{0}', which is not installed (it is part of iproute2)")]
    MissingTool(&'static str),
    /// `ip` or `tc` refused.
    #[error("{tool} failed{}: {message}", .namespace.as_deref().map(|n| format!(" in {n}")).unwrap_or_default())]
    Tool {
        /// Which program.
        tool: &'static str,
        /// In which namespace; `None` outside all.
        namespace: Option<String>,
        /// What it said.
        message: String,
    },
    /// The description of a testbed or cluster makes no sense.
    #[error("{0}")]
    BadSpec(String),
    /// A testbed of that name exists and looks different.
    #[error("testbed '{name}' is up with another shape ({found}); take it down first: stripeline lab down")]
    DifferentSpec {
        /// Its name.
        name: String,
        /// What it looks like.
        found: String,
    },
    /// No testbed of that name is up.
    #[error("no testbed '{0}' is up; make one: stripeline lab up")]
    NotUp(String),
    /// Another command is at work on testbeds.
    #[error("another command is changing testbeds; try again")]
    Locked,
    /// A host that is not there.
    #[error("there is no host {index}; hosts are 0 to {}", .hosts.saturating_sub(1))]
    NoHost {
        /// The one asked for.
        index: usize,
        /// How many there are.
        hosts: usize,
    },
    /// A file or a system call.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The state file is not ours, or damaged.
    #[error("{} is no record of a testbed: {reason}", .path.display())]
    BadState {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A link does not carry what is claimed: nothing measured on it would mean anything.
    #[error(
        "link {} → {} carries {:.1} Mbit/s of payload where {} should carry {:.1}: nothing is reported on such a network",
        .0.from, .0.to, .0.measured_mbit, .0.claimed, .0.expected_mbit().unwrap_or_default()
    )]
    LinkDeviates(MeasuredLink),
    /// The same, and the processors were busy: they are the limit, not the links.
    #[error(
        "the processors are the limit, not the links ({:.0} % busy): {} → {} carries {:.1} Mbit/s of payload where {} should carry {:.1}; lower the rate",
        .busy * 100.0, .link.from, .link.to, .link.measured_mbit, .link.claimed, .link.expected_mbit().unwrap_or_default()
    )]
    ProcessorBound {
        /// The link.
        link: MeasuredLink,
        /// Fraction of all processors in use.
        busy: f64,
    },
    /// The same, with another figure each time: something else takes this machine's time.
    #[error(
        "{} → {} carries between {least_mbit:.1} and {most_mbit:.1} Mbit/s of payload where {} should carry {:.1}: this machine is too unsteady to measure on now",
        .link.from, .link.to, .link.claimed, .link.expected_mbit().unwrap_or_default()
    )]
    Unsteady {
        /// The link, with the last figure.
        link: MeasuredLink,
        /// The least payload that came through.
        least_mbit: f64,
        /// The most.
        most_mbit: f64,
    },
    /// What an experiment with HDFS starts was not built here.
    #[error(
        "this runs unmodified HDFS, and {} is not there: make hdfs-classes, in a checkout, where Java 17, Maven and Hadoop from a Maven repository can be had; then start this there",
        .lacking.display()
    )]
    NoHadoop {
        /// The first thing that is not there.
        lacking: PathBuf,
    },
    /// A daemon did not start, or ended.
    #[error("{who}: {message}")]
    Daemon {
        /// The coordinator, or which node.
        who: String,
        /// What it said last.
        message: String,
    },
    /// The cluster on the testbed refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A file of results is damaged, or of another version.
    #[error("{} holds no results: {reason}", .path.display())]
    BadResults {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No picture could be made of results.
    #[error("cannot draw {id}: {reason}")]
    Figure {
        /// The experiment.
        id: String,
        /// Why.
        reason: String,
    },
    /// A bare program failed.
    #[error(transparent)]
    Bare(#[from] BareError),
    /// Nobody knows how busy the processors are.
    #[error(transparent)]
    Processors(#[from] NoTimes),
}

impl LabError {
    /// What the coordinator said, or did not do.
    pub(crate) fn of_coordinator(message: impl Into<String>) -> LabError {
        LabError::Daemon { who: "the coordinator".to_owned(), message: message.into() }
    }

    /// Wraps an I/O error with what was being done: "read /proc/stat".
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
        let what = what.into();
        move |source| LabError::Io { what, source }
    }
}

/// What makes no sense, in words.
pub(crate) fn bad(why: impl ToString) -> LabError {
    LabError::BadSpec(why.to_string())
}
