//! What is needed is not let go: whatever the catalog forgot, whoever is away, however the nodes' lists break off.

use crate::support::world::World;
use crate::support::{BLOCK_BYTES, Cluster, Settings, bytes, register, write_request, written};
use coordinator::restore;
use disk::{CrashDisk, Disk, PowerSwitch, SyncPoint};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tonic::Code;
use wire::proto;
use wire::proto::register_message::Kind;

const HASTY: Settings = Settings { dead_after_ms: 1_200, garbage_grace_ms: 50, put_lease_ms: 60_000 };

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_the_catalog_does_not_know_is_kept() {
    let mut cluster = Cluster::new(4, HASTY).await;
    cluster.put("object", b"bytes").await.unwrap();
    let known = cluster.lookup("object").await.unwrap().blocks[0].clone();
    let mut stranger = cluster.world.stored(known.nodes[0], &known.block).unwrap();
    // Born in a life of a coordinator that this catalog does not know.
    stranger.write.birth = Some(proto::Stamp { term: 1, word: 7, change: 1 });
    let node = known.nodes[0];
    cluster.world.store(node, &[7; 16], stranger);
    let copies = cluster.world.copies();
    register(&mut cluster.client, &cluster.world, node).await.unwrap();
    cluster.collect().await;
    assert_eq!(cluster.world.copies(), copies);
    assert_eq!(cluster.status().await.garbage, 0, "nor is it on a list of what is to go");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_let_go_and_comes_back_stays() {
    let mut cluster = Cluster::new(4, HASTY).await;
    cluster.put("object", b"bytes").await.unwrap();
    let block = cluster.lookup("object").await.unwrap().blocks[0].clone();
    let node = block.nodes[0];
    let copy = cluster.world.stored(node, &block.block).unwrap();
    cluster.delete("object").await.unwrap();
    cluster.until("it goes", async |c| c.world.copies().is_empty()).await;
    cluster.until("nothing waits", async |c| c.status().await.garbage == 0).await;
    // Its files were only hidden, or the folder was set back. No row is left that says that it was let go.
    cluster.world.store(node, &block.block, copy);
    register(&mut cluster.client, &cluster.world, node).await.unwrap();
    cluster.until("it is told", async |c| c.status().await.unknown_copies == 1).await;
    cluster.collect().await;
    assert!(cluster.world.stored(node, &block.block).is_some());
    assert_eq!(cluster.status().await.garbage, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_too_many_goes_only_while_the_others_are_seen() {
    let mut cluster = Cluster::new(5, HASTY).await;
    cluster.put("object", b"bytes").await.unwrap();
    let block = cluster.lookup("object").await.unwrap().blocks[0].clone();
    let free = (1..=5).find(|node| !block.nodes.contains(node)).unwrap();
    let copy = cluster.world.stored(block.nodes[0], &block.block).unwrap();
    // Two of three are silent: the catalog still places the block there, and nobody confirms it.
    cluster.world.kill(block.nodes[0]);
    cluster.world.kill(block.nodes[1]);
    cluster.world.store(free, &block.block, copy);
    register(&mut cluster.client, &cluster.world, free).await.unwrap();
    cluster.collect().await;
    assert!(cluster.world.stored(free, &block.block).is_some());

    // As long as they are missed the copy counts; then it is one too many, and goes.
    cluster.world.revive(block.nodes[0]);
    cluster.world.revive(block.nodes[1]);
    cluster.until("all live", async |c| c.status().await.nodes.iter().all(|n| n.living)).await;
    let nodes = cluster.lookup("object").await.unwrap().blocks[0].nodes.clone();
    if !nodes.contains(&free) {
        cluster.until("the copy goes", async |c| c.world.stored(free, &block.block).is_none()).await;
    }
    assert_eq!(cluster.get("object").await.unwrap().0, b"bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_of_a_stripe_wait_until_every_member_is_seen_and_one_that_is_not_there_is_made_again() {
    let mut cluster = Cluster::new(7, Settings { garbage_grace_ms: 400, ..HASTY }).await;
    let object = bytes(1, 4 * BLOCK_BYTES as usize);
    cluster.put("object", &object).await.unwrap();
    cluster.archive("object", "rs-4+2").await.unwrap();
    cluster.control("healer", "pause").await.unwrap();
    let before = cluster.status().await.garbage;
    assert!(before >= 8, "{before}");
    let stripe = cluster.lookup("object").await.unwrap().blocks[0].stripe.clone().unwrap();
    let parity = stripe.members[5].clone();
    cluster.world.lose(parity.node, &parity.block);
    let copies = cluster.world.copies();
    cluster.collect().await;
    assert_eq!(cluster.world.copies(), copies, "a parity is not there, so no replica goes");
    let waits = cluster.control("gc", "status").await.unwrap().detail;
    assert!(waits.contains("copies wait"), "{waits}");
    // Nobody compares the node in its turn: that it did not vouch for the parity made it look.
    cluster.until("it is known to be missing", async |c| c.status().await.lost_copies == 1).await;
    cluster.control("healer", "resume").await.unwrap();
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    cluster.nothing_leaked(&["object"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_answers_under_another_word_or_not_at_all_lacks_nothing() {
    for is_silent in [true, false] {
        // Nobody is noticed to be dead.
        let mut cluster = Cluster::new(7, Settings { dead_after_ms: 60_000, ..HASTY }).await;
        cluster.control("gc", "pause").await.unwrap();
        cluster.put("object", &bytes(1, 4 * BLOCK_BYTES as usize)).await.unwrap();
        cluster.archive("object", "rs-4+2").await.unwrap();
        let stripe = cluster.lookup("object").await.unwrap().blocks[0].stripe.clone().unwrap();
        let parity = stripe.members[5].clone();
        cluster.world.lose(parity.node, &parity.block);
        // What answers there is another process, over another folder, that has not registered.
        cluster.hush(parity.node);
        if is_silent {
            cluster.world.kill(parity.node);
        } else {
            cluster.world.restart(parity.node, vec![]);
        }
        let copies = cluster.world.copies();
        cluster.control("gc", "resume").await.unwrap();
        let waits = async |c: &mut Cluster| {
            c.control("gc", "status").await.unwrap().detail.contains("a member of their stripes was not seen")
        };
        cluster.until("replicas wait", waits).await;
        cluster.collect().await;
        let status = cluster.status().await;
        assert_eq!((status.lost_copies, status.missing_blocks), (0, 0));
        let looks = status.tasks.iter().find(|task| task.name == "looks").unwrap();
        assert_eq!((looks.done, looks.errors), (0, 0), "nobody is to look");
        assert_eq!(cluster.world.copies(), copies);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_returns_is_counted_on_again_while_its_block_needs_it() {
    for spoilt in [false, true] {
        let mut cluster = Cluster::new(8, HASTY).await;
        let object = bytes(1, 4 * BLOCK_BYTES as usize);
        cluster.put("object", &object).await.unwrap();
        cluster.archive("object", "rs-4+2").await.unwrap();
        cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
        let block = cluster.lookup("object").await.unwrap().blocks[0].clone();
        let first = block.nodes[0];
        cluster.kill(first).await;
        let request = proto::RepairRequest { object: "object".to_owned(), index: 0, ..Default::default() };
        cluster.repair(request).await.unwrap();
        let second = cluster.lookup("object").await.unwrap().blocks[0].nodes[0];
        assert_ne!(first, second);
        // The copy that took its place is away when the first one returns.
        cluster.kill(second).await;
        if spoilt {
            cluster.world.corrupt(first, &block.block);
        }
        cluster.world.revive(first);
        cluster.until("it is back", async |c| c.world.lives(first)).await;
        if spoilt {
            cluster
                .until("it lives", async |c| {
                    c.status().await.nodes.iter().any(|n| n.node == first && n.living)
                })
                .await;
            cluster.collect().await;
            assert_eq!(cluster.lookup("object").await.unwrap().blocks[0].nodes, [second], "it is damaged");
        } else {
            cluster
                .until("the copy counts", async |c| {
                    c.lookup("object").await.unwrap().blocks[0].living_nodes == [first]
                })
                .await;
            assert_eq!(cluster.get("object").await.unwrap(), (object, 0), "nothing is degraded");
        }
        assert!(cluster.world.stored(first, &block.block).is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_that_breaks_off_is_none() {
    let mut cluster = Cluster::new(3, HASTY).await;
    cluster.put("object", b"bytes").await.unwrap();
    let nodes = cluster.lookup("object").await.unwrap().blocks[0].nodes.clone();
    for parts in 0..2 {
        let hello = Kind::Hello(cluster.world.hello(1));
        let part = Kind::Blocks(proto::BlockInventory::default());
        let kinds = [hello, part].into_iter().take(1 + parts);
        let messages: Vec<_> = kinds.map(|kind| proto::RegisterMessage { kind: Some(kind) }).collect();
        let refused = cluster.client.register(tokio_stream::iter(messages)).await.unwrap_err();
        assert!(refused.message().contains("broke off"), "{refused:?}");
    }
    cluster.collect().await;
    assert_eq!(cluster.lookup("object").await.unwrap().blocks[0].nodes, nodes);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_in_flight_at_a_backup_is_not_given_up_by_its_restore() {
    let settings = Settings { put_lease_ms: 300, ..HASTY };
    let mut cluster = Cluster::new(6, settings).await;
    cluster.put("object", b"the version before").await.unwrap();
    let begin = proto::BeginPutRequest {
        name: "object".to_owned(),
        block_bytes: BLOCK_BYTES,
        replicas: 3,
        gathers: None,
    };
    let put = cluster.client.begin_put(begin).await.unwrap().into_inner().put;
    let request = write_request(&put, 0, b"the new one", true);
    let plan = cluster.client.plan_write(request).await.unwrap().into_inner().plan.unwrap();
    let staged = cluster.world.run(&plan, b"the new one", 0).unwrap().staged;
    let backup = cluster.backup().await;
    let commit = proto::CommitPutRequest {
        parities: Vec::new(),
        put,
        blocks: vec![written(&staged)],
        object_bytes: 11,
        digest: blake3::hash(b"the new one").as_bytes().to_vec(),
    };
    cluster.client.commit_put(commit).await.unwrap();
    cluster.stop().await;
    // What nodes keep of the catalog would be brought over the backup.
    cluster.world.forget_records();
    let copies = cluster.world.copies();

    let power = PowerSwitch::new();
    let disk = CrashDisk::new(&power);
    restore(&(Arc::new(disk.clone()) as Arc<dyn Disk>), &backup).unwrap();
    let mut cluster = Cluster::on(power, disk, Arc::clone(&cluster.world), settings).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(settings.put_lease_ms + 300)).await;
    cluster.collect().await;
    let kept = cluster.world.copies();
    let new: Vec<_> = copies.iter().filter(|(_, block)| *block == staged[0].block).collect();
    assert!(
        new.len() == 3 && new.iter().all(|copy| kept.contains(*copy)),
        "an acknowledged version is there"
    );
    assert_eq!(cluster.get("object").await.unwrap().0, b"the version before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_was_set_back_empties_no_node() {
    let mut cluster = Cluster::new(8, HASTY).await;
    let object = bytes(1, 4 * BLOCK_BYTES as usize);
    cluster.put("early", &object).await.unwrap();
    cluster.stop().await;
    let earlier = content(&cluster.disk);
    cluster.again().await.unwrap();
    cluster.put("late", &bytes(2, 3 * BLOCK_BYTES as usize)).await.unwrap();
    cluster.archive("early", "rs-4+2").await.unwrap();
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    let copies = cluster.world.copies();
    cluster.stop().await;

    let (power, world) = (PowerSwitch::new(), Arc::clone(&cluster.world));
    // Else it would be brought forward.
    world.forget_records();
    let disk = CrashDisk::new(&power);
    let file = disk.create_new(Path::new("catalog.redb")).unwrap();
    file.write_at(0, &earlier).unwrap();
    file.sync(SyncPoint::Catalog).unwrap();
    let mut cluster = Cluster::on(power, disk, world, HASTY).await.unwrap();
    cluster.collect().await;
    cluster.collect().await;
    let now = cluster.world.copies();
    assert!(
        copies.iter().all(|copy| now.contains(copy)),
        "parities and later objects are unknown here, and stay"
    );
    let status = cluster.status().await;
    assert!(status.safe_mode.contains("does not know"), "{}", status.safe_mode);
    assert!(status.unknown_copies > 0);
    let refused = cluster.archive("early", "rs-4+2").await.unwrap_err();
    assert!(refused.message().contains("history"), "{refused:?}");
    assert_eq!(cluster.get("early").await.unwrap().0, object);
    assert_eq!(cluster.get("late").await.unwrap_err().code(), Code::NotFound);
}

/// The catalog's file.
fn content(disk: &CrashDisk) -> Vec<u8> {
    let file = disk.open(Path::new("catalog.redb")).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_in_one_rack_are_spread_once_there_is_another_and_the_surplus_that_waits_for_it_goes() {
    // Nodes 2 and 3 share a rack, 4 is in another. The grace is longer than 4 leaves.
    let world = World::start(4).await;
    world.kill(1);
    let mut cluster = Cluster::with(world, Settings { garbage_grace_ms: 3_000, ..HASTY }).await.unwrap();
    cluster.put_with("object", b"bytes", BLOCK_BYTES, 2).await.unwrap();
    let nodes = async |cluster: &mut Cluster| -> BTreeSet<u32> {
        cluster.lookup("object").await.unwrap().blocks[0].nodes.iter().copied().collect()
    };
    assert!(nodes(&mut cluster).await.contains(&4));
    let leaves = proto::RepairRequest { node: 4, decommission: true, ..Default::default() };
    cluster.repair(leaves).await.unwrap();
    assert_eq!(nodes(&mut cluster).await, [2, 3].into(), "there is no other rack");
    assert_eq!(cluster.status().await.garbage, 1, "the copy on node 4 has been replaced");
    cluster.client.recommission(proto::RecommissionRequest { node: 4 }).await.unwrap();
    cluster.until("node 4 has a copy again", async |c| nodes(c).await.contains(&4)).await;
    cluster.until("nothing waits", async |c| c.status().await.garbage == 0).await;
    assert_eq!((nodes(&mut cluster).await.len(), cluster.world.copies().len()), (2, 2));
    assert_eq!(cluster.get("object").await.unwrap().0, b"bytes");
}
