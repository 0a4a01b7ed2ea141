//! The attempt: whatever the coordinator orders is noted, planned, driven, checked and committed here, and in no other place.
//!
//! ```text
//!   what lacks ─▶ who will write ─▶ noted ─▶ planned ─▶ driven ─▶ checked ─▶ committed
//!       ▲                            ▲                    │ a helper fails, or holds all up
//!       │                            └──── mended ◀───────┤
//!       └──── again, around who failed ◀──────────────────┘ anything else
//! ```
//!
//! One block, several blocks of a stripe (RP §4.4) and a new stripe differ in what is wanted and in who writes it, and in
//! nothing else. A pause ends the flow at once: what was noted is given up, and the work begins again when it may go on.

mod build;
mod encode;
mod lacking;
mod outcome;
mod usual;

use encode::Encoding;
pub(crate) use encode::{Encoded, Regroup, ToEncode, known_encoding};
pub(crate) use lacking::lost;
pub(crate) use usual::UsualTimes;

use crate::audit::Audit;
use crate::clock::{self, Began};
use crate::cluster::{Cluster, Receiving, Word};
use crate::comparison::Comparison;
use crate::error::{CoordinatorError, Result};
use crate::job::Job;
use crate::looks::Looks;
use crate::rate::Rate;
use crate::records::Records;
use crate::settings::Settings;
use catalog::{CatalogError, Intent, Purpose};
use flow::Scheme;
use model::{BlockId, Cause, FlowId, NodeId, Placement, Token};
use plan::decide::{Bounds, Course, DecideError, Next, Planner, World};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Sleep;

/// Time between two checks whether somebody else is still making the block. A small block takes about as long.
const HELD_PAUSE: Duration = Duration::from_millis(250);

/// Longest wait for somebody else who makes the block. An attempt that does not advance ends long before. A job that reaches this limit reports
/// it, and ordered work continues automatically.
const HELD_PATIENCE: Duration = Duration::from_secs(600);

/// How blocks are to be repaired.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RepairOptions {
    /// Name of the scheme; empty or `auto` for the coordinator's choice. Of an encoding that of an encoding scheme; empty for
    /// the star.
    pub scheme: String,
    pub slice_bytes: u32,
    pub verify: bool,
    /// Who gets the block, of several the first; `None`: the coordinator chooses.
    pub requestor: Option<NodeId>,
    /// Throw the result away, and do not ask whether the block is missing.
    pub discard: bool,
    /// Of a recovery: the dead node whose copy is to be replaced; `None`: any dead one.
    pub replaces: Option<NodeId>,
    /// That node lives, and its copy moves.
    pub moves: bool,
    /// Nothing lacks: a copy is made where those that there are do not lie, in another rack or on another host.
    pub spreads: bool,
    /// Nodes whose blocks are preferred, in the order of the chain.
    pub helpers: Vec<NodeId>,
    /// Helpers that are slow are waited for.
    pub patient: bool,
    /// Helpers are assigned to it and to many others, with which it shares links.
    pub among_many: bool,
}

/// What is to be made again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// A copy of this block.
    Block(BlockId),
    /// Of this block's stripe what is lost or, to measure, these members.
    Stripe(BlockId, &'a [u16]),
    /// A new stripe of these data blocks with its parities, or several in place of others.
    Coded(&'a ToEncode),
}

/// What came of it.
#[derive(Default, Debug)]
pub(crate) struct Outcome {
    /// New copies of these blocks are there or, with `discard`, were.
    pub made: Vec<BlockId>,
    /// These are better, or have to be, made each by itself.
    pub alone: Vec<BlockId>,
    /// What a new stripe came to.
    pub encoded: Option<Encoded>,
}

/// How fast copies that lacked are made, by whomever.
#[derive(Debug, Default)]
pub(crate) struct Healed(Mutex<Rate>);

impl Healed {
    /// Copies were made: so many bytes each.
    fn made(&self, bytes: impl IntoIterator<Item = u64>, now_ms: u64) {
        let mut rate = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.into_iter().for_each(|bytes| rate.made(bytes, now_ms));
    }

    /// Over the last minute; `None` if hardly any were made.
    pub fn bytes_per_s(&self, now_ms: u64) -> Option<f64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes_per_s(now_ms)
    }
}

/// What attempts are made with.
#[derive(Debug)]
pub(crate) struct Attempts {
    pub records: Records,
    pub cluster: Arc<Cluster>,
    pub planner: Arc<Planner>,
    pub usual: Arc<UsualTimes>,
    pub healed: Arc<Healed>,
    pub looks: Arc<Looks>,
    pub comparison: Arc<Comparison>,
    pub audit: Arc<Audit>,
    pub settings: Arc<Settings>,
}

impl Attempts {
    /// Does the same as [`carry`](Self::carry), but waits while somebody else makes the block instead of failing.
    ///
    /// # Errors
    /// As [`carry`](Self::carry).
    pub async fn carry_when_free(
        &self,
        job: &Job,
        wanted: Wanted<'_>,
        options: &RepairOptions,
    ) -> Result<Outcome> {
        let began = Began::now();
        loop {
            match self.carry(job, wanted, options).await {
                Err(error) if error.is_held() && began.elapsed() < HELD_PATIENCE => {
                    held_or(job, clock::rest(HELD_PAUSE)).await?;
                }
                ended => return ended,
            }
        }
    }

    /// Makes what is wanted, in a bounded number of attempts, each around the nodes that failed before.
    ///
    /// # Errors
    /// [`CoordinatorError::Paused`] if the job's task was paused or stopped meanwhile; nothing is left of it then.
    pub async fn carry(&self, job: &Job, wanted: Wanted<'_>, options: &RepairOptions) -> Result<Outcome> {
        let bounds = if let Wanted::Coded(..) = wanted { Bounds::ENCODING } else { Bounds::REPAIR };
        let (flow, course) = (FlowId(rand::random()), Course::new(bounds, options.patient));
        let mut attempt = Attempt { with: self, job, wanted, options, flow, noted: 0, course };
        loop {
            let error = match worker::caught(attempt.once()).await {
                Ok(Ok(outcome)) => return Ok(outcome),
                Ok(Err(error)) => error,
                Err(mistake) => attempt.broke_off(mistake).await?,
            };
            let Some(pause) = self.after(&error, &mut attempt.course).await else { return Err(error) };
            let noted = attempt.noted;
            tracing::info!(%wanted, noted, %error, "failed, trying again");
            job.say(format!("attempt {noted} to {wanted} failed: {error}"));
            pause.await;
        }
    }

    /// The pause after an attempt that ended with this error, and of which nothing is left; `None` if no other follows.
    async fn after(&self, error: &CoordinatorError, course: &mut Course) -> Option<Sleep> {
        let next = match error {
            CoordinatorError::Flow(fault) => {
                if !matches!(fault.cause, Cause::Invalid | Cause::Slow) {
                    self.looks.learn(fault, Word::Flow);
                }
                course.broke(fault, &[])
            }
            // Chosen from a view that was out of date, or made of what is not what was planned with.
            CoordinatorError::Catalog(CatalogError::Overtaken(_)) | CoordinatorError::WrongParity { .. } => {
                course.again()
            }
            error if lacks_nodes(error) => course.refused(),
            _ => Next::GiveUp,
        };
        next.pause().map(tokio::time::sleep)
    }
}

/// Whether nodes that are gone around may be what is lacking.
fn lacks_nodes(error: &CoordinatorError) -> bool {
    use DecideError::{NoReplica, NoRoom, Plan, Unrecoverable};
    matches!(
        error,
        CoordinatorError::Decide(Unrecoverable { .. } | Plan(_) | NoReplica { .. } | NoRoom { .. })
    )
}

/// A flow's end, unless the job's task is told to pause or to stop before. The flow is let go at once then: what it has
/// carried is little beside what the operator wants of the links.
async fn held_or<T>(job: &Job, flow: impl Future<Output = T>) -> Result<T> {
    tokio::select! {
        ended = flow => Ok(ended),
        () = job.task.held() => Err(CoordinatorError::Paused),
    }
}

/// One order, over all its attempts.
struct Attempt<'a> {
    with: &'a Attempts,
    job: &'a Job,
    wanted: Wanted<'a>,
    options: &'a RepairOptions,
    flow: FlowId,
    /// Attempts that were noted so far.
    noted: u32,
    course: Course,
}

/// What an attempt is to write, and what that takes.
struct Order {
    purpose: Purpose,
    /// Blocks, and the nodes that write them.
    writes: Vec<(BlockId, NodeId)>,
    /// The blocks to repair, in the order of the writes.
    blocks: Vec<Placement>,
    /// The stripes to encode.
    encodings: Vec<Encoding>,
}

/// What is to be done now.
enum Step {
    /// Nothing more: this came of it.
    Over(Outcome),
    Order(Order),
}

/// An order that was noted.
struct Noted {
    order: Order,
    intent: Intent,
    _receiving: Vec<Receiving>,
}

impl Attempt<'_> {
    /// With writers that are chosen once, until they have the blocks or somebody but a helper failed.
    async fn once(&mut self) -> Result<Outcome> {
        let view = self.with.cluster.view();
        let step = match self.wanted {
            Wanted::Coded(what) => self.encoding(&view, what).await?,
            _ => self.repair(&view).await?,
        };
        let order = match step {
            Step::Over(outcome) => return Ok(outcome),
            Step::Order(order) => order,
        };
        self.noted += 1;
        let mut noted = self.begin(order).await?;
        let settled = match self.build_mending(&mut noted).await {
            Ok(Some(made)) => self.settle(&view, &noted, made).await.map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        if let Ok(Some(outcome)) = settled {
            return Ok(outcome);
        }
        self.abort(&noted.intent).await?;
        let alone = noted.order.writes.iter().map(|&(block, _)| block).collect();
        settled.map(|_| Outcome { alone, ..Outcome::default() })
    }

    async fn begin(&self, order: Order) -> Result<Noted> {
        let _receiving = order.writes.iter().map(|&(_, node)| self.with.cluster.load.receive(node)).collect();
        let (flow, attempt, now) = (self.flow, self.noted, self.with.cluster.clock.now_ms());
        let (purpose, writes) = (order.purpose.clone(), order.writes.clone());
        let begin = move |c: &catalog::Catalog| c.begin(flow, attempt, &purpose, &writes, now);
        let intent = self.with.records.run(begin).await?;
        Ok(Noted { order, intent, _receiving })
    }

    /// After a panic nothing is left of what was noted, or the blocks would be "being made" until a restart.
    async fn broke_off(&self, mistake: String) -> Result<CoordinatorError> {
        let (flow, now_ms) = (self.flow, self.with.cluster.clock.now_ms());
        self.with.records.run(move |catalog| catalog.give_up_flow(flow, now_ms)).await?;
        Ok(CoordinatorError::Bug(mistake))
    }

    async fn abort(&self, intent: &Intent) -> Result<()> {
        let (intent, now_ms) = (intent.clone(), self.with.cluster.clock.now_ms());
        self.with.records.run(move |catalog| catalog.abort(&intent, now_ms)).await
    }
}

impl std::fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wanted::Block(block) => write!(f, "repair block {block}"),
            Wanted::Stripe(block, _) => write!(f, "repair the stripe of block {block}"),
            Wanted::Coded(..) => write!(f, "encode a stripe"),
        }
    }
}

impl RepairOptions {
    /// Whether what moves is sent by the node that is left, and not rebuilt without it.
    fn copies(&self) -> bool {
        let has = |leaver: NodeId| self.helpers.is_empty() || self.helpers.contains(&leaver);
        self.moves && self.replaces.is_some_and(has)
    }

    /// Nodes that live, but for the one that is left.
    fn without_leaver(&self, view: &World) -> BTreeSet<NodeId> {
        view.living().into_iter().filter(|&node| !self.moves || Some(node) != self.replaces).collect()
    }
}

/// The scheme of that name; `None` for the coordinator's choice.
pub(crate) fn scheme(name: &str) -> Result<Option<Scheme>> {
    match name {
        "" | "auto" => Ok(None),
        name => Ok(Some(name.parse().map_err(DecideError::from)?)),
    }
}

/// The secret of an edge.
pub(crate) fn token() -> Token {
    Token(rand::random())
}
