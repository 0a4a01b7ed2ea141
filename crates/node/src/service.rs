//! What a node answers on its control port.

use crate::ending::Ending;
use crate::flows::{FlowStore, listed_block, stored_block};
use crate::holding;
use crate::parts::{self, Parts};
use crate::scrub::{Read, Round, SCRUB, Seen};
use crate::sessions;
use crate::store::{CopyId, Listing, Store, StoreError, Unjudged, Verdict};
use exec::{DriverIo, Engine};
use model::{BlockId, Cause, ClusterId, Fault, NodeId, Switch};
use std::pin::Pin;
use std::sync::PoisonError;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use wire::codec::mac::Identified;
use wire::codec::records::Carried;
use wire::mac::{Secret, Whose};
use wire::names::folder_digest;
pub use wire::proto::node_server::{Node as ControlCalls, NodeServer as ControlServer};
use wire::{limits, proto};
use worker::Task;

/// Messages to one peer that may wait.
const MAX_MESSAGES: usize = 256;

/// Answers of the [`proto::node_server::Node`] service.
pub struct NodeService {
    parts: Parts,
    /// This node's start and store. It is kept here because the store may wait for its disk.
    whose: Whose,
    ending: Ending,
}

impl NodeService {
    /// Of a node that serves until it is asked to end.
    pub(crate) fn new(parts: Parts, ending: Ending) -> NodeService {
        let store = &parts.flows.store;
        let (node, incarnation) = (parts.node, store.incarnation());
        let whose = Whose { node, store: store.identity().store, incarnation };
        NodeService { parts, whose, ending }
    }

    /// Within the bounds of messages.
    pub fn server(self) -> ControlServer<NodeService> {
        bounded(self)
    }
}

fn bounded<T: ControlCalls>(service: T) -> ControlServer<T> {
    ControlServer::new(service)
        .max_decoding_message_size(limits::MAX_CONTROL_BYTES)
        .max_encoding_message_size(limits::MAX_CONTROL_BYTES)
}

impl NodeService {
    /// Whoever asks means this start of this store.
    fn is_meant(&self, store: &[u8], incarnation: u64) -> Result<(), Status> {
        let own = &self.parts.flows.store;
        if store == own.identity().store.to_bytes() && incarnation == own.incarnation().0 {
            return Ok(());
        }
        let own = own.incarnation();
        Err(Status::failed_precondition(format!(
            "another store is meant, or another start of it, than {own}"
        )))
    }
}

type Answer<T> = Result<Response<T>, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl ControlCalls for NodeService {
    type RunStagesStream = Answers<proto::StageMessage>;
    type DriveStream = Answers<proto::DriveEvent>;
    type ListBlocksStream = Answers<proto::StoredBlock>;
    type ScrubStream = Answers<proto::ScrubEvent>;
    type ReadRecordsStream = Answers<proto::RecordsMessage>;
    type ListFoldersStream = Answers<proto::StoredBlock>;

    async fn run_stages(
        &self,
        request: Request<Streaming<proto::DriverMessage>>,
    ) -> Answer<Self::RunStagesStream> {
        Ok(run_stages(self.parts.node, &self.parts.engine, &self.ending, request))
    }

    async fn drive(&self, request: Request<proto::DriveRequest>) -> Answer<Self::DriveStream> {
        let proto::DriveRequest { plan, rehearse } = request.into_inner();
        let plan = plan.ok_or_else(|| Status::invalid_argument("no plan"))?;
        let engine = self.parts.engine.clone();
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
    ) -> Answer<proto::DeleteBlocksReply> {
        let request = request.into_inner();
        let cluster = ClusterId::from_slice(&request.cluster).ok();
        if cluster.is_none() || cluster != self.parts.flows.store.identity().cluster {
            return Err(Status::permission_denied(
                "only the coordinator of this node's cluster deletes blocks",
            ));
        }
        self.is_meant(&request.store, request.incarnation)?;
        let store = &self.parts.flows.store;
        let by = request.by.map(model::Stamp::from).unwrap_or_default();
        store.obey(by).map_err(|error| Status::failed_precondition(error.to_string()))?;
        let flows = self.parts.flows.clone();
        let reply = tokio::task::spawn_blocking(move || {
            let mut reply = proto::DeleteBlocksReply::default();
            // Held to the end: who fences the order off then knows that it has ended, or never begins.
            let fence = flows.fence.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(fence) = fence.filter(|fence| by <= *fence) {
                let why = format!("the order of change {by} was called off by {fence}");
                let refuse = |block| proto::RefusedBlock { block: Some(block), why: why.clone() };
                reply.refused = request.blocks.into_iter().map(refuse).collect();
                return Ok(reply);
            }
            for wanted in request.blocks {
                let copy = copy_id(&wanted)?;
                match flows.store.delete(copy.block, copy.generation) {
                    Ok(was_there) => {
                        reply.deleted += u64::from(was_there);
                        flows.forget(copy);
                    }
                    Err(error) => {
                        let why = error.to_string();
                        reply.refused.push(proto::RefusedBlock { block: Some(wanted), why });
                    }
                }
            }
            Ok::<_, Fault>(reply)
        });
        let reply = reply.await.map_err(|e| Status::internal(e.to_string()))?;
        Ok(Response::new(reply.map_err(|fault| wire::codec::fault::status(&fault))?))
    }

    async fn check_blocks(
        &self,
        request: Request<proto::CheckBlocksRequest>,
    ) -> Answer<proto::CheckBlocksReply> {
        let proto::CheckBlocksRequest { blocks, verify, fence, store, incarnation } = request.into_inner();
        if !store.is_empty() {
            self.is_meant(&store, incarnation)?;
        }
        let flows = self.parts.flows.clone();
        let checked = tokio::task::spawn_blocking(move || {
            if let Some(stamp) = fence {
                let mut fence = flows.fence.lock().unwrap_or_else(PoisonError::into_inner);
                *fence = (*fence).max(Some(stamp.into()));
            }
            blocks.iter().map(|wanted| check(&flows, wanted, verify)).collect::<Result<_, Fault>>()
        });
        let checked = checked.await.map_err(|e| Status::internal(e.to_string()))?;
        let blocks = checked.map_err(|fault| wire::codec::fault::status(&fault))?;
        Ok(Response::new(proto::CheckBlocksReply { blocks }))
    }

    async fn list_blocks(
        &self,
        request: Request<proto::ListBlocksRequest>,
    ) -> Answer<Self::ListBlocksStream> {
        let with_meta = request.into_inner().with_meta;
        let store = self.parts.flows.store.clone();
        let (blocks, outgoing) = mpsc::channel(MAX_MESSAGES);
        tokio::task::spawn_blocking(move || {
            for listing in store.list() {
                let listing = match listing {
                    Ok(listing) => listing,
                    // Part of the list is missing: whoever gets the rest must not take it for the whole.
                    Err(error) => {
                        let _ = blocks.blocking_send(Err(Status::unavailable(error.to_string())));
                        return;
                    }
                };
                let halves = listing.unjudged.into_iter().filter_map(half);
                let whole = listing.copies.into_iter().filter_map(|copy| match with_meta {
                    true => with_sidecar(&store, copy),
                    false => Some(Ok(listed_block(copy))),
                });
                for block in whole.chain(halves.map(Ok)) {
                    let is_last = block.is_err();
                    if blocks.blocking_send(block).is_err() || is_last {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn digest_folders(
        &self,
        request: Request<proto::DigestFoldersRequest>,
    ) -> Answer<proto::DigestFoldersReply> {
        let request = request.into_inner();
        self.is_meant(&request.store, request.incarnation)?;
        let store = self.parts.flows.store.clone();
        // Of what lies there now: files may have come or gone behind the node's back.
        let digests = tokio::task::spawn_blocking(move || {
            let names = |copy: CopyId| (copy.block, copy.generation);
            let digest = |listing: Listing| {
                let halves = listing.unjudged.into_iter().filter_map(Unjudged::copy).map(names);
                folder_digest(listing.copies.into_iter().map(names), halves).to_vec()
            };
            store.list().map(|listing| listing.map(digest)).collect::<Result<_, StoreError>>()
        });
        let digests = digests.await.map_err(|e| Status::internal(e.to_string()))?;
        let digests = digests.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(Response::new(proto::DigestFoldersReply { digests }))
    }

    async fn list_folders(
        &self,
        request: Request<proto::ListFoldersRequest>,
    ) -> Answer<Self::ListFoldersStream> {
        let proto::ListFoldersRequest { store, incarnation, folders } = request.into_inner();
        self.is_meant(&store, incarnation)?;
        let store = self.parts.flows.store.clone();
        let (blocks, outgoing) = mpsc::channel(MAX_MESSAGES);
        tokio::task::spawn_blocking(move || {
            for folder in folders {
                let listing = match store.list_folder(folder) {
                    Ok(listing) => listing,
                    Err(error) => {
                        let _ = blocks.blocking_send(Err(Status::unavailable(error.to_string())));
                        return;
                    }
                };
                let halves = listing.unjudged.into_iter().filter_map(half);
                for block in listing.copies.into_iter().map(listed_block).chain(halves) {
                    if blocks.blocking_send(Ok(block)).is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn get_status(&self, _: Request<proto::Empty>) -> Answer<proto::NodeStatus> {
        Ok(Response::new(self.parts.status()))
    }

    async fn identify(&self, request: Request<proto::Challenge>) -> Answer<proto::Identified> {
        identified(request.get_ref(), self.whose, &self.parts.flows.secret)
    }

    async fn obey(&self, request: Request<proto::NodeSettings>) -> Answer<proto::Empty> {
        self.parts.obey(request.get_ref(), false);
        Ok(Response::new(proto::Empty {}))
    }

    async fn control_task(&self, request: Request<proto::TaskControl>) -> Answer<proto::TaskStatus> {
        let control = request.into_inner();
        let task = self.parts.tasks.find(&control.name).map_err(|e| Status::not_found(e.to_string()))?;
        let switch = Switch::of(&control.action).map_err(|e| Status::invalid_argument(e.to_string()))?;
        if let Some(switch) = switch {
            self.parts.was_told(control.version);
            task.obey(switch);
        }
        Ok(Response::new(task.status()))
    }

    async fn scrub(&self, _: Request<proto::ScrubRequest>) -> Answer<Self::ScrubStream> {
        let (flows, ending) = (self.parts.flows.clone(), self.ending.clone());
        let task = self.parts.tasks.find(SCRUB).map_err(|e| Status::internal(e.to_string()))?;
        let (events, outgoing) = mpsc::channel(MAX_MESSAGES);
        tokio::spawn(async move {
            let mut round = Round::begin(flows, 0, ending.clone(), &task);
            let last = scrub_all(&mut round, (&task, &ending), &events).await;
            round.end(&task);
            let _ = events.send(last).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }

    async fn hold_records(
        &self,
        request: Request<Streaming<proto::RecordsMessage>>,
    ) -> Answer<proto::HeldRecords> {
        let carried =
            |message| Carried::try_from(message).map_err(|fault| wire::codec::fault::status(&fault));
        let messages = request.into_inner().map(|message| message.and_then(carried));
        let held = holding::hold(self.parts.flows.store.clone(), messages, holding::SILENCE).await?;
        Ok(Response::new(held.map(parts::held).unwrap_or_default()))
    }

    async fn read_records(&self, _: Request<proto::Empty>) -> Answer<Self::ReadRecordsStream> {
        let outgoing = ReceiverStream::new(holding::read(self.parts.flows.store.clone()));
        Ok(Response::new(Box::pin(outgoing.map(|carried| carried.map(Into::into)))))
    }
}

/// Reads everything, and tells of each copy that was read. Returns what ends the stream: that this was all, or why it was not.
async fn scrub_all(
    round: &mut Round,
    (task, ending): (&Task, &Ending),
    events: &mpsc::Sender<Result<proto::ScrubEvent, Status>>,
) -> Result<proto::ScrubEvent, Status> {
    loop {
        if ending.is_asked() {
            return Err(Status::unavailable("the node ends, and has not read all of its blocks"));
        }
        if !task.may_go_on().await {
            let why = "the node's task 'scrub' was stopped, so not all of its blocks were read; 'stripeline tasks resume' lets it go on";
            return Err(Status::failed_precondition(why));
        }
        let read = round.next(task).await.map_err(|error| Status::internal(error.to_string()))?;
        let Some(Read { copy: CopyId { block, generation }, problem, done, total }) = read else {
            let Seen { read, unread, why, .. } = round.seen().clone();
            return Ok(proto::ScrubEvent {
                problem: why,
                done: read,
                total: read + unread,
                complete: true,
                unread,
                ..Default::default()
            });
        };
        let (block, problem) = (block.to_vec(), problem.unwrap_or_default());
        let event = proto::ScrubEvent { block, generation, problem, done, total, ..Default::default() };
        events.send(Ok(event)).await.map_err(|_| Status::cancelled("nobody listens any more"))?;
    }
}

/// Proves this start's identity to the process that drew the challenge.
fn identified(challenge: &proto::Challenge, whose: Whose, secret: &Secret) -> Answer<proto::Identified> {
    let challenge = wire::codec::mac::challenge(challenge);
    let challenge = challenge.ok_or_else(|| Status::invalid_argument("a challenge of another length"))?;
    let mac = secret.of_start(&challenge, &whose);
    Ok(Response::new(Identified { whose, mac }.into()))
}

fn run_stages(
    node: NodeId,
    engine: &Engine,
    ending: &Ending,
    request: Request<Streaming<proto::DriverMessage>>,
) -> Response<Answers<proto::StageMessage>> {
    let (answers, outgoing) = mpsc::channel(MAX_MESSAGES);
    tokio::spawn(sessions::serve(node, engine.clone(), ending.clone(), request.into_inner(), answers));
    Response::new(Box::pin(ReceiverStream::new(outgoing)))
}

/// Answers of a helper that keeps nothing of the cluster's: it runs stages, and says how it is.
pub struct LenderService {
    whose: Whose,
    secret: Secret,
    engine: Engine,
    ending: Ending,
}

impl LenderService {
    /// Of a helper that serves until it is asked to end.
    pub(crate) fn new(whose: Whose, secret: Secret, engine: Engine, ending: Ending) -> LenderService {
        LenderService { whose, secret, engine, ending }
    }

    /// Within the bounds of messages.
    pub fn server(self) -> ControlServer<LenderService> {
        bounded(self)
    }
}

/// Calls that only whoever keeps blocks of the cluster answers.
macro_rules! keeps_nothing {
    ($($call:ident($request:ty) -> $reply:ty;)*) => {
        #[tonic::async_trait]
        impl ControlCalls for LenderService {
            type RunStagesStream = Answers<proto::StageMessage>;
            type DriveStream = Answers<proto::DriveEvent>;
            type ListBlocksStream = Answers<proto::StoredBlock>;
            type ScrubStream = Answers<proto::ScrubEvent>;
            type ReadRecordsStream = Answers<proto::RecordsMessage>;
            type ListFoldersStream = Answers<proto::StoredBlock>;

            async fn run_stages(
                &self,
                request: Request<Streaming<proto::DriverMessage>>,
            ) -> Answer<Self::RunStagesStream> {
                Ok(run_stages(self.whose.node, &self.engine, &self.ending, request))
            }

            async fn identify(&self, request: Request<proto::Challenge>) -> Answer<proto::Identified> {
                identified(request.get_ref(), self.whose, &self.secret)
            }

            async fn get_status(&self, _: Request<proto::Empty>) -> Answer<proto::NodeStatus> {
                let (egress_bytes_per_s, ingress_bytes_per_s) = self.engine.throttle().rates();
                Ok(Response::new(proto::NodeStatus {
                    node: self.whose.node.0,
                    running_stages: self.engine.running_stages() as u32,
                    throttle: Some(proto::Throttle { egress_bytes_per_s, ingress_bytes_per_s }),
                    ..Default::default()
                }))
            }

            $(async fn $call(&self, _: Request<$request>) -> Answer<$reply> {
                Err(Status::unimplemented("this helper lends blocks of HDFS, and keeps none of the cluster"))
            })*
        }
    };
}

keeps_nothing! {
    drive(proto::DriveRequest) -> Self::DriveStream;
    delete_blocks(proto::DeleteBlocksRequest) -> proto::DeleteBlocksReply;
    list_blocks(proto::ListBlocksRequest) -> Self::ListBlocksStream;
    check_blocks(proto::CheckBlocksRequest) -> proto::CheckBlocksReply;
    obey(proto::NodeSettings) -> proto::Empty;
    control_task(proto::TaskControl) -> proto::TaskStatus;
    scrub(proto::ScrubRequest) -> Self::ScrubStream;
    hold_records(Streaming<proto::RecordsMessage>) -> proto::HeldRecords;
    read_records(proto::Empty) -> Self::ReadRecordsStream;
    digest_folders(proto::DigestFoldersRequest) -> proto::DigestFoldersReply;
    list_folders(proto::ListFoldersRequest) -> Self::ListFoldersStream;
}

fn copy_id(wanted: &proto::BlockRef) -> Result<CopyId, Fault> {
    let block = BlockId::from_slice(&wanted.block)
        .map_err(|_| Fault::new(Cause::Invalid, "a block id of another length"))?;
    Ok(CopyId { block, generation: wanted.generation })
}

/// What a listing tells of a copy that was listed a moment ago; an error ends the listing.
fn with_sidecar(store: &Store, copy: CopyId) -> Option<Result<proto::StoredBlock, Status>> {
    match store.reader(copy.block, copy.generation) {
        Ok(reader) => Some(Ok(stored_block(reader.meta()))),
        // Deleted since it was listed.
        Err(StoreError::NotFound { .. }) => None,
        Err(StoreError::Corrupt { .. }) => {
            Some(Ok(proto::StoredBlock { damaged: true, ..listed_block(copy) }))
        }
        Err(error @ StoreError::UnknownVersion { .. }) => {
            Some(Ok(proto::StoredBlock { unjudged: error.to_string(), ..listed_block(copy) }))
        }
        Err(error) => Some(Err(Status::unavailable(error.to_string()))),
    }
}

/// What a listing tells of half a copy; nothing of names that are no copy's.
fn half(file: Unjudged) -> Option<proto::StoredBlock> {
    let (copy, why) = match file {
        Unjudged::Data(copy) => (copy, "its sidecar is not there"),
        Unjudged::Sidecar(copy) => (copy, "its data are not there"),
        Unjudged::Strange(_) => return None,
    };
    Some(proto::StoredBlock { unjudged: why.to_owned(), ..listed_block(copy) })
}

/// Whether exactly that copy is here and, as far as was looked, sound. Errors say no: nobody may count on it then. Damage is
/// noted as if a scrub had found it.
fn check(flows: &FlowStore, wanted: &proto::BlockRef, verify: bool) -> Result<proto::CheckedBlock, Fault> {
    let copy = copy_id(wanted)?;
    let CopyId { block, generation } = copy;
    let fails = || {
        let verdict = flows.store.verify(block, generation, |_| ());
        (matches!(verdict, Ok(Verdict::Damaged(_)) | Err(StoreError::Corrupt { .. })), verdict)
    };
    // What fails is read once more before anything is said of it.
    let verdict = verify.then(|| Some(fails()).filter(|(failed, _)| !failed).unwrap_or_else(fails));
    let reader = flows.store.reader(block, generation);
    let is_another = !wanted.digest.is_empty()
        && reader.as_ref().is_ok_and(|reader| wanted.digest != reader.meta().digest);
    let is_found = is_another || matches!(verdict, Some((true, _)));
    if is_found {
        tracing::warn!(%copy, "damaged, as a check found");
        // A copy that matches its own sidecar will match it again, so there is no point in rereading it.
        if is_another { flows.suspects.condemn_for_good(copy) } else { flows.suspects.condemn(copy) }
    }
    if reader.as_ref().is_err_and(StoreError::says_nothing) {
        flows.suspects.suspect(copy);
    }
    if !is_another && matches!(verdict, Some((_, Ok(Verdict::Whole)))) {
        flows.suspects.is_whole(copy);
    }
    let damaged = is_found || flows.suspects.is_corrupt(copy);
    let is_sound = verdict.is_none_or(|(_, verdict)| matches!(verdict, Ok(Verdict::Whole)));
    let sound = reader.ok().filter(|_| is_sound && flows.store.vouches() && flows.suspects.is_clear(copy));
    Ok(match sound {
        Some(reader) => proto::CheckedBlock {
            there: true,
            digest: reader.meta().digest.to_vec(),
            damaged,
            birth: Some(reader.meta().birth.into()),
            ..Default::default()
        },
        None => {
            let absent = matches!(flows.store.is_absent(block, generation), Ok(true));
            let birth = flows.store.birth_of_half(block, generation).ok().flatten();
            let (half, birth) = (birth.is_some(), birth.map(Into::into));
            proto::CheckedBlock { damaged, absent, half, birth, ..Default::default() }
        }
    })
}

fn event(kind: proto::drive_event::Kind) -> proto::DriveEvent {
    proto::DriveEvent { kind: Some(kind) }
}
