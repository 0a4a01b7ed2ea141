//! A put that is coded as it is written: when the data blocks of a stripe are durable its parities follow, while the next stripe is
//! read.

use crate::attempts::Attempts;
use crate::block::Block;
use crate::calls::rpc;
use crate::connect::Client;
use crate::error::{ClientError, Result, broken_task};
use crate::moved::Moved;
use crate::parity::{Encoder, Parities};
use codes::Code;
use exec::DriverIo;
use model::{Cause, Fault, NodeId};
use plan::decide::{Bounds, Course};
use std::sync::Arc;
use tokio::task::JoinSet;
use wire::codec::plan::decode;
use wire::proto::{
    BeginPutReply, DriveResult, MadeParity, PlanParitiesRequest, Staged, WrittenBlock, WrittenBy,
};

/// The coded side of a put.
pub(crate) struct Coding {
    client: Client,
    name: String,
    put: Vec<u8>,
    moved: Moved,
    /// Whatever room it takes: an operator has said so of the bucket, or whoever puts.
    short: bool,
    /// Data blocks of a stripe.
    k: u64,
    encoder: Option<Encoder>,
    /// Stripes whose parities are being written.
    writes: JoinSet<Result<Vec<WrittenBlock>>>,
    written: Vec<WrittenBlock>,
}

impl Coding {
    /// `None`: the put is not coded.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] for a code that is not known here.
    pub fn of(
        client: &Client,
        name: &str,
        begun: &BeginPutReply,
        moved: &Moved,
        short: bool,
    ) -> Result<Option<Coding>> {
        if begun.code.is_empty() {
            return Ok(None);
        }
        let code = Code::parse(&begun.code).map_err(|error| ClientError::Protocol(error.to_string()))?;
        Ok(Some(Coding {
            client: client.clone(),
            name: name.to_owned(),
            put: begun.put.clone(),
            moved: moved.clone(),
            short,
            k: code.k() as u64,
            encoder: Some(Encoder::new(code)),
            writes: JoinSet::new(),
            written: Vec::new(),
        }))
    }

    /// What takes the next data block; it is given back by [`go_on`](Self::go_on).
    pub fn encoder(&mut self) -> Option<Encoder> {
        self.encoder.take()
    }

    /// Begins to write the parities of a stripe, of which all data blocks are among the written ones. Returns when there is memory
    /// for those of the next one.
    pub async fn go_on(
        &mut self,
        encoder: Option<Encoder>,
        parities: Option<Parities>,
        written: &mut [(u64, WrittenBlock)],
        last: bool,
    ) -> Result<()> {
        let at_once = encoder.as_ref().map_or(0, Encoder::written_at_once);
        self.encoder = encoder;
        if let Some(parities) = parities {
            let first = parities.stripe * self.k;
            let of_stripe = first..first + parities.data as u64;
            written.sort_by_key(|&(index, _)| index);
            let data = written.iter().filter(|(index, _)| of_stripe.contains(index));
            let request = PlanParitiesRequest {
                put: self.put.clone(),
                stripe: parities.stripe,
                avoid: Vec::new(),
                data: data.map(|(_, block)| block.block.clone()).collect(),
                parities: parities.made.iter().map(message).collect(),
                last,
                short: self.short,
            };
            let (name, moved) = (self.name.clone(), self.moved.clone());
            self.writes.spawn(self.client.clone().write_parities(name, request, parities, moved));
        }
        while self.writes.len() > at_once {
            let Some(joined) = self.writes.join_next().await else { break };
            self.written.extend(joined.map_err(broken_task)??);
        }
        Ok(())
    }

    /// All parities, once they are durable.
    pub async fn written(mut self) -> Result<Vec<WrittenBlock>> {
        while let Some(joined) = self.writes.join_next().await {
            self.written.extend(joined.map_err(broken_task)??);
        }
        Ok(self.written)
    }
}

fn message((member, block): &(u16, Block)) -> MadeParity {
    MadeParity {
        member: (*member).into(),
        stored_bytes: block.bytes.len() as u64,
        digest: block.digest.as_bytes().to_vec(),
        fingerprint: block.fingerprint.as_bytes().to_vec(),
    }
}

impl Client {
    /// Writes the parities of a stripe, around nodes that fail. Each attempt writes all of them anew: the sidecar of each names the
    /// others.
    async fn write_parities(
        self,
        name: String,
        mut request: PlanParitiesRequest,
        parities: Parities,
        moved: Moved,
    ) -> Result<Vec<WrittenBlock>> {
        let what = format!("writing the parities of stripe {} of '{name}'", parities.stripe);
        let mut attempts = Attempts::new(what, Course::new(Bounds::WRITE, false));
        loop {
            request.avoid = attempts.avoid();
            match self.try_parities(&request, &parities, &moved).await {
                Ok(Ok(written)) => return Ok(written),
                Ok(Err(fault)) => {
                    self.report(&fault).await;
                    attempts.broke(fault, &[]).await?;
                }
                Err(error) => attempts.refused(error).await?,
            }
        }
    }

    async fn try_parities(
        &self,
        request: &PlanParitiesRequest,
        parities: &Parities,
        moved: &Moved,
    ) -> Result<Result<Vec<WrittenBlock>, Fault>> {
        let reply = self.call_again("the plan of parities", request.clone(), rpc!(plan_parities)).await?;
        if reply.plans.len() != parities.made.len() {
            return Err(ClientError::Protocol("plans of other parities than were made".to_owned()));
        }
        let mut drives = JoinSet::new();
        for (at, (plan, (_, block))) in reply.plans.iter().zip(&parities.made).enumerate() {
            let plan = decode(plan).map_err(|fault| ClientError::Protocol(fault.to_string()))?;
            let io = DriverIo { source: Some(Arc::clone(&block.bytes)), ..DriverIo::default() };
            let (engine, moved) = (self.engine.clone(), moved.clone());
            drives.spawn(async move { (at, engine.drive(plan, io, |_| moved.note()).await) });
        }
        let mut written = Vec::new();
        while let Some(joined) = drives.join_next().await {
            let (at, driven) = joined.map_err(broken_task)?;
            match driven.and_then(|result| as_written(result, &parities.made[at].1)) {
                Ok(block) => written.push(block),
                // Dropping the others ends them.
                Err(fault) => return Ok(Err(fault)),
            }
        }
        Ok(Ok(written))
    }
}

/// What the catalog is to record, once every replica says that it holds just these bytes.
pub(crate) fn as_written(result: DriveResult, block: &Block) -> Result<WrittenBlock, Fault> {
    let first = result.staged.first().ok_or_else(|| Fault::new(Cause::Bug, "a write that wrote nothing"))?;
    for copy in &result.staged {
        if copy.digest != block.digest.as_bytes() || copy.block != first.block {
            let node = NodeId(copy.node);
            let detail = format!("{node} stored something else than was sent");
            return Err(Fault::new(Cause::WrongDigest, detail).suspecting(node, node));
        }
    }
    Ok(WrittenBlock {
        block: first.block.clone(),
        stored_bytes: block.bytes.len() as u64,
        digest: block.digest.as_bytes().to_vec(),
        fingerprint: block.fingerprint.as_bytes().to_vec(),
        nodes: result.staged.iter().map(|copy| copy.node).collect(),
        by: result.staged.iter().map(written_by).collect(),
    })
}

/// The start of its store that says so.
fn written_by(copy: &Staged) -> WrittenBy {
    let Staged { node, incarnation, .. } = *copy;
    WrittenBy { node, store: copy.store.clone(), incarnation, mac: copy.mac.clone() }
}
