//! Hosts stages: reserves what a flow needs, or refuses at once; runs a thread for each stage; ends them all when the
//! driver says so, or says nothing any more.

use crate::connection::{
    Abort, Call, Identity, Pool, StreamContext, frame_capacity, in_parts, receive_capacity,
};
use crate::connector::Connector;
use crate::control::ControlStreams;
use crate::doing::Doing;
use crate::ends::Ends;
use crate::fault_injection::Injection;
use crate::listener::{Expected, Greeter};
use crate::lock;
use crate::prepared::{Ending, Prepared, PreparedStage};
use crate::stage::{self, EdgePlan, InputPlan, LocalBlock, OutputPlan, Sink, Source, StageTask};
use crate::store::BlockStore;
use crate::threads::{Threads, Work};
use crate::throttle::Throttle;
use crate::written::WrittenBlocks;
use flow::bound::{EdgeEnd, FlowHeader, InputSpec, NodeStages, OutputSpec, StageSpec};
use model::{Cause, Fault, FlowId, Peer};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use wire::proto;

/// Stages, and so threads, that one process runs at once. Sixteen full-width repairs; beyond it a node thrashes.
pub const MAX_STAGES: usize = 256;

/// Memory for receive buffers of all flows of a process.
pub const MAX_BUFFER_BYTES: u64 = 1 << 30;

/// Grants that wait for one stage. The driver grants at most a window ahead, in a few parts of it.
const MAX_COMMANDS: usize = 4096;

/// Reports that wait for the driver; a stage that finds no room waits, which is back-pressure.
const MAX_EVENTS: usize = 256;

/// Flows whose latest attempt is remembered, so that an older one is refused.
const MAX_ATTEMPTS: usize = 8192;

/// What an engine is made of.
pub struct EngineConfig {
    /// The node, or a client.
    pub node: Peer,
    /// Limits its sockets.
    pub throttle: Arc<Throttle>,
    /// Where blocks are; a client has none.
    pub store: Option<Arc<dyn BlockStore>>,
    /// Faults that tests plant.
    pub injection: Arc<Injection>,
    /// At most so many stages at once.
    pub max_stages: usize,
    /// At most so much buffer memory.
    pub max_buffer_bytes: u64,
}

impl EngineConfig {
    /// The usual limits.
    pub fn new(node: Peer, throttle: Arc<Throttle>, store: Option<Arc<dyn BlockStore>>) -> EngineConfig {
        EngineConfig {
            node,
            throttle,
            store,
            injection: Arc::default(),
            max_stages: MAX_STAGES,
            max_buffer_bytes: MAX_BUFFER_BYTES,
        }
    }
}

/// Hosts stages, and drives flows (see [`crate::drive`]). Cheap to clone.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) config: EngineConfig,
    expected: Arc<Expected>,
    greeter: Greeter,
    pool: Arc<Pool>,
    written: Arc<WrittenBlocks>,
    threads: Threads,
    reserved: Mutex<Reserved>,
    attempts: Mutex<Attempts>,
    /// To other nodes, for the flows that this process drives.
    pub(crate) control: ControlStreams,
}

#[derive(Default)]
struct Reserved {
    stages: usize,
    bytes: u64,
}

#[derive(Default)]
struct Attempts {
    latest: HashMap<FlowId, u32>,
    order: VecDeque<FlowId>,
}

/// What the client's own stages of a flow read or deliver.
#[derive(Default)]
pub struct StageIo {
    /// The block that a put writes.
    pub source: Option<Arc<Vec<u8>>>,
    /// Where a read delivers.
    pub sink: Option<Sink>,
    /// Calls for participants that have no control stream, by lane and edge.
    pub(crate) calls: HashMap<(u16, u16), Call>,
    /// The first slice that a reader gets.
    pub(crate) first_slice: u64,
}

impl Engine {
    /// To be called within a tokio runtime: idle connections wait for their next Hello there.
    pub fn new(config: EngineConfig) -> Engine {
        let expected = Arc::new(Expected::default());
        Engine(Arc::new_cyclic(|inner: &Weak<Inner>| {
            let inner = inner.clone();
            let answerer = move |prepare: &proto::Prepare| {
                let engine = inner.upgrade().map(Engine);
                engine.ok_or_else(|| Fault::new(Cause::Aborted, "the node ends"))?.answer(prepare)
            };
            let threads = Threads::default();
            Inner {
                config,
                greeter: Greeter::new(expected.clone(), Arc::new(answerer), threads.clone()),
                expected,
                pool: Arc::default(),
                written: Arc::new(WrittenBlocks::new()),
                threads,
                reserved: Mutex::default(),
                attempts: Mutex::default(),
                control: ControlStreams::default(),
            }
        }))
    }

    /// The engine of a client: no blocks, no listener, no limit.
    pub fn client() -> Engine {
        Engine::new(EngineConfig::new(Peer::Client, Arc::default(), None))
    }

    /// Who waits for Hellos on this engine's behalf; the data listener needs it.
    pub fn greeter(&self) -> Greeter {
        self.0.greeter.clone()
    }

    /// The process's limits.
    pub fn throttle(&self) -> &Arc<Throttle> {
        &self.0.config.throttle
    }

    /// The node this engine is of, or a client.
    pub fn node(&self) -> Peer {
        self.0.config.node
    }

    /// Stages that run now.
    pub fn running_stages(&self) -> usize {
        lock(&self.0.reserved).stages
    }

    /// Reserves, opens and starts the stages of a flow on this process, with the first `grants`; without, they wait. Fails, leaving nothing, when anything is missing. What may block on the disk is done by the thread of
    /// one of the stages.
    pub async fn prepare(
        &self,
        stages: NodeStages,
        grants: Vec<proto::Grant>,
        finish: bool,
        io: StageIo,
    ) -> Result<Prepared, Fault> {
        let NodeStages { header, stages: specs } = stages;
        let enrich = |f: Fault| self.enrich(&header, f);
        self.note_attempt(header.flow, header.attempt).map_err(enrich)?;
        let reservation = self.reserve(&header, &specs).map_err(enrich)?;
        let (tell, told) = tokio::sync::oneshot::channel();
        let (engine, flow) = (self.clone(), header.clone());
        let host = move || {
            let opened = engine.open(&flow, specs, io).and_then(|(prepared, mut tasks)| {
                let own = tasks.pop();
                for task in tasks {
                    engine.spawn(task, reservation.clone())?;
                }
                grants.iter().try_for_each(|grant| prepared.grant(grant.lane, grant.first, grant.count))?;
                if finish {
                    prepared.finish()?;
                }
                Ok((prepared, own))
            });
            let (opened, own) = match opened {
                Ok((prepared, own)) => (Ok(prepared), own),
                Err(fault) => (Err(fault), None),
            };
            // Whoever asked may have gone; then the stage ends at once, for nobody holds `Prepared`.
            let _ = tell.send(opened);
            if let Some(task) = own {
                engine.run(task, reservation);
            }
        };
        self.in_thread(Box::new(host)).map_err(enrich)?;
        let broken = |_| Fault::new(Cause::Bug, "the thread that prepared the flow broke");
        told.await.map_err(broken).flatten().map_err(enrich)
    }

    /// The stages, each with all that it needs.
    pub(crate) fn open(
        &self,
        header: &FlowHeader,
        specs: Vec<StageSpec>,
        mut io: StageIo,
    ) -> Result<(Prepared, Vec<StageTask>), Fault> {
        let abort = Arc::new(Abort::default());
        let ending = Ending {
            abort: abort.clone(),
            expected: self.0.expected.clone(),
            flow: header.flow,
            attempt: header.attempt,
        };
        let (report, events) = tokio::sync::mpsc::channel(MAX_EVENTS);
        let id = Identity { node: self.node(), header: header.clone() };
        let lanes = specs.iter().map(|spec| spec.lane + 1).max().unwrap_or(1);
        let mut ends = Ends::new(&mut io, lanes);
        let mut stages = Vec::new();
        let mut tasks = Vec::new();
        for spec in specs {
            let (command, commands) = tokio::sync::mpsc::channel(MAX_COMMANDS);
            let doing = Arc::new(Doing::default());
            stages.push(PreparedStage {
                lane: spec.lane,
                stage: spec.stage,
                commands: command,
                doing: Arc::downgrade(&doing),
            });
            let context = Arc::new(StreamContext {
                id: id.clone(),
                throttle: self.0.config.throttle.clone(),
                abort: abort.clone(),
                doing,
                on_wait: waiting_reporter(self.clone(), header.clone(), report.clone()),
            });
            let inputs = self.open_inputs(&spec, header, &mut io)?;
            let outputs = self.open_outputs(&spec, header, &mut ends)?;
            let injection = self.0.config.injection.clone();
            tasks.push(StageTask {
                spec,
                inputs,
                outputs,
                context,
                commands,
                events: report.clone(),
                injection,
            });
        }
        let slices = header.geometry.slices();
        Ok((Prepared { stages, events, slices, kept: ends.kept(), ending }, tasks))
    }

    pub(crate) fn open_inputs(
        &self,
        spec: &StageSpec,
        header: &FlowHeader,
        io: &mut StageIo,
    ) -> Result<Vec<InputPlan>, Fault> {
        let mut plans = Vec::new();
        for input in &spec.inputs {
            plans.push(match input {
                InputSpec::Local { read, symbols } => {
                    let opened = LocalBlock::open(self.store()?, self.node(), header, read, symbols)?;
                    InputPlan::Local(opened, symbols.len())
                }
                InputSpec::Edge(end) => {
                    let call = io.calls.remove(&(end.lane, end.edge));
                    InputPlan::Edge(self.edge(header, end, false, call))
                }
                InputSpec::Source { rows } => {
                    let bytes =
                        io.source.clone().ok_or_else(|| Fault::new(Cause::Invalid, "no source here"))?;
                    InputPlan::Source(Source { bytes, rows: *rows })
                }
            });
        }
        Ok(plans)
    }

    fn open_outputs(
        &self,
        spec: &StageSpec,
        header: &FlowHeader,
        ends: &mut Ends,
    ) -> Result<Vec<OutputPlan>, Fault> {
        let node = self.node();
        let mut plans = Vec::new();
        for output in &spec.outputs {
            plans.push(match output {
                OutputSpec::Edge(end) => OutputPlan::Edge(self.edge(header, end, true, None)),
                OutputSpec::Write(write) => {
                    let store = self.store()?;
                    let create = || store.create(write, header).map_err(|f| f.suspecting(node, node));
                    let (block, beginning) = self.0.written.open(write, header, create)?;
                    ends.note(beginning);
                    OutputPlan::Write(block, write.stored_bytes, header.geometry.alpha)
                }
                OutputSpec::Read { symbols } => {
                    let reader = ends.reader().ok_or_else(|| Fault::new(Cause::Invalid, "no reader here"))?;
                    OutputPlan::Read(reader, symbols.len())
                }
            });
        }
        Ok(plans)
    }

    fn edge(&self, header: &FlowHeader, end: &EdgeEnd, sends: bool, call: Option<Call>) -> EdgePlan {
        match end.dial {
            Some(peer) => EdgePlan::Dial(end.clone(), peer, call),
            None => {
                let arrives = self.0.expected.announce(header.flow, header.attempt, end, !sends);
                EdgePlan::Wait(end.clone(), arrives)
            }
        }
    }

    fn store(&self) -> Result<Arc<dyn BlockStore>, Fault> {
        self.0.config.store.clone().ok_or_else(|| Fault::new(Cause::Invalid, "a client stores no blocks"))
    }

    fn spawn(&self, task: StageTask, reservation: Arc<Reservation>) -> Result<(), Fault> {
        let engine = self.clone();
        self.in_thread(Box::new(move || engine.run(task, reservation)))
    }

    fn in_thread(&self, work: Work) -> Result<(), Fault> {
        let none = |e| Fault::new(Cause::Busy, format!("no further thread: {e}"));
        self.0.threads.run(work).map_err(none)
    }

    /// Runs a stage to its end.
    fn run(&self, task: StageTask, _reservation: Arc<Reservation>) {
        let (context, events) = (task.context.clone(), task.events.clone());
        let connector = Connector { pool: &self.0.pool, greeter: &self.0.greeter, context: &context };
        match stage::run(task, connector) {
            Ok(()) => {}
            Err(fault) => {
                context.abort.fire();
                let fault = self.enrich(&context.id.header, fault);
                match fault.cause {
                    // Of a flow that is given up, by each of its stages.
                    Cause::Aborted => tracing::debug!("flow {}: {fault}", context.id.header.flow),
                    _ => tracing::info!("flow {}: {fault}", context.id.header.flow),
                }
                // The driver may be gone; then nobody asks.
                let _ = events.blocking_send(proto::stage_message::Kind::Failed(fault.into()));
            }
        }
    }

    /// Fills in what every fault of a flow says. One that comes from another node says it already, and whom it believes
    /// depends on who reported it.
    pub(crate) fn enrich(&self, header: &FlowHeader, mut fault: Fault) -> Fault {
        if fault.flow.is_some() {
            return fault;
        }
        fault.flow = Some(header.flow);
        fault.attempt = header.attempt;
        fault.reporter = self.node();
        if matches!(fault.cause, Cause::NoSpace | Cause::Disk) {
            // Nobody touches a disk but the node that it belongs to.
            fault.suspect = Some((fault.reporter, fault.reporter));
        }
        fault
    }

    pub(crate) fn note_attempt(&self, flow: FlowId, attempt: u32) -> Result<(), Fault> {
        let mut attempts = lock(&self.0.attempts);
        match attempts.latest.get_mut(&flow) {
            Some(latest) if attempt < *latest => {
                let what = format!("attempt {attempt} of a flow of which attempt {latest} was seen");
                Err(Fault::new(Cause::StaleAttempt, what))
            }
            Some(latest) => {
                *latest = attempt;
                Ok(())
            }
            None => {
                attempts.latest.insert(flow, attempt);
                attempts.order.push_back(flow);
                if attempts.order.len() > MAX_ATTEMPTS
                    && let Some(oldest) = attempts.order.pop_front()
                {
                    attempts.latest.remove(&oldest);
                }
                Ok(())
            }
        }
    }

    pub(crate) fn reserve(
        &self,
        header: &FlowHeader,
        specs: &[StageSpec],
    ) -> Result<Arc<Reservation>, Fault> {
        let bytes: u64 = specs.iter().map(|s| stage_bytes(s, header)).sum();
        let config = &self.0.config;
        let mut reserved = lock(&self.0.reserved);
        if reserved.stages + specs.len() > config.max_stages
            || reserved.bytes + bytes > config.max_buffer_bytes
        {
            let what = format!(
                "{} stages run and hold {} MiB of buffers; this flow needs {} and {} MiB more, the limits are {} and {} MiB",
                reserved.stages,
                reserved.bytes >> 20,
                specs.len(),
                bytes >> 20,
                config.max_stages,
                config.max_buffer_bytes >> 20,
            );
            return Err(Fault::new(Cause::Busy, what).suspecting(self.node(), self.node()));
        }
        reserved.stages += specs.len();
        reserved.bytes += bytes;
        Ok(Arc::new(Reservation { inner: self.0.clone(), stages: specs.len(), bytes }))
    }
}

/// Receive buffers, send buffers and local buffers of a stage, at most.
fn stage_bytes(spec: &StageSpec, header: &FlowHeader) -> u64 {
    let narrow = |rows: usize| rows.min(usize::from(u16::MAX)) as u16;
    let inputs = spec.inputs.iter().map(|i| receive_capacity(header, narrow(i.rows())));
    let made = |rows: usize| match in_parts(header) {
        true => frame_capacity(header.geometry.slice_bytes) * rows,
        false => receive_capacity(header, narrow(rows)),
    };
    let outputs = spec.outputs.iter().map(|o| made(o.rows(header.geometry.alpha)));
    inputs.chain(outputs).map(|bytes| bytes as u64).sum()
}

/// What a flow holds of its process; given back when its last thread has ended.
pub(crate) struct Reservation {
    inner: Arc<Inner>,
    stages: usize,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = lock(&self.inner.reserved);
        reserved.stages -= self.stages;
        reserved.bytes -= self.bytes;
    }
}

fn waiting_reporter(
    engine: Engine,
    header: FlowHeader,
    events: stage::Events,
) -> Arc<dyn Fn(Fault) + Send + Sync> {
    Arc::new(move |fault| {
        let kind = proto::stage_message::Kind::Waiting(engine.enrich(&header, fault).into());
        // A driver too busy to take it hears it again after another `stall_ms`.
        let _ = events.try_send(kind);
    })
}
