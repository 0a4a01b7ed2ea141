//! A flow that is prepared and then let go: everybody has checked his stages, opened his blocks and reserved what they
//! need; nothing moves.

use crate::engine::{Engine, StageIo};
use crate::prepared::Prepared;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::proto::driver_message::Kind as ToStage;
use wire::proto::stage_message::Kind as FromStage;
use wire::spec::{decode_header, prepare_for};
use wire::{Cause, Fault, limits, proto};

/// A participant that is ready, as long as this is held.
enum Ready {
    Here(Prepared),
    There { _commands: mpsc::Sender<proto::DriverMessage>, _answers: Streaming<proto::StageMessage> },
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Ready::Here(prepared) = self {
            prepared.abort();
        }
    }
}

impl Engine {
    /// Has every participant of `plan` prepare, this one among them, waits until all have, and lets go.
    ///
    /// # Errors
    /// The first fault: who refuses, or does not answer within the flow's lease.
    pub async fn rehearse(&self, plan: &proto::FlowPlan) -> Result<(), Fault> {
        let invalid = || Fault::new(Cause::Invalid, "a plan without a header");
        let header = decode_header(plan.header.as_ref().ok_or_else(invalid)?)?;
        let mut preparing: JoinSet<Result<Ready, Fault>> = JoinSet::new();
        for participant in &plan.participants {
            let Some(prepare) = prepare_for(plan, flow::Site(participant.site))? else { continue };
            let (engine, participant) = (self.clone(), participant.clone());
            preparing.spawn(async move { engine.ready(&participant, prepare).await });
        }
        let all = async {
            let mut ready = Vec::new();
            while let Some(joined) = preparing.join_next().await {
                ready.push(joined.map_err(|e| Fault::new(Cause::Bug, e.to_string()))??);
            }
            Ok(())
        };
        let lease = Duration::from_millis(u64::from(header.lease_ms));
        let late = |_| Fault::new(Cause::Unreachable, "a participant did not answer in time");
        tokio::time::timeout(lease, all).await.map_err(late)?
    }

    async fn ready(&self, at: &proto::Participant, prepare: proto::Prepare) -> Result<Ready, Fault> {
        let node = at.node;
        if node == self.node() {
            let engine = self.clone();
            let prepared = tokio::task::spawn_blocking(move || engine.prepare(&prepare, StageIo::default()));
            return Ok(Ready::Here(prepared.await.map_err(|e| Fault::new(Cause::Bug, e.to_string()))??));
        }
        let lost = |what: String| Fault::new(Cause::Unreachable, what).suspecting(node, node);
        let mut client = proto::node_client::NodeClient::new(self.channel(&at.control_addr)?)
            .max_encoding_message_size(limits::MAX_CONTROL_BYTES);
        let (commands, outgoing) = mpsc::channel(1);
        let first = proto::DriverMessage { kind: Some(ToStage::Prepare(prepare)) };
        commands.send(first).await.map_err(|e| lost(e.to_string()))?;
        let answers = client.run_stages(ReceiverStream::new(outgoing)).await;
        let mut answers = answers.map_err(|status| lost(status.message().to_owned()))?.into_inner();
        match answers.message().await {
            Ok(Some(proto::StageMessage { kind: Some(FromStage::Prepared(_)) })) => {
                Ok(Ready::There { _commands: commands, _answers: answers })
            }
            Ok(Some(proto::StageMessage { kind: Some(FromStage::Failed(fault)) })) => Err(fault.into()),
            Err(status) => Err(lost(status.message().to_owned())),
            Ok(_) => Err(lost("it did not prepare".to_owned())),
        }
    }
}
