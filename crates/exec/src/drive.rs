//! The driver of a flow: prepares every participant, grants slices, collects what comes, names who is to blame.
//!
//! Every flow has one driver: the requestor for a read or repair, the client for a put, the archiving node for an
//! encoding. This driver runs plans of one lane.

use crate::answer;
use crate::engine::{Engine, Prepared, StageIo};
use crate::stage::Sink;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use wire::proto::driver_message::Kind as ToStage;
use wire::proto::stage_message::Kind as FromStage;
use wire::spec::{FlowHeader, decode_header, prepare_for};
use wire::{Cause, Fault, limits, proto};

/// Grants are given in this many parts of a window. Each is a message that wakes every participant at once; where they
/// share processors that is a stall of a millisecond or two on all links, and no link ever makes up for it.
const GRANTS_PER_WINDOW: u64 = 4;

/// Whoever looks on is told how far a flow is at most this often.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Messages between the driver and one participant that may wait.
const MAX_MESSAGES: usize = 256;

/// After the first fault the driver listens this long for what others say, to blame the cause and not its effects.
const BLAME_WINDOW: Duration = Duration::from_millis(150);

/// Stages stall one after another along a chain; the driver waits this long after the first one says so.
const STALL_WINDOW: Duration = Duration::from_millis(1_000);

/// What the client's own stages of a flow read or deliver.
#[derive(Default)]
pub struct DriverIo {
    /// The block that a put writes, whole.
    pub source: Option<Arc<Vec<u8>>>,
    /// Where a read delivers.
    pub sink: Option<Sink>,
}

impl Engine {
    /// Runs a flow to its end, as its driver. Dropping the future ends the flow everywhere.
    pub async fn drive(
        &self,
        plan: proto::FlowPlan,
        io: DriverIo,
        progress: impl FnMut(proto::DriveProgress) + Send,
    ) -> Result<proto::DriveResult, Fault> {
        let started = Instant::now();
        let header = decode_header(plan.header.as_ref().ok_or_else(|| invalid("a plan without a header"))?)?;
        let enrich = |f: Fault| self.enrich(&header, f);
        if plan.stages.iter().any(|s| s.lane != 0) {
            return Err(enrich(invalid("this driver runs plans of one lane")));
        }
        let participants = self.prepare_all(&plan, &header, io).await.map_err(enrich)?;
        let mut driver = Driver::new(&plan, header.clone(), participants, started, progress);
        driver.run().await.map_err(enrich)
    }

    async fn prepare_all(
        &self,
        plan: &proto::FlowPlan,
        header: &FlowHeader,
        io: DriverIo,
    ) -> Result<Participants, Fault> {
        let (events, incoming) = mpsc::channel(MAX_MESSAGES);
        let mut io = Some(io);
        let mut remotes = tokio::task::JoinSet::new();
        let mut local = None;
        let mut calls = HashMap::new();
        for participant in &plan.participants {
            let Some(prepare) = prepare_for(plan, flow::Site(participant.site))? else { continue };
            if participant.node == self.node() {
                local = Some((participant.site, prepare));
                continue;
            }
            let prepare = granted_at_once(plan, header, prepare);
            if let Some((edge, call)) = answer::call_for(&prepare, header)
                && reads_here(plan, self.node())
            {
                calls.insert(edge, call);
                continue;
            }
            let (engine, participant, events) = (self.clone(), participant.clone(), events.clone());
            remotes.spawn(async move { Remote::prepare(&engine, participant, prepare, events).await });
        }
        let mut here = None;
        if let Some((site, prepare)) = local {
            let io = io.take().unwrap_or_default();
            let engine = self.clone();
            let io = StageIo { source: io.source, sink: io.sink, calls };
            let prepared = tokio::task::spawn_blocking(move || engine.prepare(&prepare, io))
                .await
                .map_err(|e| Fault::new(Cause::Bug, e.to_string()))??;
            let count = first_window(plan, header);
            prepared.grant(0, plan.first_slice, count)?;
            if count == plan.slice_count {
                prepared.finish()?;
            }
            here = Some(Here::new(site, prepared, events.clone()));
        }
        let mut there = Vec::new();
        let patience = Duration::from_millis(u64::from(header.lease_ms));
        let all = async {
            while let Some(joined) = remotes.join_next().await {
                there.push(joined.map_err(|e| Fault::new(Cause::Bug, e.to_string()))??);
            }
            Ok::<(), Fault>(())
        };
        match tokio::time::timeout(patience, all).await {
            Ok(done) => done?,
            Err(_) => return Err(Fault::new(Cause::Unreachable, "a participant did not answer in time")),
        }
        Ok(Participants { here, there, incoming })
    }

    /// The control channel to a node, shared by all flows.
    pub(crate) fn channel(&self, addr: &str) -> Result<Channel, Fault> {
        let mut channels = self.0.channels.lock().unwrap_or_else(|p| p.into_inner());
        if let Some(channel) = channels.get(addr) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(format!("http://{addr}"))
            .map_err(|e| invalid(&format!("control address {addr:?}: {e}")))?
            .connect_timeout(Duration::from_millis(limits::CONNECT_TIMEOUT_MS))
            .tcp_nodelay(true);
        let channel = endpoint.connect_lazy();
        channels.insert(addr.to_owned(), channel.clone());
        Ok(channel)
    }
}

/// The first window is granted with the preparation: nobody waits for a second round of messages, and a flow within one
/// window needs no other message at all.
fn granted_at_once(plan: &proto::FlowPlan, header: &FlowHeader, prepare: proto::Prepare) -> proto::Prepare {
    let count = first_window(plan, header);
    let grant = proto::Grant { lane: 0, first: plan.first_slice, count };
    proto::Prepare { grants: vec![grant], finish: count == plan.slice_count, ..prepare }
}

/// Whether the driver is where a read ends: then those who only answer it are called by its own stage.
fn reads_here(plan: &proto::FlowPlan, node: u32) -> bool {
    let reads = |s: &proto::Stage| {
        s.outputs.iter().any(|o| matches!(o.kind, Some(proto::stage_output::Kind::Read(_))))
    };
    let node_of = |site: u32| plan.participants.iter().find(|p| p.site == site).map(|p| p.node);
    plan.stages.iter().any(|s| reads(s) && node_of(s.site) == Some(node))
}

fn first_window(plan: &proto::FlowPlan, header: &FlowHeader) -> u64 {
    plan.slice_count.min(u64::from(header.window_slices))
}

struct Participants {
    here: Option<Here>,
    there: Vec<Remote>,
    incoming: mpsc::Receiver<Report>,
}

/// What a participant says: `None` when it says nothing any more.
struct Report {
    site: u32,
    node: u32,
    message: Option<FromStage>,
}

/// The driver's own stages.
struct Here {
    prepared: Arc<OwnStages>,
    forward: tokio::task::JoinHandle<()>,
}

/// [`Prepared`], its events taken out.
struct OwnStages(Prepared);

impl Here {
    fn new(site: u32, mut prepared: Prepared, events: mpsc::Sender<Report>) -> Here {
        let (_, empty) = mpsc::channel(1);
        let mut own = std::mem::replace(&mut prepared.events, empty);
        let forward = tokio::spawn(async move {
            while let Some(message) = own.recv().await {
                let report = Report { site, node: 0, message: message.kind };
                if events.send(report).await.is_err() {
                    return;
                }
            }
        });
        Here { prepared: Arc::new(OwnStages(prepared)), forward }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.forward.abort();
        self.prepared.0.abort();
    }
}

/// A node that takes part.
struct Remote {
    commands: mpsc::Sender<proto::DriverMessage>,
    forward: tokio::task::JoinHandle<()>,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.forward.abort();
    }
}

impl Remote {
    async fn prepare(
        engine: &Engine,
        participant: proto::Participant,
        prepare: proto::Prepare,
        events: mpsc::Sender<Report>,
    ) -> Result<Remote, Fault> {
        let node = participant.node;
        let unreachable = |what: String| Fault::new(Cause::Unreachable, what).suspecting(node, node);
        let channel = engine.channel(&participant.control_addr)?;
        let mut client = proto::node_client::NodeClient::new(channel)
            .max_decoding_message_size(limits::MAX_CONTROL_BYTES)
            .max_encoding_message_size(limits::MAX_CONTROL_BYTES);
        let (commands, outgoing) = mpsc::channel(MAX_MESSAGES);
        send(&commands, ToStage::Prepare(prepare)).await;
        let mut answers = client
            .run_stages(ReceiverStream::new(outgoing))
            .await
            .map_err(|s| unreachable(s.message().to_owned()))?
            .into_inner();
        match answers.next().await {
            Some(Ok(proto::StageMessage { kind: Some(FromStage::Prepared(_)) })) => {}
            Some(Ok(proto::StageMessage { kind: Some(FromStage::Failed(fault)) })) => {
                return Err(fault.into());
            }
            Some(Ok(_)) => return Err(unreachable("it does not keep to the protocol".into())),
            Some(Err(status)) => return Err(unreachable(status.message().to_owned())),
            None => return Err(unreachable("it closed the control stream".into())),
        }
        let site = participant.site;
        let forward = tokio::spawn(async move {
            loop {
                let message = match answers.next().await {
                    Some(Ok(message)) => message.kind,
                    Some(Err(_)) | None => None,
                };
                let last = message.is_none();
                if events.send(Report { site, node, message }).await.is_err() || last {
                    return;
                }
            }
        });
        Ok(Remote { commands, forward })
    }
}

async fn send(commands: &mpsc::Sender<proto::DriverMessage>, kind: ToStage) {
    // A participant that is gone is noticed by the end of its reports.
    let _ = commands.send(proto::DriverMessage { kind: Some(kind) }).await;
}

/// A stage, by lane and index.
type StageKey = (u32, u32);

struct Driver<'a, P> {
    plan: &'a proto::FlowPlan,
    header: FlowHeader,
    participants: Participants,
    started: Instant,
    progress: P,
    told: Instant,
    /// Slices delivered by each stage where something ends.
    delivered: BTreeMap<StageKey, u64>,
    granted: u64,
    /// Stages that have not yet said Done.
    running: BTreeSet<StageKey>,
    /// Edges (by node) on which somebody waits for input.
    waiting: BTreeSet<(u32, u32)>,
    result: proto::DriveResult,
}

impl<'a, P: FnMut(proto::DriveProgress) + Send> Driver<'a, P> {
    fn new(
        plan: &'a proto::FlowPlan,
        header: FlowHeader,
        participants: Participants,
        started: Instant,
        progress: P,
    ) -> Self {
        let ends = |s: &&proto::Stage| {
            s.outputs.iter().any(|o| !matches!(o.kind, Some(proto::stage_output::Kind::Edge(_)) | None))
        };
        Driver {
            granted: first_window(plan, &header),
            header,
            participants,
            started,
            progress,
            told: started,
            delivered: plan.stages.iter().filter(ends).map(|s| ((s.lane, s.stage), 0)).collect(),
            running: plan.stages.iter().map(|s| (s.lane, s.stage)).collect(),
            waiting: BTreeSet::new(),
            result: proto::DriveResult::default(),
            plan,
        }
    }

    async fn run(&mut self) -> Result<proto::DriveResult, Fault> {
        let mut keep_alive = tokio::time::interval(Duration::from_millis(limits::KEEP_ALIVE_MS));
        while !self.running.is_empty() {
            tokio::select! {
                report = self.participants.incoming.recv() => {
                    let Some(report) = report else {
                        return Err(Fault::new(Cause::Bug, "all participants fell silent"));
                    };
                    if let Err(fault) = self.hear(report).await {
                        return Err(self.blame(fault).await);
                    }
                }
                _ = keep_alive.tick() => {
                    for remote in &self.participants.there {
                        send(&remote.commands, ToStage::KeepAlive(proto::Empty {})).await;
                    }
                }
            }
        }
        self.result.links = links(self.plan, &self.result.stages);
        Ok(std::mem::take(&mut self.result))
    }

    /// Slices that have reached every end.
    fn delivered(&self) -> u64 {
        self.delivered.values().copied().min().unwrap_or(0)
    }

    /// Grants up to the window's end, in parts that are worth a message.
    async fn grant(&mut self) -> Result<(), Fault> {
        let window = u64::from(self.header.window_slices);
        let wanted = self.plan.slice_count;
        let reach = wanted.min(self.delivered().saturating_add(window));
        let part = (window / GRANTS_PER_WINDOW).max(1);
        if reach <= self.granted || (reach - self.granted < part && reach != wanted) {
            return Ok(());
        }
        let (first, count) = (self.plan.first_slice + self.granted, reach - self.granted);
        self.granted = reach;
        if let Some(here) = &self.participants.here {
            here.prepared.0.grant(0, first, count)?;
        }
        for remote in &self.participants.there {
            send(&remote.commands, ToStage::Grant(proto::Grant { lane: 0, first, count })).await;
        }
        if self.granted == wanted {
            if let Some(here) = &self.participants.here {
                here.prepared.0.finish()?;
            }
            for remote in &self.participants.there {
                send(&remote.commands, ToStage::Finish(proto::Finish {})).await;
            }
        }
        Ok(())
    }

    async fn hear(&mut self, report: Report) -> Result<(), Fault> {
        match report.message {
            None => {
                let lost = self.plan.stages.iter().any(|s| s.site == report.site && self.runs(s));
                if lost {
                    let node = report.node;
                    let what = format!("node-{node} ended the control stream before its work was done");
                    return Err(Fault::new(Cause::Unreachable, what).suspecting(node, node));
                }
                Ok(())
            }
            Some(FromStage::Failed(fault)) => Err(fault.into()),
            Some(FromStage::Waiting(fault)) => self.stalled(fault.into()).await,
            Some(FromStage::Progress(p)) => {
                let before = self.delivered();
                if let Some(delivered) = self.delivered.get_mut(&(p.lane, p.stage)) {
                    *delivered = p.delivered.min(self.granted);
                }
                self.advanced(before).await
            }
            Some(FromStage::Staged(staged)) => {
                self.result.durable_us = self.elapsed_us();
                self.result.staged.push(staged);
                Ok(())
            }
            Some(FromStage::Done(stats)) => {
                let key = (stats.lane, stats.stage);
                self.running.remove(&key);
                let before = self.delivered();
                if let Some(delivered) = self.delivered.get_mut(&key) {
                    *delivered = self.plan.slice_count;
                }
                self.result.stages.push(stats);
                self.advanced(before).await
            }
            Some(FromStage::Prepared(_)) => Ok(()),
        }
    }

    fn runs(&self, stage: &proto::Stage) -> bool {
        self.running.contains(&(stage.lane, stage.stage))
    }

    async fn advanced(&mut self, before: u64) -> Result<(), Fault> {
        let delivered = self.delivered();
        if delivered == before && delivered != self.plan.slice_count {
            return Ok(());
        }
        self.waiting.clear();
        if delivered == self.plan.slice_count && self.result.verified_us == 0 {
            self.result.verified_us = self.elapsed_us();
        }
        if delivered == self.plan.slice_count || self.told.elapsed() >= PROGRESS_EVERY {
            self.told = Instant::now();
            (self.progress)(proto::DriveProgress {
                delivered_slices: delivered,
                wanted_slices: self.plan.slice_count,
            });
        }
        self.grant().await
    }

    fn elapsed_us(&self) -> u64 {
        (self.started.elapsed().as_micros() as u64).max(1)
    }

    /// Somebody waits for input. The others along the path will say so too; who does not is to blame.
    async fn stalled(&mut self, fault: Fault) -> Result<(), Fault> {
        self.waiting.extend(fault.suspect);
        let deadline = tokio::time::Instant::now() + STALL_WINDOW;
        let before = self.delivered();
        while let Ok(Some(report)) =
            tokio::time::timeout_at(deadline, self.participants.incoming.recv()).await
        {
            match report.message {
                Some(FromStage::Waiting(other)) => self.waiting.extend(Fault::from(other).suspect),
                _ => Box::pin(self.hear(report)).await?,
            }
        }
        if self.delivered() != before {
            return Ok(());
        }
        let waits: BTreeSet<u32> = self.waiting.iter().map(|edge| edge.1).collect();
        let guilty = self.waiting.iter().find(|edge| !waits.contains(&edge.0)).copied();
        match guilty {
            // It is the end that waits for input whose word this is.
            Some((from, to)) => Err(Fault { reporter: to, ..fault }.suspecting(from, to)),
            None => Ok(()),
        }
    }

    /// Listens a moment longer and keeps the report nearest to the cause.
    async fn blame(&mut self, first: Fault) -> Fault {
        let mut worst = first;
        let deadline = tokio::time::Instant::now() + BLAME_WINDOW;
        while let Ok(Some(report)) =
            tokio::time::timeout_at(deadline, self.participants.incoming.recv()).await
        {
            let other = match report.message {
                Some(FromStage::Failed(fault)) => Fault::from(fault),
                None => match Box::pin(self.hear(report)).await {
                    Err(fault) => fault,
                    Ok(()) => continue,
                },
                _ => continue,
            };
            if nearness(other.cause) < nearness(worst.cause) {
                worst = other;
            }
        }
        worst
    }
}

/// How near a cause is to the root: lower is nearer. A corrupt block explains a lost connection, not the reverse.
fn nearness(cause: Cause) -> u8 {
    match cause {
        Cause::Aborted => 4,
        Cause::Disconnected => 3,
        Cause::Stalled => 2,
        Cause::Unreachable => 1,
        _ => 0,
    }
}

/// Measured payload bytes between sites.
fn links(plan: &proto::FlowPlan, stages: &[proto::StageStats]) -> Vec<proto::LinkBytes> {
    let site: BTreeMap<StageKey, u32> = plan.stages.iter().map(|s| ((s.lane, s.stage), s.site)).collect();
    let mut sums: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for stats in stages {
        for sent in &stats.sent {
            let edge = plan.edges.iter().find(|e| e.lane == stats.lane && e.edge == sent.edge);
            let ends = edge.and_then(|e| Some((*site.get(&(e.lane, e.from))?, *site.get(&(e.lane, e.to))?)));
            if let Some(ends) = ends {
                *sums.entry(ends).or_default() += sent.payload_bytes;
            }
        }
    }
    sums.into_iter().map(|((from, to), bytes)| proto::LinkBytes { from, to, bytes }).collect()
}

fn invalid(what: &str) -> Fault {
    Fault::new(Cause::Invalid, what)
}
