//! Puts whose blocks are coded as they are written: the same objects as an archival leaves, without replicas on the way.

use crate::archive::{archived, stripes};
use crate::objects::{Asks, Breaks};
use crate::rig::{BLOCK, Rig, Settings, content, eventually};
use client::{ClientError, Gather, PutOptions};
use std::collections::BTreeSet;
use std::io::{Cursor, Read};
use std::sync::mpsc;
use std::time::Duration;
use wire::proto::{ObjectInfo, RepairRequest};

fn options(code: &str, short: bool) -> PutOptions {
    PutOptions { gathers: Some(Gather::on_write(code.to_owned())), short, ..PutOptions::default() }
}

/// Coded as it is written, whatever room it takes.
pub async fn put_coded(rig: &Rig, name: &str, bytes: &[u8], code: &str) -> Result<ObjectInfo, ClientError> {
    rig.client.put(name, Cursor::new(bytes.to_vec()), options(code, true)).await
}

fn stored(rig: &Rig) -> usize {
    rig.running().iter().map(|&node| rig.stored(node).len()).sum()
}

/// Objects of all lengths that may matter, put, read whole and in part, with as many losses as the code outlives, repaired, moved,
/// deleted.
async fn life(code: &str, k: usize, lost: usize, nodes: u32) {
    let mut rig = Rig::with(Settings { garbage_grace_ms: 50, ..Settings::nodes(nodes) }).await;
    let lengths =
        [1, BLOCK - 1, BLOCK, BLOCK + 1, k * BLOCK - 1, k * BLOCK, k * BLOCK + 1, 3 * k * BLOCK - 777];
    let mut members = 0;
    for (seed, &length) in (1..).zip(&lengths) {
        let (name, bytes) = (length.to_string(), content(seed, length));
        let put = put_coded(&rig, &name, &bytes, code).await.unwrap();
        assert_eq!((put.code.as_str(), put.object_bytes), (code, length as u64));
        let info = archived(&rig, &name, code).await;
        assert_eq!(stripes(&info).len(), length.div_ceil(BLOCK).div_ceil(k), "{length}");
        members += stripes(&info).values().map(Vec::len).sum::<usize>();
    }
    assert_eq!(stored(&rig), members, "each member once, and nothing else, not even for a while");
    assert_eq!(rig.status().await.garbage, 0);
    let reads = async |rig: &Rig| {
        for (seed, &length) in (1..).zip(&lengths) {
            let (name, bytes) = (length.to_string(), content(seed, length));
            assert!(rig.get(&name).await.unwrap() == bytes, "{code} {length}");
            let first = length.saturating_sub(BLOCK + 9);
            let part = rig.range(&name, &format!("{first}-")).await.unwrap();
            assert!(part == bytes[first..], "{code} {length}");
        }
    };
    reads(&rig).await;
    // Each parity says what the data do: any losses that the code outlives are decoded.
    let longest = lengths[lengths.len() - 1].to_string();
    let info = archived(&rig, &longest, code).await;
    let of_first = stripes(&info).into_values().next().unwrap();
    let gone: Vec<u32> = of_first[..lost].iter().map(|member| member.1).collect();
    rig.lose(gone.clone()).await;
    reads(&rig).await;
    rig.repair_node(gone[0]).await.unwrap();
    rig.bring_back(gone).await;
    let info = archived(&rig, &longest, code).await;
    let leaver = info.blocks[0].nodes[0];
    let request = RepairRequest { node: leaver, decommission: true, ..RepairRequest::default() };
    rig.repair(request).await.unwrap();
    reads(&rig).await;
    archived(&rig, &longest, code).await;
    for length in lengths {
        rig.client.delete(&length.to_string()).await.unwrap();
    }
    rig.no_garbage().await;
    assert_eq!((stored(&rig), rig.status().await.stripes), (0, 0));
    assert_eq!(rig.damages(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reed_solomon_is_written_and_lives() {
    life("rs-4+2", 4, 2, 9).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_of_local_groups_is_written_and_lives() {
    life("lrc-4+2+2", 4, 2, 11).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_of_several_symbols_is_written_and_lives() {
    life("rotated-4+2-r4", 4, 2, 9).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_over_gf65536_is_written_and_lives() {
    life("rs16-3+2", 3, 2, 8).await;
}

/// Yields its bytes, and waits for an answer before each block after the first few.
fn asking(bytes: &[u8]) -> (Asks, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (asked, asks) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    (Asks { bytes: Cursor::new(bytes.to_vec()), asked, answered }, asks, answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_in_the_middle_is_gone_around_and_its_block_made_again() {
    let mut rig = Rig::new(8).await;
    let bytes = content(1, 9 * BLOCK);
    let (input, asks, answer) = asking(&bytes);
    let client = rig.client.clone();
    let put = tokio::spawn(async move { client.put("a", input, options("rs-4+2", false)).await });
    // Some blocks of the first stripe are durable, and nobody has their parities yet.
    for _ in 0..3 {
        tokio::task::block_in_place(|| asks.recv()).unwrap();
        answer.send(()).unwrap();
    }
    eventually("a block is written", async || stored(&rig) > 0).await;
    let holder = rig.running().into_iter().find(|&node| !rig.stored(node).is_empty()).unwrap();
    rig.kill(holder);
    drop(answer);
    put.await.unwrap().unwrap();
    assert!(rig.get("a").await.unwrap() == bytes);
    rig.all_live().await;
    let info = archived(&rig, "a", "rs-4+2").await;
    assert_eq!(stripes(&info).len(), 3);
    rig.repair_node(holder).await.unwrap();
    let info = archived(&rig, "a", "rs-4+2").await;
    assert!(stripes(&info).values().flatten().all(|member| member.1 != holder));
    assert!(rig.get("a").await.unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_not_outlive_another_loss_is_not_acknowledged() {
    let mut rig = Rig::new(6).await;
    let bytes = content(1, 5 * BLOCK);
    let (input, asks, answer) = asking(&bytes);
    let client = rig.client.clone();
    let put = tokio::spawn(async move { client.put("a", input, options("rs-2+1", false)).await });
    // Both blocks of the first stripe are read; its parity is written by the time the last block is asked for.
    for _ in 0..3 {
        tokio::task::block_in_place(|| asks.recv()).unwrap();
        answer.send(()).unwrap();
    }
    tokio::task::block_in_place(|| asks.recv()).unwrap();
    eventually("a stripe is written", async || stored(&rig) >= 3).await;
    let holder = rig.running().into_iter().find(|&node| !rig.stored(node).is_empty()).unwrap();
    rig.lose([holder]).await;
    drop(answer);
    let refused = put.await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("would not outlive the next one"), "{refused}");
    assert!(matches!(rig.get("a").await, Err(ClientError::NotFound(_))));
    rig.bring_back([holder]).await;
    rig.no_garbage().await;
    assert_eq!(stored(&rig), 0);
    put_coded(&rig, "a", &bytes, "rs-2+1").await.unwrap();
    assert!(rig.get("a").await.unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_few_nodes_are_a_clear_error_before_anything_is_written() {
    let rig = Rig::new(5).await;
    let refused = put_coded(&rig, "a", &content(1, 4 * BLOCK), "rs-4+2").await.unwrap_err();
    let ClientError::Refused(text) = &refused else { panic!("{refused:?}") };
    assert!(text.contains("needs 6 nodes, 5 are alive"), "{text}");
    for code in ["rep-3", "nonsense"] {
        assert!(matches!(put_coded(&rig, "a", b"x", code).await, Err(ClientError::Refused(_))));
    }
    assert_eq!((stored(&rig), rig.status().await.objects), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_small_to_gain_is_refused_unless_it_may_be_short() {
    let rig = Rig::new(6).await;
    rig.put("a", b"as it was").await.unwrap();
    let small = content(1, BLOCK);
    let put = async |bytes: &[u8], short| {
        rig.client.put("a", Cursor::new(bytes.to_vec()), options("rs-3+3", short)).await
    };
    let refused = put(&small, false).await.unwrap_err().to_string();
    let words = "1 stripes lack blocks and would take 4.00 × the data instead of 3.00 ×";
    assert!(refused.contains(words) && refused.contains("--short"), "{refused}");
    assert_eq!(rig.get("a").await.unwrap(), b"as it was");
    rig.no_garbage().await;
    assert_eq!(stored(&rig), 3);
    // As short a stripe behind others costs less than it gains with them.
    let longer = content(2, 4 * BLOCK);
    assert_eq!(put(&longer, false).await.unwrap().code, "rs-3+3");
    assert!(rig.get("a").await.unwrap() == longer);
    assert_eq!(put(&small, true).await.unwrap().code, "rs-3+3");
    assert!(rig.get("a").await.unwrap() == small);
    rig.no_garbage().await;
    assert_eq!(stored(&rig), 4);
    // Nothing is in no stripe.
    put(b"", false).await.unwrap();
    assert_eq!((rig.get("a").await.unwrap().len(), rig.status().await.stripes), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_overwritten_stands_until_the_commit() {
    let rig = Rig::new(7).await;
    let (before, after) = (content(1, 3 * BLOCK), content(2, 5 * BLOCK + 1));
    put_coded(&rig, "a", &before, "rs-4+2").await.unwrap();
    let torn = Cursor::new(content(3, 4 * BLOCK)).chain(Breaks(0));
    let broken = rig.client.put("a", torn, options("rs-4+2", true)).await.unwrap_err();
    assert!(matches!(broken, ClientError::Input(_)), "{broken}");
    assert!(rig.get("a").await.unwrap() == before);
    rig.no_garbage().await;
    assert_eq!(stored(&rig), 3 + 2, "nothing is left of the one that broke off");
    put_coded(&rig, "a", &after, "rs-4+2").await.unwrap();
    assert!(rig.get("a").await.unwrap() == after);
    rig.no_garbage().await;
    assert_eq!(stored(&rig), (4 + 2) + (2 + 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_may_be_coded_as_it_is_written() {
    let rig = Rig::new(6).await;
    let refused =
        rig.client.set_bucket("b", Some(Gather::on_write("rs-9+9".to_owned())), Duration::ZERO).await;
    assert!(matches!(refused, Err(ClientError::Refused(_))), "{refused:?}");
    let terms = Gather::on_write("rs-3+3".to_owned());
    rig.client.set_bucket("b", Some(terms.clone()), Duration::ZERO).await.unwrap();
    assert_eq!(rig.client.buckets().await.unwrap(), [("b".to_owned(), terms, Duration::ZERO)]);
    // Small ones too: who set the bucket said so.
    assert_eq!(rig.put("b/small", b"small").await.unwrap().code, "rs-3+3");
    assert_eq!(rig.put("other", b"small").await.unwrap().code, "rep-3");
    assert_eq!(rig.get("b/small").await.unwrap(), b"small");
    let told = rig.archive("b/small", "rs-3+3").await.unwrap();
    assert!(told.last().unwrap().message.contains("nothing to do"), "{told:?}");
    rig.client.set_bucket("b", None, Duration::ZERO).await.unwrap();
    assert_eq!(rig.put("b/other", b"small").await.unwrap().code, "rep-3");
}

/// Racks of two nodes each: no rack has more of a stripe than it must.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_spread_over_racks() {
    let rig = Rig::new(12).await;
    put_coded(&rig, "a", &content(1, 8 * BLOCK), "rs-4+2").await.unwrap();
    for members in stripes(&archived(&rig, "a", "rs-4+2").await).values() {
        let racks: BTreeSet<u32> = members.iter().map(|member| (member.1 - 1) / 2).collect();
        assert_eq!(racks.len(), 6, "{members:?}");
    }
}
