//! Which nodes the next attempt leaves out, and whether there is a next attempt.

use crate::error::ClientError;
use model::{Cause, Fault, NodeId, Peer};
use std::time::Duration;

/// A node that is busy, or a failure that blames nobody, gets this long times the number of the attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The attempts to move one block.
pub(crate) struct Attempts {
    /// "writing block 3 of 'a'".
    what: String,
    limit: u32,
    count: u32,
    last: Option<Fault>,
}

impl Attempts {
    pub fn new(what: String, limit: u32) -> Attempts {
        Attempts { what, limit, count: 0, last: None }
    }

    /// The flow made progress: attempts are counted anew from here.
    pub fn advanced(&mut self) {
        self.count = 0;
    }

    /// The plan was refused. If the nodes that earlier attempts left out are what it lacks, they get another chance:
    /// a suspect is better than none.
    pub fn refused(&mut self, error: ClientError, avoid: &mut Vec<u32>) -> Result<(), ClientError> {
        match (error, &self.last) {
            (ClientError::Refused(_), Some(fault)) if !avoid.is_empty() => {
                avoid.clear();
                self.count += 1;
                if self.count < self.limit { Ok(()) } else { Err(self.ended(fault.clone())) }
            }
            (error, _) => Err(error),
        }
    }

    /// A flow failed. The next one goes around the nodes that the fault blames, after a pause.
    pub async fn failed(&mut self, fault: Fault, avoid: &mut Vec<u32>) -> Result<(), ClientError> {
        tracing::debug!(what = self.what, attempt = self.count, %fault, "a flow failed");
        self.count += 1;
        if self.count >= self.limit || !worth_retrying(&fault) {
            return Err(self.ended(fault));
        }
        avoid.extend(blamed(&fault).iter().map(|node| node.0));
        avoid.sort_unstable();
        avoid.dedup();
        self.last = Some(fault);
        tokio::time::sleep(RETRY_PAUSE * self.count).await;
        Ok(())
    }

    fn ended(&self, fault: Fault) -> ClientError {
        ClientError::Flow { what: self.what.clone(), attempts: self.count, fault }
    }
}

/// The nodes that a fault gives reason to avoid. A broken edge has two ends; the one that did not report is the likelier
/// culprit, for a dead node reports nothing. The client itself is never avoided.
fn blamed(fault: &Fault) -> Vec<NodeId> {
    let Some((from, to)) = fault.suspect else { return Vec::new() };
    let mut ends = if fault.reporter == from && from != to {
        vec![to]
    } else if fault.reporter == to && from != to {
        vec![from]
    } else {
        vec![from, to]
    };
    // The client may be at the silent end: then only the end that spoke is left to be avoided.
    if ends.iter().all(|&end| end == Peer::Client) {
        ends = vec![from, to];
    }
    ends.dedup();
    ends.into_iter().filter_map(Peer::node).collect()
}

/// Whether another attempt could end better.
fn worth_retrying(fault: &Fault) -> bool {
    !matches!(fault.cause, Cause::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silent_end_of_an_edge_is_avoided_and_the_client_never() {
        let fault = |reporter, from, to| {
            let [reporter, from, to] = [reporter, from, to].map(Peer::from_number);
            let mut fault = Fault::new(Cause::Disconnected, "").suspecting(from, to);
            fault.reporter = reporter;
            blamed(&fault).iter().map(|node| node.0).collect::<Vec<_>>()
        };
        assert_eq!(fault(5, 4, 5), [4]);
        assert_eq!(fault(4, 4, 5), [5]);
        assert_eq!(fault(0, 4, 5), [4, 5]);
        assert_eq!(fault(0, 7, 7), [7]);
        assert_eq!(fault(7, 7, 7), [7]);
        assert_eq!(fault(0, 4, 0), [4]);
        assert_eq!(fault(4, 4, 0), [4]);
        assert_eq!(blamed(&Fault::new(Cause::Busy, "")), []);
    }
}
