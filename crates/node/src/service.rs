//! What a node answers on its control port.

use crate::flows::{fault_of, stored_block};
use crate::membership;
use crate::server::Shared;
use crate::sessions;
use exec::DriverIo;
use model::{BlockId, Cause, ClusterId, Fault};
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use wire::proto;

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
        let (answers, outgoing) = mpsc::channel(MAX_MESSAGES);
        tokio::spawn(sessions::serve(self.shared.clone(), request.into_inner(), answers));
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
                let plan = wire::codec::plan::decode(&plan)?;
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
        .map_err(|e| Status::internal(e.to_string()))?
        .map_err(|fault| wire::codec::fault::status(&fault))?;
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

fn event(kind: proto::drive_event::Kind) -> proto::DriveEvent {
    proto::DriveEvent { kind: Some(kind) }
}
