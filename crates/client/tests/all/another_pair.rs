//! A sidecar cannot vouch for itself: a copy whose files fit each other, and are of another content, is not served.

use crate::rig::{BLOCK, Rig, content, eventually};
use disk::{CrashDisk, Disk, PowerSwitch};
use model::{BlockId, NodeId};
use node::store::{NewBlock, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a block, by their names.
fn files(disk: &CrashDisk, block: BlockId) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new("blocks").join(&block.to_string()[..2]);
    let own = disk.list(&folder).unwrap().into_iter().filter(|e| e.name.starts_with(&block.to_string()));
    let read = |path: PathBuf| {
        let file = disk.open(&path).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(0, &mut bytes).unwrap();
        (path, bytes)
    };
    own.map(|entry| read(folder.join(entry.name))).collect()
}

/// Puts a pair in the place of a node's copy: of the same block, generation and length, and of other bytes.
fn replace(rig: &Rig, node: u32, block: BlockId) {
    let copy = rig.newest(node, block).unwrap();
    let meta = rig.node(node).flows().store.reader(block, copy.generation).unwrap().meta().clone();
    let other = CrashDisk::new(&PowerSwitch::new());
    let disk: Arc<dyn Disk> = Arc::new(other.clone());
    Store::format(&disk, NodeId(node)).unwrap();
    let store = Store::open(disk, NodeId(node), 0).unwrap();
    let mut writer = store.writer(block, meta.generation, meta.stored_bytes).unwrap();
    writer.write(0, &content(99, meta.stored_bytes as usize), None).unwrap();
    let facts = NewBlock {
        stored_bytes: meta.stored_bytes,
        alpha: meta.alpha,
        symbol_bytes: meta.symbol_bytes,
        part: meta.part,
        note: meta.note,
        birth: meta.birth,
    };
    writer.finish(facts, None).unwrap();
    let pair = files(&other, block);
    assert_eq!(pair.len(), 2);
    for (path, bytes) in pair {
        rig.machines[&node].disk.damage(&path, |b| b.clone_from(&bytes)).unwrap();
    }
    assert_eq!(rig.damage(node, block), None, "the pair vouches for itself");
}

/// Every range of an object of one block of `BLOCK` bytes is right, small and large, however often it is read.
async fn ranges_are_right(rig: &Rig, bytes: &[u8]) {
    for (range, wanted) in [("1000-1999", 1000..2000), ("0-9", 0..10), ("5-", 5..bytes.len())] {
        for _ in 0..4 {
            assert!(rig.range("a", range).await.unwrap() == bytes[wanted.clone()], "{range}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_of_another_content_is_read_around_and_replaced() {
    let rig = Rig::new(4).await;
    let bytes = content(1, BLOCK);
    rig.put("a", &bytes).await.unwrap();
    let first = rig.client.lookup("a", true).await.unwrap().blocks[0].clone();
    let block = BlockId::from_slice(&first.block).unwrap();
    replace(&rig, first.nodes[0], block);
    ranges_are_right(&rig, &bytes).await;
    eventually("the copy is replaced", async || {
        let info = rig.client.lookup("a", true).await.unwrap();
        let is_right = |&node: &u32| {
            let Some(copy) = rig.newest(node, block) else { return false };
            let reader = rig.node(node).flows().store.reader(block, copy.generation);
            reader.is_ok_and(|reader| reader.meta().digest == *blake3::hash(&bytes).as_bytes())
        };
        info.blocks[0].nodes.len() == 3 && info.blocks[0].nodes.iter().all(is_right)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_range_is_read_from_members_of_another_content() {
    let mut rig = Rig::new(6).await;
    let bytes = content(2, 2 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", "rs-2+2").await.unwrap();
    rig.no_garbage().await;
    let info = rig.client.lookup("a", true).await.unwrap();
    let member = |index: usize| {
        let block = &info.blocks[index];
        (BlockId::from_slice(&block.block).unwrap(), block.nodes[0])
    };
    // One that is read as it is, and one that helps to decode another.
    let ((first, at), (second, lost)) = (member(0), member(1));
    replace(&rig, at, first);
    assert!(rig.range("a", "1000-1999").await.unwrap() == bytes[1000..2000]);
    rig.lose([lost]).await;
    let range = format!("{}-{}", BLOCK + 1000, BLOCK + 1999);
    for _ in 0..4 {
        assert!(rig.range("a", &range).await.unwrap() == bytes[BLOCK + 1000..BLOCK + 2000]);
    }
    assert!(rig.get("a").await.unwrap() == bytes);
    let _ = second;
}

/// Where there is nothing else, there is an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_copy_of_another_content_is_an_error() {
    let mut rig = Rig::new(3).await;
    rig.put("a", &content(3, BLOCK)).await.unwrap();
    rig.lose([2, 3]).await;
    let block = *rig.stored(1).first().unwrap();
    replace(&rig, 1, block);
    for range in ["0-9", "1000-1999", "0-"] {
        let error = rig.range("a", range).await.unwrap_err().to_string();
        assert!(error.contains("another digest") || error.contains("cannot be recovered"), "{error}");
    }
}
