//! Reading a range of one block, around nodes that fail, and those that are slow while others could help.

use crate::attempts::Attempts;
use crate::connect::Client;
use crate::error::{ClientError, Result, broken_task};
use crate::intake::{InOrder, Intake, Received};
use crate::options::GetOptions;
use crate::outlet::ROOM_BYTES;
use crate::writer::Pieces;
use exec::DriverIo;
use flow::{Flow, FlowPlan};
use model::{BlockId, Cause, Fault, NodeId, Peer};
use plan::decide::{Bounds, Course, InTheory};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinHandle;
use wire::codec::plan::decode;
use wire::proto::{ByteRange, PlanReadRequest, PlanReply};

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

/// What a read asks for: bytes of a block, or of several virtual ones of a stripe, counted as `room_bytes` says.
#[derive(Clone, Default)]
pub(crate) struct Ask {
    pub blocks: Vec<BlockId>,
    pub range: Range<u64>,
    /// What is there of it already.
    pub held: Vec<Range<u64>>,
    /// So much may come before its turn.
    pub room_bytes: u64,
    pub scheme: String,
    pub slice_bytes: u32,
    pub avoid: Vec<u32>,
    /// It is only to be known what it would take.
    pub rehearse: bool,
}

/// A plan of a read.
pub(crate) struct Answer {
    pub plan: FlowPlan<Flow>,
    /// Bytes from site to site; 0 is the reader.
    pub links: Vec<(u32, u32, u64)>,
    /// Where the bytes come from, for people.
    pub note: String,
    /// So many bytes come in order.
    pub length: u64,
    pub degraded: bool,
    pub cost: Option<InTheory>,
}

/// A read that runs, and ends when nobody waits for it any more.
pub(crate) struct Reading(JoinHandle<Result<HowRead>>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reading {
    pub async fn end(mut self) -> Result<HowRead> {
        (&mut self.0).await.map_err(broken_task)?
    }
}

impl Ask {
    fn message(&self) -> PlanReadRequest {
        let range = |range: &Range<u64>| ByteRange { offset: range.start, length: range.end - range.start };
        let mut blocks = self.blocks.iter().map(|block| block.to_vec());
        PlanReadRequest {
            block: blocks.next().unwrap_or_default(),
            beside: blocks.collect(),
            offset: self.range.start,
            length: self.range.end - self.range.start,
            scheme: self.scheme.clone(),
            avoid: self.avoid.clone(),
            slice_bytes: self.slice_bytes,
            held: self.held.iter().map(range).collect(),
            room_bytes: self.room_bytes,
            rehearse: self.rehearse,
        }
    }

    /// The answer, if it is one to this.
    fn answer(&self, reply: PlanReply) -> Result<Answer> {
        let PlanReply { plan, note, offset, length, degraded, price } = reply;
        let plan = plan.ok_or_else(|| ClientError::Protocol("a read without a plan".to_owned()))?;
        if offset != self.range.start || length == 0 || length > self.range.end - self.range.start {
            let what = "a plan that reads other bytes than were asked for".to_owned();
            return Err(ClientError::Protocol(what));
        }
        let links = plan.predicted.iter().map(|link| (link.from, link.to, link.bytes)).collect();
        let plan = decode(&plan).map_err(|fault| ClientError::Protocol(fault.to_string()))?;
        let cost = price.map(|price| InTheory { seconds: price.seconds, slot_bytes: price.slot_bytes });
        Ok(Answer { plan, links, note, length, degraded, cost })
    }
}

/// How a block was read.
#[derive(Default)]
pub(crate) struct HowRead {
    /// It had to be decoded from others.
    pub degraded: bool,
    /// Nodes that were gone around because they were slow.
    pub around: BTreeSet<NodeId>,
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
        Reading(tokio::spawn(async move { client.read_into(ask, what, InOrder::new(pieces), patient).await }))
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
        while !ask.range.is_empty() {
            ask.avoid = attempts.avoid();
            let answer = match self.plan_of(&ask).await {
                Ok(reply) => ask.answer(reply)?,
                Err(error) => {
                    attempts.refused(error).await?;
                    continue;
                }
            };
            how.degraded |= answer.degraded;
            let watched = attempts.course.watches();
            let (received, outcome);
            (intake, received, outcome) = self.try_read(answer, &ask, intake, watched).await?;
            if received.reached > ask.range.start {
                attempts.course.advanced();
            }
            ask.held = received.held;
            ask.range.start = received.reached.min(ask.range.end);
            match outcome {
                Ok(()) => {}
                Err(fault) if fault.cause == Cause::Slow => {
                    tracing::info!(%fault, "a node is slow: going around it");
                    how.around.extend(attempts.broke(fault, &[Peer::Client]).await?);
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

    async fn plan_of(&self, ask: &Ask) -> Result<PlanReply> {
        let mut coordinator = self.coordinator.clone();
        self.call("the plan of a read", coordinator.plan_read(ask.message())).await
    }

    /// What a read would get as an answer, of which nothing is carried out.
    ///
    /// # Errors
    /// Whatever the coordinator says; [`ClientError::Protocol`].
    pub(crate) async fn rehearsed(&self, ask: &Ask) -> Result<Answer> {
        let ask = Ask { rehearse: true, ..ask.clone() };
        let reply = self.plan_of(&ask).await?;
        ask.answer(reply)
    }

    /// One flow: how far it got, what it brought besides, and its error if it has one. If it is watched, it ends when it takes
    /// far longer than usual and somebody else could help.
    async fn try_read<I: Intake>(
        &self,
        answer: Answer,
        ask: &Ask,
        mut intake: I,
        watched: bool,
    ) -> Result<(I, Received, Result<(), Fault>)> {
        let Answer { mut plan, length, cost, .. } = answer;
        plan.expected = cost.filter(|_| watched).and_then(|cost| self.usual().expected(cost));
        let io = DriverIo { source: None, sink: Some(intake.open(&plan, ask.range.clone())) };
        let started = Instant::now();
        let driven = self.engine.drive(plan, io, |_| {}).await;
        let took = started.elapsed();
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
        let (reached, due) = (received.reached, ask.range.start + length);
        let outcome = driven.and_then(|_| match reached >= due {
            true => Ok(()),
            false => Err(Fault::new(Cause::Bug, format!("a read to byte {due} ended at byte {reached}"))),
        });
        if let (Ok(()), Some(cost)) = (&outcome, cost) {
            self.usual().note(cost, took.saturating_sub(received.waited));
        }
        Ok((intake, received, outcome))
    }
}
