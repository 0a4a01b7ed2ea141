//! Whatever is planted, a client gets the right bytes or one error that names the guilty; and what is damaged is replaced.

use crate::archive::stripes;
use crate::rig::{BLOCK, Rig, content, eventually};
use client::{ClientError, GetOptions};
use model::{BlockId, Cause, NodeId};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::proto::{JobEvent, RepairRequest};

/// An object of one stripe, its members, and the nodes that hold none of them.
pub async fn archived(nodes: u32, code: &str, k: usize) -> (Rig, Vec<u8>, Vec<(BlockId, u32)>) {
    let rig = Rig::new(nodes).await;
    let bytes = content(1, k * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", code).await.unwrap();
    rig.no_garbage().await;
    let info = rig.client.lookup("a", true).await.unwrap();
    let members = stripes(&info).into_values().next().unwrap();
    (rig, bytes, members)
}

fn request(block: BlockId, scheme: &str) -> RepairRequest {
    RepairRequest { block: block.to_vec(), scheme: scheme.to_owned(), ..RepairRequest::default() }
}

/// Senders and receivers of the flow that a repair would begin with.
async fn links(rig: &Rig, request: &RepairRequest) -> Vec<(u32, u32)> {
    let explained = rig.client.explain(request.clone()).await.unwrap();
    let json: serde_json::Value = serde_json::from_str(&explained.json).unwrap();
    let links = json["plans"][0]["links"].as_array().unwrap();
    let node = |link: &serde_json::Value, end: &str| link[end].as_u64().unwrap() as u32;
    links.iter().map(|link| (node(link, "from"), node(link, "to"))).collect()
}

/// What a job said of its failed attempts, and who took part in the last flow.
pub fn course(events: &[JobEvent]) -> (Vec<String>, BTreeSet<u32>) {
    let failed = events.iter().filter(|e| e.message.starts_with("attempt")).map(|e| e.message.clone());
    let last = events.iter().rfind(|event| event.flow.is_some()).unwrap();
    (failed.collect(), last.participants.iter().map(|participant| participant.node).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_goes_around_the_helper_that_sends_wrong_bytes() {
    let (mut rig, bytes, members) = archived(8, "rs-4+2", 4).await;
    rig.lose([members[0].1]).await;
    for (block, scheme, is_wire) in [
        (members[0].0, "pipeline", false),
        (members[0].0, "pipeline", true),
        (members[0].0, "conventional", true),
    ] {
        let request = RepairRequest { discard: true, ..request(block, scheme) };
        let (guilty, victim) = links(&rig, &request).await[1];
        let injection = &rig.machines[&guilty].injection;
        if is_wire {
            injection.flip_wire(1)
        } else {
            injection.flip_arithmetic(1)
        }
        let events = rig.repair(request).await.unwrap();
        let (failed, took_part) = course(&events);
        let [failure] = &failed[..] else { panic!("{scheme}: {failed:?} {members:?}") };
        assert!(failure.contains("slice is corrupt"), "{failure}");
        assert!(failure.contains(&format!("edge node-{guilty} -> node-{victim}")), "{scheme}: {failure}");
        assert!(!took_part.contains(&guilty), "node-{guilty} helps again: {took_part:?}");
        rig.control_task("quarantine", "resume").await;
    }
    rig.repair(request(members[0].0, "")).await.unwrap();
    assert_eq!(rig.get("a").await.unwrap(), bytes);
    assert_eq!(rig.damages(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_helper_that_falls_silent_is_gone_around() {
    let (mut rig, _, members) = archived(8, "rs-4+2", 4).await;
    rig.lose([members[5].1]).await;
    let request = request(members[5].0, "pipeline");
    let (guilty, _) = links(&rig, &request).await[1];
    rig.machines[&guilty].injection.stall(1);
    let (failed, took_part) = course(&rig.repair(request).await.unwrap());
    assert!(failed.len() == 1 && failed[0].contains("stalled"), "{failed:?}");
    assert!(failed[0].contains(&format!("edge node-{guilty} -> ")), "node-{guilty}: {failed:?}");
    assert!(!took_part.contains(&guilty), "node-{guilty} helps again: {took_part:?}");
    assert_eq!(rig.damages(), [""; 0]);
}

/// What is usual is known from the repairs before; who asks to be patient waits, and so does who has no other helper.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_helper_that_is_slow_is_gone_around() {
    let (mut rig, _, members) = archived(8, "rs-4+2", 4).await;
    rig.lose([members[5].1]).await;
    let request = RepairRequest { discard: true, ..request(members[5].0, "pipeline") };
    for _ in 0..3 {
        rig.repair(request.clone()).await.unwrap();
    }
    let (slow, _) = links(&rig, &request).await[1];
    let throttle = rig.node(slow).engine().throttle().clone();
    let helpers: Vec<u32> = [slow].into_iter().chain(members.iter().map(|m| m.1)).collect();
    let first_slow = RepairRequest { helpers, ..request };
    // A block takes half a minute: far more than on the busiest machine.
    throttle.set(BLOCK as u64 / 30, 0);
    let (failed, took_part) = course(&rig.repair(first_slow.clone()).await.unwrap());
    // Where what is usual takes long too, a slice that does not come at all is noticed first.
    let known = [format!("node-{slow} is slow"), format!("(suspect: edge node-{slow} ->")];
    assert!(failed.len() == 1 && known.iter().any(|known| failed[0].contains(known)), "{failed:?}");
    assert!(!took_part.contains(&slow), "{took_part:?}");

    throttle.set(BLOCK as u64, 0);
    let patient = RepairRequest { patient: true, ..first_slow.clone() };
    let (failed, took_part) = course(&rig.repair(patient).await.unwrap());
    assert!(failed.is_empty() && took_part.contains(&slow), "{failed:?}");

    let other = members[..5].iter().map(|m| m.1).find(|&node| node != slow);
    rig.lose(other).await;
    let (failed, took_part) = course(&rig.repair(first_slow).await.unwrap());
    assert!(failed.is_empty() && took_part.contains(&slow), "{failed:?}");
    assert_eq!(rig.damages(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archival_is_tried_again_when_a_slice_is_spoilt() {
    let rig = Rig::new(8).await;
    let bytes = content(2, 4 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    // Whoever sends its slice first is found out; the others' faults come up in later flows.
    rig.machines.values().take(2).for_each(|machine| machine.injection.flip_wire(1));
    rig.archive("a", "rs-4+2").await.unwrap();
    assert_eq!(rig.get("a").await.unwrap(), bytes);
    assert_eq!(rig.status().await.stripes, 1);
    rig.no_garbage().await;
    let blocks: usize = rig.running().iter().map(|&node| rig.stored(node).len()).sum();
    assert_eq!((blocks, rig.damages()), (6, vec![]));
}

/// Whoever encodes calculates wrongly, once: no parity that is wrong is ever kept, wherever it is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_parity_is_noticed_before_the_replicas_go() {
    for code in ["rs-2+2", "random-a2-2+2-s1"] {
        let rig = Rig::new(6).await;
        for seed in 0..2 {
            let (name, bytes) = (format!("{code} {seed}"), content(seed, 2 * BLOCK));
            rig.put(&name, &bytes).await.unwrap();
            rig.machines.values().for_each(|machine| machine.injection.flip_arithmetic(1));
            while let Err(error) = rig.archive(&name, code).await {
                let text = error.to_string();
                // Or so many are suspected by now that too few are left.
                let known = ["slice is corrupt", "does not satisfy", "needs 4 nodes", "no living replica"];
                assert!(known.iter().any(|known| text.contains(known)), "{text}");
                assert_eq!(rig.client.lookup(&name, false).await.unwrap().code, "rep-3");
                rig.control_task("quarantine", "resume").await;
            }
            assert_eq!(rig.damages(), [""; 0], "{name}");
            // Who did not come to calculate wrongly shall not do so while it is read.
            rig.machines.values().for_each(|machine| machine.injection.flip_arithmetic(u64::MAX));
            let info = rig.client.lookup(&name, true).await.unwrap();
            for block in &info.blocks {
                let start = block.offset as usize;
                let decoded = rig.read_around(block, &block.nodes).await.unwrap();
                assert!(decoded == bytes[start..start + decoded.len()], "{name}: block {}", block.index);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn puts_and_gets_go_around_spoilt_slices() {
    let rig = Rig::new(5).await;
    let bytes = content(3, 2 * BLOCK);
    for node in [1, 2] {
        rig.machines[&node].injection.flip_wire(1);
    }
    rig.put("a", &bytes).await.unwrap();
    for node in 1..=5 {
        rig.machines[&node].injection.flip_wire(0);
        assert!(rig.get("a").await.unwrap() == bytes);
    }
    assert_eq!(rig.damages(), [""; 0]);
}

/// There is nobody else to ask: better a suspect than none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_degraded_read_without_a_spare_helper_outlives_a_spoilt_slice() {
    let (mut rig, bytes, members) = archived(5, "rs-2+1", 2).await;
    rig.lose([members[0].1]).await;
    for scheme in ["conventional", "pipeline"] {
        rig.machines[&members[1].1].injection.flip_wire(1);
        let options = GetOptions { scheme: scheme.to_owned(), ..GetOptions::default() };
        assert!(rig.get_with("a", options).await.unwrap() == bytes, "{scheme}");
        rig.control_task("quarantine", "resume").await;
    }
}

/// Of the newest copy.
fn data_file(rig: &Rig, node: u32, block: BlockId) -> PathBuf {
    let copy = rig.newest(node, block).unwrap();
    Path::new("blocks").join(&block.to_string()[..2]).join(copy.to_string())
}

fn sidecar_file(rig: &Rig, node: u32, block: BlockId) -> PathBuf {
    data_file(rig, node, block).with_added_extension("meta")
}

/// Ways in which a medium spoils a block.
const DAMAGES: [fn(&Rig, u32, BlockId); 4] = [
    |rig, node, block| {
        rig.machines[&node].disk.damage(&data_file(rig, node, block), |b| b[40_000] ^= 1).unwrap()
    },
    |rig, node, block| {
        rig.machines[&node].disk.damage(&data_file(rig, node, block), |b| b.truncate(50_000)).unwrap()
    },
    |rig, node, block| {
        rig.machines[&node].disk.damage(&sidecar_file(rig, node, block), |b| b[60] ^= 1).unwrap()
    },
    |rig, node, block| rig.machines[&node].disk.damage(&sidecar_file(rig, node, block), Vec::clear).unwrap(),
];

/// Waits until the catalog lists as many copies of the object's first block as `copies`, and all of them are whole.
async fn whole_again(rig: &Rig, copies: usize) {
    eventually("the damaged copy is replaced", async || {
        let info = rig.client.lookup("a", true).await.unwrap();
        let first = &info.blocks[0];
        let block = BlockId::from_slice(&first.block).unwrap();
        let whole = first.nodes.iter().filter(|&&node| rig.damage(node, block).is_none()).count();
        // A node that lists a block as damaged for ever would have it repaired again and again.
        let lists =
            |node: &u32| rig.node(*node).flows().suspects.corrupt().iter().any(|copy| copy.block == block);
        let reported = first.nodes.iter().any(lists);
        whole == copies && first.nodes.len() == copies && !reported
    })
    .await;
}

/// On three nodes the new copy has to go where the damaged one was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_replica_is_read_around_and_replaced() {
    for nodes in [3, 4] {
        let rig = Rig::new(nodes).await;
        let bytes = content(4, BLOCK);
        rig.put("a", &bytes).await.unwrap();
        for damage in DAMAGES {
            let info = rig.client.lookup("a", true).await.unwrap();
            let block = BlockId::from_slice(&info.blocks[0].block).unwrap();
            damage(&rig, info.blocks[0].nodes[0], block);
            // As often as there are copies: one of the reads meets the damaged one.
            for _ in 0..nodes {
                assert!(rig.get("a").await.unwrap() == bytes);
            }
            whole_again(&rig, 3).await;
        }
        only_what_cannot_be_judged_is_left(&rig).await;
    }
}

/// A damaged sidecar does not say which copy it is beside, so no order removes it; everything else that is damaged goes.
async fn only_what_cannot_be_judged_is_left(rig: &Rig) {
    eventually("garbage goes", async || {
        let left = rig.damages();
        let unjudged = left.iter().all(|damage| damage.contains("sidecar is unusable"));
        unjudged && rig.status().await.garbage == left.len() as u64
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_member_is_decoded_around_and_replaced() {
    let (rig, bytes, _) = archived(5, "rs-2+1", 2).await;
    for damage in DAMAGES {
        let info = rig.client.lookup("a", true).await.unwrap();
        damage(&rig, info.blocks[0].nodes[0], BlockId::from_slice(&info.blocks[0].block).unwrap());
        assert!(rig.get("a").await.unwrap() == bytes);
        whole_again(&rig, 1).await;
    }
    only_what_cannot_be_judged_is_left(&rig).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrub_finds_what_nobody_reads() {
    let (rig, bytes, members) = archived(5, "rs-2+1", 2).await;
    let (parity, node) = members[2];
    DAMAGES[0](&rig, node, parity);
    let status = rig.status().await;
    let info = status.nodes.iter().find(|n| n.node == node).unwrap();
    let mut events = rig.client.scrub(info).await.unwrap();
    let mut found = Vec::new();
    while let Some(event) = events.next().await.unwrap() {
        found.extend((!event.problem.is_empty()).then_some(event.block));
    }
    assert_eq!(found, [parity.to_vec()]);
    eventually("the parity is made again", async || {
        rig.running().iter().any(|&n| rig.stored(n).contains(&parity) && rig.damage(n, parity).is_none())
    })
    .await;
    // It is superfluous from the commit on, which comes after the new copy has its name.
    eventually("the damaged copy goes", async || rig.damages().is_empty()).await;
    rig.no_garbage().await;
    assert_eq!(rig.get("a").await.unwrap(), bytes);
}

/// The only copy is damaged: it is kept, for it may be all there is, and the error says what is wrong and where.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_copy_that_is_damaged_is_an_error_that_names_its_node() {
    let mut rig = Rig::new(3).await;
    rig.put("a", &content(5, BLOCK)).await.unwrap();
    rig.lose([2, 3]).await;
    let block = *rig.stored(1).first().unwrap();
    DAMAGES[0](&rig, 1, block);
    let error = rig.get("a").await.unwrap_err();
    let ClientError::Flow { fault, .. } = &error else { panic!("{error:?}") };
    assert_eq!(
        (fault.cause, fault.suspect),
        (Cause::CorruptBlock, Some((NodeId(1).into(), NodeId(1).into()))),
        "{error}"
    );
    assert_eq!(fault.block, Some(block));
    assert!(rig.newest(1, block).is_some());
    rig.bring_back([2, 3]).await;
    assert_eq!(rig.get("a").await.unwrap(), content(5, BLOCK));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disks_are_gone_around_or_named() {
    let mut rig = Rig::new(5).await;
    let bytes = content(6, 2 * BLOCK);
    [1, 2].iter().for_each(|node| rig.machines[node].disk.set_capacity(0));
    rig.put("a", &bytes).await.unwrap();
    assert_eq!(rig.get("a").await.unwrap(), bytes);
    assert!(rig.stored(1).is_empty() && rig.stored(2).is_empty());
    let info = rig.client.lookup("a", true).await.unwrap();

    // A repair has one node left that is not full.
    rig.lose([info.blocks[0].nodes[0]]).await;
    rig.machines[&2].disk.set_capacity(u64::MAX);
    eventually("the coordinator knows of the room", async || {
        let status = rig.status().await;
        let told = status.nodes.iter().find(|n| n.node == 2).and_then(|n| n.status.as_ref());
        told.and_then(|status| status.free_bytes).is_some_and(|free| free > 0)
    })
    .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    rig.repair_node(info.blocks[0].nodes[0]).await.unwrap();
    assert_eq!(rig.stored(2).len(), 2);

    rig.machines.values().for_each(|machine| machine.disk.set_capacity(0));
    let error = rig.put("b", &bytes).await.unwrap_err();
    // Whoever heard of it before a flow met it says so in the plan's stead.
    match &error {
        ClientError::Flow { fault, .. } => {
            assert_eq!(fault.cause, Cause::NoSpace, "{error}");
            assert!(fault.suspect.is_some_and(|(from, to)| from == to && from.node().is_some()), "{error}");
        }
        ClientError::Refused(why) => assert!(why.contains("have room for"), "{error}"),
        _ => panic!("{error:?}"),
    }
    assert!(matches!(rig.get("b").await, Err(ClientError::NotFound(_))));
    assert_eq!(rig.get("a").await.unwrap(), bytes);
    assert_eq!(rig.damages(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_coordinators_port_harms_nobody() {
    let rig = Rig::new(3).await;
    for length in [1usize, 64, 65, 5_000] {
        let mut stream = std::net::TcpStream::connect(rig.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        // It may hang up in the middle; that is its right.
        let _ = stream.write_all(&content(length as u64, length));
        let _ = stream.read(&mut [0; 64]);
    }
    rig.put("a", b"bytes").await.unwrap();
    assert_eq!(rig.get("a").await.unwrap(), b"bytes");
}
