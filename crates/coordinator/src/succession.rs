//! A start: the catalog is compared with what nodes have heard and keep of it, before anything is served from it. What they
//! keep of later changes is brought; so a folder that was set back, a lost disk and a move to another machine are one case
//! (HEALING.md, "Terms, records, holders"). What is decided: `catalog::succession`.
//!
//! If another life of the coordinator went on from an older state and is gone, this folder has changes that its records do not
//! have. The nodes obeyed that one, so what they keep counts; the own catalog is kept aside (`catalog::aside`), and what it
//! committed is taken from the nodes once they are back (`recovering.rs`).

use crate::branches::ITSELF;
use crate::clock::{self, Began};
use crate::cluster::Fleet;
use crate::config::Config;
use crate::error::{CoordinatorError, Result};
use crate::membership::MAX_ADDRESS_BYTES;
use catalog::aside::{self, MAX_ASIDE};
use catalog::rows::Doubt;
use catalog::succession::{Answer, HOLDERS_NEEDED, Sight, Verdict, judge, stands_in};
use catalog::{Catalog, CatalogError, Condition, Former, Incoming};
use model::{ClusterId, NodeId, Position, Stamp};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use wire::codec::records::{Begin, Carried};

/// Between two rounds of questions. Nodes try to register as often.
const ROUND: Duration = Duration::from_millis(500);

/// Somebody else may just have died: his nodes are held to be led until they have been silent as long as a dead node would
/// be. Who still leads them so much later lives.
const LED_MARGIN: Duration = Duration::from_secs(3);

/// For so long a catalog that was brought waits for all that keep its records, though two agree: the last changes before the life
/// that made them ended may be with the third alone, and what is not brought now is another history later. One that lives answers at once, or
/// when it has started.
const THIRD_PATIENCE: Duration = Duration::from_secs(3);

/// A catalog's file of so many bytes, those of 100,000 blocks, is checked before anything is written to it, which takes a second of a disk
/// that turns. Longer ones are checked once they serve: nodes have the changes of the new term by the time that damage is found.
const CHECKED_AT_ONCE_BYTES: u64 = 128 << 20;

/// Nodes that are remembered because they called: those that keep the records name the others.
const MAX_CALLERS: usize = 1_024;

/// A catalog that may serve.
#[derive(Debug)]
pub(crate) struct Found {
    pub catalog: Catalog,
    /// The highest term that any node obeyed.
    pub heard: u64,
    /// Changes that nobody keeps, and who has heard of them; the coordinator itself has those of a catalog that is kept aside.
    pub holes: Vec<(NodeId, Stamp)>,
    /// Why it is not known that nothing is missing.
    pub doubt: Option<Doubt>,
}

/// What comes of a round of questions.
pub(crate) enum Round {
    Over(Box<Found>),
    /// Not yet, and why.
    Wait(String),
}

/// A start that compares.
#[derive(Debug)]
pub(crate) struct Succession {
    config: Config,
    began: Began,
    /// Nodes that want to register meanwhile, and where they answer; `false`: they know no cluster.
    callers: Arc<Mutex<BTreeMap<NodeId, (String, bool)>>>,
    /// Since when the catalog is one that came from a node that keeps it: others may keep later changes, the one among them that says
    /// who does.
    brought: OnceLock<Began>,
    /// What a node keeps was found not to have the changes of the catalog that is there.
    is_branched: AtomicBool,
    /// What nodes keep was found not to have the changes of the backup that the catalog was restored from.
    is_backup_kept: AtomicBool,
    /// The catalog's file was checked since this start began.
    is_checked: AtomicBool,
}

/// What a catalog says of itself.
struct Own {
    is_new: bool,
    /// `None`: the row that says it is damaged.
    cluster: Option<ClusterId>,
    /// It is what was saved of a damaged file.
    is_damaged: bool,
    /// Damaged files are kept in its folder.
    keeps_damaged: bool,
    /// It was restored from a backup with this last change, and nothing has happened since.
    restored: Option<Stamp>,
    /// The last changes of those that are kept aside, and not settled.
    branches: Vec<Stamp>,
    /// How many are kept aside.
    asides: usize,
    position: Position,
    holders: Vec<NodeId>,
    nodes: Vec<(NodeId, String)>,
}

impl Succession {
    pub fn new(config: Config) -> Succession {
        Succession {
            config,
            began: Began::now(),
            callers: Arc::default(),
            brought: OnceLock::new(),
            is_branched: AtomicBool::new(false),
            is_backup_kept: AtomicBool::new(false),
            is_checked: AtomicBool::new(false),
        }
    }

    /// A node wants to register.
    pub fn heard_of(&self, node: NodeId, control_addr: String, knows_a_cluster: bool) {
        let mut callers = self.callers();
        if control_addr.len() <= MAX_ADDRESS_BYTES
            && (callers.len() < MAX_CALLERS || callers.contains_key(&node))
        {
            callers.insert(node, (control_addr, knows_a_cluster));
        }
    }

    fn callers(&self) -> MutexGuard<'_, BTreeMap<NodeId, (String, bool)>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rounds until it is over. `say` hears what is waited for.
    pub async fn run(&self, say: impl Fn(String)) -> Result<Found> {
        loop {
            match self.round().await? {
                Round::Over(found) => return Ok(*found),
                Round::Wait(why) => {
                    tracing::info!("{why}");
                    say(why);
                }
            }
            clock::rest(ROUND).await;
        }
    }

    /// Opens the catalog, asks everybody, and brings what is later, until there is something to wait for.
    pub async fn round(&self) -> Result<Round> {
        loop {
            let disk = Arc::clone(&self.config.disk);
            let is_checked = self.is_checked.swap(true, Ordering::Relaxed);
            let (catalog, own) = blocking(move || opened(&disk, !is_checked)).await?;
            // Where a damaged catalog is kept there was a cluster: the empty one is no new one.
            if own.is_new && self.config.founds && !own.keeps_damaged {
                return Ok(over(catalog, &own, 0, Vec::new(), None));
            }
            let answers = self.ask(&own).await;
            let (catalog, verdict) = self.judged(catalog, &own, &answers).await?;
            let result = match verdict {
                Verdict::Bring(node) => {
                    close(catalog).await;
                    match self.bring(node, &own, &answers).await? {
                        None => continue,
                        Some(why) => Ok(Round::Wait(why)),
                    }
                }
                Verdict::Led(node, answer) => self.led(catalog, node, answer).await,
                verdict => self.serves(catalog, &own, &answers, verdict).await,
            };
            return result;
        }
    }

    async fn judged(
        &self,
        catalog: Catalog,
        own: &Own,
        answers: &BTreeMap<NodeId, Answer>,
    ) -> Result<(Catalog, Verdict)> {
        if let (Some(at), false) = (own.restored, self.is_backup_kept.load(Ordering::Relaxed)) {
            return Ok((catalog, over_a_backup(at, answers)));
        }
        let (is_damaged, holders, asked) = (own.is_damaged, own.holders.clone(), answers.clone());
        let position = own.position;
        let sight = Sight {
            own: own.position,
            holders: if self.brought.get().is_some() { own.nodes.len() } else { own.holders.len() },
            answers: answers.iter().map(|(&node, answer)| (node, own.understood(answer))).collect(),
            silence_ms: self.config.dead_after_ms,
        };
        blocking(move || {
            let known = |stamp: Stamp| catalog.remembers(stamp).unwrap_or(false);
            let waited = |number| catalog.waited_since(number).unwrap_or(false);
            let stands = || stands_in(&position, &holders, &asked, known, waited);
            let whole = is_damaged.then(stands).flatten().map(|(node, _)| node);
            let verdict = match (judge(&sight, known), whole) {
                // Nothing is later, but what nodes keep is whole.
                (Verdict::Serve | Verdict::Unsure { .. }, Some(node)) => Verdict::Bring(node),
                (verdict, _) => verdict,
            };
            Ok((catalog, verdict))
        })
        .await
    }

    /// Somebody else leads a node: while he does this coordinator must not, and who leads for long lives.
    async fn led(&self, catalog: Catalog, node: NodeId, answer: Answer) -> Result<Round> {
        close(catalog).await;
        let silence = Duration::from_millis(self.config.dead_after_ms);
        if self.began.elapsed() < silence + LED_MARGIN {
            return Ok(Round::Wait(format!(
                "{node} is led by the coordinator at {}: waiting whether that one still lives",
                answer.leader
            )));
        }
        Err(CoordinatorError::TakenOver { node, term: answer.heard.term, leader: answer.leader })
    }

    /// The catalog serves, or waits for more answers.
    async fn serves(
        &self,
        catalog: Catalog,
        own: &Own,
        answers: &BTreeMap<NodeId, Answer>,
        verdict: Verdict,
    ) -> Result<Round> {
        let is_late = self.is_late();
        let heard = answers.values().map(|answer| answer.heard.term.number).max().unwrap_or(0);
        let wait = match &verdict {
            _ if own.is_new && self.knows_no_cluster() => Some(
                "the folder is empty, and no node that called knows a cluster; start the coordinator with --found to found a new one"
                    .to_owned(),
            ),
            _ if !own.is_new && own.holders.is_empty() && answers.is_empty() && !is_late => Some(
                "the catalog knows of nobody who keeps it, and no node has answered: waiting for those that may know later changes"
                    .to_owned(),
            ),
            _ if own.is_new && !is_late => Some(
                "the folder is empty: waiting for nodes that keep the catalog; start the coordinator with --found if this is a \
                 new cluster"
                    .to_owned(),
            ),
            _ if own.is_damaged && !is_late => Some(format!(
                "the catalog's file is damaged: waiting for a node that keeps all changes up to {}",
                own.position.stamp
            )),
            _ if own.restored.is_some() && !is_late => Some(
                "the catalog was restored from a backup: waiting for nodes that keep later changes".to_owned(),
            ),
            Verdict::Unsure { answered, wanted } if !is_late => Some(format!(
                "the catalog is compared with what nodes keep of it: {answered} of {wanted} have answered"
            )),
            Verdict::Serve if self.awaits_all() => {
                let silent = own.holders.iter().find(|node| !answers.contains_key(node));
                silent.map(|node| {
                    format!("the catalog is what nodes keep of it: {node} is to keep it too, and has not answered yet")
                })
            }
            Verdict::Hole(node, stamp) if !is_late => Some(format!(
                "{node} has heard of change {stamp}, which none that answered keeps: waiting for others"
            )),
            _ => None,
        };
        if let Some(wait) = wait {
            close(catalog).await;
            return Ok(Round::Wait(wait));
        }
        let doubt = match verdict {
            _ if own.is_new => Some(Doubt::Made),
            Verdict::Unsure { answered, wanted } => {
                Some(Doubt::FewHolders { answered: answered as u32, wanted: wanted as u32 })
            }
            // Those that keep the records are asked again, and say whether what it forgot was acknowledged.
            _ if catalog.was_rolled_back() && !own.holders.is_empty() => {
                tracing::warn!(
                    "the catalog's database went back to an older commit: nothing is deleted before holders have answered"
                );
                Some(Doubt::FewHolders { answered: 0, wanted: HOLDERS_NEEDED.min(own.holders.len()) as u32 })
            }
            _ => None,
        };
        let strange = answers.iter().map(|(&node, answer)| (node, answer.heard)).collect();
        Ok(over(catalog, own, heard, strange, doubt))
    }

    /// Nodes that live have had the time to answer.
    fn is_late(&self) -> bool {
        self.began.elapsed() >= Duration::from_millis(self.config.catch_up_ms)
    }

    /// The catalog was brought a moment ago.
    fn awaits_all(&self) -> bool {
        self.brought.get().is_some_and(|since| since.elapsed() < THIRD_PATIENCE)
    }

    /// Nobody called who knows a cluster.
    fn knows_no_cluster(&self) -> bool {
        !self.callers().values().any(|(_, knows)| *knows)
    }

    /// All nodes that the catalog knows, and those that called, at once.
    async fn ask(&self, own: &Own) -> BTreeMap<NodeId, Answer> {
        let mut nodes: BTreeMap<NodeId, String> = own.nodes.iter().cloned().collect();
        nodes.extend(self.callers().iter().map(|(&node, (addr, _))| (node, addr.clone())));
        let mut asking = JoinSet::new();
        for (node, addr) in nodes {
            let fleet: Arc<dyn Fleet> = Arc::clone(&self.config.fleet);
            asking.spawn(async move { (node, fleet.ask(node, &addr).await) });
        }
        let mut answers = BTreeMap::new();
        while let Some(Ok((node, answer))) = asking.join_next().await {
            answers.extend(answer.map(|answer| (node, answer)));
        }
        answers
    }

    fn addr_of(&self, node: NodeId, own: &Own) -> String {
        let known = own.nodes.iter().find(|(id, _)| *id == node).map(|(_, addr)| addr.clone());
        let called = self.callers().get(&node).map(|(addr, _)| addr.clone());
        called.or(known).unwrap_or_default()
    }

    /// Takes what the node keeps in place of a catalog that was restored from a backup, if that is an earlier state of it. `Some`: not
    /// yet, and why.
    async fn bring_over_backup(&self, node: NodeId, own: &Own) -> Result<Option<String>> {
        let mut parts = self.config.fleet.held(node, &self.addr_of(node, own)).await?;
        let (disk, before) = (Arc::clone(&self.config.disk), (own.restored.zip(own.cluster), false));
        match blocking(move || received(&disk, &mut parts, node, before, false)).await {
            Ok((at, _)) => {
                self.brought.get_or_init(Began::now);
                tracing::warn!(%node, at = %at.stamp, "what this node keeps of the catalog is later than the backup, and was brought over it");
                Ok(None)
            }
            Err(CoordinatorError::Branched { .. }) => {
                self.is_backup_kept.store(true, Ordering::Relaxed);
                Ok(Some(format!("what {node} keeps of the catalog does not have the backup's changes")))
            }
            Err(error) => Err(error),
        }
    }

    /// Takes what the node keeps in place of the catalog that is there. If that one is no earlier state of it, it is kept aside. `Some`:
    /// not yet, and why.
    async fn bring(
        &self,
        node: NodeId,
        own: &Own,
        answers: &BTreeMap<NodeId, Answer>,
    ) -> Result<Option<String>> {
        // Whoever is led by the other coordinator is to have said so.
        let is_asked = |node: &NodeId| answers.contains_key(node);
        let all = own.nodes.iter().all(|(node, _)| is_asked(node)) && self.callers().keys().all(is_asked);
        let waits = || {
            format!(
                "this catalog has changes up to {} that the records which {node} keeps do not have: waiting whether the coordinator \
                 that took over still leads a node",
                own.position.stamp
            )
        };
        let may_branch = all || self.is_late();
        if self.is_branched.load(Ordering::Relaxed) && !may_branch {
            return Ok(Some(waits()));
        }
        if own.restored.is_some() {
            return self.bring_over_backup(node, own).await;
        }
        let addr = self.addr_of(node, own);
        let mut parts = self.config.fleet.held(node, &addr).await?;
        // The last changes of a damaged catalog may be on no node.
        let held = answers.get(&node).and_then(|answer| answer.held).filter(|_| own.is_damaged);
        let last =
            |(own, cluster): (Stamp, ClusterId)| (held.map_or(own, |held| held.stamp.min(own)), cluster);
        let (disk, before) = (Arc::clone(&self.config.disk), (own.known().map(last), own.is_damaged));
        let has_room = own.asides < MAX_ASIDE;
        let received = blocking(move || received(&disk, &mut parts, node, before, may_branch && has_room));
        let (at, is_aside) = match received.await {
            Err(CoordinatorError::Branched { .. }) if !may_branch => {
                self.is_branched.store(true, Ordering::Relaxed);
                return Ok(Some(waits()));
            }
            received => received?,
        };
        self.brought.get_or_init(Began::now);
        let (at, before) = (at.stamp, own.position.stamp);
        tracing::warn!(%node, %at, %before, "the catalog was brought from what this node keeps of it");
        if is_aside {
            tracing::error!(
                %node,
                %before,
                file = aside::Aside { last: before, is_settled: false }.file(),
                "another coordinator took over from an older state, and is gone: the catalog that was here is kept aside, and what it \
                 committed is taken from the nodes"
            );
        }
        Ok(None)
    }
}

/// Opens the catalog of this folder and reads its own facts. A catalog that the database cannot open, or that lacks rows it needs, is kept aside,
/// and the rows that pass their checks replace it. So is one with damaged pages, if it is to be checked: the change that begins a term
/// would be one that no node keeps.
fn opened(disk: &Arc<dyn disk::Disk>, checks: bool) -> Result<(Catalog, Own)> {
    if catalog::restore_name(disk.as_ref())? || aside::undo(disk.as_ref())? {
        tracing::warn!("the catalog was being kept aside when the last start ended: it has its name again");
    }
    let damage = match read(disk) {
        Err(CoordinatorError::Catalog(error)) if error.is_damage() => error,
        Ok((catalog, own)) if checks && !own.is_damaged => {
            match catalog::first_damaged_page(disk.as_ref(), CHECKED_AT_ONCE_BYTES) {
                Ok(None) => return Ok((catalog, own)),
                // The check that runs after each start reports it.
                Err(error) => {
                    tracing::warn!(%error, "the catalog's file cannot be checked before it serves");
                    return Ok((catalog, own));
                }
                Ok(Some(page)) => {
                    catalog.close();
                    CatalogError::DamagedFile(page)
                }
            }
        }
        read => return read,
    };
    salvaged(disk, &damage)?;
    read(disk)
}

fn read(disk: &Arc<dyn disk::Disk>) -> Result<(Catalog, Own)> {
    let catalog = Catalog::open(disk, ClusterId(rand::random()))?;
    let own = Own::of(&catalog, disk.as_ref())?;
    Ok((catalog, own))
}

/// Takes what passes its checks out of the catalog's file, which is closed, and keeps that aside.
fn salvaged(disk: &Arc<dyn disk::Disk>, damage: &CatalogError) -> Result<()> {
    let (file, salvaged) = catalog::salvage(disk, damage)?;
    tracing::error!(
        %damage, kept_aside = file, rows = salvaged.rows, findings = salvaged.damage.count,
        "the catalog's file is damaged: it is kept aside, and what passes its checks is read until it is made anew"
    );
    Ok(())
}

/// The same for a file that was opened, and that the database could then not read.
pub(crate) async fn salvage(disk: &Arc<dyn disk::Disk>, damage: CatalogError) -> Result<()> {
    let disk = Arc::clone(disk);
    blocking(move || salvaged(&disk, &damage)).await
}

/// What follows for a catalog that was restored from a backup, in which nothing has happened since: what nodes keep of later changes is
/// brought over it, as over an empty folder.
fn over_a_backup(at: Stamp, answers: &BTreeMap<NodeId, Answer>) -> Verdict {
    let held = |(node, answer): (&NodeId, &Answer)| Some((answer.held?.stamp, *node));
    match answers.iter().filter_map(held).max() {
        Some((held, node)) if held >= at => Verdict::Bring(node),
        _ => Verdict::Unsure { answered: 0, wanted: 1 },
    }
}

/// How far it has come now, and whether the catalog that was there is kept aside. `before`: its last change, and whose it
/// is, if that is known, and whether it is damaged.
fn received(
    disk: &Arc<dyn disk::Disk>,
    parts: &mut mpsc::Receiver<Result<Carried>>,
    node: NodeId,
    (before, is_damaged): (Option<(Stamp, ClusterId)>, bool),
    may_branch: bool,
) -> Result<(Position, bool)> {
    let mut incoming = Incoming::begin(disk)?;
    receive(&mut incoming, parts, node)?;
    let mut aside = None;
    if let Some((own, cluster)) = before {
        let (is_earlier, theirs) = incoming.remembers(own)?;
        if !(is_earlier || may_branch && incoming.cluster()? == cluster) {
            return Err(CoordinatorError::Branched { node, own, theirs });
        }
        aside = (!is_earlier).then_some(own);
    }
    // A stale page, which still has its former content, can make a file look like an earlier state.
    let page = if before.is_some() && !is_damaged {
        catalog::first_damaged_page(disk.as_ref(), u64::MAX)?
    } else {
        None
    };
    if let Some(page) = &page {
        tracing::error!(page, "the catalog's file is damaged: it is kept aside");
    }
    let former = match aside {
        Some(last) => Former::Branch(last),
        None if is_damaged || page.is_some() => Former::Damaged,
        None => Former::Earlier,
    };
    Ok((incoming.finish(former)?, aside.is_some()))
}

/// Takes all that a node keeps: its snapshot, then the records that follow.
pub(crate) fn receive(
    incoming: &mut Incoming,
    parts: &mut mpsc::Receiver<Result<Carried>>,
    node: NodeId,
) -> Result<()> {
    let none = |why: &str| CoordinatorError::Node { node, why: why.to_owned() };
    let mut snapshot = None;
    while let Some(part) = parts.blocking_recv() {
        match part? {
            Carried::Begin(Begin { at, snapshot: true, .. }) => snapshot = Some(at),
            Carried::Begin(_) => {
                let at = snapshot.take().ok_or_else(|| none("it keeps records that follow no snapshot"))?;
                incoming.end_snapshot(at)?;
            }
            Carried::Piece(bytes) => incoming.take(&bytes)?,
        }
    }
    Ok(())
}

impl Own {
    fn of(catalog: &Catalog, disk: &dyn disk::Disk) -> Result<Own> {
        let nodes = catalog.nodes()?.into_iter().map(|(node, row)| (node, row.control_addr)).collect();
        let is_damaged = matches!(catalog.condition(), Condition::Damaged(_));
        // What is saved of a damaged file may lack either.
        let meta = match catalog.meta() {
            Err(error) if error.is_damage() && is_damaged => None,
            meta => Some(meta?),
        };
        let asides = aside::asides(disk)?;
        let open = asides.iter().filter(|aside| !aside.is_settled);
        Ok(Own {
            is_new: meta.as_ref().is_some_and(|meta| meta.unnamed) && !is_damaged,
            cluster: meta.map(|meta| meta.cluster),
            is_damaged,
            keeps_damaged: !catalog::damaged_files(disk)?.is_empty(),
            restored: if is_damaged { None } else { catalog.restored_at()? },
            branches: open.map(|aside| aside.last).collect(),
            asides: asides.len(),
            position: match catalog.position() {
                Err(error) if error.is_damage() && is_damaged => Position::default(),
                position => position?,
            },
            holders: catalog.holders()?,
            nodes,
        })
    }

    /// What a node has heard of a catalog that is kept aside is no change that nobody keeps.
    fn understood(&self, answer: &Answer) -> Answer {
        let heard = answer.heard;
        let is_of = |last: &Stamp| last.term == heard.term && heard.change <= last.change;
        match self.branches.iter().any(is_of) {
            true => Answer { heard: Stamp::default(), ..answer.clone() },
            false => answer.clone(),
        }
    }

    /// What a catalog that is brought must know; `None`: nothing is known here.
    fn known(&self) -> Option<(Stamp, ClusterId)> {
        let is_known = !self.is_new && self.position.stamp.term.number > 0;
        self.cluster.filter(|_| is_known).map(|cluster| (self.position.stamp, cluster))
    }
}

fn over(
    catalog: Catalog,
    own: &Own,
    heard: u64,
    mut holes: Vec<(NodeId, Stamp)>,
    doubt: Option<Doubt>,
) -> Round {
    // Last: what a node says weighs more, for nobody keeps it.
    holes.extend(own.branches.iter().map(|last| (ITSELF, *last)));
    let heard = own.branches.iter().map(|last| last.term.number).fold(heard, u64::max);
    Round::Over(Box::new(Found { catalog, heard, holes, doubt }))
}

async fn close(catalog: Catalog) {
    let _ = tokio::task::spawn_blocking(move || catalog.close()).await;
}

async fn blocking<T: Send + 'static>(call: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(call).await.map_err(|_| CoordinatorError::ShuttingDown).flatten()
}
