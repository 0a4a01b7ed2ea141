//! From a proved flow to a plan: nodes, blocks and tokens are bound to it.

use super::{CLIENT, Result, World, site};
use flow::bound::{Binding, BlockRead, BlockWrite, FlowHeader, Participant};
use flow::{Cost, Flow, FlowPlan, Geometry, Helper, Member, Proved, Site, limits};
use model::{BlockFacts, BlockId, Location, NodeId, Peer, Sums, Token};
use std::collections::BTreeMap;

/// Where the tokens of edges come from: they are secrets, so from the randomness of the operating system.
pub type Tokens<'a> = &'a mut dyn FnMut() -> Token;

/// A plan, and what it costs.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The flow, bound.
    pub plan: FlowPlan,
    /// What it is predicted to move.
    pub cost: Cost,
}

/// A copy that a flow may read, as it is preferred.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub member: Member,
    pub block: BlockId,
    pub facts: &'a BlockFacts,
    pub location: Location,
}

impl Source<'_> {
    /// What its node is to read, and how it knows that it is this.
    fn read(&self) -> BlockRead {
        let copy = self.facts.copy_at(self.block, self.location);
        let Sums { digest, fingerprint } = self.facts.sums;
        BlockRead { copy, digest, fingerprint, permit: None }
    }

    pub fn helper(&self) -> Helper {
        Helper {
            member: self.member,
            site: site(self.location.node),
            stored_bytes: self.facts.stored_bytes,
            cost: 1,
        }
    }
}

/// A flow that is proved, and all that binds it to the world.
pub(super) struct Draft<'a> {
    pub world: &'a World,
    pub flow: Proved,
    pub header: FlowHeader,
    /// What it reads.
    pub sources: &'a [Source<'a>],
    pub writes: BTreeMap<Member, BlockWrite>,
    pub scheme: &'a str,
    /// First wanted slice and their number; all if `None`.
    pub slices: Option<(u64, u64)>,
}

impl Draft<'_> {
    pub fn finish(self, tokens: Tokens<'_>) -> Result<Planned> {
        let Draft { world, flow, mut header, sources, writes, scheme, slices } = self;
        header.lane_window_slices = lane_window_slices(&flow, header.window_slices);
        let (first, count) = slices.unwrap_or((0, flow.geometry.slices()));
        let stored = |member: Member| match writes.get(&member) {
            Some(write) => write.stored_bytes,
            None => sources.iter().find(|s| s.member == member).map_or(0, |s| s.facts.stored_bytes),
        };
        let cost = flow::predict(&flow, stored, Some(first..first + count));
        let blocks = sources.iter().map(|s| (s.member, s.read())).collect();
        let participants =
            flow.sites().into_iter().map(|at| participant(world, at)).collect::<Result<_>>()?;
        let binding = Binding {
            header,
            participants,
            blocks,
            writes,
            scheme: scheme.to_owned(),
            slices: first..first + count,
        };
        let mut plan = flow::bound::bind(flow, binding, tokens)?;
        plan.predicted = cost.links.iter().map(|(&sites, &bytes)| (sites, bytes)).collect();
        Ok(Planned { plan, cost })
    }
}

/// How many slices may be under way for each lane of a flow. Of several, no more than its stages have at hand.
fn lane_window_slices(flow: &Flow, alone: u32) -> u32 {
    if flow.lanes.len() < 2 {
        return alone;
    }
    let stages = flow.lanes.iter().map(|lane| lane.stages.len() as u64).max().unwrap_or(1);
    u32::try_from(stages * limits::STAGE_WINDOW_SLICES).map_or(alone, |window| window.min(alone))
}

fn participant(world: &World, site: Site) -> Result<Participant> {
    let peer = Peer::from_number(site.0);
    if site == CLIENT {
        let [control_addr, data_addr] = [String::new(), String::new()];
        return Ok(Participant { site, peer, control_addr, data_addr, rack: 0 });
    }
    let node = world.node(NodeId(site.0))?;
    let (control_addr, data_addr) = (node.control_addr.clone(), node.data_addr.clone());
    Ok(Participant { site, peer, control_addr, data_addr, rack: node.rack })
}

/// Geometry of blocks that are moved or written whole. A flow has at least one slice, so an empty block is a byte long, of
/// which nothing is stored or sent.
pub(super) fn plain(stored_bytes: u64, slice_bytes: u32) -> Geometry {
    Geometry { block_bytes: stored_bytes.max(1), alpha: 1, slice_bytes }
}

/// The number of slices that bytes `offset … offset+length` of a symbol touch, after the first of them.
pub(super) fn slice_run(offset: u64, length: u64, slice_bytes: u32) -> (u64, u64) {
    let slice = u64::from(slice_bytes);
    let first = offset / slice;
    (first, (offset + length).div_ceil(slice) - first)
}
