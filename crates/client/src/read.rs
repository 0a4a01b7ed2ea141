//! Reading a range of one block, around nodes that fail, and those that are slow while others could help.

use crate::attempts::Attempts;
use crate::connect::Client;
use crate::error::{ClientError, Result, broken_task};
use crate::get::GetOptions;
use crate::outlet::{Closed, Held, Outlet, ROOM_BYTES};
use crate::writer::Pieces;
use exec::DriverIo;
use model::{BlockId, Cause, Fault, NodeId, Peer};
use plan::decide::{Bounds, Course, InTheory};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use wire::codec::plan::decode;
use wire::proto::{ByteRange, PlanReadRequest, PlanReply};

/// A read of part of a block.
pub(crate) struct BlockRead {
    pub name: String,
    pub index: u64,
    pub block: BlockId,
    /// Bytes of the block.
    pub range: Range<u64>,
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
    /// Sends the bytes of `read` to `pieces`, in order. What has been sent is never sent again, whatever fails.
    pub(crate) async fn read_block(
        self,
        read: BlockRead,
        pieces: Pieces,
        options: GetOptions,
    ) -> Result<HowRead> {
        let mut request = PlanReadRequest {
            block: read.block.to_vec(),
            offset: read.range.start,
            length: read.range.end - read.range.start,
            scheme: options.scheme.clone(),
            avoid: Vec::new(),
            slice_bytes: options.slice_bytes,
            held: Vec::new(),
            room_bytes: ROOM_BYTES,
        };
        let mut held = Held::default();
        let mut how = HowRead::default();
        let what = format!("reading block {} of '{}'", read.index, read.name);
        let mut attempts = Attempts::new(what, Course::new(Bounds::READ, options.patient));
        while request.length > 0 {
            request.avoid = attempts.avoid();
            let mut coordinator = self.coordinator.clone();
            let planned = self.call("the plan of a read", coordinator.plan_read(request.clone()));
            let reply = match planned.await {
                Ok(reply) => reply,
                Err(error) => {
                    attempts.refused(error).await?;
                    continue;
                }
            };
            how.degraded |= reply.degraded;
            let watched = attempts.course.watches();
            let (closed, outcome) =
                self.try_read(reply, &request, &pieces, std::mem::take(&mut held), watched).await?;
            if closed.reached > request.offset {
                attempts.course.advanced();
            }
            held = closed.held;
            let range =
                |range: Range<u64>| ByteRange { offset: range.start, length: range.end - range.start };
            request.held = held.ranges().into_iter().map(range).collect();
            request.offset = closed.reached;
            request.length = read.range.end - closed.reached;
            match outcome {
                Ok(()) => {}
                Err(fault) if fault.cause == Cause::Slow => {
                    tracing::info!(block = %read.block, %fault, "a node is slow: going around it");
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

    /// One flow: how far it got, what it brought besides, and its error if it has one. If it is watched, it ends when it takes
    /// far longer than usual and somebody else could help.
    async fn try_read(
        &self,
        reply: PlanReply,
        request: &PlanReadRequest,
        pieces: &Pieces,
        held: Held,
        watched: bool,
    ) -> Result<(Closed, Result<(), Fault>)> {
        let plan = reply.plan.ok_or_else(|| ClientError::Protocol("a read without a plan".to_owned()))?;
        let mut plan = decode(&plan).map_err(|fault| ClientError::Protocol(fault.to_string()))?;
        if reply.offset != request.offset || reply.length == 0 || reply.length > request.length {
            return Err(ClientError::Protocol(
                "a plan that reads other bytes than were asked for".to_owned(),
            ));
        }
        let range = request.offset..request.offset + request.length;
        let cost = reply.price.map(|price| InTheory { seconds: price.seconds, slot_bytes: price.slot_bytes });
        plan.expected = cost.filter(|_| watched).and_then(|cost| self.usual().expected(cost));
        let outlet = Outlet::open(&plan, range, pieces.clone(), held);
        let io = DriverIo { source: None, sink: Some(outlet.sink()) };
        let started = Instant::now();
        let driven = self.engine.drive(plan, io, |_| {}).await;
        let took = started.elapsed();
        // A flow that failed may still be delivering: nothing of it counts from here on.
        let closed = tokio::task::spawn_blocking(move || outlet.close()).await.map_err(broken_task)?;
        if !closed.listening {
            // The writer's own error tells why; no other attempt would fare better.
            return Err(ClientError::Output(Arc::new(std::io::ErrorKind::BrokenPipe.into())));
        }
        let (reached, due) = (closed.reached, reply.offset + reply.length);
        let outcome = driven.and_then(|_| match reached >= due {
            true => Ok(()),
            false => Err(Fault::new(Cause::Bug, format!("a read to byte {due} ended at byte {reached}"))),
        });
        if let (Ok(()), Some(cost)) = (&outcome, cost) {
            self.usual().note(cost, took.saturating_sub(closed.waited));
        }
        Ok((closed, outcome))
    }
}
