//! The driver of a flow: prepares every participant, grants slices, collects what comes, names who is to blame.
//!
//! Every flow has one driver: the requestor for a read or repair, the client for a put, the archiving node for an
//! encoding. A flow that mends another one (the same flow, a later attempt) carries only what its writers still lack.

mod blame;
mod grants;
mod holdup;
mod participants;

use crate::answer;
use crate::awaited::Awaited;
use crate::control::{Deadlines, Heard, Report, all_prepared};
use crate::engine::{Engine, StageIo};
use crate::stage::{REPORTS_PER_WINDOW, Sink};
use flow::{Flow, FlowPlan, Output, Site, Stage, StageKey};
use grants::Grants;
use holdup::{LOOK_EVERY, PREPARED_WITHIN, STANDS_STILL, Watch};
use model::{Cause, Fault, Peer};
use participants::{Here, Participants, Remote, lanes_of, within};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use wire::codec::{part, plan};
use wire::proto::stage_message::Kind as FromStage;
use wire::{limits, proto};

/// Whoever looks on is told how far a flow is at most this often.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Reports of a flow that may wait for its driver, for each stage: how far it is, a few times in each of two windows, and how
/// it ended.
const REPORTS_PER_STAGE: usize = 4 * REPORTS_PER_WINDOW as usize;

/// What the client's own stages of a flow read or deliver.
#[derive(Default)]
pub struct DriverIo {
    /// The block that a put writes, whole.
    pub source: Option<Arc<Vec<u8>>>,
    /// Where a read delivers.
    pub sink: Option<Sink>,
    /// Knows whom the driver's own stages wait for.
    pub awaited: Option<Awaited>,
    /// The driver goes around a node that stands still. It is told early, as [`Cause::Slow`], whatever time is expected of the flow.
    pub goes_around: bool,
}

impl Engine {
    /// Runs a flow to its end, as its driver. Dropping the future ends the flow everywhere.
    pub async fn drive(
        &self,
        plan: FlowPlan<Flow>,
        io: DriverIo,
        progress: impl FnMut(proto::DriveProgress) + Send,
    ) -> Result<proto::DriveResult, Fault> {
        let started = Instant::now();
        let (header, lanes) = (&plan.binding.header, plan.flow.lane_shares());
        let enrich = |f: Fault| naming(&plan, self.enrich(header, f));
        let all = plan.binding.slices.clone();
        let mut grants = Grants::new(&lanes, header, vec![all.clone()], ends(&plan.flow));
        // What an earlier attempt left is known only when everyone is prepared.
        let at_once = if header.attempt == 1 || !header.keep { grants.next() } else { Vec::new() };
        let first = FirstGrants { finish: !at_once.is_empty() && grants.all(), grants: at_once };
        let goes_around = io.goes_around;
        let participants = self.prepare_all(&plan, io, &first).await.map_err(enrich)?;
        let mut kept_slices = 0;
        if first.grants.is_empty()
            && let Some(lack) = participants.lack()
        {
            let lack = clipped(lack, &all);
            grants = Grants::new(&lanes, header, lack, ends(&plan.flow));
            kept_slices = all.end - all.start - grants.wanted();
        }
        let mut driver = Driver {
            running: plan.flow.stages().map(|(key, _)| key).collect(),
            failed: BTreeSet::new(),
            plan: &plan,
            grants,
            participants,
            started,
            progress,
            told: started,
            waiting: BTreeSet::new(),
            watch: Watch::of(&plan, goes_around),
            is_limited: self.throttle().sending_bytes_per_s(header.traffic).is_some(),
            result: proto::DriveResult { kept_slices, ..Default::default() },
        };
        driver.run(first.finish).await.map_err(enrich)
    }

    async fn prepare_all(
        &self,
        plan: &FlowPlan<Flow>,
        io: DriverIo,
        first: &FirstGrants,
    ) -> Result<Participants, Fault> {
        let (events, mut incoming) = mpsc::channel(REPORTS_PER_STAGE * plan.flow.stages().count().max(1));
        let lease = Duration::from_millis(u64::from(plan.binding.header.lease_ms));
        // Where a flow takes that long, messages wait as long behind the bytes of others.
        let patience = plan.expected.map_or(lease, |expected| expected.max(PREPARED_WITHIN).min(lease));
        let now = tokio::time::Instant::now();
        let still = io.goes_around.then(|| now + plan.expected.unwrap_or_default().max(STANDS_STILL));
        let deadlines = Deadlines { still, all: now + patience };
        let reads_here = reads_here(plan, self.node());
        let (mut local, mut calls, mut there) = (None, HashMap::new(), Vec::new());
        for (participant, ends) in plan.standing()? {
            let site = participant.site;
            if participant.peer == self.node() {
                local = Some((site, ends));
                continue;
            }
            let prepare = first.with(part::encode(plan, site, &ends));
            if reads_here
                && let Ok(stages) = plan.part(site, ends)
                && let Some((edge, call)) = answer::call_for(&stages, &prepare)
            {
                calls.insert(edge, call);
                continue;
            }
            there.push(Remote::begin(&self.0.control, participant, prepare, events.clone())?);
        }
        let mut here = None;
        if let Some((site, ends)) = local {
            let stages = plan.part(site, ends)?;
            let first_slice = plan.binding.slices.start;
            let awaited = io.awaited;
            let io = StageIo { source: io.source, sink: io.sink, calls, first_slice };
            let prepared = self.prepare(stages, first.grants.clone(), first.finish, io).await?;
            if let Some(awaited) = awaited {
                awaited.set(plan, &prepared);
            }
            here = Some(Here::new(site, self.node(), prepared, events));
        }
        let sites = there.iter().map(|remote| (remote.site, remote.node)).collect();
        let (kept, early) = all_prepared(sites, &mut incoming, deadlines).await?;
        Ok(Participants { here, there, kept, early: early.into(), incoming })
    }
}

/// A fault that suspects an edge, with the block that its sender brings to the flow, or its receiver: what they can look at.
fn naming(plan: &FlowPlan<Flow>, fault: Fault) -> Fault {
    let Some((from, to)) = fault.suspect.filter(|_| fault.cause == Cause::CorruptSlice) else { return fault };
    let brought = || plan.brought_by(from).or_else(|| plan.brought_by(to));
    Fault { block: fault.block.or_else(brought), ..fault }
}

/// The first window is granted with the preparation: nobody waits for a second round of messages, and a flow within one
/// window needs no other message at all.
struct FirstGrants {
    grants: Vec<proto::Grant>,
    finish: bool,
}

impl FirstGrants {
    fn with(&self, prepare: proto::Prepare) -> proto::Prepare {
        proto::Prepare { grants: within(&self.grants, &lanes_of(&prepare)), finish: self.finish, ..prepare }
    }
}

/// The stages, by lane and index, where something ends.
fn ends(flow: &Flow) -> impl Iterator<Item = StageKey> {
    let ends = |stage: &Stage| stage.outputs.iter().any(|output| !matches!(output, Output::Edge(_)));
    flow.stages().filter(move |(_, stage)| ends(stage)).map(|(key, _)| key)
}

/// Those of `ranges` that lie within `all`, ascending, each slice once.
fn clipped(mut ranges: Vec<Range<u64>>, all: &Range<u64>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut clipped: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let from = range.start.max(clipped.last().map_or(all.start, |last| last.end));
        let to = range.end.min(all.end);
        if from < to {
            clipped.push(from..to);
        }
    }
    clipped
}

/// Whether the driver is where a read ends: then those who only answer it are called by its own stage.
fn reads_here(plan: &FlowPlan<Flow>, node: Peer) -> bool {
    let reads = |stage: &Stage| stage.outputs.iter().any(|output| matches!(output, Output::Read { .. }));
    plan.flow.stages().any(|(_, stage)| reads(stage) && plan.peer(stage.site) == node)
}

struct Driver<'a, P> {
    plan: &'a FlowPlan<Flow>,
    grants: Grants,
    participants: Participants,
    started: Instant,
    progress: P,
    told: Instant,
    /// Stages that have not yet said Done.
    running: BTreeSet<StageKey>,
    /// Sites that have said what is wrong. That they end then says nothing.
    failed: BTreeSet<Site>,
    /// Lanes and edges (by node) on which somebody waits for input.
    waiting: BTreeSet<(u32, Peer, Peer)>,
    /// Of a flow of which something is expected.
    watch: Option<Watch>,
    /// Whether this process throttles what it sends of the flow's kind of traffic.
    is_limited: bool,
    result: proto::DriveResult,
}

impl<P: FnMut(proto::DriveProgress) + Send> Driver<'_, P> {
    /// Until every stage has said Done. Whether everyone knows already that all is granted.
    async fn run(&mut self, finished: bool) -> Result<proto::DriveResult, Fault> {
        if !finished {
            self.grant()?;
            if self.grants.wanted() == 0 {
                self.participants.finish()?;
            }
        }
        let mut keep_alive = tokio::time::interval(Duration::from_millis(limits::KEEP_ALIVE_MS));
        let mut look = tokio::time::interval(LOOK_EVERY);
        while !self.running.is_empty() {
            tokio::select! {
                report = self.participants.hear() => {
                    let Some(report) = report else {
                        return Err(Fault::new(Cause::Bug, "all participants fell silent"));
                    };
                    if let Err(fault) = self.hear(report).await {
                        return Err(self.blame(fault).await);
                    }
                }
                _ = keep_alive.tick() => {
                    self.participants.keep_alive()?;
                    // Slow flows report progress too, so that the coordinator does not take this driver for lost.
                    self.tell();
                }
                _ = look.tick(), if self.watch.is_some() => match self.find_holdup().await {
                    Err(fault) if fault.cause != Cause::Slow => return Err(self.blame(fault).await),
                    looked => looked?,
                },
            }
        }
        self.result.links = links(self.plan, &self.result.stages);
        Ok(std::mem::take(&mut self.result))
    }

    /// Grants up to the window's end, in parts that are worth a message.
    fn grant(&mut self) -> Result<(), Fault> {
        let grants = self.grants.next();
        if grants.is_empty() {
            return Ok(());
        }
        self.participants.grant(&grants)?;
        if self.grants.all() { self.participants.finish() } else { Ok(()) }
    }

    async fn hear(&mut self, report: Report) -> Result<(), Fault> {
        let message = match report.heard {
            Heard::Message(message) => message,
            Heard::End(why) => {
                let unfinished = self.runs_at(report.site);
                if unfinished && !self.failed.contains(&report.site) {
                    let node = report.node;
                    let why = if why.is_empty() { why } else { format!(" ({why})") };
                    let what = format!("{node} ended the control stream before its work was done{why}");
                    return Err(Fault::new(Cause::Unreachable, what).suspecting(node, node));
                }
                return Ok(());
            }
        };
        match message {
            FromStage::Failed(fault) => {
                self.failed.insert(report.site);
                Err(fault.into())
            }
            FromStage::Waiting(fault) => self.stalled(fault.into()).await,
            FromStage::Progress(p) => {
                let before = self.grants.delivered();
                self.grants.note((p.lane, p.stage), Some(p.delivered));
                self.advanced(p.lane, before)
            }
            FromStage::Staged(staged) => {
                self.result.durable_us = self.elapsed_us();
                self.result.staged.push(staged);
                Ok(())
            }
            FromStage::Done(stats) => {
                let key = (stats.lane, stats.stage);
                self.running.remove(&key);
                let before = self.grants.delivered();
                self.grants.note(key, None);
                self.result.stages.push(stats);
                self.advanced(key.0, before)
            }
            // An answer that came too late.
            FromStage::Prepared(_) | FromStage::Doing(_) | FromStage::Ended(_) => Ok(()),
        }
    }

    /// Whether a stage there has not yet said Done.
    fn runs_at(&self, site: Site) -> bool {
        self.plan.flow.stages().any(|(key, stage)| stage.site == site && self.running.contains(&key))
    }

    /// Something may have been delivered in a lane.
    fn advanced(&mut self, lane: u32, before: u64) -> Result<(), Fault> {
        let (delivered, wanted) = (self.grants.delivered(), self.grants.wanted());
        if delivered == before && delivered != wanted {
            return Ok(());
        }
        self.waiting.retain(|&(waits, _, _)| waits != lane);
        if delivered == wanted && self.result.verified_us == 0 {
            self.result.verified_us = self.elapsed_us();
        }
        if delivered == wanted || self.told.elapsed() >= PROGRESS_EVERY {
            self.tell();
        }
        self.grant()
    }

    fn tell(&mut self) {
        self.told = Instant::now();
        let kept = self.result.kept_slices;
        (self.progress)(proto::DriveProgress {
            delivered_slices: kept + self.grants.delivered(),
            wanted_slices: kept + self.grants.wanted(),
        });
    }

    fn elapsed_us(&self) -> u64 {
        (self.started.elapsed().as_micros() as u64).max(1)
    }
}

/// Measured payload bytes between sites.
fn links(plan: &FlowPlan<Flow>, stages: &[proto::StageStats]) -> Vec<proto::LinkBytes> {
    let mut sums: BTreeMap<(Site, Site), u64> = BTreeMap::new();
    for stats in stages {
        for sent in &stats.sent {
            let lane = plan.flow.lanes.get(stats.lane as usize);
            let edge = lane.and_then(|lane| lane.edges.get(sent.edge as usize));
            if let Some(ends) = edge.and_then(|edge| plan.sites_of(stats.lane, edge)) {
                *sums.entry(ends).or_default() += sent.payload_bytes;
            }
        }
    }
    plan::links(sums.into_iter())
}
