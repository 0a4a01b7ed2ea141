//! Nodes that the catalog knows and that have not registered since the coordinator's start: for as long as a dead node is waited for, they
//! are expected, and nothing is refused for want of them.

use super::{Cluster, Life, NEWS_TICK};
use crate::clock;
use crate::error::Result;
use model::NodeId;
use std::time::Duration;

impl Cluster {
    /// Returns how much longer nodes are expected, or `None` if no node is expected.
    pub fn expects_for(&self) -> Option<Duration> {
        let left = self.dead_after.checked_sub(self.started.elapsed())?;
        let is_expected = self.expects_nodes && self.view().nodes.iter().any(|(_, node)| !node.was_seen);
        is_expected.then_some(left)
    }

    /// Whether a node lives; `None` if nobody knows it.
    pub fn life(&self, node: NodeId) -> Option<Life> {
        match self.health.life(node)? {
            Life::Unheard if self.has_just_started() => Some(Life::Expected),
            life => Some(life),
        }
    }

    /// Returns once no node is expected.
    pub async fn has_heard_of_all(&self) {
        while self.expects_for().is_some() {
            clock::rest(NEWS_TICK).await;
        }
    }

    /// Does what is asked for. As long as nodes are expected, what fails for want of nodes or copies is done again.
    ///
    /// # Errors
    /// The errors of `act`.
    pub async fn asked<R: Clone, T, F: Future<Output = Result<T>>>(
        &self,
        request: R,
        act: impl Fn(R) -> F,
    ) -> Result<T> {
        loop {
            match act(request.clone()).await {
                Err(error) if error.lasts() && self.expects_for().is_some() => {
                    clock::rest(NEWS_TICK).await;
                }
                ended => return ended,
            }
        }
    }
}
