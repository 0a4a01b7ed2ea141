//! Several lost blocks of a stripe are made in one pass, also when a helper fails in the middle.

use crate::faults::{archived, course};
use crate::rig::{BLOCK, Rig};
use serde_json::Value;
use wire::proto::RepairRequest;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stripe_is_repaired_in_one_pass_around_a_helper_that_fails() {
    let (mut rig, bytes, members) = archived(14, "rs-4+6", 4).await;
    let helpers: Vec<u32> = members[2..].iter().map(|member| member.1).collect();
    let guilty = helpers[1];
    let request = RepairRequest { block: members[0].0.to_vec(), stripe: true, helpers, ..Default::default() };
    for scheme in ["pipeline", "conventional"] {
        let measured = RepairRequest {
            scheme: scheme.to_owned(),
            members: vec![0, 1],
            discard: true,
            ..request.clone()
        };
        rig.machines[&guilty].injection.flip_wire(1);
        let (failed, took_part) = course(&rig.repair(measured.clone()).await.unwrap());
        assert!(failed.len() == 1 && failed[0].ends_with("the next one mends it"), "{scheme}: {failed:?}");
        assert!(failed[0].contains(&format!("node-{guilty} ")), "{failed:?}");
        assert!(!took_part.contains(&guilty), "{scheme}: {took_part:?}");
        let (failed, took_part) = course(&rig.repair(measured).await.unwrap());
        assert!(failed.is_empty() && took_part.contains(&guilty), "{scheme}: {failed:?}, {took_part:?}");
        rig.control_task("quarantine", "resume").await;
    }
    rig.lose([members[0].1, members[1].1]).await;
    rig.machines[&guilty].injection.flip_wire(1);
    // A scheme that finds no path of its own: the guilty one helps.
    let lasting = RepairRequest { scheme: "pipeline".to_owned(), ..request };
    let (failed, took_part) = course(&rig.repair(lasting).await.unwrap());
    assert!(failed.len() == 1 && !took_part.contains(&guilty), "{failed:?}, {took_part:?}");
    assert_eq!(rig.get("a").await.unwrap(), bytes);
    assert_eq!(rig.damages(), [""; 0]);
}

/// What would be done with a stripe that lacks several blocks, or would lack them, is what is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stripes_repair_moves_is_told_before() {
    let (mut rig, bytes, members) = archived(10, "rs-4+3", 4).await;
    let request = RepairRequest { block: members[1].0.to_vec(), stripe: true, ..Default::default() };
    let explain = async |rig: &Rig, request: &RepairRequest| -> Result<Value, String> {
        let reply = rig.client.explain(request.clone()).await.map_err(|e| e.to_string())?;
        assert!(reply.dot.contains("digraph") && reply.text.contains("is passed over"), "{}", reply.text);
        Ok(serde_json::from_str(&reply.json).unwrap())
    };
    assert!(explain(&rig, &request).await.unwrap_err().contains("no block of this stripe is lost"));
    let beyond = RepairRequest { members: vec![0, 99], ..request.clone() };
    assert!(explain(&rig, &beyond).await.unwrap_err().contains("blocks 0 to 6"));
    let if_lost = RepairRequest { members: vec![0, 1], ..request.clone() };
    let if_lost = explain(&rig, &if_lost).await.unwrap();

    rig.lose([members[0].1, members[1].1]).await;
    let explained = explain(&rig, &request).await.unwrap();
    for explained in [&if_lost, &explained] {
        let made: Vec<u64> =
            explained["blocks"].as_array().unwrap().iter().map(|b| b["member"].as_u64().unwrap()).collect();
        assert_eq!(made, [0, 1]);
        let (plans, chosen) = (explained["plans"].as_array().unwrap(), &explained["chosen"]["scheme"]);
        assert!(plans.iter().any(|plan| plan["scheme"] == *chosen), "{explained}");
    }
    let told = |scheme: &str| {
        let plans = explained["plans"].as_array().unwrap();
        plans.iter().find(|plan| plan["scheme"] == scheme).unwrap()["network_bytes"].as_u64().unwrap()
    };
    // Four blocks to the first requestor and one on to the second; two rows over each of the links of a chain.
    let block = BLOCK as u64;
    assert_eq!(told("conventional"), 5 * block);
    for (scheme, last) in [("conventional", false), ("pipeline", true)] {
        let repair = RepairRequest {
            scheme: scheme.to_owned(),
            discard: !last,
            members: if last { vec![] } else { vec![0, 1] },
            ..request.clone()
        };
        let events = rig.repair(repair).await.unwrap();
        let flow = events.iter().rev().find_map(|event| event.flow.as_ref()).unwrap();
        assert_eq!(flow.links.iter().map(|link| link.bytes).sum::<u64>(), told(scheme), "{scheme}");
        let end = events.last().unwrap();
        assert_eq!((end.done, end.total, end.failed), (2, 2, 0), "{scheme}");
    }
    assert!(rig.get("a").await.unwrap() == bytes);

    // A single lost block of a stripe is one of one.
    let now = rig.client.lookup("a", true).await.unwrap();
    rig.lose([now.blocks[2].nodes[0]]).await;
    let events = rig.repair(request).await.unwrap();
    let end = events.last().unwrap();
    assert_eq!((end.done, end.total, end.failed), (1, 1, 0));
}
