//! How fast a node can be recovered at best: the busiest link of any assignment, and why a recovery falls short of it.

use super::{RATE, TOTAL};
use crate::error::{Result, bad};
use crate::experiments::stand::{BUSIEST, DIRECT, PROCESSOR_SHARE};
use crate::experiments::why::BUSY;
use crate::report::{Comparison, Results, Target};
use codes::Code;
use model::NodeId;
use plan::recovery::{LostBlock, busiest_bound};
use std::collections::{BTreeMap, BTreeSet};
use wire::proto::{ObjectInfo, StripeStatus};

/// So near to its bound a recovery has what the busiest link gives.
const NEAR: f64 = 0.9;

const MIB: f64 = 1_048_576.0;

/// What a link carries, payload bytes per second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link(pub f64);

impl Link {
    /// The rate at which `lost` can be recovered at best, bytes per second: by chains, helpers and requestors chosen so
    /// that the busiest port carries least ([`busiest_bound`]), and nothing but that port takes time.
    pub fn best(self, lost: &[LostBlock]) -> f64 {
        let bytes: u64 = lost.iter().map(|block| block.bytes).sum();
        let busiest = busiest_bound(lost, &BTreeMap::new()).max(1);
        self.0 * bytes as f64 / busiest as f64
    }

    /// The same if the blocks, all of one length, can be copied from their node as well, however many are: it sends those, the
    /// survivors what the chains of the others take, and the requestors receive all.
    pub fn best_leaving(self, blocks: &[LostBlock]) -> f64 {
        let distinct = |nodes: fn(&LostBlock) -> &Vec<NodeId>| {
            blocks.iter().flat_map(nodes).collect::<BTreeSet<_>>().len().max(1) as f64
        };
        let all = blocks.len() as f64;
        let needed = blocks.iter().map(|block| block.needed).min().unwrap_or(1) as f64;
        let (helpers, receivers) = (distinct(|block| &block.survivors), distinct(|block| &block.requestors));
        let ports = |copied: usize| {
            let copied = copied as f64;
            copied.max((all - copied) * needed / helpers).max(all / receivers)
        };
        let busiest = (0..=blocks.len()).map(ports).fold(f64::INFINITY, f64::min);
        self.0 * all / busiest
    }
}

/// The blocks of an object's stripes that are on the nodes `lost`, with who may help and receive.
pub fn lost_blocks(info: &ObjectInfo, lost: &[NodeId], requestors: &[NodeId]) -> Result<Vec<LostBlock>> {
    let mut blocks = Vec::new();
    for (stripe, code) in stripes(info)? {
        let is_lost = |node: NodeId| node == NodeId(0) || lost.contains(&node);
        let members = || stripe.members.iter().map(|member| NodeId(member.node));
        let may_receive = |&node: &NodeId| !is_lost(node) && members().all(|holder| holder != node);
        for own in stripe.members.iter().filter(|member| lost.contains(&NodeId(member.node))) {
            blocks.push(LostBlock {
                survivors: members().filter(|&node| !is_lost(node)).collect(),
                needed: code.k(),
                requestors: requestors.iter().copied().filter(may_receive).collect(),
                bytes: own.stored_bytes,
            });
        }
    }
    Ok(blocks)
}

/// The node that holds the most data blocks of an object's stripes: how many, and how many blocks in all.
pub fn most_data(info: &ObjectInfo) -> Result<(NodeId, usize, usize)> {
    let mut held: BTreeMap<NodeId, (usize, usize)> = BTreeMap::new();
    for (stripe, code) in stripes(info)? {
        for (index, member) in stripe.members.iter().enumerate() {
            let (data, all) = held.entry(NodeId(member.node)).or_default();
            *data += usize::from(index < code.k());
            *all += 1;
        }
    }
    let most = held.into_iter().max_by_key(|&(_, (data, _))| data);
    most.map(|(node, (data, all))| (node, data, all)).ok_or_else(|| bad("nothing is stored"))
}

/// The stripes that an object is in.
fn stripes(info: &ObjectInfo) -> Result<Vec<(&StripeStatus, Code)>> {
    let mut seen = BTreeSet::new();
    let mut stripes = Vec::new();
    for block in &info.blocks {
        let not_archived = || bad(format!("{} was not archived", info.name));
        let stripe = block.stripe.as_ref().ok_or_else(not_archived)?;
        if seen.insert(&stripe.stripe) {
            stripes.push((stripe, Code::parse(&stripe.code).map_err(bad)?));
        }
    }
    Ok(stripes)
}

/// How near a series comes to its bound at `x`, where it must reach `part` of it, and what stands between, from what was
/// measured: an assignment that loads its busiest port more, the processors, or waiting.
pub fn beside_bound(results: &Results, series: &str, x: f64, part: Option<f64>) -> Comparison {
    let ours = results.of_bound(series, x);
    let median = |metric: &str| results.median_of(series, x, metric);
    let link = results.median_of(DIRECT, x, RATE);
    let best = results.series(series).and_then(|series| series.at(x)?.bound).unwrap_or(0.0);
    // What y is: a rate, of which more is better, or the time.
    let (reached, seconds) = match results.y.metric == RATE {
        true => (ours, median(RATE) * median(TOTAL) / best),
        false => (ours.map(f64::recip), best),
    };
    let rest = match median(PROCESSOR_SHARE) {
        share if share >= BUSY => "they decide",
        _ if reached.is_some_and(|reached| reached >= NEAR) => "the busiest link decides",
        _ => "links wait for each other",
    };
    let why = format!(
        "its busiest port carried {:.1} MiB, any assignment's at least {:.1}; processors {:.0} % busy: {rest}",
        median(BUSIEST) / MIB,
        link * seconds / MIB,
        median(PROCESSOR_SHARE) * 100.0
    );
    let what = format!("{series}, {} {}, over its bound", results.x.text(x), results.x.label);
    Comparison::times(what, ours).target(part.map_or(Target::None, Target::AtLeast)).why(why)
}

/// Both rates of a ratio, for people.
pub fn rates(results: &Results, series: &str, against: &str, x: f64) -> String {
    let rate = |name: &str| results.summary(name, x, RATE).map_or(0.0, |summary| summary.median / MIB);
    format!("{:.1} and {:.1} MiB/s", rate(series), rate(against))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::proto::{BlockInfo, StripeMemberStatus, StripeStatus};

    #[test]
    fn what_is_lost_is_a_block_of_each_stripe_on_the_node() {
        let member = |node| StripeMemberStatus {
            block: vec![node as u8],
            node,
            living: true,
            stored_bytes: 10,
            is_virtual: false,
        };
        let stripe = |id: u8, nodes: [u32; 3]| {
            let members = nodes.map(member).to_vec();
            let status = StripeStatus {
                stripe: vec![id],
                code: "rs-2+1".to_owned(),
                index: 0,
                members,
                room_bytes: 0,
            };
            BlockInfo { stripe: Some(status), ..BlockInfo::default() }
        };
        // Two blocks of the object for each stripe, and one stripe that has lost nothing.
        let blocks = [(1, [1, 2, 3]), (1, [1, 2, 3]), (2, [4, 1, 3]), (3, [2, 3, 4])]
            .map(|(id, nodes)| stripe(id, nodes));
        let info = ObjectInfo { blocks: blocks.to_vec(), ..ObjectInfo::default() };
        let lost = lost_blocks(&info, &[NodeId(1)], &[1, 2, 7].map(NodeId)).unwrap();
        let survivors: Vec<Vec<u32>> =
            lost.iter().map(|block| block.survivors.iter().map(|node| node.0).collect()).collect();
        assert_eq!(survivors, [[2, 3], [4, 3]]);
        assert!(lost.iter().all(|block| (block.needed, block.bytes) == (2, 10)));
        let requestors: Vec<Vec<u32>> =
            lost.iter().map(|block| block.requestors.iter().map(|node| node.0).collect()).collect();
        assert_eq!(requestors, [vec![7], vec![2, 7]], "none that holds a block of the stripe");
        // Of two nodes lost together each has its own, of one stripe too.
        assert_eq!(lost_blocks(&info, &[1, 2].map(NodeId), &[NodeId(7)]).unwrap().len(), 4);
        // Node 3 helps with both: 20 bytes over one link of 5 B/s for 20 bytes.
        assert_eq!(Link(5.0).best(&lost), 5.0);
        // One copied, of the other its two helpers send one each: as fast as two links.
        assert_eq!(Link(5.0).best_leaving(&lost), 10.0);
        let info = ObjectInfo { blocks: vec![BlockInfo::default()], ..info };
        assert!(lost_blocks(&info, &[NodeId(1)], &[NodeId(7)]).is_err());
    }
}
