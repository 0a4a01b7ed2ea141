//! What a node keeps of the catalog, over its control port.

use crate::rig::NO_COORDINATOR;
use disk::{CrashDisk, Disk, PowerSwitch};
use model::{ClusterId, NodeId, Position, RecordHead, Stamp, Term};
use node::store::{Store, StoreError};
use node::{Config, Node, NodeError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};
use wire::codec::records::{Begin, Carried};
use wire::proto;
use wire::proto::node_client::NodeClient;

const CLUSTER: ClusterId = ClusterId(77);

/// A change of the term that the node obeys, or of another one.
fn change(term: u64, change: u64) -> Stamp {
    Stamp { term: Term { number: term, word: 7 }, change }
}

/// A record that follows what is at `last`.
fn record(last: &Position, rows: &[u8]) -> (Vec<u8>, Position) {
    let stamp = change(2, last.stamp.change + 1);
    let mut record = RecordHead { stamp, before: last.hash }.encode().to_vec();
    record.extend_from_slice(rows);
    let hash = *blake3::hash(&record).as_bytes();
    ([(record.len() as u64).to_le_bytes().as_slice(), &record].concat(), Position { stamp, hash })
}

/// Framed records, and how far a copy has come after each, beginning before them.
fn chain(records: usize) -> (Vec<Vec<u8>>, Vec<Position>) {
    let mut at = vec![Position { stamp: change(2, 10), hash: [3; 32] }];
    let framed = (0..records).map(|index| {
        let (framed, next) = record(&at[index], &vec![index as u8; 1000 * index]);
        at.push(next);
        framed
    });
    (framed.collect(), at)
}

fn begin(at: Position, snapshot: bool) -> Begin {
    Begin { cluster: CLUSTER, by: change(2, 20), at, snapshot }
}

/// A node of the cluster that obeys term 2.
struct Holder {
    node: Node,
    client: NodeClient<Channel>,
    disk: Arc<dyn Disk>,
}

impl Holder {
    async fn new() -> Holder {
        let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new(&PowerSwitch::new()));
        let holder = Holder::on(disk).await;
        holder.store().welcomed(CLUSTER).unwrap();
        holder.store().hear(change(2, 5)).unwrap();
        holder
    }

    async fn on(disk: Arc<dyn Disk>) -> Holder {
        let start = || node::start(Config::new(NodeId(1), NO_COORDINATOR.into(), disk.clone()));
        let mut node = start().await;
        // Something of an earlier node may hold the store a moment longer.
        for _ in 0..100 {
            let Err(NodeError::Store(StoreError::InUse)) = node else { break };
            tokio::time::sleep(Duration::from_millis(20)).await;
            node = start().await;
        }
        let node = node.unwrap();
        let client = NodeClient::connect(format!("http://{}", node.control_addr())).await.unwrap();
        Holder { node, client, disk }
    }

    fn store(&self) -> Store {
        self.node.flows().store.clone()
    }

    async fn hold(&mut self, messages: Vec<Carried>) -> Result<proto::HeldRecords, Status> {
        let messages: Vec<_> = messages.into_iter().map(proto::RecordsMessage::from).collect();
        self.client.hold_records(tokio_stream::iter(messages)).await.map(tonic::Response::into_inner)
    }

    /// A snapshot, and records that follow it, cut anywhere.
    async fn snapshot(&mut self, at: Position, records: &[Vec<u8>]) -> proto::HeldRecords {
        let pieces = |bytes: &[u8]| -> Vec<Carried> {
            bytes.chunks(99).map(|piece| Carried::Piece(piece.to_vec())).collect()
        };
        let messages = [
            vec![Carried::Begin(begin(at, true))],
            pieces(SNAPSHOT),
            vec![Carried::Begin(begin(at, false))],
            pieces(&records.concat()),
        ];
        self.hold(messages.concat()).await.unwrap()
    }

    /// Begins to send, and leaves it open.
    async fn begin(
        &self,
        messages: Vec<Carried>,
    ) -> (Sender<proto::RecordsMessage>, tokio::task::JoinHandle<Result<proto::HeldRecords, Status>>) {
        let (sender, outgoing) = channel(16);
        for message in messages {
            sender.send(message.into()).await.unwrap();
        }
        let mut client = self.client.clone();
        let call = async move { client.hold_records(ReceiverStream::new(outgoing)).await };
        let call = tokio::spawn(async move { call.await.map(tonic::Response::into_inner) });
        (sender, call)
    }

    /// Until somebody's snapshot is being taken.
    async fn is_taking(&self) {
        until(|| !self.disk.list(Path::new("tmp")).unwrap().is_empty()).await;
    }

    async fn status(&mut self) -> proto::NodeStatus {
        self.client.get_status(proto::Empty {}).await.unwrap().into_inner()
    }

    /// All that is held, as it is sent.
    async fn read(&mut self) -> Vec<Carried> {
        let messages = self.client.read_records(proto::Empty {}).await.unwrap().into_inner();
        messages.map(|message| Carried::try_from(message.unwrap()).unwrap()).collect().await
    }
}

const SNAPSHOT: &[u8] = &[42; 700];

async fn until(holds: impl Fn() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never was so");
}

fn at(position: Position) -> Option<proto::Position> {
    Some(position.into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_is_told_given_back_and_there_after_a_restart() {
    let (records, positions) = chain(4);
    let mut holder = Holder::new().await;
    let status = holder.status().await;
    assert_eq!((status.held, status.answered_ms_ago), (None, None));
    assert_eq!(status.coordinator, NO_COORDINATOR);
    assert_eq!(status.heard, Some(change(2, 5).into()));
    assert!(holder.read().await.is_empty());

    let held = holder.snapshot(positions[0], &records[..2]).await;
    let (first, all) = (records[..2].concat().len() - 16, records.concat().len() - 32);
    let wanted = |last, bytes| proto::HeldRecords {
        last: at(last),
        snapshot_bytes: SNAPSHOT.len() as u64,
        record_bytes: bytes as u64,
    };
    assert_eq!(held, wanted(positions[2], first));
    let more = vec![Carried::Begin(begin(positions[2], false)), Carried::Piece(records[2..].concat())];
    let held = holder.hold(more).await.unwrap();
    assert_eq!(held, wanted(positions[4], all));
    let status = holder.status().await;
    assert_eq!(status.held, Some(held.clone()));
    assert_eq!(status.heard, Some(change(2, 20).into()), "who sends it names the last change");

    let disk = holder.disk.clone();
    holder.node.shutdown().await;
    let mut holder = Holder::on(disk).await;
    assert_eq!(holder.status().await.held, Some(held));
    let by = change(2, 20);
    let begin = |snapshot| Carried::Begin(Begin { cluster: CLUSTER, by, at: positions[0], snapshot });
    let read = holder.read().await;
    let sent =
        [begin(true), Carried::Piece(SNAPSHOT.to_vec()), begin(false), Carried::Piece(records.concat())];
    assert_eq!(read, sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_kept_only_for_whom_the_node_registered_with() {
    let (records, positions) = chain(3);
    let mut holder = Holder::new().await;
    let held = holder.snapshot(positions[0], &records[..2]).await;
    let right = begin(positions[2], false);
    let other_word = Stamp { term: Term { number: 2, word: 8 }, change: 99 };
    for (wrong, code, why) in [
        (Begin { cluster: ClusterId(78), ..right }, Code::PermissionDenied, "this node's cluster"),
        (Begin { by: change(1, 99), ..right }, Code::FailedPrecondition, "is obeyed here"),
        (Begin { by: other_word, ..right }, Code::FailedPrecondition, "is obeyed here"),
        (Begin { by: change(3, 1), ..right }, Code::FailedPrecondition, "registers first"),
    ] {
        for wrong in [wrong, Begin { snapshot: true, ..wrong }] {
            let refused = holder.hold(vec![Carried::Begin(wrong), Carried::Piece(records[2].clone())]).await;
            let refused = refused.unwrap_err();
            assert!(refused.code() == code && refused.message().contains(why), "{refused:?}");
        }
    }
    let status = holder.status().await;
    assert_eq!(status.held, Some(held));
    assert_eq!(status.heard, Some(change(2, 20).into()), "none of them was heard");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_what_does_not_follow_is_told_where_the_holder_is() {
    let (records, positions) = chain(4);
    let mut holder = Holder::new().await;
    let sent = |from: usize| {
        vec![Carried::Begin(begin(positions[from], false)), Carried::Piece(records[from..].concat())]
    };
    assert_eq!(holder.hold(sent(0)).await.unwrap(), proto::HeldRecords::default(), "nothing is held");
    holder.snapshot(positions[0], &records[..2]).await;
    for elsewhere in [0, 1, 3] {
        assert_eq!(holder.hold(sent(elsewhere)).await.unwrap().last, at(positions[2]));
    }
    assert_eq!(holder.hold(sent(2)).await.unwrap().last, at(positions[4]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_make_no_sense_change_nothing() {
    let (records, positions) = chain(4);
    let mut holder = Holder::new().await;
    let held = holder.snapshot(positions[0], &records[..2]).await;
    let begin = |at: usize, snapshot| Carried::Begin(begin(positions[at], snapshot));
    let piece = |bytes: &[u8]| Carried::Piece(bytes.to_vec());
    for wrong in [
        vec![],
        vec![piece(&records[2])],
        vec![begin(2, false), piece(&records[3])],
        vec![begin(2, false), piece(&records[2]), piece(&records[3][..20])],
        vec![begin(2, false), piece(&records[2]), begin(3, false)],
        vec![begin(4, true), piece(SNAPSHOT)],
        vec![begin(4, true), piece(SNAPSHOT), begin(3, false)],
        vec![begin(4, true), piece(SNAPSHOT), begin(4, true)],
    ] {
        let refused = holder.hold(wrong).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        assert_eq!(holder.status().await.held, Some(held.clone()));
    }
    let nothing = proto::RecordsMessage::default();
    let refused = holder.client.hold_records(tokio_stream::iter([nothing])).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_breaks_off_leaves_what_was_held() {
    let (records, positions) = chain(4);
    let mut holder = Holder::new().await;
    let held = holder.snapshot(positions[0], &records[..2]).await;
    let snapshot = vec![Carried::Begin(begin(positions[4], true)), Carried::Piece(SNAPSHOT.to_vec())];
    let half = records[2][..30].to_vec();
    let half = vec![Carried::Begin(begin(positions[2], false)), Carried::Piece(half)];
    for begun in [snapshot, half] {
        let (_sender, call) = holder.begin(begun.clone()).await;
        if let Carried::Begin(Begin { snapshot: true, .. }) = begun[0] {
            holder.is_taking().await;
            let second = holder.hold(begun).await.unwrap_err();
            assert_eq!(second.code(), Code::Unavailable, "one has its turn: {second:?}");
        } else {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        call.abort();
        until(|| holder.store().hold_records(positions[2]).is_ok()).await;
        assert_eq!(holder.status().await.held, Some(held.clone()));
    }
    let more = vec![Carried::Begin(begin(positions[2], false)), Carried::Piece(records[2..].concat())];
    assert_eq!(holder.hold(more).await.unwrap().last, at(positions[4]));
}

/// A coordinator whose successor the node has met does not finish what it began.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_older_life_of_a_coordinator_began_is_not_finished() {
    let (records, positions) = chain(4);
    let mut holder = Holder::new().await;
    let held = holder.snapshot(positions[0], &records[..2]).await;
    let begun = vec![Carried::Begin(begin(positions[4], true)), Carried::Piece(SNAPSHOT.to_vec())];
    let (sender, call) = holder.begin(begun).await;
    holder.is_taking().await;
    holder.store().hear(change(3, 1)).unwrap();
    sender.send(Carried::Begin(begin(positions[4], false)).into()).await.unwrap();
    let refused = call.await.unwrap().unwrap_err();
    assert!(
        refused.code() == Code::FailedPrecondition && refused.message().contains("is obeyed here"),
        "{refused:?}"
    );
    assert_eq!(holder.status().await.held, Some(held));
}
