//! Where the flows of one read deliver: one after another, until nothing lacks.

use crate::outlet::{Held, Outlet};
use crate::writer::Pieces;
use exec::Sink;
use flow::{Flow, FlowPlan};
use std::io;
use std::ops::Range;
use std::time::Duration;

/// What takes the bytes of a read, flow after flow. Bytes are counted as the read's requests count them.
pub(crate) trait Intake: Send + 'static {
    /// The sink of the next flow, which brings bytes of `range` among others.
    fn open(&mut self, plan: &FlowPlan<Flow>, range: Range<u64>) -> Sink;

    /// Takes what others bring of the same bytes beside that flow; `None` if there is no room for others.
    fn beside(&self) -> Option<Beside>;

    /// Nothing of that flow, and of those beside it, counts from here on. Waits for what is being delivered.
    fn close(&mut self) -> Received;
}

/// Takes what flows beside another one bring: of each byte what comes first counts.
#[derive(Clone)]
pub(crate) struct Beside(Outlet);

impl Beside {
    /// Where a further flow delivers.
    pub fn sink(&self, plan: &FlowPlan<Flow>) -> Sink {
        self.0.sink(plan)
    }

    /// Whether bytes are being delivered right now, or wait for whoever takes them.
    pub fn is_held_up(&self) -> bool {
        self.0.is_held_up()
    }
}

/// What a flow has brought, and those before it.
pub(crate) struct Received {
    /// The first byte that lacks.
    pub reached: u64,
    /// What is there after it, as runs.
    pub held: Vec<Range<u64>>,
    /// Why nobody takes more, if that is so.
    pub gone: Option<io::Error>,
    /// How long the flow was held up by whoever takes the bytes.
    pub waited: Duration,
}

/// In order, to the writer; what is not due waits in memory.
pub(crate) struct InOrder {
    pieces: Pieces,
    outlet: Option<Outlet>,
    held: Held,
}

impl InOrder {
    pub fn new(pieces: Pieces) -> InOrder {
        InOrder { pieces, outlet: None, held: Held::default() }
    }
}

impl Intake for InOrder {
    fn open(&mut self, plan: &FlowPlan<Flow>, range: Range<u64>) -> Sink {
        let outlet = Outlet::open(range, self.pieces.clone(), std::mem::take(&mut self.held));
        let sink = outlet.sink(plan);
        self.outlet = Some(outlet);
        sink
    }

    fn beside(&self) -> Option<Beside> {
        self.outlet.clone().map(Beside)
    }

    fn close(&mut self) -> Received {
        let Some(closed) = self.outlet.take().map(|outlet| outlet.close()) else {
            let gone = Some(io::Error::other("nothing was opened"));
            return Received { reached: 0, held: Vec::new(), gone, waited: Duration::ZERO };
        };
        self.held = closed.held;
        // The writer's own error tells why.
        let gone = (!closed.listening).then(|| io::ErrorKind::BrokenPipe.into());
        Received { reached: closed.reached, held: self.held.ranges(), gone, waited: closed.waited }
    }
}
