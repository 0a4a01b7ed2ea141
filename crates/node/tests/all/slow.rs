//! A flow of which something is expected does not wait for a helper that is slow: its driver finds out who it is.

use crate::mending::guilty;
use crate::rig::{Rig, remove};
use flow::Scheme;
use model::{Cause, FlowId};
use wire::proto;

const LENGTH: u64 = 4 << 20;

async fn rig() -> Rig {
    Rig::new("rs-4+2", &[LENGTH; 4], 32 * 1024).await
}

/// An attempt at block 0 that should take 50 ms.
fn attempt(rig: &Rig, scheme: Scheme, away: &[u16], flow: FlowId, number: u32) -> proto::FlowPlan {
    proto::FlowPlan { expected_us: 50_000, ..rig.attempt(scheme, 0, away, flow, number) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_holds_a_flow_up_is_found_and_the_next_attempt_goes_around() {
    let rig = rig().await;
    for scheme in Scheme::all().filter(|s| !s.whole_block()) {
        let flow = FlowId(rand::random());
        // A second for a megabyte: at that rate the block takes four.
        rig.nodes[2].engine().throttle().set(1_000_000, 0);
        let fault = rig.repair(attempt(&rig, scheme, &[], flow, 1)).await.unwrap_err();
        assert_eq!((guilty(&fault), fault.cause), (vec![2], Cause::Slow), "{scheme}: {fault}");
        let result = rig.repair(attempt(&rig, scheme, &[2], flow, 2)).await.unwrap();
        assert!(rig.repaired(0), "{scheme}");
        assert!(result.kept_slices < result_slices(&rig, scheme));
        rig.nodes[2].engine().throttle().set(0, 0);
        remove(&rig.requestor.flows().store, rig.ids[0]);
    }
}

fn result_slices(rig: &Rig, scheme: Scheme) -> u64 {
    rig.attempt(scheme, 0, &[], FlowId(rand::random()), 1).slice_count
}

/// Long before it is taken for stalled, or its driver for dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stands_still_is_slow() {
    let rig = rig().await;
    for scheme in [Scheme::Pipeline, Scheme::Conventional] {
        rig.injections[3].stall(50);
        let mut plan = attempt(&rig, scheme, &[], FlowId(rand::random()), 1);
        plan.header.as_mut().unwrap().stall_ms = 30_000;
        let fault = rig.repair(plan).await.unwrap_err();
        assert_eq!((guilty(&fault), fault.cause), (vec![3], Cause::Slow), "{scheme}: {fault}");
    }
}

/// Nobody can be gone around for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requestor_that_is_slow_itself_goes_on() {
    let rig = rig().await;
    rig.requestor.engine().throttle().set(0, 3_000_000);
    for scheme in [Scheme::Pipeline, Scheme::Conventional] {
        rig.repair(attempt(&rig, scheme, &[], FlowId(rand::random()), 1)).await.unwrap();
        assert!(rig.repaired(0), "{scheme}");
        remove(&rig.requestor.flows().store, rig.ids[0]);
    }
}

/// Pieces come seconds apart, and whoever waits for them loses patience after a third of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_his_own_throttle_is_not_blamed_and_who_stands_still_is() {
    let rig = Rig::new("rs-2+1", &[16 << 10; 2], 4 << 10).await;
    for node in &rig.nodes {
        node.engine().throttle().set(2 << 10, 0);
    }
    let impatient = || {
        let mut plan = rig.plan(Scheme::Pipeline, &[0], true);
        plan.header.as_mut().unwrap().stall_ms = 300;
        plan
    };
    rig.repair(impatient()).await.unwrap();
    assert!(rig.repaired(0));
    remove(&rig.requestor.flows().store, rig.ids[0]);
    rig.injections[2].stall(1);
    let fault = rig.repair(impatient()).await.unwrap_err();
    assert_eq!((guilty(&fault), fault.cause), (vec![2], Cause::Stalled), "{fault}");
}
