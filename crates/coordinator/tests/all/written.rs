//! Commits contain only written copies: the coordinator believes clients and drivers only as far as they prove what nodes said.

use crate::support::{BLOCK_BYTES, Cluster, Settings, bytes, write_request, written};
use tonic::{Code, Status};
use wire::proto;

/// A put that has been planned, and what its client may say of it.
struct Planned {
    put: Vec<u8>,
    plan: proto::FlowPlan,
    bytes: &'static [u8],
}

impl Planned {
    async fn new(cluster: &mut Cluster, bytes: &'static [u8]) -> Planned {
        let name = "object".to_owned();
        let begin = proto::BeginPutRequest { name, block_bytes: BLOCK_BYTES, replicas: 3, gathers: None };
        let put = cluster.client.begin_put(begin).await.unwrap().into_inner().put;
        let request = write_request(&put, 0, bytes, true);
        let plan = cluster.client.plan_write(request).await.unwrap().into_inner().plan.unwrap();
        Planned { put, plan, bytes }
    }

    fn staged(&self, cluster: &Cluster) -> Vec<proto::Staged> {
        cluster.world.run(&self.plan, self.bytes, 0).unwrap().staged
    }

    async fn commit(&self, cluster: &mut Cluster, block: proto::WrittenBlock) -> Result<(), Status> {
        let commit = proto::CommitPutRequest {
            parities: Vec::new(),
            put: self.put.clone(),
            blocks: vec![block],
            object_bytes: self.bytes.len() as u64,
            digest: blake3::hash(self.bytes).as_bytes().to_vec(),
        };
        cluster.client.commit_put(commit).await.map(|_| ())
    }

    /// Returns what a client that wrote nothing could claim: it knows everything but the MACs.
    fn invented(&self, cluster: &Cluster, mac: &[u8]) -> proto::WrittenBlock {
        let outputs = self.plan.stages.iter().flat_map(|stage| stage.outputs.iter().map(move |o| (stage, o)));
        let by = |node: u32| {
            let whose = cluster.world.whose(node);
            let (store, incarnation) = (whose.store.to_vec(), whose.incarnation.0);
            proto::WrittenBy { node, store, incarnation, mac: mac.to_vec() }
        };
        let mut block = proto::WrittenBlock::default();
        for (stage, output) in outputs {
            if let Some(proto::stage_output::Kind::Write(write)) = &output.kind {
                block.block = write.block.clone();
                block.nodes.push(stage.site);
                block.by.push(by(stage.site));
            }
        }
        let request = write_request(&self.put, 0, self.bytes, true);
        let (digest, fingerprint) = (request.digest, request.fingerprint);
        proto::WrittenBlock { stored_bytes: self.bytes.len() as u64, digest, fingerprint, ..block }
    }
}

fn assert_refused(answer: Result<(), Status>) {
    let refused = answer.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    assert!(refused.message().contains("nothing was changed"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_what_nobody_wrote_is_refused_and_the_former_object_stays() {
    let mut cluster = Cluster::new(5, Settings::default()).await;
    cluster.put("object", b"the former").await.unwrap();
    let planned = Planned::new(&mut cluster, b"never written").await;
    for mac in [&[][..], &[7; 16], &[7; 5]] {
        let invented = planned.invented(&cluster, mac);
        assert_refused(planned.commit(&mut cluster, invented.clone()).await);
        // Starts that nobody knows, or none.
        let mut unknown = invented.clone();
        unknown.by.iter_mut().for_each(|by| by.incarnation += 1);
        assert_refused(planned.commit(&mut cluster, unknown).await);
        assert_refused(
            planned.commit(&mut cluster, proto::WrittenBlock { by: Vec::new(), ..invented }).await,
        );
    }
    assert_eq!(cluster.get("object").await.unwrap().0, b"the former");
    // The put is still the same, so copies that are written afterwards are committed.
    let staged = planned.staged(&cluster);
    planned.commit(&mut cluster, written(&staged)).await.unwrap();
    assert_eq!(cluster.get("object").await.unwrap().0, b"never written");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mac_of_another_copy_is_none() {
    let mut cluster = Cluster::new(3, Settings::default()).await;
    cluster.put("object", b"the former").await.unwrap();
    let (true_one, planned) =
        (Planned::new(&mut cluster, b"bytes").await, Planned::new(&mut cluster, b"bytes").await);
    let staged = true_one.staged(&cluster);
    let told = written(&staged);
    let invented = planned.invented(&cluster, &[]);
    // MACs of another flow and block, at the same nodes and of the same bytes.
    let mac_of = |node: u32| told.by.iter().find(|by| by.node == node).unwrap().mac.clone();
    let mut replayed = invented.clone();
    replayed.by.iter_mut().for_each(|by| by.mac = mac_of(by.node));
    assert_refused(planned.commit(&mut cluster, replayed).await);
    // A MAC of another node.
    let mut swapped = told.clone();
    swapped.by[0].mac = told.by[1].mac.clone();
    assert_refused(true_one.commit(&mut cluster, swapped).await);
    // A MAC of another generation.
    let mut generation = staged.clone();
    for copy in &mut generation {
        let whose = cluster.world.whose(copy.node);
        let sums = wire::codec::block::sums(&copy.digest, &copy.fingerprint).unwrap();
        let other = wire::mac::WrittenCopy {
            flow: model::FlowId::from_slice(&true_one.plan.header.as_ref().unwrap().flow).unwrap(),
            block: model::BlockId::from_slice(&copy.block).unwrap(),
            generation: 2,
            stored_bytes: copy.stored_bytes,
            sums: &sums,
            store: whose.store,
            incarnation: whose.incarnation,
        };
        copy.mac = cluster.world.secret(copy.node).of_copy(&other).to_vec();
    }
    assert_refused(true_one.commit(&mut cluster, written(&generation)).await);
    // A MAC of a later start, which did not write the copy.
    let node = staged[0].node;
    let last = cluster.world.word(node);
    cluster.world.restart(node, vec![last]);
    let word = cluster.world.word(node);
    registers(&mut cluster, node, word).await;
    let mut later = told.clone();
    later.by.iter_mut().filter(|by| by.node == node).for_each(|by| by.incarnation = word);
    assert_refused(true_one.commit(&mut cluster, later).await);
    assert_eq!(cluster.get("object").await.unwrap().0, b"the former");
    true_one.commit(&mut cluster, told).await.unwrap();
    cluster.stop().await;
}

async fn registers(cluster: &mut Cluster, node: u32, word: u64) {
    cluster
        .until("it registers", async |c| {
            let info = c.status().await.nodes.into_iter().find(|n| n.node == node).unwrap();
            info.status.is_some_and(|status| status.incarnation == word)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_is_committed_over_restarts() {
    for (coordinator, node) in [(true, false), (false, true), (true, true)] {
        let mut cluster = Cluster::new(3, Settings::default()).await;
        let planned = Planned::new(&mut cluster, b"bytes").await;
        let staged = planned.staged(&cluster);
        if node {
            for copy in &staged {
                let last = cluster.world.word(copy.node);
                cluster.world.restart(copy.node, vec![last]);
                let word = cluster.world.word(copy.node);
                if !coordinator {
                    registers(&mut cluster, copy.node, word).await;
                }
            }
        }
        if coordinator {
            cluster.again().await.unwrap();
        }
        planned.commit(&mut cluster, written(&staged)).await.unwrap();
        assert_eq!(cluster.get("object").await.unwrap().0, b"bytes");
        assert_eq!(cluster.lookup("object").await.unwrap().blocks[0].nodes.len(), 3);
        cluster.stop().await;
    }
}

/// After the coordinator's restart, nodes that have not registered yet still answer at their addresses, or the client is told to wait.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_whose_secrets_are_not_known_are_asked() {
    let mut cluster = Cluster::new(3, Settings::default()).await;
    let planned = Planned::new(&mut cluster, b"bytes").await;
    let staged = planned.staged(&cluster);
    let (gone, away) = (staged[0].node, staged[1].node);
    [gone, away].into_iter().for_each(|node| cluster.world.kill(node));
    cluster.again().await.unwrap();
    cluster
        .until("it serves, and is told of one copy only", async |c| {
            let refused = planned.commit(c, written(&staged)).await.unwrap_err();
            assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
            refused.message().contains("does not say whether it wrote it")
        })
        .await;
    // Nodes answer before they register. A copy that a node does not have does not count.
    cluster.world.lose(gone, &staged[0].block);
    [gone, away].into_iter().for_each(|node| cluster.world.revive(node));
    planned.commit(&mut cluster, written(&staged)).await.unwrap();
    let nodes = cluster.lookup("object").await.unwrap().blocks[0].nodes.clone();
    assert!(nodes.len() == 2 && !nodes.contains(&gone), "{nodes:?}");
    assert_eq!(cluster.get("object").await.unwrap().0, b"bytes");
    cluster.stop().await;
}

/// A client from before MACs sends none.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_macs_is_believed_as_far_as_nodes_have_what_it_says() {
    let mut cluster = Cluster::new(3, Settings::default()).await;
    let planned = Planned::new(&mut cluster, b"bytes").await;
    let mut told = written(&planned.staged(&cluster));
    told.by.iter_mut().for_each(|by| by.mac.clear());
    planned.commit(&mut cluster, told).await.unwrap();
    assert_eq!(cluster.lookup("object").await.unwrap().blocks[0].nodes.len(), 3);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_makes_things_up_replaces_nothing() {
    let mut cluster = Cluster::new(8, Settings::default()).await;
    cluster.control("healer", "pause").await.unwrap();
    let object = bytes(3, 4 * BLOCK_BYTES as usize);
    cluster.put("object", &object).await.unwrap();
    // The driver claims that the parities are written; no replica may be deleted because of it.
    cluster.world.forge();
    cluster.archive("object", "rs-4+2").await.unwrap();
    assert!(cluster.world.ordered() >= 2, "it is encoded again");
    let info = cluster.lookup("object").await.unwrap();
    let members = info.blocks[0].stripe.clone().unwrap().members;
    assert!(members.iter().all(|member| cluster.world.stored(member.node, &member.block).is_some()));

    let block = info.blocks[1].clone();
    cluster.world.lose(block.nodes[0], &block.block);
    cluster.world.forge();
    let request = proto::RepairRequest { object: "object".to_owned(), index: 1, ..Default::default() };
    let before = cluster.world.ordered();
    let repaired = cluster.repair(request).await;
    if repaired.is_ok() && cluster.world.ordered() > before {
        let now = cluster.lookup("object").await.unwrap().blocks[1].clone();
        assert!(now.nodes.iter().all(|node| cluster.world.stored(*node, &now.block).is_some()));
    }
    cluster.stop().await;
}
