//! Put: an input becomes blocks, each written to its replicas by a flow that starts here.

use crate::attempts::Attempts;
use crate::block::{Block, Blocks};
use crate::calls::rpc;
use crate::clock::at_intervals;
use crate::connect::Client;
use crate::error::{ClientError, Result, broken_task};
use crate::metadata::Gather;
use crate::moved::{Moved, Noted};
use crate::options::Progress;
use crate::parities::{Coding, as_written};
use crate::parity::{Encoder, Parities};
use exec::DriverIo;
use model::{Fault, MAX_OBJECT_BLOCKS};
use plan::decide::{Bounds, Course};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use wire::codec::plan::decode;
use wire::proto::{
    AbortPutRequest, BeginPutReply, BeginPutRequest, CommitPutRequest, ObjectInfo, PlanWriteRequest,
    RenewPutRequest, WrittenBlock,
};

/// Two blocks that are being sent keep the network busy while a third is being read and hashed.
const BLOCKS_IN_MEMORY: usize = 3;

/// A lease is renewed so often while it lasts, if bytes move: two answers may be lost. Flows tell of every 2 MiB, so with the
/// usual lease of ten minutes bytes move that come at 10 KB/s.
const RENEWALS_PER_LEASE: u32 = 4;

/// How an object is put. The default leaves everything to the cluster.
#[derive(Clone, Default)]
pub struct PutOptions {
    /// Bytes of a block; 0 for the cluster's default.
    pub block_bytes: u64,
    /// Replicas; 0 for 3.
    pub replicas: u32,
    /// How its blocks are gathered in stripes; `None`: as its bucket is set.
    pub gathers: Option<Gather>,
    /// Blocks that are coded as they are written may take more room than replicas would.
    pub short: bool,
    /// Told the bytes that are durable, and the whole if it is known.
    pub progress: Option<Progress>,
    /// Length of the input if it is known, for `progress`.
    pub input_bytes: Option<u64>,
}

impl Client {
    /// Stores what `input` yields under `name`, replacing what was there once everything is durable. Needs memory for
    /// three blocks, and where they are coded as they are written for the parities of two stripes, 1 GiB at most.
    ///
    /// # Errors
    /// [`ClientError::Input`], [`ClientError::Refused`], and [`ClientError::Flow`] when a block cannot be written
    /// although other nodes were tried. Then nothing has changed.
    pub async fn put(
        &self,
        name: &str,
        input: impl Read + Send + 'static,
        options: PutOptions,
    ) -> Result<ObjectInfo> {
        let request = BeginPutRequest {
            name: name.to_owned(),
            block_bytes: options.block_bytes,
            replicas: options.replicas,
            gathers: options.gathers.clone().map(Into::into),
        };
        let begun = self.call_again("the put", request, rpc!(begin_put)).await?;
        if begun.block_bytes == 0 {
            return Err(ClientError::Protocol("the coordinator gave blocks of 0 bytes".to_owned()));
        }
        let moved = Moved::default();
        let input = Noted(input, moved.clone());
        let blocks = options.input_bytes.unwrap_or(0).div_ceil(begun.block_bytes);
        let stored = async {
            if blocks > MAX_OBJECT_BLOCKS {
                return Err(ClientError::Refused(format!(
                    "{blocks} blocks of {} bytes: an object has {MAX_OBJECT_BLOCKS} at most; put it with longer blocks",
                    begun.block_bytes
                )));
            }
            self.put_blocks(name, &begun, input, &moved, options).await
        };
        let stored = tokio::select! {
            stored = stored => stored,
            () = self.renew(&begun, &moved) => Err(ClientError::Bug("renewals ended".to_owned())),
        };
        if stored.is_err() {
            // This ends the put sooner than its lease would, no more: a failure here changes nothing, and the first
            // error is the one to tell.
            let abort = AbortPutRequest { put: begun.put.clone() };
            self.tell("the abort", self.coordinator.clone().abort_put(abort)).await;
        }
        stored
    }

    /// Renews the put's lease as long as its bytes move.
    async fn renew(&self, begun: &BeginPutReply, moved: &Moved) {
        if begun.lease_ms == 0 {
            return std::future::pending().await;
        }
        let renew = || async {
            if !moved.take() {
                return;
            }
            let request = RenewPutRequest { put: begun.put.clone() };
            if let Err(error) = self.call_again("the renewal of a put", request, rpc!(renew_put)).await {
                // If it was not renewed, the next one comes in time; if the put is over, its next call says so.
                moved.note();
                tracing::debug!(%error, "a put's lease could not be renewed");
            }
        };
        at_intervals(Duration::from_millis(begun.lease_ms) / RENEWALS_PER_LEASE, renew).await;
    }

    async fn put_blocks(
        &self,
        name: &str,
        begun: &BeginPutReply,
        input: impl Read + Send + 'static,
        moved: &Moved,
        options: PutOptions,
    ) -> Result<ObjectInfo> {
        let mut blocks = Blocks::new(input, begun.block_bytes);
        let mut coding = Coding::of(self, name, begun, moved, options.short || options.gathers.is_none())?;
        let mut writes = JoinSet::new();
        let mut written: Vec<(u64, WrittenBlock)> = Vec::new();
        let mut durable_bytes = 0;
        let mut collect = |written: &mut Vec<_>, joined: Result<_, tokio::task::JoinError>| -> Result<()> {
            let (index, block): (u64, WrittenBlock) = joined.map_err(broken_task)??;
            durable_bytes += block.stored_bytes;
            written.push((index, block));
            if let Some(progress) = &options.progress {
                progress(durable_bytes, options.input_bytes);
            }
            Ok(())
        };
        loop {
            let encoder = coding.as_mut().and_then(Coding::encoder);
            let cut = tokio::task::spawn_blocking(move || Cut::next(blocks, encoder)).await;
            let cut = cut.map_err(broken_task)?;
            let (block, parities) = (cut.block?, cut.parities);
            blocks = cut.blocks;
            let last = block.last;
            writes.spawn(self.clone().write_block(name.to_owned(), begun.put.clone(), block, moved.clone()));
            // The data of a stripe are durable before its parities are placed.
            while writes.len() >= BLOCKS_IN_MEMORY || last || parities.is_some() {
                let Some(joined) = writes.join_next().await else { break };
                collect(&mut written, joined)?;
            }
            while let Some(joined) = writes.try_join_next() {
                collect(&mut written, joined)?;
            }
            if let Some(coding) = &mut coding {
                coding.go_on(cut.encoder, parities, &mut written, last).await?;
            }
            if last {
                break;
            }
        }
        let parities = match coding {
            Some(coding) => coding.written().await?,
            None => Vec::new(),
        };
        let (object_bytes, digest) = blocks.object();
        written.sort_by_key(|&(index, _)| index);
        let commit = CommitPutRequest {
            put: begun.put.clone(),
            blocks: written.into_iter().map(|(_, block)| block).collect(),
            object_bytes,
            digest: digest.as_bytes().to_vec(),
            parities,
        };
        // Of a put that is committed already the coordinator answers as it did first.
        self.call_again("the commit of the put", commit, rpc!(commit_put)).await
    }

    /// Writes one block, around nodes that fail.
    async fn write_block(
        self,
        name: String,
        put: Vec<u8>,
        block: Block,
        moved: Moved,
    ) -> Result<(u64, WrittenBlock)> {
        let mut request = PlanWriteRequest {
            put,
            index: block.index,
            avoid: Vec::new(),
            stored_bytes: block.bytes.len() as u64,
            digest: block.digest.as_bytes().to_vec(),
            fingerprint: block.fingerprint.as_bytes().to_vec(),
            last: block.last,
        };
        let what = format!("writing block {} of '{name}'", block.index);
        let mut attempts = Attempts::new(what, Course::new(Bounds::WRITE, false));
        loop {
            request.avoid = attempts.avoid();
            match self.try_write(&request, &block, &moved).await {
                Ok(Ok(written)) => return Ok((block.index, written)),
                Ok(Err(fault)) => {
                    self.report(&fault).await;
                    attempts.broke(fault, &[]).await?;
                }
                Err(error) => attempts.refused(error).await?,
            }
        }
    }

    async fn try_write(
        &self,
        request: &PlanWriteRequest,
        block: &Block,
        moved: &Moved,
    ) -> Result<Result<WrittenBlock, Fault>> {
        let reply = self.call_again("the plan of a write", request.clone(), rpc!(plan_write)).await?;
        let plan = reply.plan.ok_or_else(|| ClientError::Protocol("a write without a plan".to_owned()))?;
        let plan = decode(&plan).map_err(|fault| ClientError::Protocol(fault.to_string()))?;
        let io = DriverIo { source: Some(Arc::clone(&block.bytes)), ..DriverIo::default() };
        let driven = self.engine.drive(plan, io, |_| moved.note()).await;
        Ok(driven.and_then(|result| as_written(result, block)))
    }

    /// Tells the coordinator of a fault. It is a hint: nothing depends on its arrival.
    pub(crate) async fn report(&self, fault: &Fault) {
        let report = wire::proto::Fault::from(fault.clone());
        self.tell("the report of a fault", self.coordinator.clone().report_fault(report)).await;
    }
}

/// The next block of an input, and what reading it made.
struct Cut<R> {
    block: Result<Block>,
    /// Those of its stripe, if it was the last one of it.
    parities: Option<Parities>,
    blocks: Blocks<R>,
    encoder: Option<Encoder>,
}

impl<R: Read> Cut<R> {
    fn next(mut blocks: Blocks<R>, mut encoder: Option<Encoder>) -> Cut<R> {
        let block = blocks.next().map_err(|e| ClientError::Input(Arc::new(e)));
        let coded = match (&block, &mut encoder) {
            (Ok(block), Some(encoder)) => encoder.add(block),
            _ => Ok(None),
        };
        match coded {
            Ok(parities) => Cut { block, parities, blocks, encoder },
            Err(error) => Cut { block: Err(error), parities: None, blocks, encoder },
        }
    }
}
