//! Archival end to end: replicas become a stripe, nodes are lost up to the code's tolerance, blocks are repaired, and the
//! bytes stay the same.

use crate::rig::{BLOCK, Rig, Settings, content};
use client::{Archival, ClientError, GetOptions, PutOptions};
use model::BlockId;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::time::Duration;
use wire::proto::{JobEvent, ObjectInfo, RepairRequest};

/// k of a code, and how many blocks it stores besides.
pub fn k_and_m(code: &str) -> (usize, usize) {
    let code = codes::Code::parse(code).unwrap();
    (code.k(), code.stored() - code.k())
}

/// The members of each stripe of an object: block and node.
pub fn stripes(info: &ObjectInfo) -> BTreeMap<Vec<u8>, Vec<(BlockId, u32)>> {
    let statuses = info.blocks.iter().filter_map(|block| block.stripe.as_ref());
    let members = |status: &wire::proto::StripeStatus| {
        let there = status.members.iter().filter(|m| !m.block.is_empty() && !m.is_virtual);
        there.map(|m| (BlockId::from_slice(&m.block).unwrap(), m.node)).collect()
    };
    statuses.map(|status| (status.stripe.clone(), members(status))).collect()
}

/// An object as an archival leaves it: every block in a stripe of the code, one copy of each, no two on a node.
pub async fn archived(rig: &Rig, name: &str, code: &str) -> ObjectInfo {
    let info = rig.client.lookup(name, true).await.unwrap();
    assert_eq!(info.code, code);
    assert!(info.blocks.iter().all(|block| block.nodes.len() == 1 && block.stripe.is_some()), "{info:?}");
    for members in stripes(&info).values() {
        let nodes: BTreeSet<u32> = members.iter().map(|member| member.1).collect();
        assert_eq!(nodes.len(), members.len(), "two members of a stripe on a node: {members:?}");
        assert!(!nodes.contains(&0));
    }
    info
}

/// All of the object and parts of it come back.
pub async fn reads(rig: &Rig, name: &str, bytes: &[u8]) {
    for scheme in ["", "conventional", "pipeline"] {
        let options = GetOptions { scheme: scheme.to_owned(), ..GetOptions::default() };
        assert!(rig.get_with(name, options).await.unwrap() == bytes, "{name} by {scheme}");
    }
    for (first, last) in
        [(0, 0), (BLOCK - 1, BLOCK), (40_000, 2 * BLOCK + 17), (bytes.len() - 3, bytes.len())]
    {
        let last = last.min(bytes.len() - 1);
        let got = rig.range(name, &format!("{first}-{last}")).await.unwrap();
        assert!(got == bytes[first..=last], "{name} {first}-{last}");
    }
}

/// The life of an archived object, with a code.
pub async fn life(code: &str) {
    let (k, m) = k_and_m(code);
    let mut rig = Rig::new((k + m + 2) as u32).await;
    // Two stripes, the second one shorter, its last block shorter still.
    let bytes = content(9, (k + 2) * BLOCK - 12_345);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", code).await.unwrap();
    let info = archived(&rig, "a", code).await;
    reads(&rig, "a", &bytes).await;
    rig.no_garbage().await;
    let blocks: usize = rig.running().iter().map(|&node| rig.stored(node).len()).sum();
    assert_eq!(blocks, (k + m) + (2 + m), "one copy of each member");

    let first: Vec<(BlockId, u32)> = stripes(&info)[&info.blocks[0].stripe.as_ref().unwrap().stripe].clone();
    let lost: Vec<u32> = first[..m].iter().map(|member| member.1).collect();
    rig.lose(lost.clone()).await;
    reads(&rig, "a", &bytes).await;

    // A data block and a parity, each by both schemes; the nodes that were lost come back to nothing.
    for (member, others) in [(first[0], &lost[1..]), (first[k + m - 1], &[])] {
        rig.lose([member.1]).await;
        repaired(&rig, &member.0, "conventional", true).await;
        repaired(&rig, &member.0, "pipeline", false).await;
        let back: Vec<u32> = others.iter().copied().chain([member.1]).collect();
        rig.bring_back(back).await;
        reads(&rig, "a", &bytes).await;
    }

    // A whole node, and then as many others as the code tolerates.
    let info = archived(&rig, "a", code).await;
    let gone = info.blocks[1].nodes[0];
    rig.lose([gone]).await;
    rig.repair_node(gone).await.unwrap();
    let info = archived(&rig, "a", code).await;
    let others: BTreeSet<u32> = stripes(&info).values().flatten().map(|member| member.1).collect();
    assert!(!others.contains(&gone), "node-{gone} is still referred to");
    rig.lose(others.into_iter().take(m)).await;
    reads(&rig, "a", &bytes).await;
    assert_eq!(rig.damages(), [""; 0]);
}

/// Repairs a block in one flow by that scheme. With `discard` the copy is thrown away.
async fn repaired(rig: &Rig, block: &BlockId, scheme: &str, discard: bool) {
    let (scheme, block_id) = (scheme.to_owned(), block.to_vec());
    let request = RepairRequest { block: block_id, scheme: scheme.clone(), discard, ..Default::default() };
    let events = rig.repair(request).await.unwrap();
    let flows: Vec<&JobEvent> = events.iter().filter(|event| event.flow.is_some()).collect();
    let [event] = flows[..] else { panic!("one flow was wanted: {events:?}") };
    assert_eq!((&event.scheme, &event.block), (&scheme, &block.to_vec()));
    let staged = &event.flow.as_ref().unwrap().staged[0];
    assert_eq!(rig.damage(staged.node, *block).is_some(), discard, "node-{}", staged.node);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reed_solomon_lives() {
    life("rs-4+2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cauchy_code_lives() {
    life("rs-cauchy-3+2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_of_two_symbols_to_a_block_lives() {
    life("random-a2-4+2-s1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_code_lives() {
    life("rotated-4+2-r4").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_over_gf65536_lives() {
    life("rs16-4+2").await;
}

/// With no spare survivor the helpers of a plan are forced, so that explaining and running must name the same bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_carry_what_the_plan_predicts() {
    for code in ["rs-4+2", "random-a2-4+2-s1", "rotated-4+2-r4", "rs16-4+2", "rdp-5", "liber8tion-4+2"] {
        let mut rig = Rig::new(7).await;
        rig.put("a", &content(1, 4 * BLOCK)).await.unwrap();
        rig.archive("a", code).await.unwrap();
        rig.no_garbage().await;
        let info = archived(&rig, "a", code).await;
        let members = stripes(&info).into_values().next().unwrap();
        rig.lose([members[0].1, members[5].1]).await;
        for scheme in ["conventional", "pipeline"] {
            let request = RepairRequest {
                block: members[0].0.to_vec(),
                scheme: scheme.to_owned(),
                discard: true,
                ..RepairRequest::default()
            };
            let explained = rig.client.explain(request.clone()).await.unwrap();
            let json: serde_json::Value = serde_json::from_str(&explained.json).unwrap();
            let predicted = json["plans"][0]["network_bytes"].as_u64().unwrap();
            let events = rig.repair(request).await.unwrap();
            let flow = events.iter().find_map(|event| event.flow.as_ref()).unwrap();
            let moved: u64 = flow.links.iter().map(|link| link.bytes).sum();
            assert_eq!(moved, predicted, "{code} by {scheme}");
            let hops = flow.links.iter().filter(|link| link.bytes > 0).count();
            assert_eq!(hops, json["plans"][0]["links"].as_array().unwrap().len());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_losses_are_a_clear_error_until_a_node_is_back() {
    let mut rig = Rig::new(5).await;
    let bytes = content(2, 2 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", "rs-2+1").await.unwrap();
    let members = stripes(&archived(&rig, "a", "rs-2+1").await).into_values().next().unwrap();
    rig.no_garbage().await;
    rig.lose([members[0].1, members[1].1]).await;
    let status = rig.status().await;
    assert_eq!((status.missing_blocks, status.unrecoverable_blocks), (2, 2));
    let request = RepairRequest { block: members[0].0.to_vec(), ..RepairRequest::default() };
    for error in [rig.get("a").await.unwrap_err(), rig.repair(request.clone()).await.unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("cannot be recovered now: 1 of the 2"), "{text}");
        assert!(text.contains(&members[0].0.to_string()), "{text}");
    }
    rig.bring_back([members[1].1]).await;
    assert_eq!(rig.get("a").await.unwrap(), bytes);
    rig.repair(request).await.unwrap();
    assert_eq!(rig.status().await.missing_blocks, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_archived_is_refused_and_left_as_it_was() {
    let rig = Rig::new(4).await;
    let bytes = content(3, 3 * BLOCK + 1);
    rig.put("a", &bytes).await.unwrap();
    for (code, words) in [
        ("rs-10+4", &["needs 14 nodes", "4 are alive"][..]),
        ("rs-4+1", &["needs 5 nodes"]),
        ("rs-ten+4", &["rs-ten+4"]),
        ("nonsense", &["nonsense"]),
        ("rep-3", &["no code for archival"]),
    ] {
        let refused = rig.archive("a", code).await.unwrap_err();
        let ClientError::Refused(text) = &refused else { panic!("{code}: {refused:?}") };
        assert!(words.iter().all(|word| text.contains(word)), "{code}: {text}");
    }
    assert_eq!(rig.client.lookup("a", false).await.unwrap().code, "rep-3");
    rig.archive("a", "rs-2+1").await.unwrap();
    let again = rig.archive("a", "rs-2+1").await.unwrap();
    assert!(again.last().unwrap().message.contains("nothing to do"), "{again:?}");
    let other = rig.archive("a", "rs-2+2").await.unwrap_err();
    assert!(other.to_string().contains("archived as rs-2+1 already"), "{other}");
    assert_eq!(rig.get("a").await.unwrap(), bytes);
    assert_eq!(rig.status().await.stripes, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_without_bytes_is_archived_as_it_is() {
    let rig = Rig::new(4).await;
    rig.put("empty", b"").await.unwrap();
    let events = rig.archive("empty", "rs-2+1").await.unwrap();
    assert!(events.last().unwrap().message.contains("nothing to do"), "{events:?}");
    assert_eq!(rig.get("empty").await.unwrap(), b"");
    rig.client.delete("empty").await.unwrap();
    rig.no_garbage().await;
    assert_eq!(rig.status().await.blocks, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_archive_leaves_no_block_after_the_grace() {
    let rig = Rig::with(Settings { garbage_grace_ms: 400, ..Settings::nodes(5) }).await;
    rig.put("a", &content(4, 5 * BLOCK)).await.unwrap();
    rig.archive("a", "rs-2+1").await.unwrap();
    rig.no_garbage().await;
    rig.client.delete("a").await.unwrap();
    let blocks = || rig.running().iter().map(|&node| rig.stored(node).len()).sum::<usize>();
    assert_eq!(blocks(), 5 + 3, "within the grace everything is still there");
    rig.no_garbage().await;
    assert_eq!(blocks(), 0);
    let status = rig.status().await;
    assert_eq!((status.objects, status.blocks, status.stripes), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overwriting_an_archived_object_replaces_all_of_it() {
    let rig = Rig::new(5).await;
    rig.put("a", &content(5, 3 * BLOCK)).await.unwrap();
    rig.archive("a", "rs-2+1").await.unwrap();
    let bytes = content(6, BLOCK / 2);
    rig.put("a", &bytes).await.unwrap();
    assert_eq!(rig.get("a").await.unwrap(), bytes);
    assert_eq!(rig.client.lookup("a", false).await.unwrap().code, "rep-3");
    rig.no_garbage().await;
    assert_eq!(rig.running().iter().map(|&node| rig.stored(node).len()).sum::<usize>(), 3);
}

/// All objects under a prefix, in stripes of rs-2+1.
async fn archive_prefix(rig: &Rig, prefix: &str) -> Result<JobEvent, ClientError> {
    let archival = Archival {
        name: prefix.to_owned(),
        code: "rs-2+1".to_owned(),
        slice_bytes: 0,
        is_prefix: true,
        older_than: Duration::ZERO,
        scheme: String::new(),
        parallel: 0,
        short: false,
        change: false,
    };
    let mut events = rig.client.archive(archival).await?;
    let mut last = None;
    while let Some(event) = events.next().await? {
        last = Some(event);
    }
    Ok(last.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_that_fits_no_name_is_refused() {
    let rig = Rig::new(4).await;
    rig.put("x/1", b"bytes").await.unwrap();
    let refused = archive_prefix(&rig, "y/").await.unwrap_err();
    let ClientError::NotFound(text) = &refused else { panic!("{refused:?}") };
    assert_eq!(text, "no object's name begins with \"y/\"");
}

/// A stripe of which nobody can read a block, and one that is whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stripe_that_fails_hides_nothing_of_the_others() {
    let mut rig = Rig::new(8).await;
    let single = |block_bytes: usize| PutOptions {
        block_bytes: block_bytes as u64,
        replicas: 1,
        ..PutOptions::default()
    };
    let nodes =
        |info: ObjectInfo| info.blocks.iter().flat_map(|b| b.nodes.clone()).collect::<BTreeSet<u32>>();
    let [lost, kept] = [content(1, 2 * BLOCK), content(2, BLOCK)];
    rig.client.put("x/lost", Cursor::new(lost), single(BLOCK)).await.unwrap();
    let of_lost = nodes(rig.client.lookup("x/lost", true).await.unwrap());
    let gone = loop {
        rig.client.put("x/kept", Cursor::new(kept.clone()), single(BLOCK / 2)).await.unwrap();
        let of_kept = nodes(rig.client.lookup("x/kept", true).await.unwrap());
        if let Some(&node) = of_lost.difference(&of_kept).next() {
            break node;
        }
    };
    rig.lose([gone]).await;
    let failed = archive_prefix(&rig, "x/").await.unwrap_err().to_string();
    assert!(failed.starts_with("1 of 2 stripes could not be encoded: "), "{failed}");
    assert!(failed.contains("no living replica"), "{failed}");
    assert!(failed.contains("1 stripes encoded; 1.50 × the data instead of 1.00 ×"), "{failed}");
    assert_eq!(rig.client.lookup("x/kept", false).await.unwrap().code, "rs-2+1");
    assert!(rig.get("x/kept").await.unwrap() == kept);
}
