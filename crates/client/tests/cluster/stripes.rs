//! Several lost blocks of a stripe are made in one pass, also when a helper fails in the middle.

use crate::faults::{archived, course};
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
