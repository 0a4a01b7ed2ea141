//! What a read asks the coordinator for, and the plan that it gets.

use crate::calls::rpc;
use crate::connect::Client;
use crate::error::{ClientError, Result};
use crate::permits;
use flow::{Flow, FlowPlan};
use model::hdfs::{BlockGroup, BlockToken, Held};
use model::{BlockId, Cause, Fault, Peer, Traffic};
use plan::decide::InTheory;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
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
    /// Members in which their own helpers have met wrong bytes so far.
    pub corrupt: Mutex<BTreeSet<u16>>,
}

impl OfGroup {
    /// Learns from a fault. Only the word of the helper that has read the block counts, and only of bytes that differ from the
    /// checksums beside them: that a helper is silent, or its disk fails, says nothing of the bytes.
    pub fn learn(&self, fault: &Fault) {
        let (Cause::CorruptBlock, Some((from, to)), Some(block)) = (fault.cause, fault.suspect, fault.block)
        else {
            return;
        };
        let is_its_own = from == to && fault.reporter == from;
        let of = |(member, held): (&u16, &Held)| {
            let is_meant =
                Peer::Node(held.datanode.number()) == from && self.group.stored(*member).0 == block;
            (is_its_own && is_meant).then_some(*member)
        };
        let corrupt = self.group.living.iter().find_map(of);
        self.corrupt.lock().unwrap_or_else(PoisonError::into_inner).extend(corrupt);
    }
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
        match &ask.of_group {
            None => self.call_again("the plan of a read", ask.message(), rpc!(plan_read)).await,
            Some(of) => {
                let traffic = traffic_number(of.traffic);
                let request = PlanGroupRequest {
                    traffic,
                    group: Some((&of.group).into()),
                    wanted: of.wanted.iter().copied().map(u32::from).collect(),
                    read: Some(ask.message()),
                };
                self.call_again("the plan of a read of a block group", request, rpc!(plan_group)).await
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

#[cfg(test)]
mod tests {
    use super::*;
    use model::StoreId;
    use model::hdfs::{Datanode, Layout, PoolMark};

    #[test]
    fn a_member_is_corrupt_if_the_helper_that_has_read_it_says_so_and_for_no_other_reason() {
        let datanode = |number| Datanode(StoreId(number));
        let held = |number| Held { datanode: datanode(number), rack: String::new(), replica: None };
        let group = BlockGroup {
            pool: PoolMark::of("BP-1"),
            id: -64,
            generation: 1_001,
            code: "rs-cauchy-2+1".to_owned(),
            layout: Layout { k: 2, cell_bytes: 1, data_bytes: 2 },
            living: BTreeMap::from([(0, held(5)), (2, held(6))]),
        };
        let (tokens, corrupt) = (BTreeMap::new(), Mutex::default());
        let of = OfGroup { group, wanted: vec![1], traffic: Traffic::Client, tokens, corrupt };
        let peer = |number| Peer::Node(datanode(number).number());
        let fault = |cause, reporter, from, to, member: i64| Fault {
            reporter,
            ..Fault::new(cause, "").suspecting(from, to).about(of.group.pool.block(-64 + member))
        };
        for other in [
            fault(Cause::Disk, peer(6), peer(6), peer(6), 2),
            fault(Cause::NotFound, peer(6), peer(6), peer(6), 2),
            fault(Cause::Unreachable, Peer::Client, peer(6), peer(6), 2),
            fault(Cause::CorruptSlice, peer(6), peer(6), peer(6), 2),
            fault(Cause::CorruptBlock, peer(5), peer(6), peer(6), 2),
            fault(Cause::CorruptBlock, peer(6), peer(5), peer(6), 2),
            fault(Cause::CorruptBlock, peer(6), peer(6), peer(6), 0),
            fault(Cause::CorruptBlock, peer(6), peer(6), peer(6), 1),
        ] {
            of.learn(&other);
            assert!(of.corrupt.lock().unwrap().is_empty(), "{other}");
        }
        of.learn(&fault(Cause::CorruptBlock, peer(6), peer(6), peer(6), 2));
        assert_eq!(*of.corrupt.lock().unwrap(), BTreeSet::from([2]));
    }
}
