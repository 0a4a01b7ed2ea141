//! A flow that is prepared and then let go: everybody has checked his stages, opened his blocks and reserved what they
//! need; nothing moves.

use crate::control::{Deadlines, all_prepared};
use crate::engine::{Engine, StageIo};
use flow::{Flow, FlowPlan};
use model::Fault;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use wire::codec::part;

impl Engine {
    /// Has every participant of `plan` prepare, this one among them, waits until all have, and lets go.
    ///
    /// # Errors
    /// The first fault: who refuses, or does not answer within the flow's lease.
    pub async fn rehearse(&self, plan: &FlowPlan<Flow>) -> Result<(), Fault> {
        let lease = Duration::from_millis(u64::from(plan.binding.header.lease_ms));
        let deadlines = Deadlines { still: None, all: Instant::now() + lease };
        // Each says that it is prepared, and perhaps that it has ended.
        let (reports, mut incoming) = mpsc::channel(2 * plan.binding.participants.len().max(1));
        let (mut local, mut sessions, mut sites) = (None, Vec::new(), Vec::new());
        for (participant, ends) in plan.standing()? {
            let site = participant.site;
            if participant.peer == self.node() {
                local = Some(plan.part(site, ends)?);
                continue;
            }
            let prepare = part::encode(plan, site, &ends);
            sessions.push(self.0.control.begin(participant, prepare, reports.clone())?);
            sites.push((site, participant.peer));
        }
        let mut here = None;
        if let Some(stages) = local {
            here = Some(self.prepare(stages, Vec::new(), false, StageIo::default()).await?);
        }
        all_prepared(sites.into_iter().collect(), &mut incoming, deadlines).await?;
        // Held until all are ready.
        drop((here, sessions));
        Ok(())
    }
}
