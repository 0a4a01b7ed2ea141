//! The operator's hand on every kind of job: a pause ends what runs at once and leaves nothing behind, and what was paused
//! or stopped stays so.

use crate::rig::{BLOCK, Rig, content, eventually};
use client::JobEvents;
use model::BlockId;
use std::time::Duration;
use wire::proto::{ArchiveRequest, RepairRequest};

/// How long a paused job is watched: a block takes a fraction of that.
const WATCHED: Duration = Duration::from_millis(800);

/// Bytes a second at which everything takes long enough that there is a middle.
const SLOW: u64 = 40_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Archive,
    Block,
    Stripe,
    Measured,
    MeasuredStripe,
    Recovery,
    MeasuredRecovery,
    Decommission,
}

const KINDS: [Kind; 8] = [
    Kind::Archive,
    Kind::Block,
    Kind::Stripe,
    Kind::Measured,
    Kind::MeasuredStripe,
    Kind::Recovery,
    Kind::MeasuredRecovery,
    Kind::Decommission,
];

/// A cluster in which a job of that kind has something to do, and the job.
async fn begun(kind: Kind) -> (Rig, JobEvents) {
    let mut rig = Rig::new(8).await;
    rig.put("a", &content(1, 3 * BLOCK)).await.unwrap();
    rig.put("b", &content(2, 3 * BLOCK)).await.unwrap();
    if kind != Kind::Archive {
        rig.archive("a", "rs-3+2").await.unwrap();
        rig.archive("b", "rs-3+2").await.unwrap();
    }
    rig.no_garbage().await;
    let info = rig.client.lookup("a", true).await.unwrap();
    let nodes: Vec<u32> = info.blocks.iter().map(|block| block.nodes[0]).collect();
    let block = BlockId::from_slice(&info.blocks[0].block).unwrap().to_vec();
    match kind {
        Kind::Block | Kind::Recovery => rig.lose([nodes[0]]).await,
        Kind::Stripe => rig.lose([nodes[0], nodes[1]]).await,
        _ => {}
    }
    rig.client.throttle(SLOW, SLOW).await.unwrap();
    if kind == Kind::Archive {
        let request = ArchiveRequest {
            name: "a".to_owned(),
            code: "rs-3+2".to_owned(),
            slice_bytes: 0,
            short: true,
            ..Default::default()
        };
        let events = rig.client.archive(request).await.unwrap();
        return (rig, events);
    }
    let request = RepairRequest {
        parallel: 2,
        discard: format!("{kind:?}").starts_with("Measured"),
        ..Default::default()
    };
    let request = match kind {
        Kind::Block | Kind::Measured => RepairRequest { block, ..request },
        Kind::Stripe => RepairRequest { block, stripe: true, ..request },
        Kind::MeasuredStripe => RepairRequest { block, stripe: true, members: vec![0, 1], ..request },
        Kind::Decommission => RepairRequest { node: nodes[0], decommission: true, ..request },
        _ => RepairRequest { node: nodes[0], ..request },
    };
    let events = rig.client.repair(request).await.unwrap();
    (rig, events)
}

async fn stages(rig: &Rig) -> u32 {
    rig.running().into_iter().map(|node| rig.node(node).engine().running_stages() as u32).sum()
}

/// The job's task, and its state; none once it has ended.
async fn job(rig: &Rig) -> Option<(String, String)> {
    let kinds = ["archive-", "repair-", "recover-", "decommission-"];
    let is_job = |name: &str| {
        kinds.iter().any(|kind| name.strip_prefix(kind).is_some_and(|id| id.parse::<u64>().is_ok()))
    };
    let tasks = rig.status().await.tasks;
    tasks.into_iter().find(|task| is_job(&task.name)).map(|task| (task.name, task.state))
}

/// Nothing moves, and nothing is noted as under way.
async fn stands_still(rig: &Rig, kind: Kind) {
    eventually("the stages end", async || stages(rig).await == 0).await;
    let until = tokio::time::Instant::now() + WATCHED;
    while tokio::time::Instant::now() < until {
        assert_eq!(stages(rig).await, 0, "{kind:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(rig.status().await.in_flight, 0, "{kind:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_job_can_be_paused_resumed_and_stopped_at_once() {
    for kind in KINDS {
        let (rig, mut events) = begun(kind).await;
        eventually("bytes move", async || stages(&rig).await > 0).await;
        let (name, _) = job(&rig).await.unwrap();
        rig.control_task(&name, "pause").await;
        stands_still(&rig, kind).await;
        assert_eq!(job(&rig).await, Some((name.clone(), "paused".to_owned())), "{kind:?}");
        rig.control_task(&name, "resume").await;
        eventually("bytes move again", async || stages(&rig).await > 0).await;
        rig.control_task(&name, "stop").await;
        eventually("the job ends", async || job(&rig).await.is_none()).await;
        stands_still(&rig, kind).await;
        let ended = loop {
            match events.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{kind:?}: it ended without a word"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(ended.contains("stopped"), "{kind:?}: {ended}");

        // What was stopped half-way has cost nothing.
        rig.client.throttle(0, 0).await.unwrap();
        assert!(rig.get("a").await.unwrap() == content(1, 3 * BLOCK), "{kind:?}");
        assert!(rig.get("b").await.unwrap() == content(2, 3 * BLOCK), "{kind:?}");
        assert_eq!(rig.damages(), [""; 0], "{kind:?}");
    }
}
