//! What a node answers on its control port.

use crate::flows::{fault_of, stored_block};
use crate::membership;
use crate::server::Shared;
use exec::{DriverIo, Prepared, StageIo};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use wire::proto::driver_message::Kind as ToStage;
use wire::proto::stage_message::Kind as FromStage;
use wire::{BlockId, Cause, ClusterId, Fault, proto};

/// Messages to one peer that may wait.
const MAX_MESSAGES: usize = 256;

/// Answers of the [`proto::node_server::Node`] service.
pub struct NodeService {
    shared: Arc<Shared>,
}

impl NodeService {
    /// For a running node.
    pub fn new(shared: Arc<Shared>) -> NodeService {
        NodeService { shared }
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl proto::node_server::Node for NodeService {
    type RunStagesStream = Answers<proto::StageMessage>;
    type DriveStream = Answers<proto::DriveEvent>;
    type ListBlocksStream = Answers<proto::StoredBlock>;
    type ScrubStream = Answers<proto::ScrubEvent>;

    async fn run_stages(
        &self,
        request: Request<Streaming<proto::DriverMessage>>,
    ) -> Result<Response<Self::RunStagesStream>, Status> {
        let mut incoming = request.into_inner();
        let patience = Duration::from_millis(u64::from(wire::limits::LEASE_MS));
        let first = tokio::time::timeout(patience, incoming.next()).await;
        let Ok(Some(Ok(proto::DriverMessage { kind: Some(ToStage::Prepare(prepare)) }))) = first else {
            return Err(Status::invalid_argument("a control stream begins with Prepare"));
        };
        let lease_ms = prepare.header.as_ref().map_or(wire::limits::LEASE_MS, |h| h.lease_ms);
        let engine = self.shared.engine.clone();
        let prepare = move || {
            let prepared = engine.prepare(&prepare, StageIo::default())?;
            prepare.grants.iter().try_for_each(|grant| obey_grant(&prepared, grant))?;
            if prepare.finish {
                prepared.finish()?;
            }
            Ok::<Prepared, Fault>(prepared)
        };
        let prepared =
            tokio::task::spawn_blocking(prepare).await.map_err(|e| Status::internal(e.to_string()))?;
        let (answers, outgoing) = mpsc::channel(MAX_MESSAGES);
        match prepared {
            Ok(prepared) => {
                let _ = answers.try_send(Ok(message(FromStage::Prepared(prepared.kept().clone()))));
                let lease = Duration::from_millis(u64::from(lease_ms));
                tokio::spawn(attend(prepared, incoming, answers, lease));
            }
            Err(fault) => {
                tracing::info!("refused a flow: {fault}");
                let _ = answers.try_send(Ok(message(FromStage::Failed(fault.into()))));
            }
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn drive(
        &self,
        request: Request<proto::DriveRequest>,
    ) -> Result<Response<Self::DriveStream>, Status> {
        let proto::DriveRequest { plan, rehearse } = request.into_inner();
        let plan = plan.ok_or_else(|| Status::invalid_argument("no plan"))?;
        let engine = self.shared.engine.clone();
        let (events, outgoing) = mpsc::channel(MAX_MESSAGES);
        tokio::spawn(async move {
            let watcher = events.clone();
            let progress = |p| {
                // A slow listener misses progress, not the result.
                let _ = watcher.try_send(Ok(event(proto::drive_event::Kind::Progress(p))));
            };
            let run = async {
                match rehearse {
                    true => engine.rehearse(&plan).await.map(|()| proto::DriveResult::default()),
                    false => engine.drive(plan, DriverIo::default(), progress).await,
                }
            };
            let result = tokio::select! {
                result = run => result,
                // Whoever asked is gone; its job starts again elsewhere.
                () = events.closed() => return,
            };
            let kind = match result {
                Ok(result) => proto::drive_event::Kind::Finished(result),
                Err(fault) => proto::drive_event::Kind::Failed(fault.into()),
            };
            let _ = events.send(Ok(event(kind))).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn delete_blocks(
        &self,
        request: Request<proto::DeleteBlocksRequest>,
    ) -> Result<Response<proto::DeleteBlocksReply>, Status> {
        let request = request.into_inner();
        let cluster = ClusterId::from_slice(&request.cluster).ok();
        if cluster.is_none() || cluster != self.shared.flows.store.identity().cluster {
            return Err(Status::permission_denied(
                "only the coordinator of this node's cluster deletes blocks",
            ));
        }
        let flows = self.shared.flows.clone();
        let deleted = tokio::task::spawn_blocking(move || {
            let mut deleted = 0;
            for wanted in &request.blocks {
                let block = BlockId::from_slice(&wanted.block)
                    .map_err(|_| Fault::new(Cause::Invalid, "a block id of another length"))?;
                let gone =
                    flows.store.delete_up_to(block, wanted.generation).map_err(|e| fault_of(block, &e))?;
                if !gone {
                    continue;
                }
                deleted += 1;
                flows.forget(block);
            }
            Ok::<u64, Fault>(deleted)
        })
        .await
        .map_err(|e| Status::internal(e.to_string()))??;
        Ok(Response::new(proto::DeleteBlocksReply { deleted }))
    }

    async fn list_blocks(
        &self,
        request: Request<proto::ListBlocksRequest>,
    ) -> Result<Response<Self::ListBlocksStream>, Status> {
        let with_meta = request.into_inner().with_meta;
        let store = self.shared.flows.store.clone();
        let (blocks, outgoing) = mpsc::channel(MAX_MESSAGES);
        tokio::task::spawn_blocking(move || {
            for listed in store.list().filter_map(Result::ok) {
                let block = if with_meta {
                    let Ok(reader) = store.reader(listed.block) else { continue };
                    stored_block(reader.meta())
                } else {
                    let (generation, stored_bytes) = (listed.generation, listed.stored_bytes);
                    proto::StoredBlock {
                        block: listed.block.to_vec(),
                        generation,
                        stored_bytes,
                        ..Default::default()
                    }
                };
                if blocks.blocking_send(Ok(block)).is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn get_status(&self, _: Request<proto::Empty>) -> Result<Response<proto::NodeStatus>, Status> {
        Ok(Response::new(membership::status(&self.shared)))
    }

    async fn set_throttle(
        &self,
        request: Request<proto::Throttle>,
    ) -> Result<Response<proto::Empty>, Status> {
        let rates = request.into_inner();
        self.shared.engine.throttle().set(rates.egress_bytes_per_s, rates.ingress_bytes_per_s);
        Ok(Response::new(proto::Empty {}))
    }

    async fn control_task(
        &self,
        request: Request<proto::TaskControl>,
    ) -> Result<Response<proto::TaskStatus>, Status> {
        let control = request.into_inner();
        if control.name != "scrub" {
            let what = format!("a node has no task {:?}; its one task is scrub", control.name);
            return Err(Status::not_found(what));
        }
        self.shared.scrub.control(&control.action).map_err(Status::invalid_argument)?;
        Ok(Response::new(self.shared.scrub.status()))
    }

    async fn scrub(&self, _: Request<proto::ScrubRequest>) -> Result<Response<Self::ScrubStream>, Status> {
        let shared = self.shared.clone();
        let (events, outgoing) = mpsc::channel(MAX_MESSAGES);
        tokio::task::spawn_blocking(move || {
            let mut report = |block: BlockId, problem: Option<String>, done, total| {
                let event = proto::ScrubEvent {
                    block: block.to_vec(),
                    problem: problem.unwrap_or_default(),
                    done,
                    total,
                };
                events.blocking_send(Ok(event)).is_ok()
            };
            shared.scrub.round(&shared.flows, 0, &|| shared.ended(), &mut report);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }
}

/// Passes the driver's commands to the stages and their reports to the driver, until either side ends; ends the
/// stages when the driver is silent for a whole lease.
async fn attend(
    mut prepared: Prepared,
    mut incoming: Streaming<proto::DriverMessage>,
    answers: mpsc::Sender<Result<proto::StageMessage, Status>>,
    lease: Duration,
) {
    // One look at a time, however often it is asked for.
    let mut looks = JoinSet::new();
    loop {
        tokio::select! {
            report = prepared.events.recv() => match report {
                Some(report) => {
                    if answers.send(Ok(report)).await.is_err() {
                        return;
                    }
                }
                // All stages have ended and said how.
                None => return,
            },
            Some(Ok(doing)) = looks.join_next() => {
                if answers.send(Ok(message(FromStage::Doing(doing)))).await.is_err() {
                    return;
                }
            }
            command = tokio::time::timeout(lease, incoming.next()) => {
                let obeyed = match command {
                    Ok(Some(Ok(command))) => obey(&prepared, &mut looks, command),
                    Ok(Some(Err(_)) | None) => return,
                    Err(_) => Err(Fault::new(Cause::Aborted, "the driver was silent for a whole lease")),
                };
                if let Err(fault) = obeyed {
                    let _ = answers.try_send(Ok(message(FromStage::Failed(fault.into()))));
                    return;
                }
            }
        }
    }
}

fn obey(
    prepared: &Prepared,
    looks: &mut JoinSet<proto::Doing>,
    command: proto::DriverMessage,
) -> Result<(), Fault> {
    match command.kind {
        Some(ToStage::Grants(grants)) => {
            grants.grants.iter().try_for_each(|grant| obey_grant(prepared, grant))
        }
        Some(ToStage::Finish(_)) => prepared.finish(),
        Some(ToStage::KeepAlive(_)) => Ok(()),
        Some(ToStage::Look(_)) => {
            if looks.is_empty() {
                looks.spawn(prepared.look());
            }
            Ok(())
        }
        Some(ToStage::Abort(_)) => Err(Fault::new(Cause::Aborted, "the driver ended the flow")),
        Some(ToStage::Prepare(_)) | None => Err(Fault::new(Cause::Invalid, "a second Prepare, or nothing")),
    }
}

fn obey_grant(prepared: &Prepared, grant: &proto::Grant) -> Result<(), Fault> {
    prepared.grant(grant.lane, grant.first, grant.count)
}

fn message(kind: FromStage) -> proto::StageMessage {
    proto::StageMessage { kind: Some(kind) }
}

fn event(kind: proto::drive_event::Kind) -> proto::DriveEvent {
    proto::DriveEvent { kind: Some(kind) }
}
