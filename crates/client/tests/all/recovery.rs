//! Whole nodes: dead ones recovered, living ones decommissioned, with pauses, restarts and bad stripes between.

use crate::rig::{BLOCK, Rig, Settings, content, eventually};
use client::ClientError;
use model::BlockId;
use std::collections::BTreeSet;
use std::time::Duration;
use wire::proto::coordinator_client::CoordinatorClient;
use wire::proto::{JobEvent, PlanReadRequest, RepairRequest, TaskStatus};

/// Objects of two blocks each, archived, and one that is not.
const OBJECTS: u64 = 12;

async fn filled(settings: Settings) -> Rig {
    let rig = Rig::with(settings).await;
    for seed in 0..OBJECTS {
        let name = format!("object-{seed}");
        rig.put(&name, &content(seed, 2 * BLOCK)).await.unwrap();
        rig.archive(&name, "rs-2+1").await.unwrap();
    }
    rig.put("replicated", &content(OBJECTS, 2 * BLOCK)).await.unwrap();
    rig.no_garbage().await;
    rig
}

/// Every object reads as it was put, and whatever is stored is whole.
async fn all_right(rig: &Rig) {
    for seed in 0..OBJECTS {
        assert!(
            rig.get(&format!("object-{seed}")).await.unwrap() == content(seed, 2 * BLOCK),
            "object-{seed}"
        );
    }
    assert!(rig.get("replicated").await.unwrap() == content(OBJECTS, 2 * BLOCK));
    assert_eq!(rig.damages(), [""; 0]);
}

/// The blocks that the catalog places on a node.
async fn placed(rig: &Rig, node: u32) -> BTreeSet<BlockId> {
    let mut found = BTreeSet::new();
    for object in rig.client.list("").await.unwrap() {
        let info = rig.client.lookup(&object.name, true).await.unwrap();
        for block in &info.blocks {
            let id = BlockId::from_slice(&block.block).unwrap();
            found.extend(block.nodes.contains(&node).then_some(id));
            for member in block.stripe.iter().flat_map(|stripe| &stripe.members) {
                found.extend((member.node == node).then(|| BlockId::from_slice(&member.block).unwrap()));
            }
        }
    }
    found
}

/// A node that holds something, as many blocks as any.
async fn fullest(rig: &Rig) -> u32 {
    let mut best = (0, 0);
    for node in rig.running() {
        best = best.max((placed(rig, node).await.len(), node));
    }
    assert!(best.0 >= 4, "{best:?}");
    best.1
}

fn rebuilt(events: &[JobEvent]) -> Vec<(Vec<u8>, u32)> {
    let staged = events.iter().filter_map(|event| Some((event, event.flow.as_ref()?.staged.first()?)));
    staged.map(|(event, staged)| (event.block.clone(), staged.node)).collect()
}

async fn task(rig: &Rig, prefix: &str) -> Option<TaskStatus> {
    rig.status().await.tasks.into_iter().find(|task| task.name.starts_with(prefix))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_is_recovered_by_every_assignment() {
    for assign in ["balanced", "least-recent", "m-ppr", "lowest-index"] {
        // Two nodes in each rack: a stripe of three racks is made whole in the fourth one, whichever that is.
        let mut rig = filled(Settings::nodes(8)).await;
        let dead = fullest(&rig).await;
        let lost = placed(&rig, dead).await;
        rig.lose([dead]).await;
        let request =
            RepairRequest { node: dead, parallel: 3, assign: assign.to_owned(), ..Default::default() };
        let events = rig.repair(request).await.unwrap();
        let rebuilt = rebuilt(&events);
        assert_eq!(rebuilt.len(), lost.len(), "{assign}: one flow for each block");
        let end = events.last().unwrap();
        assert_eq!((end.done, end.total, end.failed), (lost.len() as u64, lost.len() as u64, 0));
        assert!(end.done_bytes > 0 && end.done_bytes == end.total_bytes, "{end:?}");
        assert!(
            rebuilt.iter().map(|(_, node)| node).collect::<BTreeSet<_>>().len() >= 3,
            "{assign}: {rebuilt:?}"
        );
        assert!(placed(&rig, dead).await.is_empty());
        assert_eq!(rig.status().await.missing_blocks, 0);
        all_right(&rig).await;
    }
}

/// Who holds up repairs of a recovery is found, though they share links and the first ones began when nothing was usual yet;
/// the others go around it from the beginning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_goes_around_a_node_that_is_slow() {
    let mut rig = Rig::new(8).await;
    let bytes = content(1, 48 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", "rs-2+2").await.unwrap();
    rig.no_garbage().await;
    let dead = fullest(&rig).await;
    let lost = placed(&rig, dead).await.len();
    rig.lose([dead]).await;
    let slow = fullest(&rig).await;
    // A block takes a minute.
    rig.node(slow).engine().throttle().set(BLOCK as u64 / 60, 0);
    let events = rig.repair(RepairRequest { node: dead, ..Default::default() }).await.unwrap();
    let said = |what: &str| events.iter().filter(|event| event.message.contains(what)).count();
    let found = said(&format!("node-{slow} is slow"));
    assert!(found >= 2 && said("is slow:") == found, "{events:?}");
    assert!(said("began before that was known") > 0, "{events:?}");
    let seen: Vec<u32> = rig.status().await.nodes.iter().filter(|n| n.slow).map(|n| n.node).collect();
    assert_eq!(seen, [slow]);
    assert_eq!(rebuilt(&events).len(), lost);
    assert!(placed(&rig, dead).await.is_empty());
    rig.node(slow).engine().throttle().set(0, 0);
    assert!(rig.get("a").await.unwrap() == bytes);
    assert_eq!(rig.damages(), [""; 0]);
}

/// A recovery can be measured as often as one likes: nothing need be lost, and nothing is another afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_measured_recovery_rebuilds_every_block_and_leaves_nothing() {
    let mut rig = filled(Settings::nodes(7)).await;
    let node = fullest(&rig).await;
    let held = placed(&rig, node).await;
    let measured =
        RepairRequest { node, discard: true, assign: "lowest-index".to_owned(), ..Default::default() };
    for dead in [false, true] {
        if dead {
            rig.lose([node]).await;
        }
        let before = rig.status().await.blocks;
        let events = rig.repair(measured.clone()).await.unwrap();
        let of_stripes: BTreeSet<Vec<u8>> = rebuilt(&events).into_iter().map(|(block, _)| block).collect();
        assert_eq!(of_stripes.len(), held.len(), "dead: {dead}");
        assert!(rebuilt(&events).iter().all(|(_, at)| *at != node));
        assert!(events.last().unwrap().message.contains("thrown away"), "{events:?}");
        assert_eq!(placed(&rig, node).await, held);
        assert_eq!(rig.status().await.blocks, before);
    }
    let dry = RepairRequest { discard: false, dry_run: true, ..measured.clone() };
    let events = rig.repair(dry.clone()).await.unwrap();
    let end = events.last().unwrap();
    assert_eq!((end.done, end.total, end.failed), (held.len() as u64, held.len() as u64, 0), "{end:?}");
    assert!(end.message.contains("nothing moved") && rebuilt(&events).is_empty(), "{end:?}");
    eventually("all let go", async || {
        let status = rig.status().await;
        status.nodes.iter().filter(|n| n.living).all(|n| n.status.as_ref().unwrap().running_stages == 0)
    })
    .await;
    assert_eq!(placed(&rig, node).await, held);
    all_right(&rig).await;
    let wrong = RepairRequest { dry_run: true, ..measured.clone() };
    assert!(rig.repair(wrong).await.unwrap_err().to_string().contains("dry run"));
    rig.bring_back([node]).await;
    let moved = RepairRequest { decommission: true, assign: String::new(), ..measured };
    let events = rig.repair(moved).await.unwrap();
    assert_eq!(rebuilt(&events).len(), held.len(), "{events:?}");
    assert_eq!(placed(&rig, node).await, held, "nothing moves");
    assert!(!rig.status().await.nodes.iter().any(|n| n.leaving));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_requestors_asked_for_receive_where_they_may() {
    let mut rig = filled(Settings::nodes(7)).await;
    let dead = fullest(&rig).await;
    rig.lose([dead]).await;
    // Two that hold blocks already: neither may be given another of those stripes.
    let mut asked = Vec::new();
    for node in rig.running() {
        if asked.len() < 2 && !placed(&rig, node).await.is_empty() {
            asked.push(node);
        }
    }
    let wrong = RepairRequest { node: dead, requestors: vec![dead], ..Default::default() };
    assert!(rig.repair(wrong).await.unwrap_err().to_string().contains("cannot be a requestor"));
    let request = RepairRequest { node: dead, requestors: asked.clone(), ..Default::default() };
    let rebuilt = rebuilt(&rig.repair(request).await.unwrap());
    let at_asked = rebuilt.iter().filter(|(_, node)| asked.contains(node)).count();
    assert!(at_asked > 0 && asked.len() == 2, "{asked:?} {rebuilt:?}");
    // Elsewhere only what neither may hold.
    for (block, node) in rebuilt.iter().filter(|(_, node)| !asked.contains(node)) {
        let id = BlockId::from_slice(block).unwrap();
        for asked in &asked {
            let mut stripe = BTreeSet::new();
            for object in rig.client.list("").await.unwrap() {
                let info = rig.client.lookup(&object.name, true).await.unwrap();
                for other in &info.blocks {
                    let members = other.stripe.iter().flat_map(|stripe| &stripe.members);
                    let of_it = members.clone().any(|member| member.block == *block) || other.block == *block;
                    if of_it {
                        stripe.extend(members.map(|member| member.node).chain(other.nodes.iter().copied()));
                    }
                }
            }
            assert!(
                stripe.contains(asked),
                "block {id} went to node-{node}, node-{asked} had nothing of its stripe"
            );
        }
    }
    all_right(&rig).await;
}

/// Slow enough that there is a middle.
async fn slowly(rig: &Rig) {
    rig.client.throttle(150_000, 150_000).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_pauses_at_once_and_goes_on() {
    let mut rig = filled(Settings::nodes(7)).await;
    let dead = fullest(&rig).await;
    let lost = placed(&rig, dead).await.len() as u64;
    rig.lose([dead]).await;
    slowly(&rig).await;
    let events =
        rig.client.repair(RepairRequest { node: dead, parallel: 2, ..Default::default() }).await.unwrap();
    eventually("a block is done", async || task(&rig, "recover-").await.is_some_and(|t| t.done >= 1)).await;
    let name = task(&rig, "recover-").await.unwrap().name;
    rig.control_task(&name, "pause").await;
    // What runs is given up, not waited for: no node has a stage within a fraction of the time that a block takes.
    tokio::time::sleep(Duration::from_millis(300)).await;
    eventually("the stages end", async || {
        rig.status()
            .await
            .nodes
            .iter()
            .filter(|n| n.living)
            .all(|n| n.status.as_ref().unwrap().running_stages == 0)
    })
    .await;
    let paused = task(&rig, &name).await.unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;
    let later = task(&rig, &name).await.unwrap();
    assert_eq!((paused.state.as_str(), paused.done), ("paused", later.done));
    assert!(later.done < lost && later.detail.contains("paused"), "{later:?}");
    rig.client.throttle(0, 0).await.unwrap();
    // A restart does not resume what an operator has paused.
    drop(events);
    rig.stop_coordinator().await;
    rig.start_coordinator(rig.disk.clone()).await;
    eventually("the job is there again", async || task(&rig, &name).await.is_some()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let again = task(&rig, &name).await.unwrap();
    assert_eq!((again.state.as_str(), again.done), ("paused", 0), "{again:?}");
    rig.control_task(&name, "resume").await;
    eventually("the recovery ends", async || task(&rig, &name).await.is_none()).await;
    assert!(placed(&rig, dead).await.is_empty());
    all_right(&rig).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_goes_on_after_the_coordinator_restarts_and_repeats_nothing() {
    let mut rig = filled(Settings::nodes(7)).await;
    let dead = fullest(&rig).await;
    let lost = placed(&rig, dead).await;
    rig.lose([dead]).await;
    slowly(&rig).await;
    let request = RepairRequest { node: dead, parallel: 1, ..Default::default() };
    let _events = rig.client.repair(request).await.unwrap();
    eventually("two blocks are done", async || task(&rig, "recover-").await.is_some_and(|t| t.done >= 2))
        .await;
    rig.stop_coordinator().await;
    rig.start_coordinator(rig.disk.clone()).await;
    let mut left = 0;
    eventually("the recovery goes on", async || {
        left = task(&rig, "recover-").await.map_or(0, |task| task.total);
        left > 0
    })
    .await;
    rig.client.throttle(0, 0).await.unwrap();
    eventually("the recovery ends", async || placed(&rig, dead).await.is_empty()).await;
    assert!(left <= lost.len() as u64 - 2, "{left} of {} blocks were begun again", lost.len());
    eventually("the job ends", async || task(&rig, "recover-").await.is_none()).await;
    all_right(&rig).await;
}

/// While degraded reads are planned, one repair runs and not six.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_makes_way_for_degraded_reads() {
    let mut rig = filled(Settings::nodes(7)).await;
    let dead = fullest(&rig).await;
    let lost = placed(&rig, dead).await.len() as u64;
    rig.lose([dead]).await;
    slowly(&rig).await;
    // Of a stripe that lost nothing: around one of its nodes there are enough others.
    let mut whole = None;
    for object in rig.client.list("object").await.unwrap() {
        let info = rig.client.lookup(&object.name, true).await.unwrap();
        let members = &info.blocks[0].stripe.as_ref().unwrap().members;
        if members.iter().all(|member| member.node != dead) {
            whole = Some((info.blocks[0].block.clone(), info.blocks[0].nodes[0]));
        }
    }
    let (block, holder) = whole.unwrap();
    let mut coordinator = CoordinatorClient::connect(format!("http://{}", rig.address())).await.unwrap();
    let mut read = async || {
        let (block, avoid) = (block.clone(), vec![holder]);
        let request = PlanReadRequest { block, length: 1, avoid, ..Default::default() };
        assert!(coordinator.plan_read(request).await.unwrap().into_inner().degraded);
    };
    // Each takes k + 1 stages; reports of several moments can show those of two.
    let stages = async |rig: &Rig| -> u32 {
        let status = rig.status().await;
        let living = status.nodes.iter().filter(|node| node.living);
        living.map(|node| node.status.as_ref().unwrap().running_stages).sum()
    };
    read().await;
    let request = RepairRequest { node: dead, parallel: 6, ..Default::default() };
    let mut events = rig.client.repair(request).await.unwrap();
    let mut most = 0;
    eventually("two blocks are done", async || {
        read().await;
        most = most.max(stages(&rig).await);
        task(&rig, "recover-").await.is_some_and(|t| t.done >= 2 && t.detail.contains("making way for reads"))
    })
    .await;
    assert!((1..=6).contains(&most), "{most} stages while somebody reads");
    eventually("it goes on with several", async || stages(&rig).await > 6).await;
    rig.client.throttle(0, 0).await.unwrap();
    let mut last = None;
    while let Some(event) = events.next().await.unwrap() {
        last = Some(event);
    }
    assert_eq!(last.unwrap().done, lost);
    all_right(&rig).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stripe_beyond_help_stops_no_other() {
    let mut rig = filled(Settings::nodes(7)).await;
    let info = rig.client.lookup("object-0", true).await.unwrap();
    let pair = [info.blocks[0].nodes[0], info.blocks[1].nodes[0]];
    rig.lose(pair).await;
    let request = RepairRequest { node: pair[0], more_nodes: vec![pair[1]], ..Default::default() };
    let Err(ClientError::Job(text)) = rig.repair(request).await else { panic!("object-0 is lost") };
    assert!(text.contains("could not be rebuilt"), "{text}");
    let status = rig.status().await;
    assert_eq!(status.missing_blocks, status.unrecoverable_blocks, "all that can be is rebuilt");
    rig.bring_back(pair).await;
    all_right(&rig).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stays_dead_is_recovered_without_being_asked() {
    let settings = Settings { recovery_grace_ms: 1_500, ..Settings::nodes(7) };
    let mut rig = filled(settings).await;
    let dead = fullest(&rig).await;
    // It makes what survives no further loss without waiting for a recovery.
    rig.control_task("healer", "pause").await;
    rig.control_task("auto-recovery", "pause").await;
    rig.lose([dead]).await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert!(!placed(&rig, dead).await.is_empty() && task(&rig, "recover-").await.is_none(), "it is paused");
    rig.control_task("auto-recovery", "resume").await;
    eventually("the node is recovered", async || placed(&rig, dead).await.is_empty()).await;
    all_right(&rig).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decommissioned_node_holds_nothing_and_is_given_nothing() {
    let mut rig = filled(Settings::nodes(7)).await;
    let leaving = fullest(&rig).await;
    let held = placed(&rig, leaving).await.len();
    let request = RepairRequest { node: leaving, decommission: true, ..Default::default() };
    let events = rig.repair(request.clone()).await.unwrap();
    let moved: Vec<&JobEvent> = events.iter().filter(|event| event.flow.is_some()).collect();
    let sends =
        |event: &&&JobEvent| event.flow.iter().flat_map(|flow| &flow.links).any(|link| link.from == leaving);
    let from_it = moved.iter().filter(sends).count();
    assert_eq!(moved.len(), held);
    assert!(0 < from_it && from_it < held, "{from_it} of {held} come from it");
    assert!(placed(&rig, leaving).await.is_empty());
    rig.no_garbage().await;
    assert!(rig.stored(leaving).is_empty());
    all_right(&rig).await;
    // Nothing new goes there, also after a restart; then it is taken back.
    rig.stop_coordinator().await;
    rig.start_coordinator(rig.disk.clone()).await;
    for seed in 0..6 {
        rig.put(&format!("later-{seed}"), &content(seed, BLOCK)).await.unwrap();
    }
    assert!(rig.stored(leaving).is_empty());
    rig.kill(leaving);
    rig.all_live().await;
    all_right(&rig).await;
    assert!(rig.repair(request).await.unwrap_err().to_string().contains("nothing to move"));
    rig.bring_back([leaving]).await;
    rig.client.recommission(model::NodeId(leaving)).await.unwrap();
    // Placement is drawn: sooner or later it is its turn.
    let mut seed = 0;
    eventually("it is given a block", async || {
        seed += 1;
        rig.put(&format!("back-{seed}"), &content(seed, BLOCK)).await.unwrap();
        !rig.stored(leaving).is_empty()
    })
    .await;
}

/// A block with several symbols cannot be copied as plain bytes: it is rebuilt from the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_of_array_codes_leave_a_node_too() {
    let rig = Rig::new(6).await;
    let bytes = content(77, 2 * BLOCK);
    rig.put("array", &bytes).await.unwrap();
    rig.archive("array", "random-a2-2+2-s1").await.unwrap();
    let info = rig.client.lookup("array", true).await.unwrap();
    let leaving = info.blocks[0].nodes[0];
    let request = RepairRequest { node: leaving, decommission: true, ..Default::default() };
    rig.repair(request).await.unwrap();
    assert!(placed(&rig, leaving).await.is_empty());
    assert_eq!((rig.get("array").await.unwrap(), rig.damages()), (bytes, vec![]));
}

/// Who has read a block lately is asked for it first, though it was selected last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m_ppr_takes_cached_blocks_as_sources() {
    let settings = Settings { cache_bytes: 1 << 20, ..Settings::nodes(7) };
    let mut rig = Rig::with(settings).await;
    let bytes = content(5, 2 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", "rs-2+3").await.unwrap();
    let info = rig.client.lookup("a", true).await.unwrap();
    let members = &info.blocks[0].stripe.as_ref().unwrap().members;
    // The archival has read the data.
    for (node, member) in rig.machines.keys().flat_map(|node| members.iter().map(move |m| (*node, m))) {
        if let Some(copy) = rig.newest(node, BlockId::from_slice(&member.block).unwrap()) {
            rig.node(node).flows().cache.forget(copy.block, copy.generation);
        }
    }
    let block = members[0].block.clone();
    let measured = RepairRequest { block: block.clone(), discard: true, ..Default::default() };
    rig.repair(measured).await.unwrap();
    let cached = |rig: &Rig| -> BTreeSet<u32> {
        let warm = |node: &u32| !rig.node(*node).flows().cache.whole().is_empty();
        rig.running().into_iter().filter(warm).collect()
    };
    let warm = cached(&rig);
    assert_eq!(warm.len(), 2);
    eventually("the caches are reported", async || {
        let nodes = rig.status().await.nodes;
        let reported = nodes.iter().filter(|n| !n.status.as_ref().unwrap().cached_blocks.is_empty());
        reported.map(|n| n.node).collect::<BTreeSet<u32>>() == warm
    })
    .await;
    rig.lose([members[0].node]).await;
    let request = RepairRequest { node: members[0].node, assign: "m-ppr".to_owned(), ..Default::default() };
    let events = rig.repair(request).await.unwrap();
    let event = events.iter().find(|event| event.block == block && event.flow.is_some()).unwrap();
    let target = event.flow.as_ref().unwrap().staged[0].node;
    let helpers: BTreeSet<u32> =
        event.participants.iter().map(|p| p.node).filter(|&node| node != target).collect();
    assert_eq!(helpers, warm);
    assert_eq!((rig.get("a").await.unwrap(), rig.damages()), (bytes, vec![]));
}
