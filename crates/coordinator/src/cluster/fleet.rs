//! Calls to the nodes.

use super::connection::{Call, Over, connect};
use crate::error::{CoordinatorError, Result};
use catalog::succession::Answer;
use flow::FlowPlan;
use model::{BlockCopy, BlockId, Cause, ClusterId, Fault, NodeId, Position, Stamp};
use plan::decide::World;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use wire::codec::mac::Identified;
use wire::codec::plan::order;
use wire::codec::records::Carried;
use wire::mac::Challenge;
use wire::names::{FOLDERS, FolderDigest, folder_of};
use wire::proto::node_client::NodeClient;
use wire::{limits, proto};

/// A short call (status, deletion, throttle) to a living node takes milliseconds; one that takes this long has failed.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A node that registers waits for its number's process of before to answer, or not to: one that lives takes milliseconds.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// Reading a block of the largest size at 40 MB/s.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(120);

/// A node that keeps records takes the next piece, or syncs the last one, within milliseconds; one that takes so long stands still …
const HOLD_SILENCE: Duration = Duration::from_secs(10);

/// … unless the disk has yet to write what was sent: a snapshot of a million blocks has some hundred megabytes. A disk that turns
/// and is busy writes so much.
const HOLD_BYTES_PER_S: u64 = 4 << 20;

/// Parts of what a node keeps that wait to be written.
const PARTS_AHEAD: usize = 16;

/// Listing the 256 folders of ten million copies, none of whose names is in memory, from a disk that turns.
const DIGEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A driver that says nothing for this long is lost: it reports stalls after [`flow::limits::STALL_MS`] and ends by itself
/// after [`flow::limits::LEASE_MS`]; syncing a block of the largest size to a slow disk is what takes longest.
const DRIVE_SILENCE: Duration = Duration::from_secs(120);

/// Blocks that a node may list for one call, so that a broken node cannot take all memory: 100 TB of small blocks.
const MAX_LISTED_BLOCKS: usize = 10_000_000;

/// On whose word copies are deleted.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Whose copies they are.
    pub cluster: ClusterId,
    /// The change of the catalog that decided it.
    pub by: Stamp,
}

/// How copies are looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Check {
    /// Every byte is read.
    pub verify: bool,
    /// Orders to delete that were decided by this change, or before, are obeyed no more.
    pub fence: Option<Stamp>,
}

/// A copy that its node has, as its sidecar tells.
#[derive(Clone, Debug)]
pub struct Seen {
    /// It.
    pub copy: BlockCopy,
    /// BLAKE3 of its block.
    pub digest: Vec<u8>,
}

/// What a node finds that looks at a copy, every byte of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looked {
    /// It is there, and sound.
    Whole,
    /// It differs from its sidecar, or its sidecar from the block's digest.
    Damaged,
    /// A file of it is not there, or could not be read. Which of both, only a comparison of names tells.
    Unread,
}

/// What a node keeps of the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// How far it goes.
    pub last: Position,
    /// Length of the snapshot.
    pub snapshot_bytes: u64,
    /// Length of the records that follow it.
    pub record_bytes: u64,
}

/// What folders of a node hold.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// Copies of which both files are there.
    pub whole: BTreeSet<BlockCopy>,
    /// Those of which one is.
    pub halves: BTreeSet<BlockCopy>,
}

/// What a coordinator asks of nodes: of daemons over gRPC, or of a cluster within its own process.
#[tonic::async_trait]
pub trait Fleet: Send + Sync + fmt::Debug {
    /// Has a node drive a flow. `progress` hears of slices delivered and wanted. The error's fault names the node as
    /// unreachable if it is.
    async fn drive(
        &self,
        view: &World,
        node: NodeId,
        plan: &FlowPlan,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> std::result::Result<proto::DriveResult, Fault>;

    /// Has a node, and all others that take part in a flow, prepare for it and let go.
    async fn rehearse(&self, view: &World, node: NodeId, plan: &FlowPlan) -> std::result::Result<(), Fault>;

    /// Has a node delete exactly these copies, in the start of its store that the view knows. Returns those that it refused
    /// to, with its reason: all others are not there any more.
    async fn delete(
        &self,
        view: &World,
        node: NodeId,
        order: Order,
        copies: &[BlockCopy],
    ) -> Result<Vec<(BlockCopy, String)>>;

    /// Which of these copies the node has now, in the start of its store that the view knows. It vouches for no other.
    async fn check(&self, view: &World, node: NodeId, copies: &[BlockCopy], how: Check) -> Result<Vec<Seen>>;

    /// Whether neither file of the copy is on the node, as it says now.
    async fn is_absent(&self, view: &World, node: NodeId, copy: BlockCopy) -> Result<bool>;

    /// What answers at that address, if a node of that number does within a bounded time.
    async fn who_answers(&self, node: NodeId, control_addr: &str) -> Option<proto::NodeStatus>;

    /// Asks the process at that address which start of which store it is, with a proof. Returns `None` if nothing answers in time.
    async fn identify(
        &self,
        node: NodeId,
        control_addr: &str,
        challenge: Challenge,
        call: Call,
    ) -> Option<Identified>;

    /// Has the node read its copy, in the start of its store that the view knows, and compare it with the block's `digest`.
    async fn look(
        &self,
        view: &World,
        node: NodeId,
        copy: BlockCopy,
        digest: Option<[u8; 32]>,
    ) -> Result<Looked>;

    /// Every block that a node has, or an error: a part of the list is none.
    async fn list(&self, view: &World, node: NodeId, with_meta: bool) -> Result<Vec<proto::StoredBlock>>;

    /// What the node at that address has heard and keeps of the catalog, if one of that number answers within a bounded time.
    async fn ask(&self, node: NodeId, control_addr: &str) -> Option<Answer> {
        let status = self.who_answers(node, control_addr).await?;
        let held = status.held.and_then(|held| held.last).map(Position::from);
        Some(Answer {
            heard: status.heard.map(Stamp::from).unwrap_or_default(),
            held: held.filter(|held| held.stamp.term.number > 0),
            leader: status.coordinator,
            led_ms_ago: status.answered_ms_ago,
        })
    }

    /// Has a node keep a snapshot or records; returns what it keeps now, durably. A snapshot is whole once what may follow it
    /// has begun: one that breaks off is none.
    async fn hold(&self, view: &World, node: NodeId, carried: mpsc::Receiver<Carried>) -> Result<Held>;

    /// Everything that the node at that address keeps; an error ends it.
    async fn held(&self, node: NodeId, control_addr: &str) -> Result<mpsc::Receiver<Result<Carried>>>;

    /// Digests of what lies in each of the node's folders of blocks now, in the start of its store that the view knows.
    async fn digest_folders(&self, view: &World, node: NodeId) -> Result<Vec<FolderDigest>>;

    /// What these folders hold, in that start of its store; or an error: a part is none.
    async fn list_folders(&self, view: &World, node: NodeId, folders: &BTreeSet<u8>) -> Result<Listed>;

    /// Tells a node what operators want of it.
    async fn tell(&self, view: &World, node: NodeId, wanted: proto::NodeSettings) -> Result<()>;

    /// Passes a command for a task on to a node.
    async fn control_task(
        &self,
        view: &World,
        node: NodeId,
        control: proto::TaskControl,
    ) -> Result<proto::TaskStatus>;
}

/// Daemons: one channel to each, kept.
#[derive(Debug, Default)]
pub struct Grpc {
    channels: Mutex<BTreeMap<NodeId, (String, Channel)>>,
}

impl Grpc {
    /// A client of a node; connects when first used.
    fn client(&self, view: &World, node: NodeId) -> Result<NodeClient<Channel>> {
        self.client_at(node, &view.node(node)?.control_addr, Over::Kept)
    }

    /// Returns a client of a node at the given address.
    fn client_at(&self, node: NodeId, addr: &str, over: Over) -> Result<NodeClient<Channel>> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = channels.get(&node).filter(|(known, _)| known == addr && over == Over::Kept);
        let channel = match kept {
            Some((_, channel)) => channel.clone(),
            None => connect(node, addr)?,
        };
        if over != Over::Once {
            channels.insert(node, (addr.to_owned(), channel.clone()));
        }
        Ok(NodeClient::new(channel)
            .max_decoding_message_size(limits::MAX_CONTROL_BYTES)
            .max_encoding_message_size(limits::MAX_CONTROL_BYTES))
    }

    async fn driven(
        &self,
        view: &World,
        node: NodeId,
        request: proto::DriveRequest,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> std::result::Result<proto::DriveResult, Fault> {
        let lost = |why: String| Fault::new(Cause::Unreachable, why).suspecting(node, node);
        let mut client = self.client(view, node).map_err(|e| lost(e.to_string()))?;
        let answer = tokio::time::timeout(CALL_TIMEOUT, client.drive(request)).await;
        let mut events = match answer {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return Err(lost(format!("{node}: {}", status.message()))),
            Err(_) => return Err(lost(format!("{node} does not answer"))),
        };
        loop {
            let event = match tokio::time::timeout(DRIVE_SILENCE, events.message()).await {
                Ok(Ok(Some(event))) => event,
                Ok(Ok(None)) => return Err(lost(format!("{node} stopped driving the flow"))),
                Ok(Err(status)) => return Err(lost(format!("{node}: {}", status.message()))),
                Err(_) => return Err(lost(format!("{node} is silent"))),
            };
            match event.kind {
                Some(proto::drive_event::Kind::Progress(p)) => progress(p.delivered_slices, p.wanted_slices),
                Some(proto::drive_event::Kind::Finished(result)) => return Ok(result),
                Some(proto::drive_event::Kind::Failed(fault)) => return Err(fault.into()),
                None => {}
            }
        }
    }
}

#[tonic::async_trait]
impl Fleet for Grpc {
    async fn drive(
        &self,
        view: &World,
        node: NodeId,
        plan: &FlowPlan,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> std::result::Result<proto::DriveResult, Fault> {
        self.driven(view, node, order(plan, false), progress).await
    }

    async fn rehearse(&self, view: &World, node: NodeId, plan: &FlowPlan) -> std::result::Result<(), Fault> {
        self.driven(view, node, order(plan, true), &mut |_, _| {}).await.map(|_| ())
    }

    async fn delete(
        &self,
        view: &World,
        node: NodeId,
        order: Order,
        copies: &[BlockCopy],
    ) -> Result<Vec<(BlockCopy, String)>> {
        let mut client = self.client(view, node)?;
        let blocks = copies.iter().map(reference).collect();
        let (store, incarnation) = accepted(view, node)?;
        let (cluster, by) = (order.cluster.to_vec(), Some(order.by.into()));
        let request = proto::DeleteBlocksRequest { cluster, blocks, store, incarnation, by };
        let refused = answered(node, client.delete_blocks(request)).await?.refused;
        let is_of = |copy: &BlockCopy, block: &proto::BlockRef| {
            (block.block.as_slice(), block.generation) == (&copy.block.to_bytes(), copy.generation)
        };
        let named = |refused: proto::RefusedBlock| {
            let block = refused.block.unwrap_or_default();
            copies.iter().find(|copy| is_of(copy, &block)).map(|copy| (*copy, refused.why))
        };
        refused
            .into_iter()
            .map(|refused| named(refused).ok_or_else(|| failed(node, "it refused what it was not asked")))
            .collect()
    }

    async fn check(&self, view: &World, node: NodeId, copies: &[BlockCopy], how: Check) -> Result<Vec<Seen>> {
        let mut client = self.client(view, node)?;
        let (verify, fence) = (how.verify, how.fence.map(Into::into));
        let request = proto::CheckBlocksRequest { verify, fence, ..checking(view, node, copies)? };
        let patience = if verify { VERIFY_TIMEOUT } else { CALL_TIMEOUT };
        let checked = answered_within(patience, node, client.check_blocks(request)).await?.blocks;
        if checked.len() != copies.len() {
            return Err(failed(node, "it checked other blocks than it was asked to"));
        }
        let there = copies.iter().zip(checked).filter(|(_, checked)| checked.there);
        let seen =
            |(copy, checked): (&BlockCopy, proto::CheckedBlock)| Seen { copy: *copy, digest: checked.digest };
        Ok(there.map(seen).collect())
    }

    async fn is_absent(&self, view: &World, node: NodeId, copy: BlockCopy) -> Result<bool> {
        let mut client = self.client(view, node)?;
        let request = checking(view, node, &[copy])?;
        let checked = answered(node, client.check_blocks(request)).await?.blocks;
        Ok(checked.first().is_some_and(|checked| checked.absent))
    }

    async fn look(
        &self,
        view: &World,
        node: NodeId,
        copy: BlockCopy,
        digest: Option<[u8; 32]>,
    ) -> Result<Looked> {
        let mut client = self.client(view, node)?;
        let digest = digest.map(|digest| digest.to_vec()).unwrap_or_default();
        let blocks = vec![proto::BlockRef { digest, ..reference(&copy) }];
        let request = proto::CheckBlocksRequest { blocks, verify: true, ..checking(view, node, &[])? };
        let checked = answered_within(VERIFY_TIMEOUT, node, client.check_blocks(request)).await?.blocks;
        match checked.as_slice() {
            [checked] if checked.damaged => Ok(Looked::Damaged),
            [checked] if checked.there => Ok(Looked::Whole),
            [_] => Ok(Looked::Unread),
            _ => Err(failed(node, "it checked other blocks than it was asked to")),
        }
    }

    async fn who_answers(&self, node: NodeId, control_addr: &str) -> Option<proto::NodeStatus> {
        // Not over the channel that is kept: the question is who has the address now.
        let channel = connect(node, control_addr).ok()?;
        let mut client = NodeClient::new(channel).max_decoding_message_size(limits::MAX_CONTROL_BYTES);
        let answer = answered_within(ANSWER_PATIENCE, node, client.get_status(proto::Empty {})).await.ok()?;
        (answer.node == node.0).then_some(answer)
    }

    async fn identify(
        &self,
        node: NodeId,
        control_addr: &str,
        challenge: Challenge,
        call: Call,
    ) -> Option<Identified> {
        let mut client = self.client_at(node, control_addr, call.over).ok()?;
        let answer = answered_within(call.patience, node, client.identify(proto::Challenge::from(challenge)));
        wire::codec::mac::identified(&answer.await.ok()?)
    }

    async fn list(&self, view: &World, node: NodeId, with_meta: bool) -> Result<Vec<proto::StoredBlock>> {
        let mut client = self.client(view, node)?;
        let stream = answered(node, client.list_blocks(proto::ListBlocksRequest { with_meta })).await?;
        listed(node, stream).await
    }

    async fn digest_folders(&self, view: &World, node: NodeId) -> Result<Vec<FolderDigest>> {
        let mut client = self.client(view, node)?;
        let (store, incarnation) = accepted(view, node)?;
        let request = proto::DigestFoldersRequest { store, incarnation };
        let digests = answered_within(DIGEST_TIMEOUT, node, client.digest_folders(request)).await?.digests;
        let digests =
            digests.into_iter().map(FolderDigest::try_from).collect::<std::result::Result<Vec<_>, _>>();
        let digests = digests.ok().filter(|digests| digests.len() == FOLDERS);
        digests.ok_or_else(|| failed(node, "its digests are none of 256 folders"))
    }

    async fn list_folders(&self, view: &World, node: NodeId, folders: &BTreeSet<u8>) -> Result<Listed> {
        let mut client = self.client(view, node)?;
        let (store, incarnation) = accepted(view, node)?;
        let wanted = folders.iter().copied().collect();
        let request = proto::ListFoldersRequest { store, incarnation, folders: wanted };
        let stream = answered(node, client.list_folders(request)).await?;
        let mut names = Listed::default();
        for listed in listed(node, stream).await? {
            let block = BlockId::from_slice(&listed.block)?;
            if !folders.contains(&folder_of(block)) {
                return Err(failed(node, "it lists other folders than it was asked for"));
            }
            let copies = if listed.unjudged.is_empty() { &mut names.whole } else { &mut names.halves };
            copies.insert(BlockCopy { block, node, generation: listed.generation });
        }
        Ok(names)
    }

    async fn hold(&self, view: &World, node: NodeId, carried: mpsc::Receiver<Carried>) -> Result<Held> {
        let mut client = self.client(view, node)?;
        let sent = Arc::new(watch::Sender::new(0));
        let taken = Arc::clone(&sent);
        let messages = ReceiverStream::new(carried).map(move |part| {
            let bytes = if let Carried::Piece(piece) = &part { piece.len() as u64 } else { 0 };
            taken.send_modify(|sent| *sent += bytes);
            proto::RecordsMessage::from(part)
        });
        let held = answered_while_taking(HOLD_SILENCE, &sent, node, client.hold_records(messages)).await?;
        let last = held.last.map(Position::from).unwrap_or_default();
        Ok(Held { last, snapshot_bytes: held.snapshot_bytes, record_bytes: held.record_bytes })
    }

    async fn held(&self, node: NodeId, control_addr: &str) -> Result<mpsc::Receiver<Result<Carried>>> {
        let mut client = NodeClient::new(connect(node, control_addr)?)
            .max_decoding_message_size(limits::MAX_CONTROL_BYTES);
        let mut messages = answered(node, client.read_records(proto::Empty {})).await?;
        let (parts, receiver) = mpsc::channel(PARTS_AHEAD);
        tokio::spawn(async move {
            loop {
                let part = match tokio::time::timeout(CALL_TIMEOUT, messages.message()).await {
                    Ok(Ok(None)) => return,
                    Ok(Ok(Some(message))) => Carried::try_from(message).map_err(CoordinatorError::Flow),
                    Ok(Err(status)) => Err(failed(node, status.message())),
                    Err(_) => Err(failed(node, "it stopped telling what it keeps")),
                };
                let is_over = part.is_err();
                if parts.send(part).await.is_err() || is_over {
                    return;
                }
            }
        });
        Ok(receiver)
    }

    async fn tell(&self, view: &World, node: NodeId, wanted: proto::NodeSettings) -> Result<()> {
        let mut client = self.client(view, node)?;
        answered(node, client.obey(wanted)).await.map(|_| ())
    }

    async fn control_task(
        &self,
        view: &World,
        node: NodeId,
        control: proto::TaskControl,
    ) -> Result<proto::TaskStatus> {
        let mut client = self.client(view, node)?;
        answered(node, client.control_task(control)).await
    }
}

async fn answered<T>(
    node: NodeId,
    call: impl Future<Output = std::result::Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T> {
    answered_within(CALL_TIMEOUT, node, call).await
}

async fn answered_within<T>(
    patience: Duration,
    node: NodeId,
    call: impl Future<Output = std::result::Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T> {
    match tokio::time::timeout(patience, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(failed(node, status.message())),
        Err(_) => Err(failed(node, "no answer in time")),
    }
}

/// The answer to a call that sends much: `sent` tells how many bytes the node has taken so far, and changes with each piece.
async fn answered_while_taking<T>(
    silence: Duration,
    sent: &watch::Sender<u64>,
    node: NodeId,
    call: impl Future<Output = std::result::Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T> {
    let mut taken = sent.subscribe();
    let mut call = pin!(call);
    loop {
        let bytes = *taken.borrow_and_update();
        let patience = silence + Duration::from_secs(bytes / HOLD_BYTES_PER_S);
        tokio::select! {
            answer = answered_within(patience, node, &mut call) => return answer,
            _ = taken.changed() => {}
        }
    }
}

/// All that a list names, to its end: one that breaks off is none.
async fn listed(
    node: NodeId,
    mut stream: tonic::Streaming<proto::StoredBlock>,
) -> Result<Vec<proto::StoredBlock>> {
    let mut blocks = Vec::new();
    loop {
        match tokio::time::timeout(CALL_TIMEOUT, stream.message()).await {
            Ok(Ok(None)) => return Ok(blocks),
            Ok(Ok(Some(_))) if blocks.len() == MAX_LISTED_BLOCKS => {
                return Err(CoordinatorError::TooMany { what: "blocks of a node", limit: MAX_LISTED_BLOCKS });
            }
            Ok(Ok(Some(block))) => blocks.push(block),
            Ok(Err(status)) => return Err(failed(node, status.message())),
            Err(_) => return Err(failed(node, "it stopped listing its blocks")),
        }
    }
}

/// The store and the start of it that the view knows, as messages name them.
fn accepted(view: &World, node: NodeId) -> Result<(Vec<u8>, u64)> {
    let accepted = view.node(node)?.store;
    let (store, incarnation) = accepted.ok_or_else(|| failed(node, "it never registered"))?;
    Ok((store.to_vec(), incarnation.0))
}

/// Asks for these copies in the start of the node's store that the view knows.
fn checking(view: &World, node: NodeId, copies: &[BlockCopy]) -> Result<proto::CheckBlocksRequest> {
    let (store, incarnation) = accepted(view, node)?;
    let blocks = copies.iter().map(reference).collect();
    Ok(proto::CheckBlocksRequest { blocks, store, incarnation, ..Default::default() })
}

/// A copy, as messages name it.
pub(crate) fn reference(copy: &BlockCopy) -> proto::BlockRef {
    proto::BlockRef { block: copy.block.to_vec(), generation: copy.generation, ..Default::default() }
}

fn failed(node: NodeId, why: &str) -> CoordinatorError {
    CoordinatorError::Node { node, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::{Response, Status};

    /// Longer than a busy machine lets a thread wait for its turn.
    const SILENCE: Duration = Duration::from_secs(2);

    type Answer = std::result::Result<Response<()>, Status>;

    async fn asked(bytes: u64, call: impl Future<Output = Answer>) -> Result<()> {
        answered_while_taking(SILENCE, &watch::Sender::new(bytes), NodeId(1), call).await
    }

    #[tokio::test]
    async fn who_takes_nothing_of_a_snapshot_is_given_up_and_who_takes_it_slowly_is_not() {
        let sent = watch::Sender::new(0);
        let pieces = async {
            for _ in 0..15 {
                tokio::time::sleep(SILENCE / 10).await;
                sent.send_modify(|bytes| *bytes += 1);
            }
            Answer::Ok(Response::new(()))
        };
        let slow = answered_while_taking(SILENCE, &sent, NodeId(1), pieces);
        let syncing = asked(3 * HOLD_BYTES_PER_S, async {
            tokio::time::sleep(SILENCE * 3 / 2).await;
            Ok(Response::new(()))
        });
        let stuck = asked(HOLD_BYTES_PER_S / 2, std::future::pending());
        let stuck = tokio::time::timeout(3 * SILENCE, stuck);
        let (slow, syncing, stuck) = tokio::join!(slow, syncing, stuck);
        slow.unwrap();
        syncing.unwrap();
        stuck.expect("it is given up").unwrap_err();
    }
}
