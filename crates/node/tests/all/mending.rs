//! A repair that breaks goes on where it broke: around whoever failed, with what is there already.

use crate::rig::{IMPATIENT_MS, Rig, WRITTEN, remove};
use flow::Scheme;
use model::{Cause, Fault, FlowId};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::proto;

/// Who reports is believed, as the coordinator does it; node m + 1 stores member m.
pub fn guilty(fault: &Fault) -> Vec<u16> {
    let ends = match crate::rig::suspect(fault) {
        Some((from, to)) if from == to || to == fault.reporter.number() => vec![from],
        Some((from, to)) if from == fault.reporter.number() => vec![to],
        Some((from, to)) => vec![from, to],
        None => vec![],
    };
    ends.into_iter().filter(|&node| node < crate::rig::REQUESTOR).map(|node| node as u16 - 1).collect()
}

fn moved(result: &proto::DriveResult) -> u64 {
    result.links.iter().map(|link| link.bytes).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_stays_and_only_the_rest_is_carried() {
    for (code, length, slice_bytes, broken_at) in [
        ("rs-4+2", 1_000_000, 32 * 1024, 20),
        // Beyond what a hop gathers before it sends.
        ("rs-4+2", 600_000, 1024, 500),
        ("rs-4+2", 4_000_000, 512 * 1024, 5),
        ("random-a2-4+2-s1", 1_000_000, 4096, 90),
    ] {
        let mut rig = Rig::new(code, &[length; 4], slice_bytes).await;
        for scheme in Scheme::all().filter(|s| !s.whole_block()) {
            let flow = FlowId(rand::random());
            rig.injections[2].flip_wire(broken_at);
            let fault = rig.repair(rig.attempt(scheme, 0, &[], flow, 1)).await.unwrap_err();
            assert_eq!(guilty(&fault), [2], "{code} {scheme}: {fault}");
            mended_by_less(&rig, scheme, flow).await;
        }
        rig.stall_ms = IMPATIENT_MS;
        // Who is cut off in the middle may have written nothing yet. Of a flow that stalls all has arrived that was sent.
        let flow = FlowId(rand::random());
        rig.injections[2].stall(broken_at);
        let fault = rig.repair(rig.attempt(Scheme::Pipeline, 0, &[], flow, 1)).await.unwrap_err();
        assert_eq!((guilty(&fault), fault.cause), (vec![2], Cause::Stalled), "{code}: {fault}");
        let kept_slices = mended_by_less(&rig, Scheme::Pipeline, flow).await;
        assert!((1..=broken_at).contains(&kept_slices), "{code}: {kept_slices}");
    }
}

/// The second attempt, without member 2, carries less than an attempt at a new flow, by what it says that it kept.
async fn mended_by_less(rig: &Rig, scheme: Scheme, flow: FlowId) -> u64 {
    assert!(!rig.repaired(0));
    let mends = rig.attempt(scheme, 0, &[2], flow, 2);
    let slices = mends.slice_count;
    let result = rig.repair(mends).await.unwrap_or_else(|f| panic!("{scheme}: {f}"));
    assert!(rig.repaired(0), "{scheme}");
    assert!(result.kept_slices < slices);
    remove(&rig.requestor.flows().store, rig.ids[0]);
    // Somebody else's repair of the same block begins.
    let anew = rig.repair(rig.attempt(scheme, 0, &[2], FlowId(rand::random()), 3)).await.unwrap();
    assert_eq!(anew.kept_slices, 0);
    assert_eq!(moved(&result) < moved(&anew), result.kept_slices > 0, "{scheme}");
    remove(&rig.requestor.flows().store, rig.ids[0]);
    result.kept_slices
}

/// What nobody mends goes after the lease; an older attempt finds nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_mends_goes() {
    let rig = Rig::new("rs-4+2", &[500_000; 4], 32 * 1024).await;
    let flow = FlowId(rand::random());
    let attempt = |number: u32| {
        let mut plan = rig.attempt(Scheme::Pipeline, 0, &[2], flow, number);
        plan.header.as_mut().unwrap().lease_ms = 1_000;
        plan
    };
    rig.injections[1].flip_arithmetic(9);
    rig.repair(attempt(1)).await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let result = rig.repair(attempt(3)).await.unwrap();
    assert_eq!(result.kept_slices, 0, "the lease was over");
    assert!(rig.repaired(0));
    let fault = rig.repair(attempt(2)).await.unwrap_err();
    assert_eq!(fault.cause, Cause::StaleAttempt, "{fault}");
}

/// Deterministic, so that a schedule that fails can be run again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % most
    }
}

const SCHEDULES: u64 = 200;
const AT_ONCE: u64 = 10;

/// [`SCHEDULES`] schedules of one or two faults at a time, while k members survive: helpers that compute or send wrong bytes, stop
/// without a word, lose their block's end or their processes, and a driver that is lost and comes back. Every block ends
/// right, nothing hangs, and before that nothing stands under its final name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_faults_never_lose_or_spoil_a_block() {
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..AT_ONCE {
        workers.spawn(async move {
            let mut kept = 0;
            for seed in (worker..SCHEDULES).step_by(AT_ONCE as usize) {
                let schedule = tokio::time::timeout(Duration::from_secs(60), schedule(seed));
                kept += schedule.await.unwrap_or_else(|_| panic!("schedule {seed} hangs"));
            }
            kept
        });
    }
    let kept: Vec<u64> = workers.join_all().await;
    assert!(kept.iter().sum::<u64>() > 0, "no schedule kept a slice: faults came too early");
}

/// Slices that mended attempts kept.
async fn schedule(seed: u64) -> u64 {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    let (code, slice_bytes) =
        [("rs-4+5", 32 * 1024), ("lrc-4+2+4", 4096), ("random-a2-4+5-s1", 8192)][dice.below(3) as usize];
    let mut rig = Rig::new(code, &[700_000; 4], slice_bytes).await;
    rig.stall_ms = IMPATIENT_MS;
    let schemes: Vec<Scheme> = Scheme::all().collect();
    let scheme = schemes[dice.below(schemes.len() as u64) as usize];
    let slices = rig.attempt(scheme, 0, &[], FlowId(rand::random()), 1).slice_count;
    let mut away: BTreeSet<u16> = BTreeSet::new();
    let mut killed: BTreeSet<u16> = BTreeSet::new();
    let members = rig.blocks.len() as u64;
    for _ in 0..1 + dice.below(2) {
        let victim = 1 + dice.below(members - 1) as u16;
        let (slice, injection) = (dice.below(slices), &rig.injections[usize::from(victim)]);
        match dice.below(5) {
            0 => injection.flip_arithmetic(slice),
            1 => injection.flip_wire(slice),
            2 => injection.stall(slice),
            3 => crate::faults::damage(rig.disks[usize::from(victim)].as_ref(), |bytes| {
                let half = bytes.len() / 2;
                bytes[half] ^= 1;
            }),
            _ => drop(killed.insert(victim)),
        }
    }
    for &victim in killed.iter().rev() {
        let (node, after) = (rig.nodes.remove(usize::from(victim)), dice.below(40));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(after)).await;
            node.shutdown().await;
        });
    }
    let flow = FlowId(rand::random());
    let lost_at = dice.below(4);
    for attempt in 1..=10 {
        let away_now: Vec<u16> = away.iter().copied().collect();
        let plan = rig.attempt(scheme, 0, &away_now, flow, attempt);
        let driven = rig.repair(plan);
        let result = if u64::from(attempt) == lost_at {
            // The driver is lost in the middle, and the next attempt is its own again.
            let patience = Duration::from_millis(dice.below(30));
            match tokio::time::timeout(patience, driven).await {
                Ok(result) => result,
                Err(_) => continue,
            }
        } else {
            driven.await
        };
        match result {
            Ok(result) => {
                assert!(rig.repaired(0), "schedule {seed}: other bytes than were lost");
                return result.kept_slices;
            }
            Err(fault) => {
                // A driver that was lost may have finished: then the block is whole.
                let is_there = rig.requestor.flows().store.contains(rig.ids[0], WRITTEN).unwrap();
                assert!(!is_there || rig.repaired(0), "schedule {seed}, {scheme}: half a block has a name");
                let guilty = guilty(&fault);
                assert!(!guilty.is_empty(), "schedule {seed}, {scheme}: nobody is blamed: {fault}");
                away.extend(guilty);
                assert!(away.len() <= 4, "schedule {seed}, {scheme}: {away:?} are blamed; at last {fault}");
            }
        }
    }
    panic!("schedule {seed}, {scheme}: no attempt succeeds")
}
