//! A flow that is prepared and then let go: everybody has checked his stages, opened his blocks and reserved what they
//! need; nothing moves.

use crate::control::all_prepared;
use crate::engine::{Engine, StageIo};
use model::{Cause, Fault, Peer};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use wire::proto;
use wire::spec::{decode_header, prepares};

impl Engine {
    /// Has every participant of `plan` prepare, this one among them, waits until all have, and lets go.
    ///
    /// # Errors
    /// The first fault: who refuses, or does not answer within the flow's lease.
    pub async fn rehearse(&self, plan: &proto::FlowPlan) -> Result<(), Fault> {
        let invalid = || Fault::new(Cause::Invalid, "a plan without a header");
        let header = decode_header(plan.header.as_ref().ok_or_else(invalid)?)?;
        let deadline = Instant::now() + Duration::from_millis(u64::from(header.lease_ms));
        let mut prepares = prepares(plan)?;
        // Each says that it is prepared, and perhaps that it has ended.
        let (reports, mut incoming) = mpsc::channel(2 * plan.participants.len().max(1));
        let (mut local, mut sessions, mut sites) = (None, Vec::new(), Vec::new());
        for participant in &plan.participants {
            let Some(prepare) = prepares.remove(&participant.site) else { continue };
            if participant.node == self.node().number() {
                local = Some(prepare);
                continue;
            }
            sessions.push(self.control().begin(participant, prepare, reports.clone())?);
            sites.push((participant.site, Peer::from_number(participant.node)));
        }
        let mut here = None;
        if let Some(prepare) = local {
            here = Some(self.prepare(&prepare, StageIo::default()).await?);
        }
        all_prepared(sites.into_iter().collect(), &mut incoming, deadline).await?;
        // Held until all are ready.
        drop((here, sessions));
        Ok(())
    }
}
