//! What can go wrong for a program that uses a cluster: each is one sentence that says what to do.

use model::{Fault, NodeId};
use std::io;
use std::sync::Arc;

/// What this crate answers.
pub(crate) type Result<T, E = ClientError> = std::result::Result<T, E>;

/// Every error of this crate.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers.
    #[error(
        "no coordinator answers at {address} ({reason}); start one with 'stripeline cluster up' or give --coordinator"
    )]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// What the network said.
        reason: String,
    },
    /// A node that should live does not answer.
    #[error("{node} does not answer at {address} ({reason}); 'stripeline cluster status' shows who lives")]
    NodeUnreachable {
        /// The node.
        node: NodeId,
        /// Its control address.
        address: String,
        /// What the network said.
        reason: String,
    },
    /// An address that is none.
    #[error("'{0}' is no address; write it as host:port, such as 127.0.0.1:7400")]
    BadAddress(String),
    /// The coordinator or a node does not know what was asked for.
    #[error("{0}")]
    NotFound(String),
    /// The coordinator or a node refused; the sentence is its own.
    #[error("{0}")]
    Refused(String),
    /// The coordinator or a node cannot do it now: it starts, ends, or waits for others. The sentence is its own.
    #[error("{0}")]
    NotNow(String),
    /// The call was sent, no answer came in time.
    #[error("{what} was not answered within {seconds} s; look at the coordinator's log, then try again")]
    TimedOut {
        /// The call.
        what: &'static str,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A flow failed and so did its retries.
    #[error("{what} failed after {attempts} attempts; the last: {fault}")]
    Flow {
        /// What was moved: "writing block 3 of 'a'".
        what: String,
        /// How often it was tried.
        attempts: u32,
        /// What happened last.
        fault: Fault,
    },
    /// A job ended badly.
    #[error("{0}")]
    Job(String),
    /// The bytes are not those that were put.
    #[error(
        "'{name}' came back different from what was put (BLAKE3 {got}, expected {expected}); do not use it, and run 'stripeline scrub'"
    )]
    WrongDigest {
        /// The object.
        name: String,
        /// What came.
        got: String,
        /// What the catalog recorded.
        expected: String,
    },
    /// The object was put again or deleted while it was being read.
    #[error("'{0}' was replaced or deleted while it was being read; read it again")]
    Changed(String),
    /// A range that has no byte in common with the object.
    #[error("range {range} lies outside of '{name}', which has {object_bytes} bytes")]
    RangeOutside {
        /// The range.
        range: String,
        /// The object.
        name: String,
        /// Its length.
        object_bytes: u64,
    },
    /// Parities that are kept in memory while their data pass by.
    #[error(
        "the parities of a stripe of blocks this long take {bytes} bytes of memory, and {limit} at most: put it with a smaller --block-size"
    )]
    ParitiesTooLong {
        /// They would take so much.
        bytes: u64,
        /// The bound.
        limit: u64,
    },
    /// This machine calculates wrongly.
    #[error(
        "parity {member} of stripe {stripe} is not what {code} makes of the data: this machine calculates wrongly; nothing was changed"
    )]
    WrongParity {
        /// The stripe of the object.
        stripe: u64,
        /// The member of the stripe.
        member: usize,
        /// The code.
        code: String,
    },
    /// The input of a put cannot be read.
    #[error("cannot read the input: {0}")]
    Input(Arc<io::Error>),
    /// The output of a get cannot be written.
    #[error("cannot write the output: {0}")]
    Output(Arc<io::Error>),
    /// An answer that this version does not understand.
    #[error("{0}; client and cluster must be of the same version")]
    Protocol(String),
    /// A defect of ours.
    #[error("internal error: {0}")]
    Bug(String),
}

impl ClientError {
    /// What a gRPC call came back with. `address` is where it was sent.
    pub(crate) fn from_status(status: &tonic::Status, address: &str) -> ClientError {
        use std::error::Error as _;
        let message = match status.message() {
            "" => status.code().description().to_owned(),
            text => text.to_owned(),
        };
        // A status that the peer sent has no source; one that the transport made up has, with one code or another.
        if status.source().is_some() {
            return ClientError::Unreachable { address: address.to_owned(), reason: root_cause(status) };
        }
        match status.code() {
            tonic::Code::NotFound => ClientError::NotFound(message),
            tonic::Code::Unavailable => ClientError::NotNow(message),
            tonic::Code::Unimplemented => ClientError::Protocol(message),
            _ => ClientError::Refused(message),
        }
    }
}

/// The innermost cause, which is the one that names the trouble ("Connection refused").
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// A task of ours that panicked or was cancelled.
pub(crate) fn broken_task(error: tokio::task::JoinError) -> ClientError {
    ClientError::Bug(error.to_string())
}
