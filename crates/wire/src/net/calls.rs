//! Sizes of requests, by call.

use crate::limits;

/// Requests that carry names, numbers and ids. A name has 1 KiB, a list of nodes to avoid a few KiB.
pub(super) const SMALL: usize = 64 << 10;

/// Requests that carry lists in batches, or of nodes: 1,024 copies have about 200 KiB, a block group of 256 members with its tokens 256 KiB.
const LIST: usize = 4 << 20;

/// Limits on the requests of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    /// Bytes of one message.
    pub message: usize,
    /// Any number of messages, which are handled one after another.
    pub is_stream: bool,
}

/// The bounds of a call, by its path. A call without a row here carries names and numbers.
pub(super) fn bounds(path: &str) -> Bounds {
    let call = path.rsplit('/').next().unwrap_or_default();
    let message = match call {
        // Plans of stripes of 256 blocks, tables of all pairs of nodes, what an operator lists.
        "Drive" | "RunStages" | "SetLinks" | "RecoverCatalog" | "LetUnknownGo" => limits::MAX_CONTROL_BYTES,
        // The blocks of an object, 320 bytes each; the change that notes them; what a node has and cannot read.
        "CommitPut" | "HoldRecords" | "Register" | "Heartbeat" => limits::MAX_CONTROL_BYTES,
        "CheckBlocks" | "DeleteBlocks" | "Obey" | "PlanGroup" | "PlanParities" | "PlanRead" | "Repair"
        | "Explain" => LIST,
        _ => SMALL,
    };
    Bounds { message, is_stream: matches!(call, "RunStages" | "HoldRecords" | "Register") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each call of the two services, from the file that they are generated from.
    #[test]
    fn streams_of_requests_are_those_of_the_protocol() {
        let protocol = include_str!("../../proto/stripeline.proto");
        let calls: Vec<&str> = protocol.lines().filter_map(|line| line.trim().strip_prefix("rpc ")).collect();
        assert!(calls.len() > 40, "{}", calls.len());
        for call in calls {
            let (name, arguments) = call.split_once('(').unwrap();
            assert_eq!(
                bounds(&format!("/stripeline.v1.Any/{name}")).is_stream,
                arguments.starts_with("stream "),
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_not_known_is_small() {
        assert_eq!(bounds("/no/such"), Bounds { message: SMALL, is_stream: false });
        assert_eq!(bounds(""), Bounds { message: SMALL, is_stream: false });
        assert_eq!(bounds("/stripeline.v1.Node/Drive").message, limits::MAX_CONTROL_BYTES);
    }
}
