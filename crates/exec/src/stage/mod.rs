//! One stage, one thread: take a slice of every input, combine, hand it on.

mod accumulate;
mod algebra;
mod combine;
mod frame;
mod hop;
mod inputs;
mod local;
mod outputs;
mod serial;
mod strategy;
#[cfg(test)]
mod tests;

pub use inputs::{InputPlan, Source};
pub use local::LocalBlock;
pub use outputs::{Delivery, OutputPlan, Reader, Sink};

use crate::connection::{Dialling, Identity, Inlet, Link, StreamContext};
use crate::doing::Activity;
use crate::fault_injection::Injection;
use flow::bound::{EdgeEnd, StageSpec};
use gf::Product;
use inputs::Inputs;
use model::{Cause, Fault};
use outputs::Outputs;
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, mpsc};
use strategy::{Hop, Strategy};
use wire::proto;

/// So often stages say within a window how far they are: a message each, and grants are given in a few parts of a window.
pub(crate) const REPORTS_PER_WINDOW: u32 = 16;

/// What the driver tells a stage.
#[derive(Clone, Copy, Debug)]
pub enum Command {
    /// Carry slices [first, first + count).
    Run(u64, u64),
    /// End after what was granted.
    Finish,
}

/// What the driver tells a stage, in order. Bounded; room is taken only when it is needed.
pub type Commands = tokio::sync::mpsc::Receiver<Command>;

/// What a stage reports. Bounded; the driver always drains it.
pub type Events = tokio::sync::mpsc::Sender<proto::stage_message::Kind>;

/// Everything a stage needs, reserved and opened before the first grant.
pub struct StageTask {
    /// The matrix and where it stands.
    pub spec: StageSpec,
    /// Where inputs come from.
    pub inputs: Vec<InputPlan>,
    /// Where outputs go.
    pub outputs: Vec<OutputPlan>,
    /// Identity, throttle, abort.
    pub context: Arc<StreamContext>,
    /// Grants.
    pub commands: Commands,
    /// Reports.
    pub events: Events,
    /// Faults that tests plant.
    pub injection: Arc<Injection>,
}

/// A stage that runs.
pub(crate) struct Stage {
    pub(crate) id: Identity,
    lane: u32,
    stage: u32,
    pub(crate) matrix: gf::Matrix,
    /// The rows of `matrix` that are more than a copy of one input.
    pub(crate) product: Product,
    pub(crate) inputs: Inputs,
    pub(crate) outputs: Outputs,
    commands: Commands,
    events: Events,
    pub(crate) injection: Arc<Injection>,
    strategy: Strategy,
    pub(crate) scratch: combine::Scratch,
    /// Of long slices; empty where slices are short.
    pub(crate) long: accumulate::Long,
    /// Where slices share frames, the one that it is at.
    pub(crate) frame: frame::Frame,
    delivered: u64,
    reported: u64,
    report_every: u64,
    /// Processor time that the thread had used before.
    cpu_before_ns: u64,
}

/// Runs a stage to its end. Links are given back as soon as their streams have ended well.
pub fn run(mut task: StageTask, connect: impl Connect) -> Result<(), Fault> {
    // Nothing is dialled before the first grant.
    let Some(first) = task.commands.blocking_recv() else { return Err(aborted()) };
    let granted = if let Command::Run(_, count) = first { count } else { 0 };
    let doing = Arc::clone(&task.context.doing);
    let mut stage = Stage::open(task, &connect, granted)?;
    doing.now(Activity::Working);
    stage.carry(first)?;
    stage.finish(&connect)
}

/// Runs a stage that only reads, here and now, over the slices [first, first + count): its frames with their End, and
/// what it says of itself.
pub fn answer(task: StageTask, first: u64, count: u64) -> Result<(Vec<u8>, proto::StageStats), Fault> {
    let mut stage = Stage::open(task, &Unconnected, count)?;
    if stage.inputs.rows.len() > 1 {
        // Before the first of several pieces is read.
        stage.inputs.grant(first, count);
    }
    for slice in first..first + count {
        stage.slice(slice, first + count).map_err(|f| f.at(stage.lane, slice))?;
    }
    stage.outputs.end_streams()?;
    let stats = stage.stats();
    Ok((stage.outputs.into_answer(), stats))
}

/// For stages without connections.
struct Unconnected;

impl Connect for Unconnected {
    fn begin(&self, plan: EdgePlan, sends: bool) -> Connecting {
        let (_, never) = mpsc::sync_channel(1);
        Connecting::Arriving(plan.end().clone(), sends, never)
    }

    fn complete(&self, _: Connecting) -> Result<Link, Fault> {
        Err(Fault::new(Cause::Bug, "a stage that only answers has no connection"))
    }

    fn give_back(&self, _: Link) {}
}

/// Brings about the connections of edges, in two steps: all are begun before the first is waited for. Takes them back.
pub trait Connect {
    /// Dials, if that is our part.
    fn begin(&self, plan: EdgePlan, sends: bool) -> Connecting;
    /// Blocks until the link is there.
    fn complete(&self, begun: Connecting) -> Result<Link, Fault>;
    /// For another flow: this one's stream has ended well.
    fn give_back(&self, link: Link);
}

/// An edge on its way to a link.
pub enum Connecting {
    /// We dialled.
    Dialling(Dialling),
    /// The peer dials; its link arrives here. Whether we send.
    Arriving(EdgeEnd, bool, mpsc::Receiver<Link>),
}

impl Connecting {
    /// The edge, and whether we send.
    pub(crate) fn edge(&self) -> (&EdgeEnd, bool) {
        match self {
            Connecting::Dialling(dialling) => dialling.edge(),
            Connecting::Arriving(end, sends, _) => (end, *sends),
        }
    }
}

pub use inputs::EdgePlan;

fn aborted() -> Fault {
    Fault::new(Cause::Aborted, "the driver ended the flow")
}

impl Stage {
    /// With room for `granted` slices in flight.
    fn open(task: StageTask, connect: &impl Connect, granted: u64) -> Result<Stage, Fault> {
        let cpu_before_ns = thread_cpu_ns();
        let id = task.context.id.clone();
        let outputs = Outputs::open(task.outputs, &task.spec.matrix, &task.context, connect)?;
        let inputs = Inputs::open(task.inputs, &task.context, connect, granted)?;
        let product = Product::new(&outputs.computed_rows(&task.spec.matrix)?)
            .map_err(|e| Fault::new(Cause::Invalid, e.to_string()))?;
        let report_every = u64::from(id.header.lane_window_slices / REPORTS_PER_WINDOW).max(1);
        let slice_bytes = id.header.geometry.slice_bytes;
        let strategy = Strategy::choose(&id.header, &inputs, &outputs, &task.spec.matrix)?;
        Ok(Stage {
            id,
            lane: task.spec.lane,
            stage: task.spec.stage,
            scratch: combine::Scratch::new(product.inputs(), product.outputs(), slice_bytes),
            long: accumulate::Long::new(strategy, &inputs, &outputs, &task.spec.matrix),
            strategy,
            frame: frame::Frame::default(),
            matrix: task.spec.matrix,
            product,
            inputs,
            outputs,
            commands: task.commands,
            events: task.events,
            injection: task.injection,
            delivered: 0,
            reported: 0,
            report_every,
            cpu_before_ns,
        })
    }

    /// Obeys commands until Finish.
    fn carry(&mut self, first: Command) -> Result<(), Fault> {
        let mut next = Some(first);
        loop {
            let command = match next.take() {
                Some(command) => command,
                None => self.next_command()?,
            };
            match command {
                Command::Finish => {
                    hop::send_on(self)?;
                    return self.outputs.flush();
                }
                Command::Run(first, count) => {
                    self.inputs.grant(first, count);
                    for slice in first..first + count {
                        self.slice(slice, first + count).map_err(|f| f.at(self.lane, slice))?;
                    }
                }
            }
        }
    }

    fn next_command(&mut self) -> Result<Command, Fault> {
        if let Ok(command) = self.commands.try_recv() {
            return Ok(command);
        }
        hop::send_on(self)?;
        self.outputs.flush()?;
        self.report()?;
        let _idle = self.inputs.context.doing.during(Activity::Idle);
        self.commands.blocking_recv().ok_or_else(aborted)
    }

    fn slice(&mut self, slice: u64, granted_end: u64) -> Result<(), Fault> {
        if self.injection.stalls(slice) {
            while !self.inputs.context.abort.fired() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            return Err(aborted());
        }
        match self.strategy {
            Strategy::Frame(place) => frame::slice(self, place, slice, granted_end)?,
            Strategy::Stream => accumulate::stream(self, slice, granted_end)?,
            Strategy::Accumulate => accumulate::slice(self, slice, granted_end)?,
            Strategy::InPlace(hop) => self.whole_slice(Some(hop), slice, granted_end)?,
            Strategy::Combine => self.whole_slice(None, slice, granted_end)?,
        }
        self.outputs.delivered(slice)?;
        self.delivered += 1;
        if self.delivered - self.reported >= self.report_every {
            self.report()?;
        }
        Ok(())
    }

    fn whole_slice(&mut self, hop: Option<Hop>, slice: u64, granted_end: u64) -> Result<(), Fault> {
        if !self.inputs.ready(slice) || self.outputs.full() {
            hop::send_on(self)?;
            self.outputs.flush()?;
        }
        self.inputs.take(slice, granted_end)?;
        let in_place = hop.map_or(Ok(false), |hop| hop::in_place(self, hop, slice))?;
        if !in_place {
            hop::send_on(self)?;
            combine::slice(self, slice)?;
        }
        if self.id.header.serial {
            serial::hand_over(self)?;
        }
        Ok(())
    }

    fn report(&mut self) -> Result<(), Fault> {
        if !self.outputs.deliver() || self.reported == self.delivered {
            return Ok(());
        }
        self.reported = self.delivered;
        self.send(proto::stage_message::Kind::Progress(proto::Progress {
            lane: self.lane,
            stage: self.stage,
            delivered: self.delivered,
        }))
    }

    fn finish(mut self, connect: &impl Connect) -> Result<(), Fault> {
        self.outputs.end_streams()?;
        if self.outputs.writes() {
            // Until blocks are durable takes a while; what is only read is done at once, and says so below.
            self.report()?;
        }
        self.inputs.take_ends()?;
        let mut stats: Vec<_> = self.inputs.inlets.iter_mut().filter_map(Inlet::answered).collect();
        // Whoever sends here may say Hello for another flow by now, which need not wait for this one's disk.
        self.inputs.take_links().for_each(|link| connect.give_back(link));
        for mut staged in self.outputs.finish_blocks()? {
            (staged.lane, staged.stage, staged.node) = (self.lane, self.stage, self.id.node.number());
            self.send(proto::stage_message::Kind::Staged(staged))?;
        }
        stats.push(self.stats());
        // Once all are done the flow is ended, and what it still has of connections with it.
        self.outputs.into_links().for_each(|link| connect.give_back(link));
        for stats in stats {
            send(&self.events, proto::stage_message::Kind::Done(stats))?;
        }
        Ok(())
    }

    fn stats(&self) -> proto::StageStats {
        proto::StageStats {
            lane: self.lane,
            stage: self.stage,
            node: self.id.node.number(),
            sent: self.outputs.sent(),
            cpu_ns: thread_cpu_ns().saturating_sub(self.cpu_before_ns),
            disk_read_bytes: self.inputs.read_bytes(),
            disk_written_bytes: self.outputs.written_bytes,
        }
    }

    fn send(&self, kind: proto::stage_message::Kind) -> Result<(), Fault> {
        send(&self.events, kind)
    }
}

fn send(events: &Events, kind: proto::stage_message::Kind) -> Result<(), Fault> {
    events.blocking_send(kind).map_err(|_| aborted())
}

/// Processor time of the calling thread.
fn thread_cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    (t.tv_sec as u64) * 1_000_000_000 + t.tv_nsec as u64
}
