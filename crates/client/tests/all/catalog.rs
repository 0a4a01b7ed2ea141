//! The catalog is lost, backed up, restored, rebuilt; and belongs to one coordinator at a time.

use crate::archive::stripes;
use crate::coded::put_coded;
use crate::rig::{BLOCK, PATIENCE, Rig, content, start_coordinator};
use catalog::CatalogError;
use client::ClientError;
use coordinator::CoordinatorError;
use disk::{CrashDisk, Disk};
use model::{BlockId, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use wire::proto::RepairRequest;

/// Objects of every kind: replicated, of no bytes, overwritten, archived with one symbol to a block and with two and by a
/// pipeline, coded as they are written.
pub async fn populate(rig: &Rig) -> BTreeMap<&'static str, Vec<u8>> {
    let objects: BTreeMap<&'static str, Vec<u8>> = [
        ("empty", 0),
        ("one", 1),
        ("replicated", 2 * BLOCK + 5),
        ("archived", 3 * BLOCK + 77),
        ("archived-a2", 2 * BLOCK - 1),
        ("coded", 3 * BLOCK + 9),
        ("piped", 3 * BLOCK + 31),
    ]
    .into_iter()
    .enumerate()
    .map(|(seed, (name, bytes))| (name, content(seed as u64, bytes)))
    .collect();
    rig.put("replicated", &content(99, BLOCK)).await.unwrap();
    for (name, bytes) in objects.iter().filter(|(name, _)| **name != "coded") {
        rig.put(name, bytes).await.unwrap();
    }
    put_coded(rig, "coded", &objects["coded"], "rs-2+2").await.unwrap();
    rig.archive("archived", "rs-2+2").await.unwrap();
    rig.archive("archived-a2", "random-a2-2+2-s1").await.unwrap();
    rig.archive("piped", "rapidraid-2+2").await.unwrap();
    rig.no_garbage().await;
    objects
}

pub async fn same(rig: &Rig, objects: &BTreeMap<&'static str, Vec<u8>>) {
    let names: Vec<String> = rig.client.list("").await.unwrap().into_iter().map(|o| o.name).collect();
    assert_eq!(names, objects.keys().copied().collect::<Vec<_>>());
    for (name, bytes) in objects {
        assert!(rig.get(name).await.unwrap() == *bytes, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_that_nobody_keeps_is_recovered_from_what_nodes_have() {
    let mut rig = Rig::new(7).await;
    let objects = populate(&rig).await;
    // Two nodes are lost together with the catalog: of one stripe a data block and a parity, whatever else they hold.
    let info = rig.client.lookup("archived-a2", true).await.unwrap();
    let members = stripes(&info).into_values().next().unwrap();
    // A stripe is known again from any of its parities; so no other stripe may lose both of them with these nodes.
    let mut others = stripes(&rig.client.lookup("archived", true).await.unwrap());
    others.extend(stripes(&rig.client.lookup("coded", true).await.unwrap()));
    let parities: Vec<BTreeSet<u32>> =
        others.values().map(|stripe| stripe[stripe.len() - 2..].iter().map(|m| m.1).collect()).collect();
    let pairs = [(0, 3), (0, 2), (1, 3), (1, 2)].map(|(data, parity)| [members[data].1, members[parity].1]);
    let nodes = pairs.into_iter().find(|pair| !parities.contains(&BTreeSet::from(*pair))).unwrap();
    let lost: BTreeSet<BlockId> = nodes.iter().flat_map(|&node| rig.stored(node)).collect();
    rig.lose(nodes).await;
    rig.stop_coordinator().await;
    rig.forget_records().await;
    let empty = CrashDisk::new(&rig.power);
    rig.start_coordinator(empty).await;
    assert!(matches!(rig.get("one").await, Err(ClientError::NotFound(_))));
    let found = rig.client.recover_catalog(&[], &[]).await.unwrap();
    assert_eq!((found.objects, found.stripes, found.incomplete.len()), (7, 7, 0), "{found:?}");
    // Nobody told it of the two that are lost.
    assert!(found.away.is_empty() && !found.safe_mode.is_empty(), "{found:?}");
    same(&rig, &objects).await;
    let again = rig.client.recover_catalog(&[], &[]).await.unwrap();
    assert_eq!((again.objects, again.newer.len()), (0, 0), "{again:?}");

    // What is missing can be made again, parities whose digest nobody knows any more included; here by an operator alone.
    rig.control_task("healer", "pause").await;
    for block in lost {
        rig.repair(RepairRequest { block: block.to_vec(), ..Default::default() }).await.unwrap();
    }
    rig.control_task("healer", "resume").await;
    assert_eq!(rig.status().await.missing_blocks, 0);
    rig.bring_back(nodes).await;
    // Nodes remember changes of the catalog that was lost: nothing goes before an operator takes this one as it is.
    assert!(rig.status().await.safe_mode.contains("does not know"));
    rig.client.end_safe_mode().await.unwrap();
    rig.no_garbage().await;
    same(&rig, &objects).await;
    rig.put("one", b"a newer version").await.unwrap();
    assert_eq!(rig.get("one").await.unwrap(), b"a newer version");
    assert_eq!(rig.damages(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_brings_a_catalog_back_and_later_blocks_are_kept() {
    let mut rig = Rig::new(5).await;
    let objects = populate(&rig).await;
    let mut backup = Vec::new();
    let mut pieces = rig.client.backup_catalog().await.unwrap();
    while let Some(piece) = pieces.next().await.unwrap() {
        backup.extend(piece.bytes);
    }
    rig.put("late", &content(50, BLOCK)).await.unwrap();
    let late = rig.client.lookup("late", true).await.unwrap().blocks.remove(0);
    rig.stop_coordinator().await;

    let disk = CrashDisk::new(&rig.power);
    let as_dyn: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut torn = backup.clone();
    torn[backup.len() / 2] ^= 1;
    for damaged in [&torn, &backup[..backup.len() - 1], b""] {
        let refused = coordinator::restore(&as_dyn, damaged).unwrap_err();
        assert!(matches!(refused, CatalogError::Malformed { .. }), "{refused}");
    }
    rig.forget_records().await;
    coordinator::restore(&as_dyn, &backup).unwrap();
    let twice = coordinator::restore(&as_dyn, &backup).unwrap_err();
    assert!(matches!(twice, CatalogError::Exists), "{twice}");
    rig.start_coordinator(disk).await;
    same(&rig, &objects).await;

    // It does not know what came after the backup; that stays.
    rig.put("new", b"bytes").await.unwrap();
    rig.client.delete("new").await.unwrap();
    // Nodes remember what this catalog forgot: nothing goes before an operator takes it as it is, and what it forgot not then.
    assert!(rig.status().await.safe_mode.contains("does not know"));
    rig.client.end_safe_mode().await.unwrap();
    rig.no_garbage().await;
    let block = BlockId::from_slice(&late.block).unwrap();
    assert!(late.nodes.iter().all(|&node| rig.stored(node).contains(&block)));
    assert_eq!(rig.damages(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_has_one_coordinator() {
    let mut rig = Rig::new(3).await;
    rig.put("a", b"bytes").await.unwrap();
    let second =
        start_coordinator(rig.settings, &rig.disk, SocketAddr::from(([127, 0, 0, 1], 0)), false).await;
    assert!(matches!(second, Err(CoordinatorError::Catalog(CatalogError::InUse))));
    assert_eq!(rig.get("a").await.unwrap(), b"bytes");
    rig.stop_coordinator().await;
    let disk = rig.disk.clone();
    rig.start_coordinator(disk).await;
    assert_eq!(rig.get("a").await.unwrap(), b"bytes");
}

/// A full disk under the catalog is an error for whoever changes something, and no loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_that_cannot_be_written_loses_nothing() {
    let mut rig = Rig::new(3).await;
    rig.put("a", b"bytes").await.unwrap();
    rig.disk.set_capacity(0);
    let refused = rig.put("b", b"bytes").await.unwrap_err().to_string();
    assert!(refused.contains("bytes free") && refused.contains("reads go on"), "{refused}");
    assert_eq!(rig.get("a").await.unwrap(), b"bytes", "a full disk serves reads");
    rig.disk.set_capacity(u64::MAX);
    rig.put("b", b"bytes").await.unwrap();
    rig.stop_coordinator().await;
    let disk = rig.disk.clone();
    rig.start_coordinator(disk).await;
    assert_eq!(rig.get("a").await.unwrap(), b"bytes");
    rig.put("c", b"after").await.unwrap();
    assert_eq!(rig.get("c").await.unwrap(), b"after");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_folder_is_not_taken_for_a_nodes_own() {
    let mut rig = Rig::new(3).await;
    rig.put("a", b"bytes").await.unwrap();
    // The true node lives, and then it does not.
    for said in ["node-1 lives at", "this folder is another store"] {
        let folder = CrashDisk::new(&rig.power);
        let config = node::Config::new(NodeId(1), rig.address().to_string(), Arc::new(folder));
        let mut stranger = node::start(config).await.unwrap();
        let why = tokio::time::timeout(PATIENCE, stranger.refused()).await.unwrap().to_string();
        assert!(why.contains(said), "{why}");
        stranger.shutdown().await;
        if rig.running().contains(&1) {
            rig.lose([1]).await;
        }
    }
    rig.bring_back([1]).await;
    let info = rig.client.lookup("a", true).await.unwrap();
    assert_eq!(info.blocks[0].nodes, [1, 2, 3], "the true node's copy is forgotten");
    assert_eq!(rig.get("a").await.unwrap(), b"bytes");
}
