//! What is answered while a catalog is compared: that it is. Nodes that want to register are asked what they keep.

use crate::error::CoordinatorError;
use crate::succession::Succession;
use model::NodeId;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use wire::proto;
use wire::proto::coordinator_server::{Coordinator, CoordinatorServer};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Away {
    succession: Arc<Succession>,
    why: Arc<Mutex<String>>,
}

type Answer<T> = Result<Response<T>, Status>;
type Stream<T> = ReceiverStream<Result<T, Status>>;

impl Away {
    pub fn new(succession: Arc<Succession>) -> Away {
        Away { succession, why: Arc::default() }
    }

    /// What is waited for.
    pub fn say(&self, why: String) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    pub fn server(self) -> CoordinatorServer<Away> {
        CoordinatorServer::new(self)
    }

    fn away<T>(&self) -> Answer<T> {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Err(CoordinatorError::Comparing(why).into())
    }
}

macro_rules! away {
    ($($call:ident($request:ty) -> $reply:ty;)*) => {
        #[tonic::async_trait]
        impl Coordinator for Away {
            type ListObjectsStream = Stream<proto::ObjectInfo>;
            type ArchiveStream = Stream<proto::JobEvent>;
            type RepairStream = Stream<proto::JobEvent>;
            type BackupCatalogStream = Stream<proto::CatalogChunk>;

            async fn register(
                &self,
                request: Request<Streaming<proto::RegisterMessage>>,
            ) -> Answer<proto::RegisterReply> {
                use proto::register_message::Kind;
                let first = request.into_inner().message().await?.and_then(|message| message.kind);
                if let Some(Kind::Hello(hello)) = first {
                    let knows = !hello.cluster.is_empty();
                    self.succession.heard_of(NodeId(hello.node), hello.control_addr, knows);
                }
                self.away()
            }

            $(async fn $call(&self, _: Request<$request>) -> Answer<$reply> {
                self.away()
            })*
        }
    };
}

away! {
    heartbeat(proto::HeartbeatRequest) -> proto::HeartbeatReply;
    goodbye(proto::GoodbyeRequest) -> proto::Empty;
    begin_put(proto::BeginPutRequest) -> proto::BeginPutReply;
    plan_write(proto::PlanWriteRequest) -> proto::PlanReply;
    renew_put(proto::RenewPutRequest) -> proto::Empty;
    commit_put(proto::CommitPutRequest) -> proto::ObjectInfo;
    abort_put(proto::AbortPutRequest) -> proto::Empty;
    lookup(proto::LookupRequest) -> proto::ObjectInfo;
    list_objects(proto::ListObjectsRequest) -> Self::ListObjectsStream;
    delete(proto::LookupRequest) -> proto::Empty;
    plan_read(proto::PlanReadRequest) -> proto::PlanReply;
    report_fault(proto::Fault) -> proto::Empty;
    archive(proto::ArchiveRequest) -> Self::ArchiveStream;
    repair(proto::RepairRequest) -> Self::RepairStream;
    explain(proto::RepairRequest) -> proto::ExplainReply;
    recommission(proto::RecommissionRequest) -> proto::Empty;
    get_status(proto::Empty) -> proto::ClusterStatus;
    control_task(proto::TaskControl) -> proto::TaskStatus;
    compare_node(proto::CompareNodeRequest) -> proto::CompareNodeReply;
    set_throttle(proto::Throttle) -> proto::Empty;
    get_audit(proto::AuditRequest) -> proto::AuditReply;
    get_links(proto::Empty) -> proto::LinkTable;
    set_links(proto::LinkTable) -> proto::LinkTable;
    backup_catalog(proto::Empty) -> Self::BackupCatalogStream;
    end_safe_mode(proto::Empty) -> proto::Empty;
    recover_catalog(proto::Empty) -> proto::RecoverReply;
}
