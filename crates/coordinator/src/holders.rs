//! Records at other nodes: three of them keep a snapshot of the catalog and every change since, so that a coordinator whose
//! disk is lost, or was set back, goes on where it was (HEALING.md, "Terms, records, holders").
//!
//! ```text
//!   catalog ── changes in groups ──▶ node, synced ─▶ how far it is ─▶ what destroys, and waited for that, may go
//!            ╲ a snapshot: to one that is new, has fallen behind, or whose records have grown ╱
//! ```

use crate::clock::{self, Began};
use crate::cluster::{Cluster, Held};
use crate::error::{CoordinatorError, Result};
use crate::records::Records;
use catalog::rows::{Doubt, DoubtRow};
use catalog::succession::HOLDERS_NEEDED;
use catalog::{Catalog, SafeMode};
use model::{NodeId, Position, Stamp};
use plan::decide::World;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use wire::codec::records::{Begin, Carried};
use worker::{Step, Task, Worker};

/// So many nodes keep the records, of different racks where there are so many: two may be lost with the coordinator.
const HOLDERS: usize = 3;

/// Records that are sent and synced together. Nobody waits for them, and a sync of a disk takes some milliseconds.
const GROUP: Duration = Duration::from_millis(100);

/// Where changes wait to be kept, they wait for the sync, not for company.
const GROUP_AWAITED: Duration = Duration::from_millis(2);

/// Bytes of records in one call; they are as many as there are while the last ones are synced.
const GROUP_BYTES: usize = 4 << 20;

/// Bytes of a piece of records or of a snapshot.
const PIECE_BYTES: usize = 256 << 10;

/// Pieces that wait for a slow node.
const PIECES_AHEAD: usize = 4;

/// A node begins anew when its records exceed half of its snapshot, and this: small catalogs change much for their size.
const MIN_RECORD_BYTES: u64 = 4 << 20;

/// A group is on its way for less than this, on disks and links that are well; then it is looked anew who can take it.
const GROUP_PATIENCE: Duration = Duration::from_secs(1);

/// Whoever waits for a change to be kept is answered after this long in any case: the change is made, its catalog has it. A node
/// that stands still is found out in ten seconds, and another one keeps the records then.
const KEPT_PATIENCE: Duration = Duration::from_secs(15);

/// Who keeps the records, and how far they are.
#[derive(Debug)]
pub(crate) struct Holders {
    records: Records,
    cluster: Arc<Cluster>,
    /// Of each node what it said last.
    held: Mutex<BTreeMap<NodeId, Held>>,
    /// Changes up to this one are on enough of them.
    kept: watch::Sender<Stamp>,
    /// Changes are not acknowledged before they are.
    are_awaited: bool,
}

/// A node that failed to keep them is not asked again for so long, if others can.
const SHUN: Duration = Duration::from_secs(60);

/// When nothing has changed they are looked after this often.
const IDLE: Duration = Duration::from_secs(1);

/// Nodes to which is sent what they lack, each by a task of its own. One that stands still is waited for by nobody: rounds begin
/// and end meanwhile.
#[derive(Default)]
struct Feeding {
    tasks: JoinSet<Result<Held>>,
    nodes: BTreeMap<Id, NodeId>,
    /// What came of those that have ended and that no round has looked at.
    ended: VecDeque<Fed>,
}

/// What came of bringing a node up to date.
type Fed = (NodeId, Result<Held>);

/// What a round waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Enough of the nodes have what there was when it began.
    Enough,
    /// All of them have.
    All,
}

/// Sends them.
pub(crate) struct Keeper {
    holders: Arc<Holders>,
    feeding: Feeding,
    /// Nodes that failed, and when.
    shunned: BTreeMap<NodeId, Began>,
    /// What was so in the last round, and when that was.
    last: Option<(u64, BTreeSet<NodeId>, Began)>,
}

/// What came of a round.
struct Round {
    holders: Vec<NodeId>,
    failures: Vec<(NodeId, CoordinatorError)>,
}

impl Keeper {
    pub fn new(holders: Arc<Holders>) -> Keeper {
        Keeper { holders, feeding: Feeding::default(), shunned: BTreeMap::new(), last: None }
    }
}

impl Feeding {
    fn is_busy(&self, node: NodeId) -> bool {
        self.nodes.values().any(|busy| *busy == node)
    }

    fn begin(&mut self, node: NodeId, feed: impl Future<Output = Result<Held>> + Send + 'static) {
        let id = self.tasks.spawn(feed).id();
        self.nodes.insert(id, node);
    }

    /// What came of the next one that ends; `None` if none is under way.
    async fn next(&mut self) -> Option<Fed> {
        if !self.has_ended() {
            let ended = self.tasks.join_next_with_id().await?;
            self.take(ended);
        }
        self.ended.pop_front()
    }

    /// Whether any has ended since a round looked.
    fn has_ended(&mut self) -> bool {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.take(ended);
        }
        !self.ended.is_empty()
    }

    fn take(&mut self, ended: std::result::Result<(Id, Result<Held>), JoinError>) {
        let (id, fed) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), Err(CoordinatorError::Bug(error.to_string()))),
        };
        self.ended.extend(self.nodes.remove(&id).map(|node| (node, fed)));
    }
}

impl Holders {
    pub fn new(records: Records, cluster: Arc<Cluster>, are_awaited: bool) -> Holders {
        let (held, kept) = (Mutex::default(), watch::Sender::new(Stamp::default()));
        Holders { records, cluster, held, kept, are_awaited }
    }

    /// Whether everything up to this change is on enough nodes; a group of changes that is under way is waited for.
    pub async fn have_soon(&self, change: Stamp) -> bool {
        let mut kept = self.kept.subscribe();
        let waited = clock::within(GROUP_PATIENCE, kept.wait_for(|kept| *kept >= change)).await;
        matches!(waited, Some(Ok(_)))
    }

    /// The last change, as nodes are told: where changes wait to be kept, those that do not are nobody's loss, and no node is to
    /// miss them in the next life of a coordinator.
    pub async fn word(&self) -> Result<Stamp> {
        let last = self.records.run(|catalog| catalog.last_change()).await?;
        let begun = Stamp { change: 0, ..last };
        Ok(if self.are_awaited { begun.max(*self.kept.borrow()) } else { last })
    }

    /// Those that keep the records get what they lack now.
    pub async fn catch_up(self: &Arc<Self>) -> Result<()> {
        match self.round(&mut Feeding::default(), &BTreeSet::new(), Until::All).await?.failures.pop() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// What was changed so far is kept by enough nodes when this returns, if the cluster is set so.
    ///
    /// # Errors
    /// [`CoordinatorError::NotKept`] after a bounded time.
    pub async fn acknowledge(&self) -> Result<()> {
        if !self.are_awaited {
            return Ok(());
        }
        let change = self.records.run(|catalog| catalog.last_change()).await?;
        let mut kept = self.kept.subscribe();
        let waited = clock::within(KEPT_PATIENCE, kept.wait_for(|kept| *kept >= change)).await;
        match waited {
            Some(Ok(_)) => Ok(()),
            _ => Err(CoordinatorError::NotKept),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to bring each of them up to date that is not being brought so already, and notes who they are.
    async fn round(
        self: &Arc<Self>,
        feeding: &mut Feeding,
        shunned: &BTreeSet<NodeId>,
        until: Until,
    ) -> Result<Round> {
        let of_now = |catalog: &Catalog| Ok((catalog.holders()?, catalog.last_change()?));
        let (noted, last) = self.records.run(of_now).await?;
        let view = self.cluster.view();
        let mut failures = Vec::new();
        // Those that have ended since the last round are free again.
        feeding.has_ended();
        for ended in feeding.ended.drain(..) {
            failures.extend(self.fed(ended, &view, &noted));
        }
        let mut may_live = self.cluster.perhaps_living(&view);
        let is_shunned = |node: &NodeId| shunned.contains(node) || failures.iter().any(|(of, _)| of == node);
        if may_live.iter().filter(|node| !is_shunned(node)).count() >= HOLDERS_NEEDED {
            may_live.retain(|node| !is_shunned(node));
        }
        let chosen = choose(&view, &may_live, &noted);
        let living = view.living();
        for &node in chosen.iter().filter(|node| living.contains(node)) {
            let has_all = self.lock().get(&node).is_some_and(|held| held.last.stamp >= last);
            if !has_all && !feeding.is_busy(node) {
                let (holders, view) = (Arc::clone(self), view.clone());
                feeding.begin(node, async move { holders.feed(&view, node, last).await });
            }
        }
        let began = Began::now();
        while until == Until::All || *self.kept.borrow() < last {
            let patience = match until {
                Until::All => Duration::MAX,
                Until::Enough => GROUP_PATIENCE.saturating_sub(began.elapsed()),
            };
            let Some(Some(ended)) = clock::within(patience, feeding.next()).await else { break };
            failures.extend(self.fed(ended, &view, &noted));
        }
        let has_records = |node: &NodeId| noted.contains(node) || self.lock().contains_key(node);
        let mut holders: Vec<NodeId> = chosen.into_iter().filter(has_records).collect();
        // Those that are away keep what they have until others have it.
        let away: Vec<NodeId> = noted.iter().copied().filter(|node| !holders.contains(node)).collect();
        holders.extend(away.into_iter().take(HOLDERS.saturating_sub(holders.len())));
        holders.sort();
        // Whoever asks enough of those that are noted is to hear of everything that counts as kept.
        let have_kept = self.far(&view, &holders).unwrap_or_default() >= *self.kept.borrow();
        // While it is in doubt whether they have something later, those that were noted are waited for.
        if !self.is_in_doubt(&view, &noted).await? && holders != noted && have_kept {
            tracing::info!("the catalog's records are kept by {}", names(&holders));
            let row = holders.clone();
            self.records.run(move |catalog| catalog.set_holders(&row)).await?;
        }
        self.look(&view, if have_kept { &holders } else { &noted });
        Ok(Round { holders, failures })
    }

    /// Notes what came of bringing a node up to date. Returns why it failed, if it did.
    fn fed(&self, (node, fed): Fed, view: &World, noted: &[NodeId]) -> Option<(NodeId, CoordinatorError)> {
        match fed {
            // At once: who is slow is not waited for by those who wait for two.
            Ok(now) => {
                self.lock().insert(node, now);
                self.look(view, noted);
                None
            }
            Err(error) => {
                self.lock().remove(&node);
                Some((node, error))
            }
        }
    }

    /// Whether too few had answered when this coordinator began, and still have. Who has nothing that is not known here agrees.
    async fn is_in_doubt(&self, view: &World, noted: &[NodeId]) -> Result<bool> {
        let Some(SafeMode::Doubt(DoubtRow { why: Doubt::FewHolders { wanted, .. }, .. })) =
            self.records.run(|catalog| catalog.safe_mode()).await?
        else {
            return Ok(false);
        };
        // Some of them may have been forgotten since: those are gone by an operator's word.
        let wanted = wanted.min(noted.len().max(1) as u32);
        let mut answered = 0;
        for &node in noted.iter().filter(|node| view.node(**node).is_ok_and(|facts| facts.is_living)) {
            let addr = &view.node(node)?.control_addr;
            let answer = self.cluster.fleet.ask(node, addr).await;
            if let Some(held) = answer.and_then(|answer| answer.held) {
                let knows = move |catalog: &Catalog| catalog.remembers(held.stamp);
                answered += u32::from(self.records.run(knows).await?);
            }
        }
        let now_ms = self.cluster.clock.now_ms();
        if answered < wanted {
            self.records.run(move |c| c.doubt(Doubt::FewHolders { answered, wanted }, now_ms)).await?;
            return Ok(true);
        }
        self.records.run(|catalog| catalog.doubt_no_more()).await?;
        tracing::info!(
            answered,
            "nodes that keep the catalog's records have answered: nothing is missing here"
        );
        Ok(false)
    }

    /// Notes how far enough of them are.
    fn look(&self, view: &World, holders: &[NodeId]) {
        if let Some(kept) = self.far(view, holders) {
            self.kept.send_if_modified(|last| {
                let is_further = kept > *last;
                *last = kept.max(*last);
                is_further
            });
        }
    }

    /// How far enough of them are; `None` if so many have said nothing.
    fn far(&self, view: &World, holders: &[NodeId]) -> Option<Stamp> {
        let stays = view.nodes.iter().filter(|(_, node)| !node.is_leaving).count();
        // Of fewer nodes than there should be holders, all that live.
        let needed = if stays < HOLDERS { view.living().len().min(stays).max(1) } else { HOLDERS_NEEDED };
        let held = self.lock();
        let mut far: Vec<Stamp> =
            holders.iter().filter_map(|node| held.get(node)).map(|held| held.last.stamp).collect();
        far.sort_by(|a, b| b.cmp(a));
        far.get(needed - 1).copied()
    }

    /// Sends a node what it lacks of the changes until `last`: what comes meanwhile is the next round's, or none would end.
    async fn feed(&self, view: &World, node: NodeId, last: Stamp) -> Result<Held> {
        let known = self.lock().get(&node).copied();
        let mut held = match known {
            Some(held) => held,
            None => {
                let addr = &view.node(node)?.control_addr;
                let answer = self.cluster.fleet.ask(node, addr).await;
                let answer = answer.ok_or_else(|| CoordinatorError::Node {
                    node,
                    why: "it does not say what it keeps of the catalog".to_owned(),
                })?;
                match answer.held {
                    Some(last) => {
                        self.refuse_another_history(node, last.stamp).await?;
                        Held { last, ..Held::default() }
                    }
                    None => return self.send_snapshot(view, node).await,
                }
            }
        };
        loop {
            let from = held.last;
            let after = self.records.run(move |catalog| catalog.records_after(&from, GROUP_BYTES)).await?;
            let Some(records) = after else { return self.send_snapshot(view, node).await };
            let Some(at) = records.last().map(|record| record.at) else { break };
            held = self.send_records(view, node, from, records).await?;
            if held.last != at {
                return self.send_snapshot(view, node).await;
            }
            if at.stamp >= last {
                break;
            }
        }
        if held.record_bytes > MIN_RECORD_BYTES.max(held.snapshot_bytes / 2) {
            return self.send_snapshot(view, node).await;
        }
        Ok(held)
    }

    /// While the history may be broken, what a node keeps of another one is not overwritten: it may be all that is left of it.
    async fn refuse_another_history(&self, node: NodeId, held: Stamp) -> Result<()> {
        let is_lost =
            move |catalog: &Catalog| Ok(catalog.safe_mode()?.is_some() && !catalog.remembers(held)?);
        match self.records.run(is_lost).await? {
            true => Err(CoordinatorError::Node {
                node,
                why: format!(
                    "it keeps records up to change {held}, which are not of this history; they stay as they are"
                ),
            }),
            false => Ok(()),
        }
    }

    async fn send_records(
        &self,
        view: &World,
        node: NodeId,
        after: Position,
        records: Vec<catalog::Record>,
    ) -> Result<Held> {
        let begin = self.begin(after, false).await?;
        let (carried, receiver) = mpsc::channel(PIECES_AHEAD);
        let send = async move {
            let mut bytes = Vec::new();
            for record in records {
                bytes.extend((record.bytes.len() as u64).to_le_bytes());
                bytes.extend(record.bytes.iter());
            }
            let pieces = bytes.chunks(PIECE_BYTES).map(|piece| Carried::Piece(piece.to_vec()));
            for part in std::iter::once(Carried::Begin(begin)).chain(pieces) {
                // A node that takes no more says why in its answer.
                if carried.send(part).await.is_err() {
                    return;
                }
            }
        };
        tokio::join!(self.cluster.fleet.hold(view, node, receiver), send).0
    }

    async fn send_snapshot(&self, view: &World, node: NodeId) -> Result<Held> {
        let begin = self.begin(Position::default(), true).await?;
        let (carried, receiver) = mpsc::channel(PIECES_AHEAD);
        let records = self.records.clone();
        let send = move |catalog: &Catalog| {
            let mut at = Position::default();
            let send = |part| carried.blocking_send(part).is_ok();
            let first = |position| {
                at = position;
                send(Carried::Begin(Begin { at, ..begin }))
            };
            catalog.snapshot(PIECE_BYTES, first, |piece| send(Carried::Piece(piece)))?;
            // Only with this it is whole: an end alone may be that of this process.
            send(Carried::Begin(Begin { at, snapshot: false, ..begin }));
            Ok(at)
        };
        let (held, at) = tokio::join!(self.cluster.fleet.hold(view, node, receiver), records.run(send));
        let (held, at) = (held?, at?);
        if held.last != at {
            let why = "it keeps something else than it was sent".to_owned();
            return Err(CoordinatorError::Node { node, why });
        }
        tracing::info!(%node, at = %at.stamp, bytes = held.snapshot_bytes, "keeps a snapshot of the catalog");
        Ok(held)
    }

    async fn begin(&self, at: Position, snapshot: bool) -> Result<Begin> {
        let whose = |catalog: &Catalog| Ok((catalog.meta()?.cluster, catalog.last_change()?));
        let (cluster, last) = self.records.run(whose).await?;
        // The term; what it keeps is what it hears of it.
        let by = Stamp { change: 0, ..last };
        Ok(Begin { cluster, by, at, snapshot })
    }
}

/// Who is to keep them: of those that may live, on different hosts and in different racks as far as there are, rather those
/// that do already.
fn choose(view: &World, may_live: &BTreeSet<NodeId>, now: &[NodeId]) -> Vec<NodeId> {
    let mut left: Vec<_> =
        view.nodes.iter().filter(|(id, node)| may_live.contains(id) && !node.is_leaving).collect();
    let (mut chosen, mut racks, mut hosts) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    while chosen.len() < HOLDERS {
        let rank = |&(_, (id, node)): &(usize, &(NodeId, &plan::decide::NodeFacts))| {
            let host = view.topology.host_of(*id);
            (hosts.contains(&host), racks.contains(&node.rack), !now.contains(id), *id)
        };
        let Some((at, _)) = left.iter().enumerate().min_by_key(rank) else { break };
        let (id, node) = left.swap_remove(at);
        racks.insert(node.rack);
        hosts.insert(view.topology.host_of(id));
        chosen.push(id);
    }
    chosen
}

fn names(nodes: &[NodeId]) -> String {
    nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ")
}

impl Worker for Keeper {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "records"
    }

    fn pause(&self) -> Duration {
        if self.holders.are_awaited { GROUP_AWAITED } else { GROUP }
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let now = (self.holders.records.changes(), self.holders.cluster.view().living());
        let is_same = |(changes, living, at): &(u64, BTreeSet<NodeId>, Began)| {
            (*changes, living) == (now.0, &now.1) && at.elapsed() < IDLE
        };
        if !self.feeding.has_ended() && self.last.as_ref().is_some_and(is_same) {
            return Ok(Step::Wait(self.pause()));
        }
        self.shunned.retain(|_, since| since.elapsed() < SHUN);
        let shunned = self.shunned.keys().copied().collect();
        let round = self.holders.round(&mut self.feeding, &shunned, Until::Enough).await?;
        let Round { holders, failures } = round;
        self.last = failures.is_empty().then(|| (now.0, now.1, Began::now()));
        task.note(|report| {
            report.errors += failures.len() as u64;
            report.detail = match failures.first() {
                Some((_, error)) => error.to_string(),
                None => format!("kept by {}", names(&holders)),
            };
        });
        self.shunned.extend(failures.into_iter().map(|(node, _)| (node, Began::now())));
        Ok(Step::Wait(self.pause()))
    }

    fn stopped(&mut self, _: &Task) {
        self.feeding = Feeding::default();
    }
}
