//! The gRPC service: each call is handed on, each error becomes a status.

use crate::attempt::{self, Attempts, RepairOptions};
use crate::cluster::{Word, reference};
use crate::comparison::Comparison;
use crate::config;
use crate::error::{CoordinatorError, Result};
use crate::explain;
use crate::forgetting::Forgetting;
use crate::holders::Holders;
use crate::job;
use crate::jobs::{self, Jobs, Wish};
use crate::membership::Membership;
use crate::objects::Objects;
use crate::operator::{self, Operator};
use crate::succession::Succession;
use catalog::Choices;
use catalog::rows::{CompactionRow, EncodingRow, JobRow};
use model::{BlockId, NodeId, PutId};
use plan::decide::DecideError;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use wire::codec::unknown;
use wire::proto::coordinator_server::{Coordinator, CoordinatorServer};
use wire::{limits, proto};
use worker::Group;

/// Objects that wait for a slow receiver.
const MAX_AHEAD: usize = 64;

/// Objects that are read from the catalog at a time, so that a long listing is no long transaction.
const LIST_BATCH: usize = 256;

/// The service.
#[derive(Debug)]
pub(crate) struct Service {
    pub objects: Arc<Objects>,
    pub holders: Arc<Holders>,
    pub membership: Arc<Membership>,
    pub comparison: Arc<Comparison>,
    pub operator: Arc<Operator>,
    pub forgetting: Arc<Forgetting>,
    pub jobs: Arc<Jobs>,
    pub group: Arc<Group>,
    /// Stripes that a recovery repairs at once, and how helpers are assigned, if it names neither.
    pub usual: (usize, model::Assign),
}

type Answer<T> = std::result::Result<Response<T>, Status>;
type Stream<T> = ReceiverStream<std::result::Result<T, Status>>;

fn answer<T>(result: Result<T>) -> Answer<T> {
    Ok(Response::new(result?))
}

#[tonic::async_trait]
impl Coordinator for Service {
    type ListObjectsStream = Stream<proto::ObjectInfo>;
    type ArchiveStream = Stream<proto::JobEvent>;
    type CompactStream = Stream<proto::JobEvent>;
    type RepairStream = Stream<proto::JobEvent>;
    type BackupCatalogStream = Stream<proto::CatalogChunk>;

    async fn register(
        &self,
        request: Request<Streaming<proto::RegisterMessage>>,
    ) -> Answer<proto::RegisterReply> {
        answer(self.membership.register(request.into_inner()).await)
    }

    async fn heartbeat(&self, request: Request<proto::HeartbeatRequest>) -> Answer<proto::HeartbeatReply> {
        answer(self.membership.heartbeat(request.into_inner()).await)
    }

    async fn goodbye(&self, request: Request<proto::GoodbyeRequest>) -> Answer<proto::Empty> {
        self.membership.goodbye(&request.into_inner());
        answer(Ok(proto::Empty {}))
    }

    async fn lend(&self, request: Request<proto::Lender>) -> Answer<proto::LenderReply> {
        answer(self.membership.lend(request.into_inner()).await)
    }

    async fn plan_group(&self, request: Request<proto::PlanGroupRequest>) -> Answer<proto::PlanReply> {
        answer(self.objects.plan_group(request.into_inner()))
    }

    async fn compare_node(
        &self,
        request: Request<proto::CompareNodeRequest>,
    ) -> Answer<proto::CompareNodeReply> {
        let (missing, unknown_copies) = self.comparison.report(NodeId(request.into_inner().node)).await?;
        let missing = missing.iter().map(reference).collect();
        answer(Ok(proto::CompareNodeReply { missing, unknown_copies }))
    }

    async fn list_unknown(
        &self,
        request: Request<proto::ListUnknownRequest>,
    ) -> Answer<proto::ListUnknownReply> {
        let node = request.into_inner().node;
        answer(self.operator.unknown((node != 0).then_some(NodeId(node))).await.map(Into::into))
    }

    async fn let_unknown_go(
        &self,
        request: Request<proto::LetUnknownGoRequest>,
    ) -> Answer<proto::LetUnknownGoReply> {
        let named = unknown::copies(request.into_inner().copies).map_err(CoordinatorError::from)?;
        let nodes = named.iter().map(|copy| copy.node).collect();
        let gone = self.operator.let_unknown_go(named).await?;
        self.holders.acknowledge().await?;
        self.comparison.again(&nodes);
        answer(Ok(gone.into()))
    }

    async fn begin_put(&self, request: Request<proto::BeginPutRequest>) -> Answer<proto::BeginPutReply> {
        answer(self.objects.cluster.asked(request.into_inner(), |it| self.objects.begin_put(it)).await)
    }

    async fn plan_write(&self, request: Request<proto::PlanWriteRequest>) -> Answer<proto::PlanReply> {
        answer(self.objects.cluster.asked(request.into_inner(), |it| self.objects.plan_write(it)).await)
    }

    async fn plan_parities(
        &self,
        request: Request<proto::PlanParitiesRequest>,
    ) -> Answer<proto::PlanParitiesReply> {
        answer(self.objects.cluster.asked(request.into_inner(), |it| self.objects.plan_parities(it)).await)
    }

    async fn renew_put(&self, request: Request<proto::RenewPutRequest>) -> Answer<proto::Empty> {
        answer(self.objects.renew_put(request.into_inner()).await)
    }

    async fn commit_put(&self, request: Request<proto::CommitPutRequest>) -> Answer<proto::ObjectInfo> {
        let committed = self.objects.commit_put(request.into_inner()).await?;
        self.holders.acknowledge().await?;
        answer(Ok(committed))
    }

    async fn abort_put(&self, request: Request<proto::AbortPutRequest>) -> Answer<proto::Empty> {
        let put = PutId::from_slice(&request.into_inner().put).map_err(CoordinatorError::from)?;
        let now_ms = self.objects.cluster.clock.now_ms();
        self.objects.records.run(move |catalog| catalog.abort_put(put, now_ms)).await?;
        answer(Ok(proto::Empty {}))
    }

    async fn lookup(&self, request: Request<proto::LookupRequest>) -> Answer<proto::ObjectInfo> {
        answer(self.objects.lookup(request.into_inner()).await)
    }

    async fn list_objects(
        &self,
        request: Request<proto::ListObjectsRequest>,
    ) -> Answer<Self::ListObjectsStream> {
        let (objects, receiver) = mpsc::channel(MAX_AHEAD);
        self.group.spawn(list(Arc::clone(&self.objects), request.into_inner().prefix, objects));
        answer(Ok(ReceiverStream::new(receiver)))
    }

    async fn delete(&self, request: Request<proto::LookupRequest>) -> Answer<proto::Empty> {
        let (name, now_ms) = (request.into_inner().name, self.objects.cluster.clock.now_ms());
        self.objects.records.run(move |catalog| catalog.delete(&name, now_ms)).await?;
        self.holders.acknowledge().await?;
        answer(Ok(proto::Empty {}))
    }

    async fn plan_read(&self, request: Request<proto::PlanReadRequest>) -> Answer<proto::PlanReply> {
        answer(self.objects.cluster.asked(request.into_inner(), |it| self.objects.plan_read(it)).await)
    }

    async fn report_fault(&self, request: Request<proto::Fault>) -> Answer<proto::Empty> {
        let fault = model::Fault::from(request.into_inner());
        tracing::info!(%fault, "reported");
        if !self.objects.cluster.lenders.learn(&fault) {
            self.jobs.attempts.looks.learn(&fault, Word::Client);
        }
        answer(Ok(proto::Empty {}))
    }

    async fn archive(&self, request: Request<proto::ArchiveRequest>) -> Answer<Self::ArchiveStream> {
        let cluster = &self.objects.cluster;
        let row = cluster.asked(request.into_inner(), |request| self.encoding_wish(request)).await?;
        let events = self.jobs.start(Wish::Lasting(JobRow::Encode(row))).await?;
        answer(Ok(job::forward(&self.group, events)))
    }

    async fn compact(&self, request: Request<proto::CompactRequest>) -> Answer<Self::CompactStream> {
        let row = self.compaction_wish(request.into_inner())?;
        let events = self.jobs.start(Wish::Lasting(JobRow::Compact(row))).await?;
        answer(Ok(job::forward(&self.group, events)))
    }

    async fn repair(&self, request: Request<proto::RepairRequest>) -> Answer<Self::RepairStream> {
        self.objects.cluster.has_heard_of_all().await;
        let wish = self.repair_wish(request.into_inner()).await?;
        let events = self.jobs.start(wish).await?;
        answer(Ok(job::forward(&self.group, events)))
    }

    async fn set_bucket(&self, request: Request<proto::Bucket>) -> Answer<proto::Empty> {
        self.objects.set_bucket(request.into_inner()).await?;
        self.holders.acknowledge().await?;
        answer(Ok(proto::Empty {}))
    }

    async fn list_buckets(&self, _: Request<proto::Empty>) -> Answer<proto::Buckets> {
        answer(self.objects.buckets().await)
    }

    async fn explain(&self, request: Request<proto::RepairRequest>) -> Answer<proto::ExplainReply> {
        let attempts = &self.jobs.attempts;
        answer(attempts.cluster.asked(request.into_inner(), |it| explain::explain(attempts, it)).await)
    }

    async fn recommission(&self, request: Request<proto::RecommissionRequest>) -> Answer<proto::Empty> {
        let node = NodeId(request.into_inner().node);
        self.jobs.stop_moving(node).await?;
        self.operator.stays(node).await?;
        self.holders.acknowledge().await?;
        answer(Ok(proto::Empty {}))
    }

    async fn forget_node(
        &self,
        request: Request<proto::ForgetNodeRequest>,
    ) -> Answer<proto::ForgetNodeReply> {
        let proto::ForgetNodeRequest { node, accept_loss } = request.into_inner();
        let row = self.forgetting.forget(NodeId(node), accept_loss).await?;
        self.holders.acknowledge().await?;
        answer(Ok(self.operator.forgotten(row)))
    }

    async fn readmit_store(
        &self,
        request: Request<proto::ReadmitStoreRequest>,
    ) -> Answer<proto::ReadmitStoreReply> {
        let store = request.into_inner().store;
        let node = self.operator.readmit(&store).await?;
        self.holders.acknowledge().await?;
        answer(Ok(proto::ReadmitStoreReply { node: node.0 }))
    }

    async fn get_status(&self, _: Request<proto::Empty>) -> Answer<proto::ClusterStatus> {
        answer(self.operator.status().await)
    }

    async fn get_health(&self, _: Request<proto::Empty>) -> Answer<proto::HealthReply> {
        answer(self.operator.health().await)
    }

    async fn control_task(&self, request: Request<proto::TaskControl>) -> Answer<proto::TaskStatus> {
        let status = self.operator.control_task(request.into_inner()).await?;
        self.holders.acknowledge().await?;
        answer(Ok(status))
    }

    async fn set_throttle(&self, request: Request<proto::Throttle>) -> Answer<proto::Empty> {
        self.operator.throttle(request.into_inner()).await?;
        self.holders.acknowledge().await?;
        answer(Ok(proto::Empty {}))
    }

    async fn set_budgets(&self, request: Request<proto::BudgetChange>) -> Answer<proto::Budgets> {
        let budgets = self.operator.budgets(request.into_inner()).await?;
        self.holders.acknowledge().await?;
        answer(Ok(budgets))
    }

    async fn get_audit(&self, request: Request<proto::AuditRequest>) -> Answer<proto::AuditReply> {
        let entries = self.jobs.attempts.audit.last(request.into_inner().last).await;
        answer(entries.map(|entries| proto::AuditReply { entries }))
    }

    async fn get_links(&self, _: Request<proto::Empty>) -> Answer<proto::LinkTable> {
        answer(self.operator.links().await.map(|json| proto::LinkTable { json }))
    }

    async fn set_links(&self, request: Request<proto::LinkTable>) -> Answer<proto::LinkTable> {
        let json = self.operator.set_links(&request.into_inner().json).await?;
        self.holders.acknowledge().await?;
        answer(Ok(proto::LinkTable { json }))
    }

    async fn backup_catalog(&self, _: Request<proto::Empty>) -> Answer<Self::BackupCatalogStream> {
        answer(Ok(ReceiverStream::new(self.operator.backup())))
    }

    async fn end_safe_mode(&self, _: Request<proto::Empty>) -> Answer<proto::Empty> {
        self.operator.end_safe_mode().await?;
        self.holders.acknowledge().await?;
        answer(Ok(proto::Empty {}))
    }

    async fn recover_catalog(&self, request: Request<proto::RecoverRequest>) -> Answer<proto::RecoverReply> {
        let proto::RecoverRequest { take, drop } = request.into_inner();
        let named = |list: Vec<proto::ObjectVersion>| list.into_iter().map(|v| (v.name, v.version)).collect();
        let choices = Choices { take: named(take), drop: named(drop) };
        let (recovered, away, safe_mode) = self.operator.recover(choices).await?;
        self.holders.acknowledge().await?;
        answer(Ok(operator::recover_reply(recovered, away, safe_mode)))
    }
}

impl Service {
    /// Within the bounds of messages.
    pub fn server(self) -> CoordinatorServer<Service> {
        CoordinatorServer::new(self)
            .max_decoding_message_size(limits::MAX_CONTROL_BYTES)
            .max_encoding_message_size(limits::MAX_CONTROL_BYTES)
    }

    /// What a request for an archival asks for, checked as far as it can be before a job starts.
    async fn encoding_wish(&self, request: proto::ArchiveRequest) -> Result<EncodingRow> {
        let proto::ArchiveRequest {
            name,
            code,
            slice_bytes,
            is_prefix,
            older_than_ms,
            scheme,
            parallel,
            short,
            change,
        } = request;
        let attempts = &self.jobs.attempts;
        self.check_encodings(&scheme, slice_bytes, parallel)?;
        let before_unix_ms = match older_than_ms {
            0 => 0,
            age => (self.objects.config.wall_ms)().saturating_sub(age).max(1),
        };
        let row = EncodingRow {
            name,
            is_prefix,
            before_unix_ms,
            code,
            scheme,
            slice_bytes,
            parallel,
            short,
            change,
        };
        // What cannot be is said at once, and not by a job.
        let named = EncodingRow { is_prefix: false, ..row.clone() };
        if row.is_prefix {
            let prefix = row.name.clone();
            let first = move |catalog: &catalog::Catalog| catalog.list_objects(&prefix, None, 1);
            if attempts.records.run(first).await?.is_empty() {
                return Err(CoordinatorError::NoSuchPrefix(row.name));
            }
        }
        match row.is_prefix {
            true if row.code.is_empty() => {}
            true => _ = jobs::archival_code(&attempts.planner, &attempts.cluster, &row.code)?,
            false => _ = jobs::choose(attempts, &named).await?,
        }
        Ok(row)
    }

    /// What a request for a compaction asks for.
    fn compaction_wish(&self, request: proto::CompactRequest) -> Result<CompactionRow> {
        let proto::CompactRequest { scheme, slice_bytes, parallel } = request;
        self.check_encodings(&scheme, slice_bytes, parallel)?;
        Ok(CompactionRow { scheme, slice_bytes, parallel })
    }

    /// How stripes are to be made, and how many at once.
    fn check_encodings(&self, scheme: &str, slice_bytes: u32, parallel: u32) -> Result<()> {
        self.jobs.attempts.planner.slice_length(slice_bytes)?;
        attempt::known_encoding(scheme)?;
        let most = config::MAX_PARALLEL_REPAIRS;
        match parallel as usize > most {
            true => Err(CoordinatorError::Invalid(format!("stripes encoded at once: from 1 to {most}"))),
            false => Ok(()),
        }
    }

    /// What a request for a repair asks for, checked as far as it can be before a job starts.
    async fn repair_wish(&self, request: proto::RepairRequest) -> Result<Wish> {
        let Attempts { planner, cluster, records, .. } = &*self.jobs.attempts;
        attempt::scheme(&request.scheme)?;
        planner.slice_length(request.slice_bytes)?;
        let ways = [!request.block.is_empty(), !request.object.is_empty(), request.node != 0];
        if ways.iter().filter(|way| **way).count() != 1 {
            return Err(CoordinatorError::Invalid(
                "say what to repair: a block, or an object and the index of a block, or a node".to_owned(),
            ));
        }
        if request.node != 0 {
            self.know_who_is_dead(&request).await;
            let row = jobs::row_of(cluster, self.usual, &request)?;
            if request.dry_run {
                return Ok(Wish::Rehearsed(row));
            }
            if request.discard {
                return Ok(Wish::Measured(row));
            }
            if row.moves {
                // From here on nothing new goes there, whatever becomes of the job.
                self.operator.leave(&row).await?;
            }
            return Ok(Wish::Lasting(JobRow::RecoverNodes(row)));
        }
        let of_nodes = request.decommission
            || request.dry_run
            || !request.more_nodes.is_empty()
            || !request.requestors.is_empty();
        if of_nodes || !request.assign.is_empty() {
            return Err(CoordinatorError::Invalid(
                "several nodes, decommissioning, dry runs, assignment and requestors are for the repair of nodes"
                    .to_owned(),
            ));
        }
        if !(request.stripe || request.whole_object || request.members.is_empty()) {
            return Err(CoordinatorError::Invalid(
                "members are those of a stripe: ask for the stripe".to_owned(),
            ));
        }
        let block: BlockId = explain::target(&self.jobs.attempts, &request).await?;
        records.run(move |catalog| catalog.placement(block)).await?;
        let options = RepairOptions {
            scheme: request.scheme,
            slice_bytes: request.slice_bytes,
            verify: !request.no_verify,
            requestor: (request.requestor != 0).then_some(NodeId(request.requestor)),
            discard: request.discard,
            helpers: request.helpers.into_iter().map(NodeId).collect(),
            patient: request.patient,
            ..RepairOptions::default()
        };
        if !(request.stripe || request.whole_object) {
            return Ok(Wish::of_block(block, options));
        }
        let members: Vec<u16> =
            request.members.iter().map(|&m| u16::try_from(m).unwrap_or(u16::MAX)).collect();
        if options.discard == members.is_empty() {
            let what = "a measurement says which members are to be rebuilt and thrown away, a repair rebuilds what is lost";
            return Err(CoordinatorError::Invalid(what.to_owned()));
        }
        if let Some(scheme) =
            attempt::scheme(&options.scheme)?.filter(|&s| !flow::multi_block::repairs_several(s))
        {
            return Err(DecideError::from(flow::FlowError::OneRequestor { scheme }).into());
        }
        let blocks = if request.whole_object { self.stripes_of(request.object).await? } else { vec![block] };
        Ok(Wish::of_stripes(blocks, members, options))
    }

    /// Nodes to recover may have died a moment ago.
    async fn know_who_is_dead(&self, request: &proto::RepairRequest) {
        if request.decommission || request.discard || request.dry_run {
            return;
        }
        for &node in [request.node].iter().chain(&request.more_nodes) {
            self.objects.cluster.wait_for_news_of(NodeId(node)).await;
        }
    }

    /// A block of each of an object's stripes, and its blocks that are in none.
    async fn stripes_of(&self, object: String) -> Result<Vec<BlockId>> {
        let (_, blocks) = self.objects.records.run(move |catalog| catalog.object(&object)).await?;
        let mut seen = BTreeSet::new();
        let first = |placement: &&model::Placement| {
            placement.stripe.as_ref().is_none_or(|stripe| seen.insert(stripe.id))
        };
        Ok(blocks.iter().filter(first).map(|placement| placement.block).collect())
    }
}

async fn list(
    objects: Arc<Objects>,
    prefix: String,
    listed: mpsc::Sender<std::result::Result<proto::ObjectInfo, Status>>,
) {
    let (mut after, mut unlisted, mut first_error) = (None, 0, None);
    loop {
        let page = match objects.page(prefix.clone(), after, LIST_BATCH).await {
            Ok(page) => page,
            Err(error) => return drop(listed.send(Err(error.into())).await),
        };
        for info in page.infos {
            if listed.send(Ok(info)).await.is_err() {
                return;
            }
        }
        unlisted += page.unlisted;
        first_error = first_error.or(page.first_error);
        if page.last.is_none() {
            // Last, so that whoever listens has seen all that can be listed.
            if let Some(error) = first_error {
                let text = format!("{unlisted} objects cannot be listed: {error}");
                let _ = listed.send(Err(Status::data_loss(text))).await;
            }
            return;
        }
        after = page.last;
    }
}

/// What is answered while a catalog is compared: that it is. Nodes that want to register are asked what they keep.
#[derive(Clone, Debug)]
pub(crate) struct Away {
    succession: Arc<Succession>,
    why: Arc<Mutex<String>>,
}

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
            type CompactStream = Stream<proto::JobEvent>;
            type RepairStream = Stream<proto::JobEvent>;
            type BackupCatalogStream = Stream<proto::CatalogChunk>;

            async fn register(
                &self,
                request: Request<Streaming<proto::RegisterMessage>>,
            ) -> Answer<proto::RegisterReply> {
                use proto::register_message::Kind;
                let first = request.into_inner().message().await?.and_then(|message| message.kind);
                if let Some(Kind::Hello(hello)) = first {
                    self.succession.heard_of(NodeId(hello.node), hello.control_addr, !hello.cluster.is_empty());
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
    lend(proto::Lender) -> proto::LenderReply;
    plan_group(proto::PlanGroupRequest) -> proto::PlanReply;
    begin_put(proto::BeginPutRequest) -> proto::BeginPutReply;
    plan_write(proto::PlanWriteRequest) -> proto::PlanReply;
    plan_parities(proto::PlanParitiesRequest) -> proto::PlanParitiesReply;
    renew_put(proto::RenewPutRequest) -> proto::Empty;
    commit_put(proto::CommitPutRequest) -> proto::ObjectInfo;
    abort_put(proto::AbortPutRequest) -> proto::Empty;
    lookup(proto::LookupRequest) -> proto::ObjectInfo;
    list_objects(proto::ListObjectsRequest) -> Self::ListObjectsStream;
    delete(proto::LookupRequest) -> proto::Empty;
    plan_read(proto::PlanReadRequest) -> proto::PlanReply;
    report_fault(proto::Fault) -> proto::Empty;
    archive(proto::ArchiveRequest) -> Self::ArchiveStream;
    compact(proto::CompactRequest) -> Self::CompactStream;
    set_bucket(proto::Bucket) -> proto::Empty;
    list_buckets(proto::Empty) -> proto::Buckets;
    repair(proto::RepairRequest) -> Self::RepairStream;
    explain(proto::RepairRequest) -> proto::ExplainReply;
    recommission(proto::RecommissionRequest) -> proto::Empty;
    forget_node(proto::ForgetNodeRequest) -> proto::ForgetNodeReply;
    readmit_store(proto::ReadmitStoreRequest) -> proto::ReadmitStoreReply;
    get_status(proto::Empty) -> proto::ClusterStatus;
    get_health(proto::Empty) -> proto::HealthReply;
    control_task(proto::TaskControl) -> proto::TaskStatus;
    compare_node(proto::CompareNodeRequest) -> proto::CompareNodeReply;
    list_unknown(proto::ListUnknownRequest) -> proto::ListUnknownReply;
    let_unknown_go(proto::LetUnknownGoRequest) -> proto::LetUnknownGoReply;
    set_throttle(proto::Throttle) -> proto::Empty;
    set_budgets(proto::BudgetChange) -> proto::Budgets;
    get_audit(proto::AuditRequest) -> proto::AuditReply;
    get_links(proto::Empty) -> proto::LinkTable;
    set_links(proto::LinkTable) -> proto::LinkTable;
    backup_catalog(proto::Empty) -> Self::BackupCatalogStream;
    end_safe_mode(proto::Empty) -> proto::Empty;
    recover_catalog(proto::RecoverRequest) -> proto::RecoverReply;
}
