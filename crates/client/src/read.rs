//! Reading a range of one block, around nodes that fail.

use crate::blame::Attempts;
use crate::connect::Client;
use crate::error::ClientError;
use crate::get::GetOptions;
use crate::put::broken_task;
use crate::writer::Pieces;
use exec::{Delivery, DriverIo, Sink};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use wire::proto::{FlowPlan, PlanReadRequest, PlanReply, stage_output};
use wire::{BlockId, Cause, Fault, limits};

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
        };
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
            let (reached, outcome) = self.try_read(reply, &request, &pieces).await?;
            if reached > request.offset {
                attempts.advanced();
            }
            request.offset = reached;
            request.length = read.range.end - reached;
            if let Err(fault) = outcome {
                self.report(&fault).await;
                attempts.failed(fault, &mut request.avoid).await?;
            }
        }
        Ok(Degraded(degraded))
    }

    /// One flow: how far it got, and its error if it has one.
    async fn try_read(
        &self,
        reply: PlanReply,
        request: &PlanReadRequest,
        pieces: &Pieces,
    ) -> Result<(u64, Result<(), Fault>), ClientError> {
        let plan = reply.plan.ok_or_else(|| ClientError::Protocol("a read without a plan".to_owned()))?;
        let length = reply.length.min(request.length);
        if reply.offset != request.offset || length == 0 {
            return Err(ClientError::Protocol(
                "a plan that reads other bytes than were asked for".to_owned(),
            ));
        }
        let end = reply.offset + length;
        let outlet =
            Outlet { layout: Layout::of(&plan)?, next: reply.offset, end, pieces: Some(pieces.clone()) };
        let outlet = Arc::new(Mutex::new(outlet));
        let io = DriverIo { source: None, sink: Some(sink(&outlet)) };
        let driven = self.engine.drive(plan, io, |_| {}).await;
        // A flow that failed may still be delivering: from here on, nothing of it counts.
        let closed = tokio::task::spawn_blocking(move || close(&outlet)).await;
        let (reached, listening) = closed.map_err(broken_task)?;
        if !listening {
            // The writer's own error tells why; no other attempt would fare better.
            return Err(ClientError::Output(Arc::new(std::io::ErrorKind::BrokenPipe.into())));
        }
        let outcome = driven.and_then(|_| match reached == end {
            true => Ok(()),
            false => Err(Fault::new(Cause::Bug, format!("a read to byte {end} ended at byte {reached}"))),
        });
        Ok((reached, outcome))
    }
}

/// Where a flow delivers: cuts off what was not asked for, fills up with zeros what is not stored.
struct Outlet {
    layout: Layout,
    /// Bytes of the block before this have been sent.
    next: u64,
    /// The last byte wanted of this flow, excluded.
    end: u64,
    /// `None` once closed, from this end or the writer's.
    pieces: Option<Pieces>,
}

fn sink(outlet: &Arc<Mutex<Outlet>>) -> Sink {
    let outlet = Arc::clone(outlet);
    // Held while it waits for the writer: who closes the outlet waits for what is being sent.
    Box::new(move |delivery: Delivery<'_>| lock(&outlet).take(&delivery))
}

/// Ends the outlet; how far it got, and whether the writer still listens.
fn close(outlet: &Mutex<Outlet>) -> (u64, bool) {
    let mut outlet = lock(outlet);
    let listening = outlet.pieces.take().is_some();
    (outlet.next, listening)
}

fn lock(outlet: &Mutex<Outlet>) -> std::sync::MutexGuard<'_, Outlet> {
    outlet.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outlet {
    fn take(&mut self, delivery: &Delivery<'_>) -> Result<(), Fault> {
        let Some(slice) = self.layout.slice_of(delivery) else {
            return Err(Fault::new(Cause::Bug, format!("row {} was not asked for", delivery.row)));
        };
        let range = slice.start.max(self.next)..slice.end.min(self.end);
        if range.is_empty() {
            return Ok(());
        }
        if range.start > self.next {
            let detail = format!("byte {} was delivered when byte {} was due", range.start, self.next);
            return Err(Fault::new(Cause::Bug, detail));
        }
        let piece = cut(delivery.bytes, range.start - slice.start..range.end - slice.start);
        if self.pieces.as_ref().is_none_or(|pieces| pieces.send(piece).is_err()) {
            self.pieces = None;
            return Err(Fault::new(Cause::Aborted, "the output was closed"));
        }
        self.next = range.end;
        Ok(())
    }
}

/// Where the rows that a plan delivers lie in the block.
struct Layout {
    slice_bytes: u64,
    symbol_bytes: u64,
    /// Symbol of each row.
    symbols: Vec<u64>,
}

impl Layout {
    fn of(plan: &FlowPlan) -> Result<Layout, ClientError> {
        let geometry = plan.header.as_ref().and_then(|h| h.geometry);
        let geometry =
            geometry.ok_or_else(|| ClientError::Protocol("a plan without a geometry".to_owned()))?;
        let (Ok(alpha), true) = (u16::try_from(geometry.alpha), limits::slice_bytes_ok(geometry.slice_bytes))
        else {
            return Err(ClientError::Protocol("a plan with an impossible geometry".to_owned()));
        };
        let (block_bytes, slice_bytes) = (geometry.block_bytes, geometry.slice_bytes);
        let reads = plan.stages.iter().flat_map(|s| &s.outputs).filter_map(|output| match &output.kind {
            Some(stage_output::Kind::Read(read)) => Some(read.symbols.iter().map(|s| u64::from(s.index))),
            _ => None,
        });
        Ok(Layout {
            slice_bytes: u64::from(slice_bytes),
            symbol_bytes: flow::Geometry { block_bytes, alpha, slice_bytes }.symbol_bytes(),
            symbols: reads.flatten().collect(),
        })
    }

    /// The bytes of the block that a delivery stands for, its zeros included.
    fn slice_of(&self, delivery: &Delivery<'_>) -> Option<Range<u64>> {
        let symbol = self.symbols.get(delivery.row)? * self.symbol_bytes;
        let end = delivery.offset.saturating_add(self.slice_bytes).min(self.symbol_bytes);
        Some(symbol + delivery.offset..symbol + end.max(delivery.offset))
    }
}

/// `range` of `bytes`, which are followed by zeros without end.
fn cut(bytes: &[u8], range: Range<u64>) -> Vec<u8> {
    let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    let mut piece = Vec::with_capacity((range.end - range.start) as usize);
    piece.extend_from_slice(&bytes[clamp(range.start)..clamp(range.end)]);
    piece.resize((range.end - range.start) as usize, 0);
    piece
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    const LAYOUT: fn() -> Layout = || Layout { slice_bytes: 4, symbol_bytes: 10, symbols: vec![0] };

    fn deliver(range: Range<u64>, slices: &[(u64, &[u8])]) -> (Vec<u8>, u64, Result<(), Fault>) {
        let (pieces, out) = sync_channel(16);
        let outlet = Outlet { layout: LAYOUT(), next: range.start, end: range.end, pieces: Some(pieces) };
        let outlet = Arc::new(Mutex::new(outlet));
        let mut sink = sink(&outlet);
        let result = slices
            .iter()
            .try_for_each(|&(slice, bytes)| sink(Delivery { row: 0, slice, offset: slice * 4, bytes }));
        let (reached, _) = close(&outlet);
        (out.iter().flatten().collect(), reached, result)
    }

    #[test]
    fn slices_are_trimmed_and_filled_up() {
        let slices: [(u64, &[u8]); 3] = [(0, b"abcd"), (1, b"efgh"), (2, b"i")];
        assert_eq!(deliver(0..10, &slices), (b"abcdefghi\0".to_vec(), 10, Ok(())));
        assert_eq!(deliver(2..6, &slices[..2]), (b"cdef".to_vec(), 6, Ok(())));
        assert_eq!(deliver(5..9, &slices[1..]), (b"fghi".to_vec(), 9, Ok(())));
        // A frame without a payload is a slice of zeros.
        assert_eq!(deliver(0..4, &[(0, b"")]), (vec![0; 4], 4, Ok(())));
    }

    #[test]
    fn what_comes_after_the_close_does_not_count() {
        let (pieces, out) = sync_channel(16);
        let outlet =
            Arc::new(Mutex::new(Outlet { layout: LAYOUT(), next: 0, end: 10, pieces: Some(pieces) }));
        let mut sink = sink(&outlet);
        sink(Delivery { row: 0, slice: 0, offset: 0, bytes: b"abcd" }).unwrap();
        assert_eq!(close(&outlet), (4, true));
        assert!(sink(Delivery { row: 0, slice: 1, offset: 4, bytes: b"late" }).is_err());
        assert_eq!(out.iter().flatten().collect::<Vec<u8>>(), b"abcd");
    }

    #[test]
    fn a_gap_is_a_fault_and_a_repetition_is_ignored() {
        let (bytes, next, result) = deliver(0..10, &[(0, b"abcd"), (0, b"abcd"), (2, b"ij")]);
        assert_eq!((bytes.as_slice(), next), (&b"abcd"[..], 4));
        assert_eq!(result.unwrap_err().cause, Cause::Bug);
    }
}
