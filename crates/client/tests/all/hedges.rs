//! Short reads that are late: others are asked for the same bytes, as far as a budget goes, and who was late is left out from
//! then on.

use crate::rig::{PATIENCE, Rig, Settings, content};
use client::{GetOptions, GetReport, Hedges};
use model::NodeId;
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::time::{Duration, Instant};
use wire::proto::PlanReadRequest;
use wire::proto::coordinator_client::CoordinatorClient;

const BLOCK: usize = 80_000;
const SMALL: usize = 4096;

/// Reads that surely meet a helper: each of k is asked for k of five.
const READS: usize = 12;

/// A cluster with an archived object of four blocks, the first of which is lost. It does not notice that a node says nothing.
async fn degraded() -> (Rig, Vec<u8>) {
    let settings = Settings { dead_after_ms: 600_000, ..Settings::nodes(8) };
    let mut rig = Rig::with(settings).await;
    let bytes = content(11, 4 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    rig.archive("a", "rs-4+2").await.unwrap();
    rig.no_garbage().await;
    let lost = holder(&rig, 0).await;
    rig.stop(lost).await;
    rig.all_live().await;
    (rig, bytes)
}

async fn holder(rig: &Rig, block: usize) -> u32 {
    rig.client.lookup("a", true).await.unwrap().blocks[block].nodes[0]
}

/// A node stands still: its kernel takes connections, and nobody answers. As long as what it returns lives.
async fn stand_still(rig: &mut Rig, node: u32) -> Vec<TcpListener> {
    let addresses = [rig.node(node).control_addr(), rig.node(node).data_addr()];
    rig.kill(node);
    let deadline = Instant::now() + PATIENCE;
    let mut silent = Vec::new();
    for address in addresses {
        silent.push(loop {
            match TcpListener::bind(address) {
                Ok(listener) => break listener,
                // Threads of its former life have not ended yet.
                Err(error) => assert!(Instant::now() < deadline, "{address}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        });
    }
    silent
}

/// Part of the lost block.
fn part(number: usize, scheme: &str) -> GetOptions {
    let first = number * SMALL;
    let range = Some(format!("{first}-{}", first + SMALL - 1).parse().unwrap());
    GetOptions { range, scheme: scheme.to_owned(), ..GetOptions::default() }
}

async fn read_part(rig: &Rig, bytes: &[u8], number: usize, scheme: &str) -> GetReport {
    let (got, report) = rig.read("a", part(number, scheme)).await.unwrap();
    assert!(got == bytes[number * SMALL..(number + 1) * SMALL], "part {number} by {scheme}");
    report
}

/// What a node that says nothing is waited for otherwise: the answer to a call.
const WAITED_FOR: Duration = Duration::from_millis(wire::limits::ANSWER_TIMEOUT_MS);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_helper_that_stands_still_is_hedged_around_and_left_out_then() {
    let (mut rig, bytes) = degraded().await;
    let late = holder(&rig, 1).await;
    let _silent = stand_still(&mut rig, late).await;
    let (mut found, started) = (None, Instant::now());
    for number in 0..READS {
        let report = read_part(&rig, &bytes, number, "auto").await;
        assert_eq!(report.degraded_blocks, 1);
        if report.around.contains(&NodeId(late)) {
            let Hedges { asked, first, bytes } = report.hedges;
            assert!(found.is_none(), "it was met again");
            // k parts of others.
            assert!(asked >= first && first == 1 && bytes >= 4 * SMALL as u64, "{report:?}");
            found = Some(number);
        }
    }
    let found = found.expect("nobody met it");
    assert!(started.elapsed() < WAITED_FOR, "it was waited for");
    // Another client knows nothing of it, and takes its time if it is told to.
    let patient = GetOptions { patient: true, ..part(found, "auto") };
    let (got, report) = rig.read("a", patient).await.unwrap();
    assert!(got == bytes[found * SMALL..(found + 1) * SMALL]);
    assert_eq!(report.hedges, Hedges::default());
}

/// The reader of a chain sees only the last helper. The hedge, a star, finds the late helper or does without it. The chain may also go around
/// the helper itself, after half a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_that_is_late_is_hedged_by_a_star() {
    let (mut rig, bytes) = degraded().await;
    let late = holder(&rig, 2).await;
    let _silent = stand_still(&mut rig, late).await;
    let (mut hedges, started) = (Hedges::default(), Instant::now());
    for number in 0..READS {
        hedges += read_part(&rig, &bytes, number, "pipeline").await.hedges;
    }
    assert!(hedges.asked > 0 && hedges.asked >= hedges.first, "{hedges:?}");
    assert!(started.elapsed() < WAITED_FOR, "it was waited for");
}

/// Every helper sends one wrong slice: whichever flow it meets is not the first to bring all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hedge_with_a_wrong_byte_does_not_win() {
    let (mut rig, bytes) = degraded().await;
    let late = holder(&rig, 3).await;
    let _silent = stand_still(&mut rig, late).await;
    let mut hedges = Hedges::default();
    for number in 0..READS {
        for node in rig.running() {
            rig.machines[&node].injection.flip_wire(number as u64);
        }
        hedges += read_part(&rig, &bytes, number, "auto").await.hedges;
        // What breaks otherwise has nothing to do with hedges, and takes its time.
        if hedges.asked > 0 {
            return;
        }
    }
    panic!("no read was hedged");
}

/// What healthy reads may spend they have to save up first, and it is less than a hundredth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn healthy_reads_carry_no_more_than_a_hundredth_for_hedges() {
    let rig = Rig::new(4).await;
    let bytes = content(12, 2 * BLOCK);
    rig.put("a", &bytes).await.unwrap();
    let (mut carried, mut hedges) = (0, Hedges::default());
    for round in 0..200 {
        let report = read_part(&rig, &bytes, round % (2 * BLOCK / SMALL), "auto").await;
        carried += report.bytes;
        hedges += report.hedges;
        assert_eq!(report.degraded_blocks, 0);
    }
    assert!(hedges.bytes * 100 < carried, "{hedges:?} of {carried}");
}

/// Who was late is no more than a last resort: a healthy read goes where the block is, and a degraded one finds its helpers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_late_is_asked_where_others_do_not_suffice() {
    let (rig, _) = degraded().await;
    let blocks = rig.client.lookup("a", true).await.unwrap().blocks;
    let node = |index: usize| blocks[index].nodes[0];
    let mut coordinator = CoordinatorClient::connect(format!("http://{}", rig.address())).await.unwrap();
    for (index, late, asked) in [
        (1, vec![node(1)], BTreeSet::from([node(1)])),
        (0, vec![node(1)], BTreeSet::from([node(2), node(3)])),
        (0, vec![node(1), node(2), node(3)], BTreeSet::new()),
    ] {
        // Helpers take turns.
        for _ in 0..5 {
            let block = blocks[index].block.clone();
            let request = PlanReadRequest { block, length: 1, late: late.clone(), ..Default::default() };
            let plan = coordinator.plan_read(request).await.unwrap().into_inner().plan.unwrap();
            let senders: BTreeSet<u32> = plan.predicted.iter().map(|link| link.from).collect();
            assert!(senders.is_superset(&asked), "{senders:?} for {late:?}");
            assert_eq!(senders.len(), if index == 0 { 4 } else { 1 });
            assert!(index == 1 || late.len() > 1 || !senders.contains(&late[0]), "{senders:?}");
        }
    }
}
