//! Codes that store no data as they are, end to end: a pipeline over two replicas makes a codeword, the replicas go once all of it
//! was read back, data are decoded, and whatever is lost of the codeword is made again.

use crate::archive::{k_and_m, reads};
use crate::coded::put_coded;
use crate::letting_go::files;
use crate::rig::{BLOCK, Rig, content, eventually};
use client::{Archival, GetOptions};
use model::BlockId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::proto::{ObjectInfo, RepairRequest, StripeMemberStatus};

/// The stored members of each stripe of an object.
fn codewords(info: &ObjectInfo) -> BTreeMap<Vec<u8>, Vec<StripeMemberStatus>> {
    let statuses = info.blocks.iter().filter_map(|block| block.stripe.as_ref());
    let stored = |status: &wire::proto::StripeStatus| {
        status.members.iter().filter(|m| !m.is_virtual && !m.block.is_empty()).cloned().collect()
    };
    statuses.map(|status| (status.stripe.clone(), stored(status))).collect()
}

/// The object as its conversion leaves it: each data block virtual and nowhere, each member of the codeword on a node of its own.
async fn converted(rig: &Rig, name: &str, code: &str) -> ObjectInfo {
    let info = rig.client.lookup(name, true).await.unwrap();
    assert_eq!(info.code, code);
    for block in &info.blocks {
        let stripe = block.stripe.as_ref().unwrap();
        assert!(block.nodes.is_empty() && stripe.members[stripe.index as usize].is_virtual, "{block:?}");
    }
    for (_, members) in codewords(&info) {
        let nodes: BTreeSet<u32> = members.iter().map(|m| m.node).collect();
        assert!(nodes.len() == members.len() && !nodes.contains(&0), "{members:?}");
    }
    info
}

pub async fn life(code: &str, tolerance: usize) {
    let (k, m) = k_and_m(code);
    let mut rig = Rig::new((k + m + 2) as u32).await;
    // Two stripes, the second one short, its last block shorter still.
    let bytes = content(9, (k + 2) * BLOCK - 12_345);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", code).await.unwrap();
    let info = converted(&rig, "a", code).await;
    reads(&rig, "a", &bytes).await;
    rig.no_garbage().await;
    let stored: usize = rig.running().iter().map(|&node| rig.stored(node).len()).sum();
    assert_eq!(stored, 2 * (k + m), "one copy of each block of two codewords, and no replica");

    let whole = &codewords(&info)[&info.blocks[0].stripe.as_ref().unwrap().stripe];
    let lost: Vec<u32> = whole[..tolerance].iter().map(|member| member.node).collect();
    rig.lose(lost.clone()).await;
    reads(&rig, "a", &bytes).await;
    rig.bring_back(lost).await;

    // A member of the codeword, by both schemes.
    for (member, scheme) in [(&whole[0], "conventional"), (&whole[k + m - 1], "pipeline")] {
        rig.lose([member.node]).await;
        let block = member.block.clone();
        rig.repair(RepairRequest { block, scheme: scheme.to_owned(), ..Default::default() }).await.unwrap();
        rig.bring_back([member.node]).await;
        converted(&rig, "a", code).await;
    }
    // A virtual block lacks nothing.
    let request = RepairRequest { object: "a".to_owned(), index: 0, ..Default::default() };
    let told = rig.repair(request).await.unwrap().pop().unwrap().message;
    assert!(told.contains("is virtual: the stored blocks of its stripe give it"), "{told}");
    converted(&rig, "a", code).await;

    // A whole node, and then as many others as the code outlives the loss of.
    let info = converted(&rig, "a", code).await;
    let gone = codewords(&info).values().next().unwrap()[1].node;
    rig.lose([gone]).await;
    rig.repair_node(gone).await.unwrap();
    let info = converted(&rig, "a", code).await;
    let others: BTreeSet<u32> = codewords(&info).values().flatten().map(|member| member.node).collect();
    assert!(!others.contains(&gone), "node-{gone} is still referred to");
    let status = rig.status().await;
    assert_eq!((status.missing_blocks, status.unrecoverable_blocks), (0, 0));
    let lost: Vec<u32> = others.into_iter().take(tolerance).collect();
    rig.lose(lost.clone()).await;
    reads(&rig, "a", &bytes).await;
    assert_eq!(rig.status().await.unrecoverable_blocks, 0);
    assert_eq!(rig.damages(), [""; 0]);
    rig.bring_back(lost.into_iter().chain([gone])).await;
    rig.client.delete("a").await.unwrap();
    rig.no_garbage().await;
    eventually("nothing is left", async || rig.running().iter().all(|&node| rig.stored(node).is_empty()))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_over_gf256_lives() {
    life("rapidraid-4+2", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_over_gf65536_lives() {
    life("rapidraid16-3+2", 2).await;
}

/// Into a file all blocks of a stripe come at once: each member that is read sends one block, and no byte comes twice, also when
/// some are lost meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_object_comes_into_a_file_from_k_streams() {
    for code in ["rapidraid-4+2", "rapidraid16-4+2"] {
        let mut rig = Rig::new(7).await;
        // A stripe, a short one, and a block that is in none.
        let bytes = content(7, 6 * BLOCK + 1_234);
        rig.put("a", &bytes).await.unwrap();
        rig.archive("a", code).await.unwrap();
        let info = converted(&rig, "a", code).await;
        rig.no_garbage().await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let told = Arc::new(AtomicU64::new(0));
        let all = Arc::clone(&told);
        let progress: client::Progress =
            Arc::new(move |bytes, _| _ = all.fetch_max(bytes, Ordering::Relaxed));
        let options = GetOptions { progress: Some(progress), ..GetOptions::default() };
        let report = rig.client.get_to_file("a", &path, options).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes && report.digest_checked);
        assert_eq!((report.degraded_blocks, report.bytes), (0, bytes.len() as u64));
        assert_eq!(told.load(Ordering::Relaxed), bytes.len() as u64);

        // Of one that fails in the middle what came stays; the others bring the rest.
        let whole = &codewords(&info)[&info.blocks[0].stripe.as_ref().unwrap().stripe];
        rig.machines[&whole[1].node].injection.flip_wire(1);
        rig.client.get_to_file("a", &path, GetOptions::default()).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes);
        rig.lose([whole[0].node, whole[3].node]).await;
        let report = rig.client.get_to_file("a", &path, GetOptions::default()).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes && report.degraded_blocks > 0);
        let range = Some("100-250000".parse().unwrap());
        rig.client.get_to_file("a", &path, GetOptions { range, ..GetOptions::default() }).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes[100..=250_000]);
    }
}

/// What a read takes is told before: the first block follows from one member of the codeword, the next one from two, whole
/// stripes into a file from k, and nothing more is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_read_takes_is_told_and_is_what_the_equations_need() {
    let rig = Rig::new(7).await;
    let bytes = content(8, 4 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", "rapidraid-4+2").await.unwrap();
    rig.no_garbage().await;
    let cost = async |range: Option<&str>, stream| {
        let range = range.map(|range| range.parse().unwrap());
        rig.client.explain_read("a", stream, &GetOptions { range, ..GetOptions::default() }).await.unwrap()
    };
    let whole = cost(None, false).await;
    let [all] = &whole[..] else { panic!("{whole:?}") };
    assert_eq!((all.blocks, all.bytes, all.between_nodes), (4, 4 * BLOCK as u64, 0));
    assert_eq!(all.received.values().copied().collect::<Vec<_>>(), [BLOCK as u64; 4], "{all:?}");
    assert_eq!(cost(None, true).await.len(), 4, "a stream takes block after block");
    for (first, helpers) in [(0, 1), (BLOCK, 2)] {
        // A kilobyte, by a star.
        let part = cost(Some(&format!("{first}-{}", first + 1023)), false).await;
        let sent: u64 = part[0].received.values().sum();
        assert_eq!((part[0].received.len(), sent), (helpers, helpers as u64 * 1024), "{part:?}");
    }
}

/// Data cannot leave a stripe that keeps them nowhere, nor be written to one; from other codes they come like from replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_of_other_codes_become_virtual_and_stay_so() {
    let rig = Rig::new(8).await;
    let bytes = content(2, 6 * BLOCK - 99);
    let refused = put_coded(&rig, "b", &bytes, "rapidraid-4+2").await.unwrap_err().to_string();
    assert!(refused.contains("stores no data as they are written"), "{refused}");
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", "rs-4+2").await.unwrap();
    rig.no_garbage().await;
    let change = async |code: &str| {
        let wish = Archival {
            name: "a".to_owned(),
            code: code.to_owned(),
            short: true,
            change: true,
            ..Default::default()
        };
        let mut events = rig.client.archive(wish).await?;
        while events.next().await?.is_some() {}
        Ok::<(), client::ClientError>(())
    };
    change("rapidraid-4+2").await.unwrap();
    converted(&rig, "a", "rapidraid-4+2").await;
    reads(&rig, "a", &bytes).await;
    rig.no_garbage().await;
    let stored: usize = rig.running().iter().map(|&node| rig.stored(node).len()).sum();
    assert_eq!(stored, 2 * 6, "what they were made of is gone, parities too");
    let refused = change("rs-4+2").await.unwrap_err().to_string();
    assert!(refused.contains("keep no data as they are"), "{refused}");
    reads(&rig, "a", &bytes).await;
    assert_eq!(rig.damages(), [""; 0]);
}

/// As long as a member was not read back, no replica goes; nor does one without which data would be lost, though the catalog takes
/// the codeword for whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_stay_until_the_whole_codeword_was_read_back() {
    let rig = Rig::new(7).await;
    rig.control_task("gc", "pause").await;
    let bytes = content(3, 4 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", "rapidraid-4+2").await.unwrap();
    let info = converted(&rig, "a", "rapidraid-4+2").await;
    // One block is damaged on its disk, whoever has acknowledged it.
    let member = codewords(&info).into_values().next().unwrap().remove(2);
    let block = BlockId::from_slice(&member.block).unwrap();
    let [data, _] = files(&rig, member.node, block);
    rig.machines[&member.node].disk.damage(&data, |bytes| bytes[40_000] ^= 1).unwrap();
    rig.control_task("gc", "resume").await;
    // It is found, and made again; only then the replicas go.
    rig.no_garbage().await;
    assert_eq!(rig.damages(), [""; 0]);
    reads(&rig, "a", &bytes).await;
    let stored: usize = rig.running().iter().map(|&node| rig.stored(node).len()).sum();
    assert_eq!(stored, 6);
}

/// Too many members are lost before the replicas have gone: these count again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_come_back_if_the_codeword_does_not_give_their_blocks() {
    let mut rig = Rig::new(9).await;
    rig.control_task("gc", "pause").await;
    let bytes = content(4, 4 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    let before = rig.client.lookup("a", true).await.unwrap();
    rig.archive("a", "rapidraid-4+2").await.unwrap();
    let info = converted(&rig, "a", "rapidraid-4+2").await;
    // Three nodes with members die; each data block has a replica left elsewhere.
    let members = codewords(&info).into_values().next().unwrap();
    let nodes: Vec<u32> = members.iter().map(|m| m.node).collect();
    let outlives = |lost: &[u32]| before.blocks.iter().all(|b| b.nodes.iter().any(|n| !lost.contains(n)));
    let triples = (0..nodes.len()).flat_map(|a| (0..a).flat_map(move |b| (0..b).map(move |c| [a, b, c])));
    let mut triples = triples.map(|places| places.map(|place| nodes[place]));
    let lost =
        triples.find(|lost| outlives(lost)).expect("three of six nodes with no block's all three replicas");
    rig.lose(lost).await;
    rig.control_task("gc", "resume").await;
    eventually("the object is read again", async || rig.get("a").await.is_ok_and(|got| got == bytes)).await;
}
