//! Reading a range of one block, around nodes that fail, and those that are slow while others could help.

use crate::ask::Ask;
use crate::attempts::Attempts;
use crate::connect::Client;
use crate::error::{Result, broken_task};
use crate::flight::{Hedges, Landed};
use crate::intake::{InOrder, Intake};
use crate::options::GetOptions;
use crate::outlet::ROOM_BYTES;
use crate::writer::Pieces;
use gf::CHUNK_BYTES;
use model::{BlockId, Cause, NodeId, Peer};
use plan::decide::{Bounds, Course};
use std::collections::BTreeSet;
use std::ops::Range;
use tokio::task::JoinHandle;

/// A read of part of a block.
pub(crate) struct BlockRead {
    pub name: String,
    pub index: u64,
    pub block: BlockId,
    /// Bytes of the block.
    pub range: Range<u64>,
    /// A virtual block all of which is read can be read with others of its stripe.
    pub together: Option<Together>,
}

/// Where a virtual block stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Together {
    pub stripe: Vec<u8>,
    /// Which member of the stripe it is.
    pub member: u16,
    /// What each takes up in a read of several.
    pub room_bytes: u64,
}

/// A read that runs, and ends when nobody waits for it any more.
pub(crate) struct Reading(JoinHandle<Result<HowRead>>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reading {
    /// Of the task that reads.
    pub fn of(task: JoinHandle<Result<HowRead>>) -> Reading {
        Reading(task)
    }

    pub async fn end(mut self) -> Result<HowRead> {
        (&mut self.0).await.map_err(broken_task)?
    }
}

/// How a block was read.
#[derive(Default)]
pub(crate) struct HowRead {
    /// It had to be decoded from others.
    pub degraded: bool,
    /// Nodes that were gone around because they were slow.
    pub around: BTreeSet<NodeId>,
    /// Flows beside those that were late.
    pub hedges: Hedges,
}

/// How blocks were read, one after another.
#[derive(Default)]
pub(crate) struct Sum {
    pub degraded_blocks: u64,
    pub around: BTreeSet<NodeId>,
    pub hedges: Hedges,
}

impl Sum {
    /// So many further ones, read at once.
    pub fn add(&mut self, how: HowRead, blocks: u64) {
        self.degraded_blocks += if how.degraded { blocks } else { 0 };
        self.around.extend(how.around);
        self.hedges += how.hedges;
    }
}

/// Length of one request: everything or, if copies are partly damaged, a short range that soon grows.
#[derive(Default)]
struct Steps(Option<u64>);

impl Steps {
    fn shorten(&mut self) {
        self.0 = Some(CHUNK_BYTES as u64);
    }

    fn lengthen(&mut self) {
        self.0 = self.0.and_then(|bytes| bytes.checked_mul(2));
    }

    /// Returns the end of a request that begins at `start`: a chunk's end, or `end`.
    fn end_after(&self, start: u64, end: u64) -> u64 {
        let step =
            self.0.map(|bytes| (start / CHUNK_BYTES as u64 * CHUNK_BYTES as u64).saturating_add(bytes));
        step.unwrap_or(end).min(end)
    }
}

impl Client {
    /// Begins to send the bytes of `read` to `pieces`, in order. What has been sent is never sent again, whatever fails.
    pub(crate) fn begin_read(&self, read: BlockRead, pieces: Pieces, options: &GetOptions) -> Reading {
        let ask = Ask {
            blocks: vec![read.block],
            range: read.range,
            room_bytes: ROOM_BYTES,
            scheme: options.scheme.clone(),
            slice_bytes: options.slice_bytes,
            ..Ask::default()
        };
        let what = format!("reading block {} of '{}'", read.index, read.name);
        let (client, patient) = (self.clone(), options.patient);
        let task = async move { client.read_into(ask, what, InOrder::new(pieces), patient).await };
        Reading::of(tokio::spawn(task))
    }

    /// Lets flows bring what is asked for until nothing lacks.
    pub(crate) async fn read_into(
        &self,
        mut ask: Ask,
        what: String,
        mut intake: impl Intake,
        patient: bool,
    ) -> Result<HowRead> {
        let mut how = HowRead::default();
        let mut attempts = Attempts::new(what, Course::new(Bounds::READ, patient));
        let (end, mut steps) = (ask.range.end, Steps::default());
        while ask.range.start < end {
            ask.range.end = steps.end_after(ask.range.start, end);
            ask.avoid = attempts.avoid();
            if !patient {
                ask.late = self.hedging().late(self.now()).into_iter().map(|node| node.0).collect();
            }
            let answer = match self.plan_of(&ask).await {
                Ok(reply) => ask.answer(reply)?,
                Err(error) => {
                    attempts.refused(error).await?;
                    // No node is left whose copy was not found damaged: read the sound chunks of each.
                    steps.shorten();
                    continue;
                }
            };
            let watched = attempts.course.watches();
            let Landed { received, outcome, faults, degraded, hedges, around, intake: again } =
                self.try_read(answer, &ask, intake, watched).await?;
            intake = again;
            how.degraded |= degraded;
            how.hedges += hedges;
            how.around.extend(around);
            for fault in &faults {
                self.report(fault).await;
            }
            if let Some(of) = &ask.of_group {
                faults.iter().chain(outcome.as_ref().err()).for_each(|fault| of.learn(fault));
            }
            if received.reached > ask.range.start {
                attempts.course.advanced();
            }
            ask.held = received.held;
            ask.range.start = received.reached.min(ask.range.end);
            match outcome {
                Ok(()) => steps.lengthen(),
                Err(fault) if fault.cause == Cause::Slow => {
                    tracing::info!(%fault, "a node is slow: going around it");
                    let slow = attempts.broke(fault, &[Peer::Client]).await?;
                    let doubted = attempts.course.doubted().iter().copied();
                    self.hedging().found_late(slow.into_iter().chain(doubted), self.now());
                    how.around.extend(slow);
                    // So many are slow that it is the rule.
                    if !attempts.course.watches() {
                        self.usual().forget();
                    }
                }
                Err(fault) => {
                    self.report(&fault).await;
                    attempts.broke(fault, &[Peer::Client]).await?;
                }
            }
        }
        Ok(how)
    }
}
