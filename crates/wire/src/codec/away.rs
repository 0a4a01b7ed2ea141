//! The mark on refusals of a coordinator that starts or ends: the same call will be served soon.

use tonic::Status;
use tonic::metadata::MetadataValue;

const KEY: &str = "stripeline-away";

/// Why a coordinator does not serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Away {
    /// It starts, and did nothing of what was asked.
    Starts,
    /// It ends, and may have done what was asked.
    Ends,
}

impl Away {
    /// Marks a refusal.
    pub fn mark(self, mut status: Status) -> Status {
        let value = if self == Away::Starts { "starts" } else { "ends" };
        status.metadata_mut().insert(KEY, MetadataValue::from_static(value));
        status
    }

    /// Returns the mark of a refusal; `None` if the peer serves, or marks nothing.
    pub fn of(status: &Status) -> Option<Away> {
        match status.metadata().get(KEY)?.as_bytes() {
            b"starts" => Some(Away::Starts),
            b"ends" => Some(Away::Ends),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_back_and_none_is_invented() {
        for away in [Away::Starts, Away::Ends] {
            assert_eq!(Away::of(&away.mark(Status::unavailable("it is away"))), Some(away));
        }
        assert_eq!(Away::of(&Status::unavailable("it is away")), None);
    }
}
