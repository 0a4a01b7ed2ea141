//! Control streams: each flow is a session, and none minds what becomes of another.

use crate::rig::{Rig, read, suspect};
use flow::{Scheme, limits};
use model::{Cause, Fault};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use wire::codec::plan;
use wire::proto;
use wire::proto::driver_message::Kind as ToStage;
use wire::proto::stage_message::Kind as FromStage;

async fn rig() -> Rig {
    Rig::new("rs-4+2", &[300_000; 4], 32 * 1024).await
}

/// Far less than a lease, after which stages would end by themselves.
const SOON: Duration = Duration::from_millis(limits::LEASE_MS as u64 / 4);

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn stages(rig: &Rig) -> usize {
    rig.nodes.iter().chain([&rig.requestor]).map(|n| n.engine().running_stages()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_that_is_dropped_ends_everywhere_and_no_other_one_does() {
    let rig = rig().await;
    rig.injections[2].stall(3);
    let engine = rig.requestor.engine().clone();
    let stuck = plan::decode(&rig.plan(Scheme::Pipeline, &[0], true)).unwrap();
    let io = exec::DriverIo::default();
    let stuck = tokio::spawn(async move { engine.drive(stuck, io, |_| {}).await });
    until("it begins", || stages(&rig) > 0).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!stuck.is_finished() && stages(&rig) >= 2, "it stands still");
    // By the same control streams.
    rig.repair(rig.plan(Scheme::Pipeline, &[1], true)).await.unwrap();
    assert!(rig.repaired(1) && !stuck.is_finished());
    stuck.abort();
    until("its stages end with it", || stages(&rig) == 0).await;
    rig.repair(rig.plan(Scheme::Pipeline, &[0], true)).await.unwrap();
    assert!(rig.repaired(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_flows_share_a_control_stream() {
    let rig = rig().await;
    for _ in 0..3 {
        let flows = (0..40).map(|number| {
            let plan = rig.read_plan(Scheme::Pipeline, &[(number % 4, 0)], (0, 10));
            let prepared_only = plan::decode(&rig.plan(Scheme::Pipeline, &[number % 4], true)).unwrap();
            let engine = rig.requestor.engine().clone();
            async move {
                let member = usize::from(number % 4);
                // Reads by a client have streams of their own.
                match number % 2 {
                    0 => read(plan, 1, 32 * 1024).await.map(|mut rows| (member, rows.remove(0))),
                    _ => engine.rehearse(&prepared_only).await.map(|()| (member, Vec::new())),
                }
            }
        });
        let flows: Vec<_> = flows.map(tokio::spawn).collect();
        for flow in flows {
            let (member, bytes) = flow.await.unwrap().unwrap();
            assert!(bytes.is_empty() || bytes == rig.blocks[member]);
        }
    }
    until("all let go", || stages(&rig) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_comes_back_is_called_again() {
    let mut rig = rig().await;
    rig.repair(rig.plan(Scheme::Pipeline, &[0], true)).await.unwrap();
    rig.restart(1).await;
    // The end of the old stream may be heard a moment later than the new node is there.
    let mut tries = 0;
    while let Err(fault) = rig.repair(rig.plan(Scheme::Pipeline, &[2], true)).await {
        tries += 1;
        assert!(tries < 3 && fault.cause == Cause::Unreachable, "{fault}");
        assert_eq!(suspect(&fault), Some((2, 2)), "{fault}");
    }
    assert!(rig.repaired(2));
}

/// What a driver that does not keep to the protocol gets to hear.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_session_refuses_leaves_the_others_alone() {
    let rig = rig().await;
    let prepare = crate::rig::prepare(&rig.plan(Scheme::Pipeline, &[0], true), 2);
    let addr = format!("http://{}", rig.nodes[1].control_addr());
    let mut client = proto::node_client::NodeClient::connect(addr).await.unwrap();
    let (say, said) = mpsc::channel(16);
    let mut answers = client.run_stages(ReceiverStream::new(said)).await.unwrap().into_inner();
    let tell =
        async |session, kind| say.send(proto::DriverMessage { session, kind: Some(kind) }).await.unwrap();
    let mut hear = async || {
        let answer =
            tokio::time::timeout(SOON, answers.message()).await.expect("an answer").unwrap().unwrap();
        (answer.session, answer.kind.unwrap())
    };
    let running = || rig.nodes[1].engine().running_stages();

    tell(7, ToStage::Prepare(prepare.clone())).await;
    assert!(matches!(hear().await, (7, FromStage::Prepared(_))));
    // Of a session that is not there.
    tell(9, ToStage::Finish(proto::Finish {})).await;
    tell(9, ToStage::Release(proto::Empty {})).await;
    tell(7, ToStage::Prepare(prepare.clone())).await;
    let (7, FromStage::Failed(twice)) = hear().await else { panic!("a second Prepare") };
    assert_eq!(Fault::from(twice).cause, Cause::Invalid);
    let empty = proto::Prepare { stages: Vec::new(), ..prepare.clone() };
    tell(8, ToStage::Prepare(empty)).await;
    let (8, FromStage::Failed(empty)) = hear().await else { panic!("a Prepare of nothing") };
    assert_eq!(Fault::from(empty).cause, Cause::Invalid);
    let mut beyond = prepare.clone();
    beyond.ends[0].extents[0] = rig.geometry.symbol_bytes() + 1;
    tell(8, ToStage::Prepare(beyond)).await;
    let (8, FromStage::Failed(beyond)) = hear().await else { panic!("a row beyond its symbol") };
    assert_eq!(Fault::from(beyond).cause, Cause::Invalid);
    assert_eq!(running(), 1);

    let beyond = proto::Grants { grants: vec![proto::Grant { lane: 0, first: 5, count: 6 }] };
    tell(7, ToStage::Grants(beyond)).await;
    let (7, FromStage::Failed(beyond)) = hear().await else { panic!("a grant beyond the block") };
    assert_eq!(Fault::from(beyond).cause, Cause::Invalid);
    assert!(matches!(hear().await, (7, FromStage::Ended(_))));
    until("its stage ends", || running() == 0).await;

    // The stream's end is that of all its sessions.
    let other = crate::rig::prepare(&rig.plan(Scheme::Pipeline, &[0], true), 2);
    tell(10, ToStage::Prepare(other)).await;
    assert!(matches!(hear().await, (10, FromStage::Prepared(_))));
    assert_eq!(running(), 1);
    drop(say);
    until("its stage ends with the stream", || running() == 0).await;
}

/// A stage that waits says so again and again; that is no sign of life of its driver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_driver_loses_its_stages_though_they_report() {
    let rig = rig().await;
    let mut prepare = crate::rig::prepare(&rig.plan(Scheme::Pipeline, &[0], true), 0);
    let header = prepare.header.as_mut().unwrap();
    (header.lease_ms, header.stall_ms) = (1_000, 200);
    // Whoever is to send to it is never prepared.
    prepare.grants = vec![proto::Grant { lane: 0, first: 0, count: 10 }];
    let addr = format!("http://{}", rig.requestor.control_addr());
    let mut client = proto::node_client::NodeClient::connect(addr).await.unwrap();
    let (say, said) = mpsc::channel(16);
    let mut answers = client.run_stages(ReceiverStream::new(said)).await.unwrap().into_inner();
    let message = proto::DriverMessage { session: 1, kind: Some(ToStage::Prepare(prepare)) };
    say.send(message).await.unwrap();
    let started = Instant::now();
    let mut waited = 0;
    let why = loop {
        let answer = tokio::time::timeout(SOON, answers.message()).await.expect("the lease ends it");
        match answer.unwrap().unwrap().kind.unwrap() {
            FromStage::Waiting(_) => {
                waited += 1;
                assert!(started.elapsed() < SOON, "it still runs after {waited} reports");
            }
            FromStage::Failed(fault) => break Fault::from(fault),
            _ => {}
        }
    };
    assert_eq!(why.cause, Cause::Aborted, "{why}");
    assert!(waited > 1, "it reported {waited} times in {:?}", started.elapsed());
    until("its stage ends", || rig.requestor.engine().running_stages() == 0).await;
}
