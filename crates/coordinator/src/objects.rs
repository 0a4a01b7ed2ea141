//! Puts, reads, lookups.

use crate::attempt::{scheme, token};
use crate::cluster::{self, Cluster};
use crate::coded::{Coded, MadeParities};
use crate::comparison::Comparison;
use crate::config::{Config, MAX_OBJECT_PARITIES, MAX_REPLICAS};
use crate::error::{CoordinatorError, Result};
use crate::gathering::{Gathering, PlacedBlock, WantedBlock};
use crate::reads::Reads;
use crate::records::Records;
use crate::written::{self, Named};
use catalog::rows::{BucketRow, GatherTerms, GatheringRow, ObjectRow, PutRow};
use catalog::{Catalog, CatalogError, CommittedBlock, MIN_REPLICAS, NewPut, PlannedBlock, PutEnd};
use codes::Code;
use flow::{Member, limits};
use model::MAX_OBJECT_BLOCKS;
use model::hdfs::BlockGroup;
use model::{
    BlockFacts, BlockId, FlowId, MemberState, NodeId, Part, Peer, Placement, PutId, StripeId,
    StripePlacement, Sums, Traffic,
};
use plan::Draw;
use plan::decide::{DecideError, Planner, Price, ReadPlan, ReadRequest, World, WriteRequest, replica_nodes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::{Message as _, proto};

/// What clients do with objects.
#[derive(Debug)]
pub(crate) struct Objects {
    pub records: Records,
    pub cluster: Arc<Cluster>,
    pub planner: Arc<Planner>,
    pub coded: Coded,
    pub reads: Arc<Reads>,
    pub gathering: Arc<Gathering>,
    pub comparison: Arc<Comparison>,
    pub config: Arc<Config>,
}

/// Some objects, in the order of their names.
#[derive(Default)]
pub(crate) struct Page {
    pub infos: Vec<proto::ObjectInfo>,
    /// The last name that was looked at; `None`: there are no more.
    pub last: Option<String>,
    /// Names of which the catalog's file, which is damaged, does not tell the rest.
    pub unlisted: u64,
    /// Why the first of these is not listed.
    pub first_error: Option<CatalogError>,
}

impl Objects {
    /// Begins a put.
    pub async fn begin_put(&self, request: proto::BeginPutRequest) -> Result<proto::BeginPutReply> {
        let block_bytes = match request.block_bytes {
            0 => self.config.block_bytes,
            bytes if limits::MAX_BLOCK_BYTES < bytes => {
                let limit = limits::MAX_BLOCK_BYTES;
                return Err(invalid(format!("blocks of {bytes} bytes: at most {limit} are possible")));
            }
            bytes if bytes < limits::MIN_BLOCK_BYTES => {
                let limit = limits::MIN_BLOCK_BYTES;
                return Err(invalid(format!("blocks of {bytes} bytes: they have {limit} at least")));
            }
            bytes => bytes,
        };
        let replicas = match request.replicas {
            0 => self.config.replicas,
            replicas if replicas <= MAX_REPLICAS => replicas,
            replicas => {
                return Err(invalid(format!("{replicas} replicas: at most {MAX_REPLICAS} are possible")));
            }
        };
        let view = self.cluster.view();
        enough_nodes(&view, replicas, &BTreeSet::new())?;
        let gathers = self.terms(&request.name, request.gathers).await?;
        if let Some(terms) = &gathers {
            self.check(terms, replicas)?;
        }
        let on_write = gathers.as_ref().filter(|terms| terms.is_on_write());
        let code = on_write.map(|terms| terms.code.clone()).unwrap_or_default();
        let put = PutId(rand::random());
        let lease_until_ms = self.lease_until_ms();
        let new = NewPut { put, name: request.name, block_bytes, replicas, lease_until_ms, gathers };
        let version = self.records.run(move |catalog| catalog.begin_put(&new)).await?;
        let (slice_bytes, lease_ms) = (self.config.slice_bytes, self.config.put_lease_ms);
        Ok(proto::BeginPutReply { put: put.to_vec(), version, block_bytes, slice_bytes, lease_ms, code })
    }

    /// Whether objects can be put like that on the nodes that live.
    fn check(&self, terms: &GatherTerms, replicas: u32) -> Result<()> {
        match terms.is_on_write() {
            true => self.coded.check(terms).map(|_| ()),
            false => self.gathering.check(terms, replicas),
        }
    }

    /// Of a put that is coded as it is written: where the parities of a stripe go.
    pub async fn plan_parities(
        &self,
        request: proto::PlanParitiesRequest,
    ) -> Result<proto::PlanParitiesReply> {
        let proto::PlanParitiesRequest { put, stripe, avoid, data, parities, last, short } = request;
        let parity = |parity: &proto::MadeParity| {
            let member = u16::try_from(parity.member).map_err(|_| invalid("no such member".to_owned()))?;
            Ok((member, parity.stored_bytes, sums(&parity.digest, &parity.fingerprint)?))
        };
        let made = MadeParities {
            put: PutId::from_slice(&put)?,
            stripe,
            avoid: avoid.into_iter().map(NodeId).collect(),
            data: data.iter().map(|id| Ok(BlockId::from_slice(id)?)).collect::<Result<_>>()?,
            parities: parities.iter().map(parity).collect::<Result<_>>()?,
            last,
            short,
        };
        let planned = self.coded.plan_parities(made, self.lease_until_ms()).await?;
        let plans = planned.iter().map(|planned| wire::codec::plan::encode(&planned.plan)).collect();
        Ok(proto::PlanParitiesReply { plans })
    }

    /// Chooses nodes for a block, notes them, and hands out the plan.
    pub async fn plan_write(&self, request: proto::PlanWriteRequest) -> Result<proto::PlanReply> {
        let put = PutId::from_slice(&request.put)?;
        let pending = self.records.run(move |catalog| catalog.pending_put(put)).await?;
        let sums = sums(&request.digest, &request.fingerprint)?;
        let avoid: BTreeSet<NodeId> = request.avoid.iter().copied().map(NodeId).collect();
        let block = BlockId(rand::random());
        let offset = request.index.checked_mul(pending.block_bytes);
        let offset = offset.ok_or_else(|| invalid(format!("block {} is out of bounds", request.index)))?;
        let flow = FlowId(rand::random());
        let (index, stored_bytes, last) = (request.index, request.stored_bytes, request.last);
        let row = PlannedBlock { block, index, stored_bytes, sums, last, nodes: Vec::new(), flow };
        let PlacedBlock { nodes, birth } = self.place(put, &pending, row, &avoid).await?;
        let view = self.cluster.view();
        let note = match pending.gathers.as_ref().filter(|terms| terms.is_on_write()) {
            Some(terms) => format!("coded with {}", terms.code),
            None => format!("{} of {} replicas", nodes.len(), pending.replicas),
        };
        let write = WriteRequest {
            flow,
            block,
            generation: catalog::FIRST_GENERATION,
            stored_bytes,
            sums,
            part: Some(Part { name: pending.name, version: pending.version, offset, last }),
            note: Vec::new(),
            nodes,
            birth,
        };
        let planned = self.planner.write(&view, &write, &mut token)?;
        Ok(proto::PlanReply {
            plan: Some(wire::codec::plan::encode(&planned.plan)),
            note,
            length: request.stored_bytes,
            ..Default::default()
        })
    }

    /// Chooses nodes for a block and notes it; together with the stripe that it joins, if its put gathers.
    async fn place(
        &self,
        put: PutId,
        pending: &PutRow,
        mut planned: PlannedBlock,
        avoid: &BTreeSet<NodeId>,
    ) -> Result<PlacedBlock> {
        let (now, lease_until_ms) = (self.cluster.clock.now_ms(), self.lease_until_ms());
        // A block without bytes is part of no stripe.
        if let Some(terms) = pending.gathers.as_ref().filter(|_| planned.stored_bytes > 0) {
            if terms.is_on_write() {
                return self.coded.place(put, terms, &planned, avoid, lease_until_ms).await;
            }
            let (terms, replicas, avoid) = (terms.clone(), pending.replicas, avoid.clone());
            let wanted = WantedBlock { put, terms, replicas, planned, avoid, lease_until_ms };
            return self.gathering.place(wanted).await;
        }
        let view = self.cluster.view();
        let at_least = enough_nodes(&view, pending.replicas, avoid)?;
        // Fewer copies than asked for are for want of nodes, and not for nodes that are about to register.
        let at_least =
            if self.cluster.expects_for().is_some() { pending.replicas as usize } else { at_least };
        let mut draw = Draw::seeded(rand::random());
        let replicas = (pending.replicas as usize, at_least);
        planned.nodes = replica_nodes(&view, replicas, planned.stored_bytes, avoid, &mut draw)?;
        let nodes = planned.nodes.clone();
        let birth = self.records.run(move |c| c.plan_block(put, &planned, now, lease_until_ms)).await?;
        Ok(PlacedBlock { nodes, birth })
    }

    /// How a put's blocks are gathered: as it asks for, else as its bucket is set.
    async fn terms(&self, name: &str, asked: Option<proto::GatherTerms>) -> Result<Option<GatherTerms>> {
        if let Some(asked) = asked {
            return Ok(Some(of_message(asked)));
        }
        let Some((bucket, _)) = name.split_once('/') else { return Ok(None) };
        let bucket = bucket.to_owned();
        if bucket.is_empty() {
            return Ok(None);
        }
        let row = self.records.run(move |catalog| catalog.bucket(&bucket)).await?;
        Ok(row.map(|row| row.terms))
    }

    /// From now on the objects of a bucket are put like this.
    pub async fn set_bucket(&self, bucket: proto::Bucket) -> Result<()> {
        let proto::Bucket { name, terms, archive_after_ms } = bucket;
        if name.contains('/') {
            return Err(invalid(format!(
                "{name:?} is no bucket: that is what a name has before its first slash"
            )));
        }
        let terms = terms.map(of_message);
        if let Some(terms) = &terms {
            self.check(terms, self.config.replicas)?;
        }
        if terms.as_ref().is_some_and(|terms| terms.is_on_write() && archive_after_ms > 0) {
            return Err(invalid("what is coded as it is written is archived already".to_owned()));
        }
        let row = terms.map(|terms| BucketRow { terms, archive_after_ms });
        self.records.run(move |catalog| catalog.set_bucket(&name, row.as_ref())).await
    }

    /// The buckets that are set.
    pub async fn buckets(&self) -> Result<proto::Buckets> {
        let rows = self.records.run(|catalog| catalog.buckets()).await?;
        let bucket = |(name, BucketRow { terms, archive_after_ms })| proto::Bucket {
            name,
            terms: Some(message(terms)),
            archive_after_ms,
        };
        Ok(proto::Buckets { buckets: rows.into_iter().map(bucket).collect() })
    }

    fn lease_until_ms(&self) -> u64 {
        self.cluster.clock.now_ms().saturating_add(self.config.put_lease_ms)
    }

    /// A client says that bytes of its put move.
    pub async fn renew_put(&self, request: proto::RenewPutRequest) -> Result<proto::Empty> {
        let (put, lease_until_ms) = (PutId::from_slice(&request.put)?, self.lease_until_ms());
        self.records.run(move |catalog| catalog.renew_put(put, lease_until_ms)).await?;
        Ok(proto::Empty {})
    }

    /// Makes what was put visible.
    pub async fn commit_put(&self, request: proto::CommitPutRequest) -> Result<proto::ObjectInfo> {
        let put = PutId::from_slice(&request.put)?;
        let too_many = |blocks: &[proto::WrittenBlock], limit: u64| blocks.len() as u64 > limit;
        if too_many(&request.blocks, MAX_OBJECT_BLOCKS) || too_many(&request.parities, MAX_OBJECT_PARITIES) {
            return Err(invalid(format!("an object has at most {MAX_OBJECT_BLOCKS} blocks")));
        }
        let block = |written: &proto::WrittenBlock| {
            Ok(CommittedBlock {
                by: BTreeMap::new(),
                block: BlockId::from_slice(&written.block)?,
                stored_bytes: written.stored_bytes,
                sums: sums(&written.digest, &written.fingerprint)?,
                nodes: written.nodes.iter().copied().map(NodeId).collect(),
            })
        };
        let copies = request.blocks.iter().map(|b| b.nodes.len()).max().unwrap_or(0);
        let written = request.blocks.iter().chain(&request.parities);
        let mut blocks: Vec<CommittedBlock> = written.clone().map(block).collect::<Result<_>>()?;
        let told = written.flat_map(wire::codec::mac::told).collect();
        let digest: [u8; 32] = request
            .digest
            .as_slice()
            .try_into()
            .map_err(|_| invalid("the digest of an object is a BLAKE3 of 32 bytes".to_owned()))?;
        let coded = self.check_put(put, &mut blocks, told).await?;
        let coded = coded.map_or_else(String::new, |code| code.name().to_owned());
        let first = blocks.first().map_or(BlockId(0), |block| block.block);
        let end = PutEnd {
            now_ms: self.cluster.clock.now_ms(),
            created_ms: (self.config.wall_ms)(),
            remembered_until_ms: self.lease_until_ms(),
        };
        let bytes = request.object_bytes;
        let put = self.records.run(move |c| c.commit_put(put, &blocks, bytes, digest, end)).await?;
        self.comparison.confirm(&put.unconfirmed);
        let code = match request.parities.is_empty() {
            true => format!("rep-{copies}"),
            // What was committed before may be gone by now: then its code is what it was put with.
            false => self.records.run(move |c| c.placement(first)).await.map_or(coded, |p| code_of(&[p])),
        };
        Ok(proto::ObjectInfo {
            name: put.name,
            version: put.version,
            object_bytes: put.object_bytes,
            digest: digest.to_vec(),
            block_bytes: put.block_bytes,
            code,
            created_unix_ms: put.created_ms,
            blocks: Vec::new(),
            block_count: put.block_count,
        })
    }

    /// Removes from the client's list the copies that were not written, and checks whether a coded put may be acknowledged with the rest. Returns
    /// the put's code, if it has one. A finished put was checked when it was committed.
    async fn check_put(
        &self,
        put: PutId,
        blocks: &mut [CommittedBlock],
        told: Named,
    ) -> Result<Option<Code>> {
        let (pending, planned) = match self.records.run(move |catalog| catalog.planned_put(put)).await {
            Err(CoordinatorError::Catalog(CatalogError::NoSuchPut)) => return Ok(None),
            pending => pending?,
        };
        written::keep_written(&self.cluster, blocks, &planned, told).await?;
        self.coded.check_margin(put, &pending, blocks).await
    }

    /// An object as the catalog knows it, with as many of its blocks as one answer holds, if any are asked for.
    pub async fn lookup(&self, request: proto::LookupRequest) -> Result<proto::ObjectInfo> {
        let proto::LookupRequest { name, with_blocks, first_block, without_members } = request;
        let wanted = name.clone();
        let look = move |catalog: &Catalog| {
            let (row, blocks) = catalog.object(&wanted)?;
            let waits = |placement: &Placement| catalog.gathering_of(placement.block);
            let waiting =
                blocks.iter().filter(|_| with_blocks).map(waits).collect::<catalog::Result<Vec<_>>>()?;
            Ok((row, blocks, waiting))
        };
        let (row, blocks, waiting) = self.records.run(look).await?;
        let living = self.cluster.view().living();
        let mut infos = if with_blocks { block_infos(&blocks, &living) } else { Vec::new() };
        for (info, waiting) in infos.iter_mut().zip(waiting) {
            info.waiting = waiting.map(waiting_status);
        }
        for (info, placement) in infos.iter_mut().zip(&blocks).filter(|(_, p)| p.facts.is_virtual()) {
            let room = placement.stripe.as_ref().map(|stripe| self.planner.room_together(stripe));
            if let (Some(status), Some(room)) = (&mut info.stripe, room) {
                status.room_bytes = room?;
            }
        }
        if without_members {
            infos
                .iter_mut()
                .filter_map(|info| info.stripe.as_mut())
                .for_each(|stripe| stripe.members.clear());
        }
        let infos = page(infos, first_block, self.config.lookup_bytes);
        Ok(proto::ObjectInfo { blocks: infos, ..object_info(name, &row, &blocks) })
    }

    /// Objects whose names begin with `prefix`, at most `limit` from `after` on, without their blocks; and after which name there
    /// may be more.
    pub async fn page(&self, prefix: String, after: Option<String>, limit: usize) -> Result<Page> {
        let look = move |catalog: &Catalog| {
            let names = catalog.list_objects(&prefix, after.as_deref(), limit)?;
            let mut page = Page { last: names.last().cloned(), ..Page::default() };
            for name in names {
                match catalog.object(&name) {
                    Ok((row, blocks)) => page.infos.push(object_info(name, &row, &blocks)),
                    // Deleted meanwhile.
                    Err(CatalogError::NoSuchObject(_)) => {}
                    // The others are listed all the same.
                    Err(error) if error.is_damage() || matches!(error, CatalogError::NotKnown(_)) => {
                        page.unlisted += 1;
                        page.first_error.get_or_insert(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(page)
        };
        self.records.run(look).await
    }

    /// A plan for a read of part of a block.
    pub async fn plan_read(&self, request: proto::PlanReadRequest) -> Result<proto::PlanReply> {
        let scheme = scheme(&request.scheme)?;
        let slices = self.planner.read_slice_length(request.slice_bytes, request.length)?;
        let ids = std::iter::once(&request.block).chain(&request.beside);
        let blocks = ids.map(|id| Ok(BlockId::from_slice(id)?)).collect::<Result<Vec<BlockId>>>()?;
        if blocks.len() > MAX_TOGETHER {
            return Err(invalid(format!(
                "{} blocks to be read together, at most {MAX_TOGETHER}",
                blocks.len()
            )));
        }
        let placements: Vec<Placement> = self
            .records
            .run(move |catalog| blocks.iter().map(|&block| catalog.placement(block)).collect())
            .await?;
        let view = self.cluster.view().with_last_resort(request.late.iter().copied().map(NodeId));
        let avoid: BTreeSet<NodeId> = request.avoid.iter().copied().map(NodeId).collect();
        let (offset, length) = (request.offset, request.length);
        let (flow, room_bytes) = (FlowId(rand::random()), request.room_bytes);
        let held = |part: &proto::ByteRange| part.offset..part.offset.saturating_add(part.length);
        let held: Vec<_> = request.held.iter().map(held).collect();
        let (held, avoid, traffic) = (&held, &avoid, Traffic::Client);
        let read = ReadRequest { flow, offset, length, held, room_bytes, scheme, avoid, slices, traffic };
        let plan = |placements: &[Placement]| match placements {
            [placement] => self.planner.read(&view, placement, &read, &mut token),
            together => self.planner.read_together(&view, together, &read, &mut token),
        };
        let read = match plan(&placements) {
            // What is sound of damaged copies is better than nothing.
            Err(DecideError::Unrecoverable { .. }) => {
                plan(&placements.iter().map(Placement::in_the_last_resort).collect::<Vec<_>>())?
            }
            read => read?,
        };
        if request.rehearse {
            return Ok(reply(read));
        }
        if let Some(planned) = &read.planned {
            self.cluster.health.mark(&planned.plan.flow, Peer::Client);
        }
        self.reads.note(read.degraded, read.sent());
        Ok(reply(read))
    }

    /// A plan for a read of members of a block group of HDFS, abreast.
    pub fn plan_group(&self, request: proto::PlanGroupRequest) -> Result<proto::PlanReply> {
        let proto::PlanGroupRequest { group, wanted, read, traffic } = request;
        let group = BlockGroup::try_from(group.ok_or_else(|| invalid("no block group".to_owned()))?)?;
        let (wanted, request) = (wire::codec::group::wanted(&wanted)?, read.unwrap_or_default());
        let code = self.planner.codes.get(&group.code).map_err(DecideError::from)?;
        if code.k() != usize::from(group.layout.k) {
            return Err(invalid(format!(
                "{} has {} data blocks, not {}",
                group.code,
                code.k(),
                group.layout.k
            )));
        }
        let placement = cluster::placement(&group, code.n(), &wanted);
        let late = request.late.iter().copied().map(NodeId);
        let view = self.cluster.lenders.view(&group).with_last_resort(late);
        let read = ReadRequest {
            flow: FlowId(rand::random()),
            offset: request.offset,
            length: request.length,
            held: &[],
            room_bytes: request.room_bytes,
            scheme: scheme(&request.scheme)?,
            avoid: &request.avoid.iter().copied().map(NodeId).collect(),
            slices: self.planner.read_slice_length(request.slice_bytes, request.length)?,
            traffic: wire::codec::header::traffic_from_number(traffic)?,
        };
        let members: Vec<Member> = wanted.into_iter().map(Member).collect();
        let read = self.planner.read_abreast(&view, &placement, &members, &read, &mut token)?;
        if let (Some(planned), false) = (&read.planned, request.rehearse) {
            self.cluster.lenders.mark(&planned.plan.flow);
        }
        Ok(reply(read))
    }
}

/// Blocks that are decoded together at most: those of the widest stripe.
const MAX_TOGETHER: usize = 512;

/// A put goes on with fewer replicas than it asked for when fewer nodes can be used, but with no fewer than two, unless
/// the whole cluster has, or the put wants, only one.
fn enough_nodes(view: &World, replicas: u32, avoid: &BTreeSet<NodeId>) -> Result<usize> {
    let all = view.topology.hosts(view.nodes.iter().map(|(node, _)| node)).len();
    let needed = MIN_REPLICAS.min(replicas as usize).min(all).max(1);
    let alive = view.topology.hosts(view.usable(avoid)).len();
    if alive < needed { Err(DecideError::NotEnoughNodes { alive, needed }.into()) } else { Ok(needed) }
}

/// Digest and fingerprint of a block that a client has made: both must be there.
fn sums(digest: &[u8], fingerprint: &[u8]) -> Result<Sums> {
    let sums = wire::codec::block::sums(digest, fingerprint);
    sums.filter(|s| s.digest.is_some() && s.fingerprint.is_some()).ok_or_else(|| {
        invalid("a block needs its BLAKE3 digest (32 bytes) and its fingerprint (128 bytes)".to_owned())
    })
}

/// What is known of an object, but for its blocks.
fn object_info(name: String, row: &ObjectRow, blocks: &[Placement]) -> proto::ObjectInfo {
    proto::ObjectInfo {
        name,
        version: row.version,
        object_bytes: row.object_bytes,
        digest: row.digest.map(|d| d.to_vec()).unwrap_or_default(),
        block_bytes: row.block_bytes,
        code: code_of(blocks),
        created_unix_ms: row.created_ms,
        blocks: Vec::new(),
        block_count: row.blocks.len() as u64,
    }
}

/// `rep-3`, the code of all stripes, or `mixed`.
fn code_of(blocks: &[Placement]) -> String {
    let code = |p: &Placement| p.stripe.as_ref().map(|s| s.code.clone());
    let codes: BTreeSet<Option<String>> = blocks.iter().map(code).collect();
    let mut codes = codes.into_iter();
    match (codes.next(), codes.next()) {
        (Some(Some(code)), None) => code,
        (Some(None), None) => {
            format!("rep-{}", blocks.iter().map(|p| p.facts.replicas).max().unwrap_or(0))
        }
        _ => "mixed".to_owned(),
    }
}

fn block_infos(blocks: &[Placement], living: &BTreeSet<NodeId>) -> Vec<proto::BlockInfo> {
    let mut offset = 0;
    let info = |(index, placement): (usize, &Placement)| {
        let row = &placement.facts;
        let nodes: Vec<NodeId> = row.there().map(|l| l.node).collect();
        let readable = row.locations.iter().map(|l| l.node).filter(|node| living.contains(node));
        let info = proto::BlockInfo {
            block: placement.block.to_vec(),
            index: index as u64,
            offset,
            stored_bytes: row.stored_bytes,
            living_nodes: readable.map(|node| node.0).collect(),
            nodes: nodes.iter().map(|node| node.0).collect(),
            stripe: placement.stripe.as_ref().map(|stripe| stripe_status(stripe, living)),
            digest: row.sums.digest.map(|digest| digest.to_vec()).unwrap_or_default(),
            waiting: None,
            wanted: row.wanted() as u32,
        };
        offset += row.stored_bytes;
        info
    };
    blocks.iter().enumerate().map(info).collect()
}

/// Those from `first` on, one at least, that have so many bytes together.
fn page(infos: Vec<proto::BlockInfo>, first: u64, bytes: usize) -> Vec<proto::BlockInfo> {
    let mut left = bytes;
    let wanted = infos.into_iter().skip(usize::try_from(first).unwrap_or(usize::MAX)).enumerate();
    let fits = |(at, info): &(usize, proto::BlockInfo)| {
        let bytes = info.encoded_len();
        let fits = *at == 0 || bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    };
    wanted.take_while(fits).map(|(_, info)| info).collect()
}

fn waiting_status((stripe, row): (StripeId, GatheringRow)) -> proto::WaitingStatus {
    proto::WaitingStatus {
        stripe: stripe.to_vec(),
        code: row.terms.code,
        policy: row.terms.policy,
        blocks: row.blocks.len() as u32,
        sealed: row.sealed_ms.is_some(),
        core_rack: row.core.unwrap_or_default(),
    }
}

fn of_message(terms: proto::GatherTerms) -> GatherTerms {
    let proto::GatherTerms { policy, code, rack_capacity, target_racks, spread } = terms;
    GatherTerms { policy, code, rack_capacity, target_racks, spread }
}

fn message(terms: GatherTerms) -> proto::GatherTerms {
    let GatherTerms { policy, code, rack_capacity, target_racks, spread } = terms;
    proto::GatherTerms { policy, code, rack_capacity, target_racks, spread }
}

fn stripe_status(stripe: &StripePlacement, living: &BTreeSet<NodeId>) -> proto::StripeStatus {
    let member = |state: &MemberState<(BlockId, BlockFacts)>| {
        let Some((block, row)) = state.block() else { return proto::StripeMemberStatus::default() };
        let alive = row.locations.iter().find(|l| living.contains(&l.node));
        proto::StripeMemberStatus {
            block: block.to_vec(),
            node: alive.copied().or(row.there().next()).map_or(0, |l| l.node.0),
            living: alive.is_some(),
            stored_bytes: row.stored_bytes,
            is_virtual: state.is_virtual(),
        }
    };
    proto::StripeStatus {
        stripe: stripe.id.to_vec(),
        code: stripe.code.clone(),
        index: u32::from(stripe.index),
        members: stripe.members.iter().map(member).collect(),
        room_bytes: 0,
    }
}

fn reply(read: ReadPlan) -> proto::PlanReply {
    let ReadPlan { planned, note, offset, length, degraded, price } = read;
    let plan = planned.as_ref().map(|planned| &planned.plan);
    let block_bytes = plan.map_or(0, |plan| plan.flow.geometry.block_bytes);
    let in_theory = |price: Price| proto::Price {
        slot_bytes: price.timeslots * block_bytes as f64,
        seconds: price.seconds(),
    };
    let (plan, price) = (plan.map(wire::codec::plan::encode), price.map(in_theory));
    proto::PlanReply { plan, note, offset, length, degraded, price }
}

fn invalid(what: String) -> CoordinatorError {
    CoordinatorError::Invalid(what)
}
