//! One flow of a read; or, if it is short and late, that one and further ones beside it for the same bytes, around whoever is
//! waited for: of each byte what comes first counts, and the others are let go as soon as one has brought all
//! ([`plan::decide::Hedging`] says when, around whom, and how much it may cost).
//!
//! ```text
//!   flow   ──▶ sink ─┐
//!                    ├──▶ intake: each byte once        nothing of a hedge exists before its read is late
//!   hedge  ──▶ sink ─┘
//! ```

use crate::ask::{Answer, Ask};
use crate::connect::Client;
use crate::error::{ClientError, Result, broken_task};
use crate::intake::{Beside, Intake, Received};
use exec::{Awaited, DriverIo};
use model::{Cause, Fault, NodeId, Peer};
use plan::decide::{Kind, WATCHED_READ_BYTES};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Hedges of one flow. The second one goes around those whom the first one met; of a stripe with more late helpers than that
/// something else is wrong.
const MAX_HEDGES: u64 = 2;

/// By a star the reader itself sees who is late, and latency counts hops.
const HEDGE_SCHEME: &str = "conventional";

/// Further flows that short reads asked for because they were late.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hedges {
    /// How many.
    pub asked: u64,
    /// Those that were the first to bring all.
    pub first: u64,
    /// Bytes that links were to carry for them, as planned.
    pub bytes: u64,
}

impl std::ops::AddAssign for Hedges {
    fn add_assign(&mut self, other: Hedges) {
        self.asked += other.asked;
        self.first += other.first;
        self.bytes += other.bytes;
    }
}

/// How one flow of a read ended, with those beside it.
pub(crate) struct Landed<I> {
    pub intake: I,
    pub received: Received,
    pub outcome: Result<(), Fault>,
    /// Those that ended badly while another one brought the bytes.
    pub faults: Vec<Fault>,
    pub degraded: bool,
    pub hedges: Hedges,
    /// Whom a hedge came first around.
    pub around: BTreeSet<NodeId>,
}

/// What is known of a flow from its plan.
struct Course {
    kind: Kind,
    length: u64,
    degraded: bool,
    /// Nodes that send.
    from: BTreeSet<NodeId>,
    /// All of them to the reader.
    is_star: bool,
    carried_bytes: u64,
    started: Instant,
}

impl Course {
    fn of(answer: &Answer) -> Course {
        let sum = answer.links.iter().fold(0_u64, |sum, (_, _, bytes)| sum.saturating_add(*bytes));
        Course {
            kind: Kind::of(answer.length, answer.degraded),
            length: answer.length,
            degraded: answer.degraded,
            from: answer.links.iter().map(|&(from, ..)| NodeId(from)).collect(),
            is_star: answer.links.iter().all(|&(_, to, _)| to == Peer::Client.number()),
            carried_bytes: sum,
            started: Instant::now(),
        }
    }
}

/// A long read, counted while it is under way.
struct UnderWay {
    all: Arc<AtomicUsize>,
    /// No other one was when it began.
    is_alone: bool,
}

impl UnderWay {
    fn begin(all: &Arc<AtomicUsize>) -> UnderWay {
        UnderWay { is_alone: all.fetch_add(1, Ordering::Relaxed) == 0, all: all.clone() }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a flow and its hedges ended.
struct Raced {
    outcome: Result<(), Fault>,
    faults: Vec<Fault>,
    hedges: Hedges,
    around: BTreeSet<NodeId>,
    /// Of the hedge that came first, and how long it took.
    winner: Option<(Course, Duration)>,
}

impl Raced {
    fn alone(outcome: Result<(), Fault>) -> Raced {
        let (faults, hedges, around) = (Vec::new(), Hedges::default(), BTreeSet::new());
        Raced { outcome, faults, hedges, around, winner: None }
    }
}

/// How a hedge ended; without a course it never began.
struct Hedged {
    course: Option<Course>,
    outcome: Result<(), Fault>,
    took: Duration,
}

impl Client {
    /// One flow: how far it got, what it brought besides, and its error if it has one. If it is watched, it ends when it takes
    /// far longer than usual and somebody else could help; or it is hedged, if it is short.
    pub(crate) async fn try_read<I: Intake>(
        &self,
        answer: Answer,
        ask: &Ask,
        mut intake: I,
        watched: bool,
    ) -> Result<Landed<I>> {
        let course = Course::of(&answer);
        let Answer { mut plan, cost, .. } = answer;
        let under_way = cost.map(|_| UnderWay::begin(&self.long_reads));
        let is_alone = under_way.as_ref().is_some_and(|under_way| under_way.is_alone);
        plan.expected = cost.filter(|_| watched).and_then(|cost| match is_alone {
            true => self.usual().expected_alone(cost),
            false => self.usual().expected(cost),
        });
        let sink = intake.open(&plan, ask.range.clone());
        let is_short = course.length < WATCHED_READ_BYTES && cost.is_none();
        let beside = if watched && is_short { intake.beside() } else { None };
        let awaited = beside.is_some().then(Awaited::default);
        let io = DriverIo {
            sink: Some(sink),
            awaited: awaited.clone(),
            goes_around: watched,
            ..DriverIo::default()
        };
        let driven = self.engine.drive(plan, io, |_| {});
        let raced = match (beside, awaited) {
            (Some(beside), Some(awaited)) => self.race(driven, (&course, awaited), ask, beside).await,
            _ => Raced::alone(driven.await.map(drop)),
        };
        let took = course.started.elapsed();
        // A flow that failed may still be delivering: nothing of it counts from here on.
        let closing = tokio::task::spawn_blocking(move || {
            let received = intake.close();
            (intake, received)
        });
        let (intake, mut received) = closing.await.map_err(broken_task)?;
        if let Some(gone) = received.gone.take() {
            // No other attempt would fare better.
            return Err(ClientError::Output(Arc::new(gone)));
        }
        let Raced { outcome, faults, hedges, around, winner } = raced;
        let (length, degraded) =
            winner.as_ref().map_or((course.length, course.degraded), |(won, _)| (won.length, won.degraded));
        let (reached, due) = (received.reached, ask.range.start + length);
        let outcome = outcome.and_then(|()| match reached >= due {
            true => Ok(()),
            false => Err(Fault::new(Cause::Bug, format!("a read to byte {due} ended at byte {reached}"))),
        });
        if outcome.is_ok() {
            let took = took.saturating_sub(received.waited);
            match (&winner, cost) {
                (Some((won, took)), _) => self.hedging().note(won.kind, *took, 0),
                (None, Some(cost)) => self.usual().note(cost, took),
                (None, None) if is_short => {
                    self.hedging().note(course.kind, took, course.carried_bytes);
                }
                (None, None) => {}
            }
        }
        Ok(Landed { intake, received, outcome, faults, degraded, hedges, around })
    }

    /// The flow that `driven` is, and hedges of it once it is late, until one has brought all or none is left.
    async fn race<D>(
        &self,
        driven: impl Future<Output = Result<D, Fault>>,
        (course, awaited): (&Course, Awaited),
        ask: &Ask,
        beside: Beside,
    ) -> Raced {
        let mut driven = pin!(driven);
        let mut late_after = self.hedging().late_after(course.kind);
        if let Ok(ended) = tokio::time::timeout(late_after, driven.as_mut()).await {
            return Raced::alone(ended.map(drop));
        }
        let mut race = Race::new(course, awaited, beside);
        let mut failed = None;
        let outcome = loop {
            let is_open = race.is_open && failed.is_none();
            if is_open && self.hedging().affords(course.kind, course.carried_bytes) {
                race.hedge_if_late(self, ask);
            }
            tokio::select! {
                ended = driven.as_mut(), if failed.is_none() => match ended {
                    Ok(_) => break Ok(()),
                    // It says who is to be gone around, which a hedge beside it may wait for as well.
                    Err(fault) if fault.cause == Cause::Slow => break Err(fault),
                    Err(fault) => failed = Some(fault),
                },
                Some(ended) = race.hedges.join_next() => {
                    if let Ok(hedged) = ended && race.is_won(hedged) {
                        race.raced.faults.extend(failed);
                        self.hedging().found_late(race.late(), self.now());
                        break Ok(());
                    }
                }
                () = tokio::time::sleep(late_after), if is_open => late_after *= 2,
            }
            if race.hedges.is_empty()
                && let Some(fault) = failed.take()
            {
                break Err(fault);
            }
        };
        let Race { mut raced, spent, .. } = race;
        raced.hedges.bytes = spent.load(Ordering::Relaxed);
        Raced { outcome, ..raced }
    }
}

/// A flow that is late, and its hedges.
struct Race<'a> {
    first: &'a Course,
    beside: Beside,
    hedges: JoinSet<Hedged>,
    /// Whom each flow waits for, and whether it is a star.
    waited_for: Vec<(Awaited, bool)>,
    /// Nodes that hedges leave out.
    around: BTreeSet<NodeId>,
    spent: Arc<AtomicU64>,
    /// There may be further hedges.
    is_open: bool,
    raced: Raced,
}

impl<'a> Race<'a> {
    fn new(first: &'a Course, awaited: Awaited, beside: Beside) -> Race<'a> {
        Race {
            first,
            beside,
            hedges: JoinSet::new(),
            waited_for: vec![(awaited, first.is_star)],
            around: BTreeSet::new(),
            spent: Arc::default(),
            is_open: true,
            raced: Raced::alone(Ok(())),
        }
    }

    /// Asks others, if somebody is waited for who was not yet: else it is this process that is late, or whoever takes the bytes.
    fn hedge_if_late(&mut self, client: &Client, ask: &Ask) {
        let Some(late) = awaited_nodes(&self.waited_for) else { return };
        let is_first = self.raced.hedges.asked == 0;
        if self.beside.is_held_up() || (late.is_subset(&self.around) && !is_first) {
            return;
        }
        self.around.extend(late);
        let (ask, kind, spent) = (ask.around(&self.around), self.first.kind, self.spent.clone());
        let awaited = Awaited::default();
        self.waited_for.push((awaited.clone(), true));
        let hedge = Hedge { ask, kind, spent, beside: self.beside.clone(), awaited };
        self.hedges.spawn(hedge.fly(client.clone()));
        self.raced.hedges.asked += 1;
        self.is_open = self.raced.hedges.asked < MAX_HEDGES;
    }

    /// A hedge has ended; whether it has brought all.
    fn is_won(&mut self, hedged: Hedged) -> bool {
        let Hedged { course, outcome, took } = hedged;
        match (course, outcome) {
            (Some(course), Ok(())) => {
                self.raced.hedges.first += 1;
                let still = awaited_nodes(&self.waited_for).unwrap_or_default();
                self.raced.around = self.around.intersection(&still).copied().collect();
                self.raced.winner = Some((course, took));
                return true;
            }
            (Some(_), Err(fault)) => self.raced.faults.push(fault),
            // Nobody else could help, or it would cost too much.
            (None, _) => self.is_open = false,
        }
        false
    }

    /// Whom the hedge came first around. In a chain nobody sees who is late: it is one of those whom the hedge did without.
    fn late(&self) -> Vec<NodeId> {
        match &self.raced.winner {
            Some((won, _)) if self.raced.around.is_empty() && !self.first.is_star => {
                self.first.from.difference(&won.from).copied().collect()
            }
            _ => self.raced.around.iter().copied().collect(),
        }
    }
}

/// Nodes that flows wait for, of those flows in which the reader sees it; `None` if no flow waits for anybody.
fn awaited_nodes(flows: &[(Awaited, bool)]) -> Option<BTreeSet<NodeId>> {
    let (mut nodes, mut waits) = (BTreeSet::new(), false);
    for (awaited, is_star) in flows {
        let senders = awaited.senders();
        waits |= !senders.is_empty();
        nodes.extend(senders.into_iter().filter(|_| *is_star).filter_map(Peer::node));
    }
    waits.then_some(nodes)
}

/// A flow beside another one.
struct Hedge {
    ask: Ask,
    /// Of the read that is late.
    kind: Kind,
    spent: Arc<AtomicU64>,
    beside: Beside,
    awaited: Awaited,
}

impl Ask {
    fn around(&self, late: &BTreeSet<NodeId>) -> Ask {
        let avoid = self.avoid.iter().copied().chain(late.iter().map(|node| node.0)).collect();
        Ask { avoid, scheme: HEDGE_SCHEME.to_owned(), ..self.clone() }
    }
}

impl Hedge {
    async fn fly(self, client: Client) -> Hedged {
        let never = Hedged { course: None, outcome: Ok(()), took: Duration::ZERO };
        let planned = client.plan_of(&self.ask).await.and_then(|reply| self.ask.answer(reply));
        let answer = match planned {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(%error, "a late read is not hedged");
                return never;
            }
        };
        let course = Course::of(&answer);
        if !client.hedging().spend(self.kind, course.carried_bytes) {
            return never;
        }
        self.spent.fetch_add(course.carried_bytes, Ordering::Relaxed);
        tracing::debug!(avoid = ?self.ask.avoid, "a late read is hedged");
        let sink = Some(self.beside.sink(&answer.plan));
        let io = DriverIo { sink, awaited: Some(self.awaited), ..DriverIo::default() };
        let driven = client.engine.drive(answer.plan, io, |_| {}).await;
        let took = course.started.elapsed();
        Hedged { course: Some(course), outcome: driven.map(drop), took }
    }
}
