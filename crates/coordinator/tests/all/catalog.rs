//! The catalog as an operator meets it: one coordinator at a time, backup, restore, rebuild, damage, resumed jobs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::support::world::World;
use crate::support::{BLOCK_BYTES, Cluster, Settings, bytes, config};
use catalog::CatalogError;
use coordinator::{CoordinatorError, restore};
use disk::{CrashDisk, Disk, PowerSwitch, SyncPoint};
use redb::TableDefinition;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tonic::Code;
use wire::proto;
use wire::proto::register_message::Kind;

const HASTY: Settings = Settings { dead_after_ms: 1_200, garbage_grace_ms: 50, put_lease_ms: 60_000 };

fn dyn_disk(disk: &CrashDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_coordinator_on_the_same_disk_is_refused() {
    let mut cluster = Cluster::new(1, Settings::default()).await;
    let second = coordinator::start(config(&cluster.disk, cluster.settings)).await;
    assert!(matches!(second, Err(CoordinatorError::Catalog(CatalogError::InUse))), "{second:?}");
    cluster.stop().await;
    let third = coordinator::start(config(&cluster.disk, cluster.settings)).await.unwrap();
    third.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_not_synced_is_lost() {
    let mut cluster = Cluster::new(3, Settings::default()).await;
    cluster.put("before", b"x").await.unwrap();
    cluster.power.ignore(SyncPoint::Catalog);
    cluster.put("after", b"x").await.unwrap();
    cluster.power.cut();
    cluster.stop().await;
    // What other nodes keep of the catalog would make up for it.
    cluster.world.forget_records();
    let mut cluster = cluster.restart().await;
    assert!(cluster.get("before").await.is_ok());
    assert_eq!(cluster.get("after").await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_comes_back_and_a_spoilt_one_does_not() {
    let mut cluster = Cluster::new(7, HASTY).await;
    let (old, new) = (bytes(1, 5 * BLOCK_BYTES as usize), bytes(2, 100));
    cluster.put("old", &old).await.unwrap();
    cluster.archive("old", "rs-4+2").await.unwrap();
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    let backup = cluster.backup().await;
    cluster.put("new", &new).await.unwrap();
    let copies = cluster.world.copies();
    cluster.stop().await;
    // What nodes keep of the catalog would be brought over the backup.
    cluster.world.forget_records();

    let power = PowerSwitch::new();
    let disk = CrashDisk::new(&power);
    for at in [0, 9, backup.len() / 2, backup.len() - 40, backup.len() - 1] {
        let mut spoilt = backup.clone();
        spoilt[at] ^= 1;
        assert!(matches!(restore(&dyn_disk(&disk), &spoilt), Err(CatalogError::Malformed { .. })), "{at}");
        let cut = &backup[..at];
        assert!(matches!(restore(&dyn_disk(&disk), cut), Err(CatalogError::Malformed { .. })), "{at}");
    }
    restore(&dyn_disk(&disk), &backup).unwrap();
    let again = restore(&dyn_disk(&disk), &backup);
    assert!(matches!(again, Err(CatalogError::Exists)), "{again:?}");

    let world = Arc::clone(&cluster.world);
    let mut cluster = Cluster::on(power, disk, world, HASTY).await.unwrap();
    assert_eq!(cluster.get("old").await.unwrap(), (old, 0));
    assert_eq!(cluster.get("new").await.unwrap_err().code(), Code::NotFound);
    // What was put after the backup is unknown now, and is never thrown away for that.
    cluster.collect().await;
    assert_eq!(cluster.world.copies(), copies);
    cluster.again().await.unwrap();
    cluster.collect().await;
    assert_eq!(cluster.world.copies(), copies);
    assert_eq!(cluster.control("orphans", "resume").await.unwrap_err().code(), Code::NotFound);
    assert!(cluster.put("old", b"newer").await.unwrap().version > 1_000);
}

/// A restored backup is never worse than an empty folder: acknowledged puts are there, what was removed stays so, and nobody is accused.
#[tokio::test(flavor = "multi_thread")]
async fn what_nodes_keep_is_brought_over_a_restored_backup() {
    let mut cluster = Cluster::new(7, HASTY).await;
    cluster.put("old", b"old").await.unwrap();
    cluster.put("removed", b"removed").await.unwrap();
    let backup = cluster.backup().await;
    cluster.put("old", b"overwritten").await.unwrap();
    cluster.put("new", b"new").await.unwrap();
    cluster
        .client
        .delete(proto::LookupRequest { name: "removed".to_owned(), ..Default::default() })
        .await
        .unwrap();
    cluster.stop().await;
    // Each node has been started since the backup.
    for node in cluster.world.living() {
        let word = cluster.world.word(node);
        cluster.world.restart(node, vec![word]);
    }

    let power = PowerSwitch::new();
    let disk = CrashDisk::new(&power);
    restore(&dyn_disk(&disk), &backup).unwrap();
    let mut cluster = Cluster::on(power, disk, Arc::clone(&cluster.world), HASTY).await.unwrap();
    assert_eq!(cluster.get("old").await.unwrap().0, b"overwritten");
    assert_eq!(cluster.get("new").await.unwrap().0, b"new");
    let is_gone = async |c: &mut Cluster| c.get("removed").await.is_err_and(|e| e.code() == Code::NotFound);
    cluster.until("what was removed stays so", is_gone).await;
    let health = cluster.client.get_health(proto::Empty {}).await.unwrap().into_inner();
    assert_eq!(health.safe_mode, "");
    assert!(cluster.status().await.nodes.iter().all(|node| node.living && !node.set_back));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalog_that_nobody_keeps_is_recovered_from_what_nodes_have() {
    let mut cluster = Cluster::new(8, HASTY).await;
    let coded = bytes(1, 5 * BLOCK_BYTES as usize + 77);
    let plain = bytes(2, 2 * BLOCK_BYTES as usize);
    cluster.put("coded", b"an older version").await.unwrap();
    cluster.put("coded", &coded).await.unwrap();
    cluster.archive("coded", "rs-4+2").await.unwrap();
    cluster.put("plain", &plain).await.unwrap();
    cluster.put("empty", &[]).await.unwrap();
    cluster.put("torn", &plain).await.unwrap();
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    let nothing =
        cluster.client.recover_catalog(proto::RecoverRequest::default()).await.unwrap().into_inner();
    assert_eq!(nothing, proto::RecoverReply::default(), "everything is known");
    let before = cluster.lookup("coded").await.unwrap();
    let id = cluster.status().await.cluster;

    // Two data blocks of a stripe are nowhere, of another object a block is.
    for index in [0, 1] {
        cluster.world.lose(before.blocks[index].nodes[0], &before.blocks[index].block);
    }
    let torn = cluster.lookup("torn").await.unwrap().blocks[1].clone();
    torn.nodes.iter().for_each(|&node| drop(cluster.world.lose(node, &torn.block)));
    let copies = cluster.world.copies();
    cluster.stop().await;
    cluster.world.forget_records();

    let mut cluster = Cluster::with(Arc::clone(&cluster.world), HASTY).await.unwrap();
    assert_eq!(cluster.status().await.cluster, id, "a new catalog takes the nodes' cluster over");
    assert_eq!(cluster.world.copies(), copies);
    let reply = cluster.client.recover_catalog(proto::RecoverRequest::default()).await.unwrap().into_inner();
    assert_eq!((reply.objects, reply.stripes, reply.incomplete.len()), (3, 2, 1));
    let (read, degraded) = cluster.get("coded").await.unwrap();
    assert_eq!(read, coded);
    assert!(degraded > 0);
    assert_eq!(cluster.get("plain").await.unwrap(), (plain, 0));
    assert_eq!(cluster.get("empty").await.unwrap(), (vec![], 0));
    assert_eq!(cluster.get("torn").await.unwrap_err().code(), Code::NotFound);
    let after = cluster.lookup("coded").await.unwrap();
    assert_eq!((after.version, after.code.as_str()), (before.version, "rs-4+2"));
    let ids = |info: &proto::ObjectInfo| info.blocks.iter().map(|b| b.block.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&after), ids(&before));

    // The lost blocks can be repaired, and what comes after has a higher version.
    for index in [0, 1] {
        let request = proto::RepairRequest { object: "coded".to_owned(), index, ..Default::default() };
        cluster.repair(request).await.unwrap();
    }
    assert_eq!(cluster.get("coded").await.unwrap(), (coded, 0));
    assert!(cluster.put("plain", b"x").await.unwrap().version > before.version);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archival_goes_on_after_a_restart() {
    let mut cluster = Cluster::new(7, HASTY).await;
    let object = bytes(1, 24 * BLOCK_BYTES as usize);
    cluster.put("object", &object).await.unwrap();
    let request = proto::ArchiveRequest {
        name: "object".to_owned(),
        code: "rs-4+2".to_owned(),
        slice_bytes: 1024,
        short: true,
        ..Default::default()
    };
    let mut events = cluster.client.archive(request).await.unwrap().into_inner();
    // Cut after the first stripe.
    while events.message().await.unwrap().unwrap().flow.is_none() {}
    cluster.power.cut();
    let mut cluster = cluster.restart().await;
    let archived = async |c: &mut Cluster| c.lookup("object").await.unwrap().code == "rs-4+2";
    cluster.until("the archival ends by itself", archived).await;
    assert_eq!(cluster.get("object").await.unwrap(), (object, 0));
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    cluster.nothing_leaked(&["object"]).await;
    assert_eq!(cluster.status().await.stripes, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_its_blocks_says_so_and_a_stranger_is_refused() {
    let mut cluster = Cluster::new(5, HASTY).await;
    // It would have made another copy before anybody saw that one lacked.
    cluster.control("healer", "pause").await.unwrap();
    let object = bytes(1, 3 * BLOCK_BYTES as usize);
    cluster.put("object", &object).await.unwrap();
    let block = cluster.lookup("object").await.unwrap().blocks[0].clone();
    let poor = block.nodes[0];
    cluster.world.lose(poor, &block.block);
    cluster.kill(poor).await;
    cluster.world.revive(poor);
    cluster
        .until("the loss is noticed", async |c| {
            let nodes = c.lookup("object").await.unwrap().blocks[0].nodes.clone();
            nodes == block.nodes.iter().copied().filter(|&n| n != poor).collect::<Vec<_>>()
        })
        .await;
    let request = proto::RepairRequest { object: "object".to_owned(), index: 0, ..Default::default() };
    cluster.repair(request).await.unwrap();
    assert_eq!(cluster.lookup("object").await.unwrap().blocks[0].nodes.len(), 3);

    let world = World::start(1).await;
    world.joined(1, vec![9; 16]);
    let stranger = Arc::clone(&world);
    let hello = proto::NodeHello { node: 77, ..stranger.hello(1) };
    let register = |hello| {
        let message = proto::RegisterMessage { kind: Some(Kind::Hello(hello)) };
        tokio_stream::iter([message])
    };
    let refused = cluster.client.register(register(hello.clone())).await.unwrap_err();
    assert!(refused.message().contains("belongs to cluster"), "{refused:?}");
    let other = proto::NodeHello { protocol: wire::PROTOCOL_VERSION + 1, cluster: vec![], ..hello.clone() };
    assert_eq!(cluster.client.register(register(other)).await.unwrap_err().code(), Code::FailedPrecondition);
    let taken = proto::NodeHello { cluster: vec![], ..cluster.world.hello(2) };
    let taken = proto::NodeHello { node: 78, ..taken };
    let refused = cluster.client.register(register(taken)).await.unwrap_err();
    assert!(refused.message().contains("another address"), "{refused:?}");
    assert_eq!(cluster.status().await.nodes.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_row_is_named_and_panics_nothing() {
    let mut cluster = Cluster::new(3, Settings::default()).await;
    cluster.put("sound", b"x").await.unwrap();
    cluster.put("object", b"y").await.unwrap();
    cluster.stop().await;
    // Cut off, of another version, with bytes left over, empty, noise.
    let good = row(&cluster.disk, b"object", None).unwrap();
    let mut rows =
        vec![vec![], good[..good.len() - 1].to_vec(), [good.as_slice(), &[0]].concat(), bytes(9, 50)];
    let mut other = good.clone();
    other[0] = 2;
    rows.push(other);
    for bad in rows {
        row(&cluster.disk, b"object", Some(&bad));
        cluster.again().await.unwrap();
        let status = cluster.lookup("object").await.unwrap_err();
        assert_eq!(status.code(), Code::DataLoss, "{status:?}");
        assert!(status.message().contains("objects 6f626a656374"), "{status:?}");
        assert!(cluster.get("sound").await.is_ok());
        cluster.stop().await;
    }
    row(&cluster.disk, b"object", Some(&good));
    cluster.again().await.unwrap();
    assert!(cluster.get("object").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_over_a_damaged_catalog_live_and_are_read() {
    let mut cluster = Cluster::new(4, Settings::default()).await;
    cluster.put("sound", b"x").await.unwrap();
    cluster.put("object", b"y").await.unwrap();
    let sound = cluster.lookup("sound").await.unwrap().blocks.remove(0);
    cluster.stop().await;
    let good = row(&cluster.disk, b"object", None).unwrap();
    row(&cluster.disk, b"object", Some(&[]));
    // A copy too many, which a comparison would note.
    let other = (1..=4).find(|node| !sound.nodes.contains(node)).unwrap();
    let copy = cluster.world.stored(sound.nodes[0], &sound.block).unwrap();
    cluster.world.store(other, &sound.block, copy);
    // Nobody keeps the catalog, so it stays damaged.
    cluster.world.forget_records();
    let mut cluster = cluster.restart().await;
    let is_damaged = async |c: &mut Cluster| c.status().await.safe_mode.contains("is damaged");
    cluster.until("the damage is found", is_damaged).await;
    for node in 1..=4 {
        let before = cluster.world.word(node);
        cluster.world.restart(node, vec![before]);
        let kinds = [Kind::Hello(cluster.world.hello(node)), Kind::Blocks(cluster.world.inventory(node))];
        let messages = kinds.map(|kind| proto::RegisterMessage { kind: Some(kind) });
        let reply = cluster.client.register(tokio_stream::iter(messages)).await.unwrap().into_inner();
        assert!(reply.unnoted, "the catalog takes no changes");
    }
    assert_eq!(cluster.get("sound").await.unwrap().0, b"x");
    assert_eq!(cluster.get("object").await.unwrap_err().code(), Code::DataLoss);
    let refused = cluster.put("another", b"z").await.unwrap_err();
    assert!(refused.message().contains("changes wait"), "{refused}");
    let strange = proto::NodeHello { cluster: vec![], ..cluster.world.hello(1) };
    let message = proto::RegisterMessage { kind: Some(Kind::Hello(strange)) };
    let refused = cluster.client.register(tokio_stream::iter([message])).await.unwrap_err();
    assert!(refused.message().contains("changes wait"), "who names no cluster may be anybody's: {refused}");
    // The start that the catalog knows is not forgotten meanwhile: no node counts as set back.
    cluster.stop().await;
    row(&cluster.disk, b"object", Some(&good));
    let mut cluster = cluster.restart().await;
    let nodes = cluster.status().await.nodes;
    assert!(nodes.len() == 4 && nodes.iter().all(|node| node.living && !node.set_back), "{nodes:?}");
    assert_eq!(cluster.get("object").await.unwrap().0, b"y");
}

/// The stored row of an object; replaced if there is a replacement.
fn row(disk: &CrashDisk, key: &[u8], replacement: Option<&[u8]>) -> Option<Vec<u8>> {
    const OBJECTS: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("objects");
    let database = disk::open_database(&dyn_disk(disk), Path::new("catalog.redb")).unwrap();
    let txn = database.begin_write().unwrap();
    let mut table = txn.open_table(OBJECTS).unwrap();
    let stored = match replacement {
        Some(bytes) => table.insert(key, bytes).unwrap().map(|guard| guard.value().to_vec()),
        None => redb::ReadableTable::get(&table, key).unwrap().map(|guard| guard.value().to_vec()),
    };
    drop(table);
    txn.commit().unwrap();
    stored
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_recovery_goes_on_with_the_rest_when_one_stripe_is_beyond_help() {
    let mut cluster = Cluster::new(9, HASTY).await;
    let object = bytes(1, 20 * BLOCK_BYTES as usize);
    cluster.put("object", &object).await.unwrap();
    cluster.archive("object", "rs-4+2").await.unwrap();
    cluster.until("garbage goes", async |c| c.status().await.garbage == 0).await;
    let info = cluster.lookup("object").await.unwrap();
    let dead = info.blocks[0].nodes[0];
    // Of the first stripe two more blocks are lost.
    let members = info.blocks[0].stripe.clone().unwrap().members;
    let others: Vec<_> = members.iter().filter(|m| m.node != dead).take(2).cloned().collect();
    others.iter().for_each(|m| drop(cluster.world.lose(m.node, &m.block)));
    cluster.kill(dead).await;
    let held = cluster.world.copies().iter().filter(|(node, _)| *node == dead).count();
    let request = proto::RepairRequest { node: dead, parallel: 3, ..Default::default() };
    let failed = cluster.repair(request.clone()).await.unwrap_err();
    assert!(failed.message().contains(&format!("1 of {held} blocks")), "{failed:?}");
    let left: BTreeSet<_> = cluster
        .lookup("object")
        .await
        .unwrap()
        .blocks
        .iter()
        .flat_map(|b| b.stripe.clone().unwrap().members)
        .filter(|m| m.node == dead)
        .map(|m| m.block)
        .collect();
    assert_eq!(left, BTreeSet::from([info.blocks[0].block.clone()]));
    for stripe in cluster.lookup("object").await.unwrap().blocks.iter().map(|b| b.stripe.clone().unwrap()) {
        // Those that were lost may be noted as missing by now.
        let nodes: Vec<u32> = stripe.members.iter().map(|m| m.node).filter(|node| *node != 0).collect();
        assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len(), "a node for each block");
    }
}
