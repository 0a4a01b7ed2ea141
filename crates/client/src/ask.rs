//! What a read asks the coordinator for, and the plan that it gets.

use crate::connect::Client;
use crate::error::{ClientError, Result};
use crate::permits;
use flow::{Flow, FlowPlan};
use model::hdfs::{BlockGroup, BlockToken};
use model::{BlockId, Traffic};
use plan::decide::InTheory;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use wire::codec::header::traffic_number;
use wire::codec::plan::decode;
use wire::proto::{ByteRange, PlanGroupRequest, PlanReadRequest, PlanReply};

/// Members of a block group of HDFS.
pub(crate) struct OfGroup {
    pub group: BlockGroup,
    pub wanted: Vec<u16>,
    pub traffic: Traffic,
    /// Of members that are read, where block tokens are used. The coordinator never has them.
    pub tokens: BTreeMap<u16, BlockToken>,
}

/// What a read asks for: bytes of a block, or of several virtual ones of a stripe, counted as `room_bytes` says; or of members
/// of a block group of HDFS, abreast.
#[derive(Clone, Default)]
pub(crate) struct Ask {
    pub blocks: Vec<BlockId>,
    pub of_group: Option<Arc<OfGroup>>,
    pub range: Range<u64>,
    /// What is there of it already.
    pub held: Vec<Range<u64>>,
    /// So much may come before its turn.
    pub room_bytes: u64,
    pub scheme: String,
    pub slice_bytes: u32,
    pub avoid: Vec<u32>,
    /// Nodes that were late lately.
    pub late: Vec<u32>,
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
            late: self.late.clone(),
            slice_bytes: self.slice_bytes,
            held: self.held.iter().map(range).collect(),
            room_bytes: self.room_bytes,
            rehearse: self.rehearse,
        }
    }

    /// The answer, if it is one to this.
    pub fn answer(&self, reply: PlanReply) -> Result<Answer> {
        let PlanReply { plan, note, offset, length, degraded, price } = reply;
        let plan = plan.ok_or_else(|| ClientError::Protocol("a read without a plan".to_owned()))?;
        if offset != self.range.start || length == 0 || length > self.range.end - self.range.start {
            let what = "a plan that reads other bytes than were asked for".to_owned();
            return Err(ClientError::Protocol(what));
        }
        let links = plan.predicted.iter().map(|link| (link.from, link.to, link.bytes)).collect();
        let mut plan = decode(&plan).map_err(|fault| ClientError::Protocol(fault.to_string()))?;
        if let Some(of) = &self.of_group {
            permits::show(&of.tokens, &mut plan.binding);
        }
        let cost = price.map(|price| InTheory { seconds: price.seconds, slot_bytes: price.slot_bytes });
        Ok(Answer { plan, links, note, length, degraded, cost })
    }
}

impl Client {
    /// A plan for what is asked.
    ///
    /// # Errors
    /// Whatever the coordinator says.
    pub(crate) async fn plan_of(&self, ask: &Ask) -> Result<PlanReply> {
        let mut coordinator = self.coordinator.clone();
        match &ask.of_group {
            None => self.call("the plan of a read", coordinator.plan_read(ask.message())).await,
            Some(of) => {
                let traffic = traffic_number(of.traffic);
                let request = PlanGroupRequest {
                    traffic,
                    group: Some((&of.group).into()),
                    wanted: of.wanted.iter().copied().map(u32::from).collect(),
                    read: Some(ask.message()),
                };
                self.call("the plan of a read of a block group", coordinator.plan_group(request)).await
            }
        }
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
}
