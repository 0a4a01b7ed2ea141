//! Reading a range of one block, around nodes that fail.

use crate::blame::Attempts;
use crate::connect::Client;
use crate::error::ClientError;
use crate::get::GetOptions;
use crate::outlet::{Closed, Held, Outlet, ROOM_BYTES};
use crate::put::broken_task;
use crate::writer::Pieces;
use exec::DriverIo;
use std::ops::Range;
use std::sync::Arc;
use wire::proto::{PlanReadRequest, PlanReply};
use wire::{BlockId, Cause, Fault};

/// Attempts without a byte of progress. Each leaves out the nodes that the earlier ones blamed; a stripe with m
/// parities has m of them to lose.
const MAX_READ_ATTEMPTS: u32 = 6;

/// A read of part of a block.
pub(crate) struct BlockRead {
    pub name: String,
    pub index: u64,
    pub block: BlockId,
    /// Bytes of the block.
    pub range: Range<u64>,
}

/// Whether a block had to be decoded from others.
pub(crate) struct Degraded(pub bool);

impl Client {
    /// Sends the bytes of `read` to `pieces`, in order. What has been sent is never sent again, whatever fails.
    pub(crate) async fn read_block(
        self,
        read: BlockRead,
        pieces: Pieces,
        options: GetOptions,
    ) -> Result<Degraded, ClientError> {
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
        let mut degraded = false;
        let what = format!("reading block {} of '{}'", read.index, read.name);
        let mut attempts = Attempts::new(what, MAX_READ_ATTEMPTS);
        while request.length > 0 {
            let mut coordinator = self.coordinator.clone();
            let planned = self.call("the plan of a read", coordinator.plan_read(request.clone()));
            let reply = match planned.await {
                Ok(reply) => reply,
                Err(error) => {
                    attempts.refused(error, &mut request.avoid)?;
                    continue;
                }
            };
            degraded |= reply.degraded;
            let (closed, outcome) =
                self.try_read(reply, &request, &pieces, std::mem::take(&mut held)).await?;
            if closed.reached > request.offset {
                attempts.advanced();
            }
            held = closed.held;
            request.held = held.ranges();
            request.offset = closed.reached;
            request.length = read.range.end - closed.reached;
            if let Err(fault) = outcome {
                self.report(&fault).await;
                attempts.failed(fault, &mut request.avoid).await?;
            }
        }
        Ok(Degraded(degraded))
    }

    /// One flow: how far it got, what it brought besides, and its error if it has one.
    async fn try_read(
        &self,
        reply: PlanReply,
        request: &PlanReadRequest,
        pieces: &Pieces,
        held: Held,
    ) -> Result<(Closed, Result<(), Fault>), ClientError> {
        let plan = reply.plan.ok_or_else(|| ClientError::Protocol("a read without a plan".to_owned()))?;
        if reply.offset != request.offset || reply.length == 0 || reply.length > request.length {
            return Err(ClientError::Protocol(
                "a plan that reads other bytes than were asked for".to_owned(),
            ));
        }
        let range = request.offset..request.offset + request.length;
        let outlet = Outlet::open(&plan, range, pieces.clone(), held)?;
        let io = DriverIo { source: None, sink: Some(outlet.sink()) };
        let driven = self.engine.drive(plan, io, |_| {}).await;
        // A flow that failed may still be delivering: from here on, nothing of it counts.
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
        Ok((closed, outcome))
    }
}
