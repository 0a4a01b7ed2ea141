//! The catalog's calls and the operator's: thin, typed, none moves block data.

use crate::calls::rpc;
use crate::connect::Client;
use crate::error::{ClientError, Result};
use crate::health::{Health, Hindrance, StuckOrder, UnreadCopies};
use model::{BlockId, NodeId, StoreId};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_stream::StreamExt;
use wire::proto::{
    AuditRequest, Bucket, BudgetChange, Budgets, ClusterStatus, Empty, ExplainReply, ForgetNodeReply,
    ForgetNodeRequest, GatherTerms, HealthReply, LinkTable, ListObjectsRequest, LookupRequest, MarginCount,
    ObjectInfo, ObjectVersion, ReadmitStoreRequest, RecommissionRequest, RecoverReply, RecoverRequest,
    RepairRequest, TaskControl, TaskStatus, Throttle,
};

/// A lookup in parts begins anew so often, if the object is put again in between.
const MAX_LOOKUPS: usize = 3;

/// How blocks are placed and gathered in stripes (EAR §3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gather {
    /// The placement policy's name.
    pub policy: String,
    /// The code of the stripes.
    pub code: String,
    /// Blocks of a stripe in one rack at most, after encoding.
    pub rack_capacity: u32,
    /// Racks that hold a stripe after encoding; 0: any number.
    pub target_racks: u32,
    /// How the replicas of a block lie before, by name.
    pub spread: String,
}

/// The policy of blocks that are coded as they are written.
const ON_WRITE: &str = "on-write";

impl Gather {
    /// Blocks are coded as they are written: each goes to one node, and the parities of each k with them.
    pub fn on_write(code: String) -> Gather {
        let (policy, spread) = (ON_WRITE.to_owned(), String::new());
        Gather { policy, code, rack_capacity: 0, target_racks: 0, spread }
    }

    /// Whether they are.
    pub fn is_on_write(&self) -> bool {
        self.policy == ON_WRITE
    }
}

impl From<Gather> for GatherTerms {
    fn from(gather: Gather) -> GatherTerms {
        let Gather { policy, code, rack_capacity, target_racks, spread } = gather;
        GatherTerms { policy, code, rack_capacity, target_racks, spread }
    }
}

impl From<GatherTerms> for Gather {
    fn from(terms: GatherTerms) -> Gather {
        let GatherTerms { policy, code, rack_capacity, target_racks, spread } = terms;
        Gather { policy, code, rack_capacity, target_racks, spread }
    }
}

impl Client {
    /// An object, with its blocks if `with_blocks`. [`ClientError::NotFound`] if there is none of that name.
    pub async fn lookup(&self, name: &str, with_blocks: bool) -> Result<ObjectInfo> {
        self.look(LookupRequest { name: name.to_owned(), with_blocks, ..LookupRequest::default() }).await
    }

    /// An object, with what is to be known of its blocks to read them.
    pub(crate) async fn lookup_to_read(&self, name: &str) -> Result<ObjectInfo> {
        let name = name.to_owned();
        let request =
            LookupRequest { name, with_blocks: true, without_members: true, ..LookupRequest::default() };
        self.look(request).await
    }

    /// Asks until all blocks are there: of a large object they are more than one message holds.
    async fn look(&self, request: LookupRequest) -> Result<ObjectInfo> {
        let ask = |first_block| {
            let request = LookupRequest { first_block, ..request.clone() };
            async move { self.call_again("the lookup", request, rpc!(lookup)).await }
        };
        for _ in 0..MAX_LOOKUPS {
            let mut object: ObjectInfo = ask(0).await?;
            while request.with_blocks && (object.blocks.len() as u64) < object.block_count {
                let first = object.blocks.len() as u64;
                let more: ObjectInfo = ask(first).await?;
                if more.version != object.version {
                    break;
                }
                if more.blocks.first().is_none_or(|block| block.index != first) {
                    return Err(ClientError::Protocol(format!("block {first} of an object is not told of")));
                }
                object.blocks.extend(more.blocks);
            }
            if !request.with_blocks || object.blocks.len() as u64 == object.block_count {
                return Ok(object);
            }
        }
        Err(ClientError::Changed(request.name))
    }

    /// The objects whose names begin with `prefix`, in the order of their names, without their blocks.
    pub async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>> {
        let (objects, error) = self.list_readable(prefix).await?;
        error.map_or(Ok(objects), Err)
    }

    /// The same, with what can be listed if the listing breaks off, and why it does: a damaged catalog lists what it can first.
    pub async fn list_readable(&self, prefix: &str) -> Result<(Vec<ObjectInfo>, Option<ClientError>)> {
        let request = ListObjectsRequest { prefix: prefix.to_owned() };
        let mut stream = self.call_again("the listing", request, rpc!(list_objects)).await?;
        let mut objects = Vec::new();
        while let Some(object) = stream.next().await {
            match object {
                Ok(object) => objects.push(object),
                Err(status) => return Ok((objects, Some(ClientError::from_status(&status, &self.address)))),
            }
        }
        Ok((objects, None))
    }

    /// Removes an object. [`ClientError::NotFound`] if there is none of that name.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let request = LookupRequest { name: name.to_owned(), ..LookupRequest::default() };
        self.call("the removal", request, rpc!(delete)).await.map(|_| ())
    }

    /// From now on the objects of a bucket are put as is said, `None`: as all others; and archived once they are so old, unless that
    /// is zero.
    pub async fn set_bucket(
        &self,
        name: &str,
        gather: Option<Gather>,
        archive_after: Duration,
    ) -> Result<()> {
        let bucket = Bucket {
            name: name.to_owned(),
            terms: gather.map(Into::into),
            archive_after_ms: u64::try_from(archive_after.as_millis()).unwrap_or(u64::MAX),
        };
        self.call_again("the setting", bucket, rpc!(set_bucket)).await.map(|_| ())
    }

    /// The buckets that are set, and the age at which their objects are archived; zero: when somebody asks for it.
    pub async fn buckets(&self) -> Result<Vec<(String, Gather, Duration)>> {
        let listed = self.call_again("the listing", Empty {}, rpc!(list_buckets)).await?;
        let bucket = |bucket: Bucket| {
            let archive_after = Duration::from_millis(bucket.archive_after_ms);
            Some((bucket.name, Gather::from(bucket.terms?), archive_after))
        };
        Ok(listed.buckets.into_iter().filter_map(bucket).collect())
    }

    /// What a repair would do, as text, DOT and JSON; nothing is started.
    pub async fn explain(&self, request: RepairRequest) -> Result<ExplainReply> {
        self.call_again("the explanation", request, rpc!(explain)).await
    }

    /// Lets a decommissioned node hold blocks again.
    pub async fn recommission(&self, node: NodeId) -> Result<()> {
        let request = RecommissionRequest { node: node.0 };
        self.call_again("the recommissioning", request, rpc!(recommission)).await.map(|_| ())
    }

    /// A node's store is gone for good: from now on it is refused, and nothing waits for it. Returns after a few seconds with how far
    /// that is, the first time after all that it had was looked through; asked again, it says so again.
    ///
    /// # Errors
    /// [`ClientError::Refused`] while the node lives, or if blocks cannot be had without it and `accept_loss` is not said.
    pub async fn forget_node(&self, node: NodeId, accept_loss: bool) -> Result<ForgetNodeReply> {
        let request = ForgetNodeRequest { node: node.0, accept_loss };
        self.call_for_long(request, rpc!(forget_node)).await
    }

    /// A store that was given up by mistake may register again. Returns the number of its node.
    ///
    /// # Errors
    /// [`ClientError::Refused`] while it is being forgotten, and if its number is another store's by now.
    pub async fn readmit_store(&self, store: StoreId) -> Result<NodeId> {
        let request = ReadmitStoreRequest { store: store.to_vec() };
        Ok(NodeId(self.call_for_long(request, rpc!(readmit_store)).await?.node))
    }

    /// The catalog's history is taken as it is: what became superfluous may go again.
    pub async fn end_safe_mode(&self) -> Result<()> {
        self.call("the end of safe mode", Empty {}, rpc!(end_safe_mode)).await.map(|_| ())
    }

    /// Nodes, counts, tasks.
    pub async fn status(&self) -> Result<ClusterStatus> {
        self.call_again("the status", Empty {}, rpc!(get_status)).await
    }

    /// Pauses, resumes, stops a background task, or asks for its status.
    pub async fn control_task(&self, control: TaskControl) -> Result<TaskStatus> {
        self.call_again("the task's control", control, rpc!(control_task)).await
    }

    /// Limits every node, bytes per second in each direction, until it is set again; 0 lifts the limit.
    pub async fn throttle(&self, egress_bytes_per_s: u64, ingress_bytes_per_s: u64) -> Result<()> {
        let request = Throttle { egress_bytes_per_s, ingress_bytes_per_s };
        self.call_again("the throttle", request, rpc!(set_throttle)).await.map(|_| ())
    }

    /// What every node may send, and as much receive, of each kind of traffic, in bytes per second; 0 is unlimited, `None` leaves one as it is.
    /// Returns what holds then.
    pub async fn budgets(&self, wanted: BudgetChange) -> Result<Budgets> {
        self.call_again("the budgets", wanted, rpc!(set_budgets)).await
    }

    /// The last repairs, the latest last, each as JSON.
    pub async fn audit(&self, last: u32) -> Result<Vec<String>> {
        let request = AuditRequest { last };
        Ok(self.call_again("the record of repairs", request, rpc!(get_audit)).await?.entries)
    }

    /// Counts over everything: the coordinator goes through its whole catalog.
    pub async fn health(&self) -> Result<Health> {
        let reply = self.call_again("the health", Empty {}, rpc!(get_health)).await?;
        let HealthReply { unreadable_objects, unreadable_names, broken_stripes, short_blocks, .. } = reply;
        let hindrance = |told: wire::proto::Hindrance| {
            let block = BlockId::from_slice(&told.block).map_err(|e| ClientError::Protocol(e.to_string()))?;
            Ok(Hindrance { why: told.why, blocks: told.blocks, block })
        };
        Ok(Health {
            objects: by_margin(&reply.objects),
            stripes: by_margin(&reply.stripes),
            unreadable_objects,
            unreadable_names,
            broken_stripes,
            short_blocks,
            short_bytes: reply.short_bytes,
            healed_bytes_per_s: reply.healed_bytes_per_s,
            is_unchecked: reply.unchecked,
            healing_limit_bytes_per_s: reply.healing_limit_bytes_per_s,
            limited_left: reply.limited_left_ms.map(Duration::from_millis),
            unread_copies: reply.unread_copies,
            unread: reply.unread.into_iter().map(Into::into).collect(),
            stuck: reply.stuck.into_iter().map(Into::into).collect(),
            at_unix_ms: reply.at_unix_ms,
            waiting_for_nodes: reply.waiting_for_nodes,
            missing_copies: reply.missing_copies,
            damaged_copies: reply.damaged_copies,
            hindrances: reply.hindrances.into_iter().map(hindrance).collect::<Result<_>>()?,
            safe_mode: reply.safe_mode,
        })
    }

    /// What the coordinator knows of the links, as JSON.
    pub async fn links(&self) -> Result<String> {
        Ok(self.call_again("the table of links", Empty {}, rpc!(get_links)).await?.json)
    }

    /// Replaces it; returns it as it was understood.
    pub async fn set_links(&self, json: String) -> Result<String> {
        let request = LinkTable { json };
        Ok(self.call_again("the table of links", request, rpc!(set_links)).await?.json)
    }

    /// Takes from what nodes have whatever the catalog's history knows nothing of, for names that have no other version. Of those
    /// that were left out, each a name and a version, it takes some in place of what their names have, and drops some. Takes as long as reading all the nodes' sidecars.
    ///
    /// # Errors
    /// [`ClientError::NotFound`] for a version of which nothing is found, [`ClientError::Refused`] for one that cannot be taken;
    /// then nothing is changed.
    pub async fn recover_catalog(
        &self,
        take: &[(String, u64)],
        drop: &[(String, u64)],
    ) -> Result<RecoverReply> {
        let named = |(name, version): &(String, u64)| ObjectVersion { name: name.clone(), version: *version };
        let [take, drop] = [take, drop].map(|list| list.iter().map(named).collect());
        self.call_for_long(RecoverRequest { take, drop }, rpc!(recover_catalog)).await
    }
}

fn by_margin(counts: &[MarginCount]) -> BTreeMap<u64, u64> {
    counts.iter().map(|counted| (counted.losses, counted.count)).collect()
}

impl From<wire::proto::UnreadCopies> for UnreadCopies {
    fn from(told: wire::proto::UnreadCopies) -> UnreadCopies {
        let wire::proto::UnreadCopies { node, copies, why, grace_left_ms } = told;
        UnreadCopies { node: NodeId(node), copies, why, grace_left: Duration::from_millis(grace_left_ms) }
    }
}

impl From<wire::proto::StuckOrder> for StuckOrder {
    fn from(told: wire::proto::StuckOrder) -> StuckOrder {
        let wire::proto::StuckOrder { node, blocks_left, why } = told;
        StuckOrder { node: NodeId(node), blocks_left, why }
    }
}
