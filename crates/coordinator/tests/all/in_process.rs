//! The coordinator over nodes that live in its own process: nothing listens for them, so whatever it did not ask its fleet
//! for would fail.

use crate::support::world::{FakeNode, World};
use crate::support::{BLOCK_BYTES, Cluster, Settings, bytes};
use coordinator::{Call, Check, Config, CoordinatorError, Fleet, Held, Listed, Looked, Order, Seen};
use flow::FlowPlan;
use model::{BlockCopy, BlockId, Cause, Fault, NodeId, Position};
use plan::decide::World as View;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::{Request, Response, Status};
use wire::codec::mac::Identified;
use wire::codec::plan::order;
use wire::codec::records::Carried;
use wire::mac::Challenge;
use wire::names::FolderDigest;
use wire::proto;
use wire::proto::node_server::Node;

type Result<T> = std::result::Result<T, CoordinatorError>;

/// The nodes of a world, called by their functions. The one of this number (0: none) takes nothing to keep, and says nothing.
struct InProcess(Arc<World>, Arc<AtomicU32>);

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

impl InProcess {
    fn node(&self, node: NodeId) -> FakeNode {
        self.0.node(node.0)
    }
}

fn answer<T>(node: NodeId, answer: std::result::Result<Response<T>, Status>) -> Result<T> {
    let failed = |status: Status| CoordinatorError::Node { node, why: status.message().to_owned() };
    answer.map(Response::into_inner).map_err(failed)
}

fn references(copies: &[BlockCopy]) -> Vec<proto::BlockRef> {
    let reference = |copy: &BlockCopy| proto::BlockRef {
        block: copy.block.to_vec(),
        generation: copy.generation,
        ..Default::default()
    };
    copies.iter().map(reference).collect()
}

#[tonic::async_trait]
impl Fleet for InProcess {
    async fn drive(
        &self,
        _: &View,
        node: NodeId,
        plan: &FlowPlan,
        _: &mut (dyn FnMut(u64, u64) + Send),
    ) -> std::result::Result<proto::DriveResult, Fault> {
        self.0.run(&order(plan, false).plan.expect("a plan"), &[], node.0)
    }

    async fn rehearse(&self, _: &View, _: NodeId, _: &FlowPlan) -> std::result::Result<(), Fault> {
        Err(Fault::new(Cause::Bug, "nobody rehearses here"))
    }

    async fn who_answers(&self, node: NodeId, _: &str) -> Option<proto::NodeStatus> {
        self.0.lives(node.0).then(|| self.0.status(node.0))
    }

    async fn identify(&self, node: NodeId, _: &str, challenge: Challenge, _: Call) -> Option<Identified> {
        self.0.lives(node.0).then(|| self.0.identify(node.0, challenge))
    }

    async fn delete(
        &self,
        view: &View,
        node: NodeId,
        order: Order,
        copies: &[BlockCopy],
    ) -> Result<Vec<(BlockCopy, String)>> {
        let (store, incarnation) = view.node(node)?.store.expect("it registered");
        let request = proto::DeleteBlocksRequest {
            cluster: order.cluster.to_vec(),
            blocks: references(copies),
            store: store.to_vec(),
            incarnation: incarnation.0,
            by: Some(order.by.into()),
        };
        let reply = answer(node, self.node(node).delete_blocks(Request::new(request)).await)?;
        assert!(reply.refused.is_empty(), "the double refuses nothing");
        Ok(Vec::new())
    }

    async fn check(&self, _: &View, node: NodeId, copies: &[BlockCopy], how: Check) -> Result<Vec<Seen>> {
        let (verify, fence) = (how.verify, how.fence.map(Into::into));
        let blocks = references(copies);
        let request = proto::CheckBlocksRequest { blocks, verify, fence, ..Default::default() };
        let checked = answer(node, self.node(node).check_blocks(Request::new(request)).await)?.blocks;
        let there = copies.iter().zip(checked).filter(|(_, checked)| checked.there);
        let seen =
            |(copy, checked): (&BlockCopy, proto::CheckedBlock)| Seen { copy: *copy, digest: checked.digest };
        Ok(there.map(seen).collect())
    }

    async fn is_absent(&self, _: &View, node: NodeId, copy: BlockCopy) -> Result<bool> {
        let request = proto::CheckBlocksRequest { blocks: references(&[copy]), ..Default::default() };
        let checked = answer(node, self.node(node).check_blocks(Request::new(request)).await)?.blocks;
        Ok(checked[0].absent)
    }

    async fn look(&self, _: &View, node: NodeId, copy: BlockCopy, _: Option<[u8; 32]>) -> Result<Looked> {
        let blocks = references(&[copy]);
        let request = proto::CheckBlocksRequest { blocks, verify: true, ..Default::default() };
        let checked = answer(node, self.node(node).check_blocks(Request::new(request)).await)?.blocks;
        Ok(match (checked[0].damaged, checked[0].there) {
            (true, _) => Looked::Damaged,
            (_, true) => Looked::Whole,
            _ => Looked::Unread,
        })
    }

    async fn list(&self, _: &View, node: NodeId, with_meta: bool) -> Result<Vec<proto::StoredBlock>> {
        let request = Request::new(proto::ListBlocksRequest { with_meta });
        let listed = answer(node, self.node(node).list_blocks(request).await)?;
        Ok(listed.map(|block| block.expect("the double lists all")).collect().await)
    }

    async fn hold(&self, _: &View, node: NodeId, mut carried: mpsc::Receiver<Carried>) -> Result<Held> {
        let mut messages = Vec::new();
        while let Some(part) = carried.recv().await {
            messages.push(part.into());
        }
        while self.1.load(Ordering::Relaxed) == node.0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let held = self.0.keep(node.0, messages).expect("nothing breaks off here");
        Ok(Held { last: held.last.map(Position::from).unwrap_or_default(), ..Held::default() })
    }

    async fn held(&self, _: NodeId, _: &str) -> Result<mpsc::Receiver<Result<Carried>>> {
        panic!("no coordinator starts a second time here")
    }

    async fn digest_folders(&self, view: &View, node: NodeId) -> Result<Vec<FolderDigest>> {
        let (store, incarnation) = view.node(node)?.store.expect("it registered");
        let request = proto::DigestFoldersRequest { store: store.to_vec(), incarnation: incarnation.0 };
        let reply = answer(node, self.node(node).digest_folders(Request::new(request)).await)?;
        Ok(reply.digests.into_iter().map(|digest| digest.try_into().expect("a digest")).collect())
    }

    async fn list_folders(&self, view: &View, node: NodeId, folders: &BTreeSet<u8>) -> Result<Listed> {
        let (store, incarnation) = view.node(node)?.store.expect("it registered");
        let (store, folders) = (store.to_vec(), folders.iter().copied().collect());
        let request = proto::ListFoldersRequest { store, incarnation: incarnation.0, folders };
        let listed = answer(node, self.node(node).list_folders(Request::new(request)).await)?;
        let copy = |block: proto::StoredBlock| {
            let id = BlockId::from_slice(&block.block).expect("an id");
            BlockCopy { block: id, node, generation: block.generation }
        };
        let whole = listed.map(|block| copy(block.expect("the double lists all"))).collect().await;
        Ok(Listed { whole, halves: BTreeSet::new() })
    }

    async fn tell(&self, _: &View, node: NodeId, wanted: proto::NodeSettings) -> Result<()> {
        answer(node, self.node(node).obey(Request::new(wanted)).await).map(|_| ())
    }

    async fn control_task(
        &self,
        _: &View,
        node: NodeId,
        control: proto::TaskControl,
    ) -> Result<proto::TaskStatus> {
        answer(node, self.node(node).control_task(Request::new(control)).await)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_object_is_recovered_by_nodes_that_no_socket_leads_to() {
    let world = World::unserved(8);
    let hasty = Settings { dead_after_ms: 1_200, garbage_grace_ms: 50, put_lease_ms: 60_000 };
    let fleet = Arc::new(InProcess(Arc::clone(&world), Arc::default()));
    let mut cluster = Cluster::over(fleet, world, hasty).await.unwrap();
    let object = bytes(9, 4 * BLOCK_BYTES as usize);
    cluster.put("object", &object).await.unwrap();
    cluster.archive("object", "rs-4+2").await.unwrap();
    cluster.until("surplus replicas go", async |c| c.status().await.garbage == 0).await;
    cluster.nothing_leaked(&["object"]).await;

    let node = cluster.lookup("object").await.unwrap().blocks[0].nodes[0];
    cluster.kill(node).await;
    assert_eq!(cluster.status().await.missing_blocks, 1);
    cluster.world.flows();
    let recovery = proto::RepairRequest { node, ..Default::default() };
    let end = cluster.repair(recovery).await.unwrap().pop().unwrap();
    assert_eq!((end.done, end.total, end.failed), (1, 1, 0));
    let flows = cluster.world.flows();
    assert!(flows.len() == 1 && flows[0].participants.iter().all(|p| p.node != node));
    assert_eq!(cluster.status().await.missing_blocks, 0);
    // Every byte is where it is said to be: nothing is decoded.
    assert_eq!(cluster.get("object").await.unwrap(), (object, 0));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_still_holds_up_nothing_that_two_others_keep() {
    let (world, stuck) = (World::unserved(3), Arc::new(AtomicU32::new(0)));
    let fleet: Arc<dyn Fleet> = Arc::new(InProcess(Arc::clone(&world), Arc::clone(&stuck)));
    let set = |config: &mut Config| (config.fleet, config.waits_for_holders) = (fleet, true);
    let mut cluster = Cluster::set(world, Settings::default(), set).await;
    cluster.put("first", b"bytes").await.unwrap();
    let detail = async |c: &mut Cluster| c.control("records", "status").await.unwrap().detail;
    cluster.until("all keep them", async |c| detail(c).await == "kept by node-1, node-2, node-3").await;

    stuck.store(3, Ordering::Relaxed);
    let began = Instant::now();
    for object in 0..5 {
        cluster.put(&format!("{object}"), b"bytes").await.unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());

    // Once it goes on, it gets what it missed.
    stuck.store(0, Ordering::Relaxed);
    let kept = |world: &World, node| world.status(node).held.and_then(|held| held.last);
    cluster.until("it has all", async |c| kept(&c.world, 3) == kept(&c.world, 1)).await;
    cluster.stop().await;
}
