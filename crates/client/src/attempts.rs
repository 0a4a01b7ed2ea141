//! The attempts to move one block: the course they take, the pauses between them, and the error at their end.

use crate::error::{ClientError, Result};
use model::{Fault, NodeId, Peer};
use plan::decide::{Course, Next};

/// The attempts to move one block.
pub(crate) struct Attempts {
    /// "writing block 3 of 'a'".
    what: String,
    pub course: Course,
    last: Option<Fault>,
}

impl Attempts {
    pub fn new(what: String, course: Course) -> Attempts {
        Attempts { what, course, last: None }
    }

    /// The numbers of the nodes that the next plan is to leave out.
    pub fn avoid(&self) -> Vec<u32> {
        self.course.around().into_iter().map(|node| node.0).collect()
    }

    /// A flow broke; returns when the next one may begin. The node is gone around because it is slow.
    pub async fn broke(&mut self, fault: Fault, ends: &[Peer]) -> Result<Option<NodeId>> {
        let next = self.course.broke(&fault, ends);
        tracing::debug!(what = self.what, attempt = self.course.attempts(), %fault, ?next, "a flow failed");
        match next {
            Next::Mend { slow } => return Ok(slow),
            Next::Again(pause) => tokio::time::sleep(pause).await,
            Next::GiveUp => return Err(self.ended(fault)),
        }
        self.last = Some(fault);
        Ok(None)
    }

    /// The plan was refused; returns when another may be asked for. The error is that of the last flow if all attempts were
    /// needed.
    pub async fn refused(&mut self, error: ClientError) -> Result<()> {
        let (ClientError::Refused(_) | ClientError::NotNow(_)) = error else { return Err(error) };
        match (self.course.refused().pause(), &self.last) {
            (Some(pause), _) => tokio::time::sleep(pause).await,
            (None, Some(fault)) if self.course.is_exhausted() => return Err(self.ended(fault.clone())),
            (None, _) => return Err(error),
        }
        Ok(())
    }

    fn ended(&self, fault: Fault) -> ClientError {
        ClientError::Flow { what: self.what.clone(), attempts: self.course.attempts(), fault }
    }
}
