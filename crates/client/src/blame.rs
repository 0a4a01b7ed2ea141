//! Whom to leave out of the next attempt.

use wire::{Cause, Fault};

/// The nodes that a fault gives reason to avoid. A broken edge has two ends; the one that did not report is the likelier
/// culprit, for a dead node reports nothing. The client itself (0) is never avoided.
pub(crate) fn blamed(fault: &Fault) -> Vec<u32> {
    let Some((from, to)) = fault.suspect else { return Vec::new() };
    let mut ends = if fault.reporter == from && from != to {
        vec![to]
    } else if fault.reporter == to && from != to {
        vec![from]
    } else {
        vec![from, to]
    };
    // The client may be at the silent end: then only the end that spoke is left to be avoided.
    if ends.iter().all(|&node| node == 0) {
        ends = vec![from, to];
    }
    ends.retain(|&node| node != 0);
    ends.dedup();
    ends
}

/// Whether another attempt could end better.
pub(crate) fn worth_retrying(fault: &Fault) -> bool {
    !matches!(fault.cause, Cause::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silent_end_of_an_edge_is_avoided_and_the_client_never() {
        let fault = |reporter, from, to| {
            let mut fault = Fault::new(Cause::Disconnected, "").suspecting(from, to);
            fault.reporter = reporter;
            blamed(&fault)
        };
        assert_eq!(fault(5, 4, 5), [4]);
        assert_eq!(fault(4, 4, 5), [5]);
        assert_eq!(fault(0, 4, 5), [4, 5]);
        assert_eq!(fault(0, 7, 7), [7]);
        assert_eq!(fault(7, 7, 7), [7]);
        assert_eq!(fault(0, 4, 0), [4]);
        assert_eq!(fault(4, 4, 0), [4]);
        assert_eq!(blamed(&Fault::new(Cause::Busy, "")), [0u32; 0]);
    }
}
