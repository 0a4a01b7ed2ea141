//! What goes wrong is gone around, or said.

use crate::datanode::STAMP;
use crate::rig::{Answer, GROUP, Rig, Wish, answer, frame};
use model::Budgets;
use model::hdfs::FOREIGN_NUMBER;
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::proto::BudgetChange;

const CELL: u64 = 64 << 10;

async fn rs_6_3(cells: u64) -> Rig {
    Rig::new(("rs", 6, 3), CELL, 6 * CELL * cells).await
}

async fn refused(rig: &Rig, wish: &Wish) -> (u16, String) {
    match rig.ask(wish).await {
        Answer::Refused(code, why, 0) => (code, why),
        Answer::Refused(code, why, came) => panic!("error {code} after {came} bytes: {why}"),
        Answer::Bytes(_) => panic!("it was answered"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_bytes_absent_blocks_and_wrong_lengths_are_gone_around() {
    let rig = rs_6_3(4).await;
    // Whoever would help first: three of eight helpers cannot, five are too few; with two it can be done.
    let flipped = rig.datanodes[1].block(GROUP + 1);
    let mut bytes = fs::read(&flipped).unwrap();
    bytes[150_000] ^= 1;
    fs::write(&flipped, &bytes).unwrap();
    rig.brings(&rig.all_of(&[0])).await;
    fs::remove_file(rig.datanodes[2].block(GROUP + 2)).unwrap();
    rig.brings(&rig.all_of(&[0])).await;
    fs::write(&flipped, &rig.blocks[1][..100_000]).unwrap();
    rig.brings(&rig.all_of(&[0])).await;
    fs::remove_file(rig.datanodes[5].meta(GROUP + 5, STAMP)).unwrap();
    let answer = rig.ask(&rig.all_of(&[0])).await;
    assert!(matches!(answer, Answer::Refused(3 | 5, ..)), "{answer:?}");
}

/// Whether the flow succeeds or not; a block that is absent or short, or whose checksums cannot be read, is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_with_wrong_bytes_are_named_and_no_others() {
    let rig = rs_6_3(4).await;
    let wish = rig.all_of(&[0]);
    assert_eq!(rig.ask_for_all(&wish).await, (rig.expected(&wish), vec![]));
    fs::remove_file(rig.datanodes[2].block(GROUP + 2)).unwrap();
    assert_eq!(rig.ask_for_all(&wish).await, (rig.expected(&wish), vec![]));
    fs::write(rig.datanodes[2].block(GROUP + 2), &rig.blocks[2]).unwrap();
    fs::write(rig.datanodes[2].meta(GROUP + 2, STAMP), [0, 1, 0, 0, 0, 2, 0]).unwrap();
    assert_eq!(rig.ask_for_all(&wish).await, (rig.expected(&wish), vec![]));
    let flip = |member: usize| {
        let mut bytes = rig.blocks[member].clone();
        bytes[150_000] ^= 1;
        fs::write(rig.datanodes[member].block(GROUP + member as i64), &bytes).unwrap();
    };
    flip(1);
    assert_eq!(rig.ask_for_all(&wish).await, (rig.expected(&wish), vec![1]));
    (3..9).for_each(flip);
    let (answer, corrupt) = rig.ask_for_all(&wish).await;
    assert!(matches!(answer, Answer::Refused(3 | 5, ..)), "{answer:?}");
    // It knows of the one from before; two more, and too few are left.
    assert!(corrupt.len() > 1 && corrupt.iter().all(|member| *member != 0 && *member != 2), "{corrupt:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_helper_that_ends_in_the_middle_is_gone_around() {
    let mut rig = rs_6_3(64).await;
    // 4 MiB of each, at a rate that takes seconds.
    rig.throttles.iter().for_each(|throttle| throttle.set(2 << 20, 0));
    let mut wish = rig.all_of(&[0, 7]);
    wish.scheme = "pipeline";
    // Six of these seven help.
    wish.living.truncate(7);
    let mut stream = TcpStream::connect(rig.gateway.addr()).await.unwrap();
    stream.write_all(&rig.request(&wish)).await.unwrap();
    let mut come: Vec<Vec<u8>> = vec![Vec::new(); 2];
    let (kind, payload) = frame(&mut stream).await;
    assert_eq!(kind, 1);
    let each = (payload.len() - 12) / 2;
    come.iter_mut().zip(payload[12..].chunks(each)).for_each(|(to, bytes)| to.extend(bytes));
    let busy = |helper: &Option<node::hdfs::Lender>| {
        helper.as_ref().is_some_and(|h| h.engine().running_stages() > 0)
    };
    let ended = rig.helpers.iter().position(busy).unwrap();
    drop(rig.helpers[ended].take());
    rig.throttles.iter().for_each(|throttle| throttle.set(0, 0));
    let all = tokio::time::timeout(Duration::from_secs(60), answer(stream, come, 0)).await.unwrap();
    assert!(matches!(all, Answer::Bytes(_)), "{all:?}");
    assert!(all == rig.expected(&wish), "other bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_can_answer_has_its_code() {
    let mut rig = rs_6_3(1).await;
    let mut few = rig.all_of(&[0]);
    few.living.truncate(5);
    let (code, why) = refused(&rig, &few).await;
    assert_eq!(code, 3, "{why}");
    let mut unknown = rig.all_of(&[0]);
    unknown.scheme = "by magic";
    assert_eq!(refused(&rig, &unknown).await.0, 3);
    let mut beyond = rig.all_of(&[0]);
    beyond.range.end += 1;
    assert_eq!(refused(&rig, &beyond).await.0, 1);
    rig.policy.0 = "lrc";
    assert_eq!(refused(&rig, &rig.all_of(&[0])).await.0, 2);
    rig.policy.0 = "rs";

    // Nonsense is answered, or the connection is closed.
    let mut stream = TcpStream::connect(rig.gateway.addr()).await.unwrap();
    stream.write_all(&[7; 64]).await.unwrap();
    let (kind, payload) = frame(&mut stream).await;
    assert_eq!((kind, &payload[..2]), (3, &[0, 1][..]));
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    rig.brings(&rig.all_of(&[0])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_coordinator_keeps_nothing_of_helpers_and_may_be_lost_and_come_back() {
    let mut rig = rs_6_3(1).await;
    let coordinator = rig.coordinator.take().unwrap();
    let address = coordinator.local_addr();
    coordinator.shutdown().await;
    let (code, why) = refused(&rig, &rig.all_of(&[0])).await;
    assert_eq!(code, 4, "{why}");
    // Another one, with an empty folder.
    let disk = disk::CrashDisk::new(&disk::PowerSwitch::new());
    let mut config = coordinator::Config::new(address, std::sync::Arc::new(disk));
    config.heartbeat_ms = 100;
    rig.coordinator = Some(coordinator::start(config).await.unwrap());
    rig.until_known().await;
    rig.brings(&rig.all_of(&[3])).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helpers_are_no_nodes_of_the_cluster_and_obey_its_budgets() {
    let rig = rs_6_3(64).await;
    let address = rig.coordinator.as_ref().unwrap().local_addr().to_string();
    let client = client::Client::connect(&address).await.unwrap();
    let status = client.status().await.unwrap();
    assert!(status.nodes.is_empty());
    let told: BTreeSet<&[u8]> = status.lenders.iter().map(|lender| lender.datanode.as_slice()).collect();
    assert_eq!((told.len(), status.lenders.iter().all(|lender| lender.living)), (rig.helpers.len(), true));
    assert!(rig.helpers.iter().flatten().all(|helper| helper.number().0 & FOREIGN_NUMBER != 0));

    // Clients may read next to nothing.
    let change = BudgetChange { client_bytes_per_s: Some(1), ..Default::default() };
    client.budgets(change).await.unwrap();
    let budgets = Budgets { client: 1, ..Budgets::default() };
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    for helper in rig.helpers.iter().flatten() {
        while helper.engine().throttle().budgets() != budgets {
            assert!(tokio::time::Instant::now() < deadline, "{} has not heard of it", helper.number());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let ask = async |rebuilds: bool| {
        let mut stream = TcpStream::connect(rig.gateway.addr()).await.unwrap();
        let wish = Wish { rebuilds, ..rig.all_of(&[0]) };
        stream.write_all(&rig.request(&wish)).await.unwrap();
        answer(stream, vec![Vec::new()], 0).await
    };
    let rebuilt = tokio::time::timeout(Duration::from_secs(20), ask(true)).await.unwrap();
    assert!(matches!(rebuilt, Answer::Bytes(bytes) if bytes[0] == rig.blocks[0]));
    assert!(
        tokio::time::timeout(Duration::from_secs(2), ask(false)).await.is_err(),
        "it is charged to clients"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_goes_ends_the_flow() {
    let rig = rs_6_3(64).await;
    rig.throttles.iter().for_each(|throttle| throttle.set(1 << 20, 0));
    let mut stream = TcpStream::connect(rig.gateway.addr()).await.unwrap();
    stream.write_all(&rig.request(&rig.all_of(&[0]))).await.unwrap();
    frame(&mut stream).await;
    let running = || -> usize { rig.helpers.iter().flatten().map(|h| h.engine().running_stages()).sum() };
    assert!(running() > 0);
    drop(stream);
    // Far less than the flow would take, or its lease.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(3);
    while running() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "{} stages run on", running());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
