//! Every plan that leaves the coordinator is made here: nodes are chosen by `plan`, the flow is built and proved by
//! `flow`, bound to nodes and blocks, and priced.
//!
//! Sites are node numbers; site 0 is the client.

mod choose;
mod codes;
mod encode;
mod lost;
mod multi_block;
mod order;
mod price;
mod read;
mod repair;
mod rows;
mod why;
mod write;

pub(crate) use codes::Codes;
pub(crate) use encode::{EncodePlan, is_made};
pub(crate) use lost::{Candidates, Takers};
pub(crate) use multi_block::{SeveralPlan, Target};
pub(crate) use price::Price;
pub(crate) use read::ReadRequest;
pub(crate) use repair::{RepairPlan, RepairSpec};
pub(crate) use why::Part;
pub(crate) use write::WriteRequest;

use crate::error::{CoordinatorError, Result};
use crate::health::View;
use flow::bound::{Binding, BlockWrite, FlowHeader, Participant};
use flow::{Cost, Flow, FlowPlan, Geometry, Helper, Member, Proved, Site, limits};
use model::{BlockFacts, BlockId, Location, NodeId, Peer, Token};
use plan::{Draw, LeastRecent, LinkRates};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What plans depend on besides the catalog and the nodes: who was selected when, chance, and links.
#[derive(Debug)]
pub(crate) struct Planner {
    pub codes: Codes,
    default_slice_bytes: u32,
    recent: Mutex<LeastRecent>,
    draw: Mutex<Draw>,
    links: Mutex<Arc<LinkRates>>,
}

/// How long slices are, in bytes: shorter where a flow has several lanes, each of which fills at its share of the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SliceLength {
    pub of_one_lane: u32,
    pub of_several: u32,
}

impl SliceLength {
    /// As it was asked for, whatever the flow.
    pub fn exactly(bytes: u32) -> SliceLength {
        SliceLength { of_one_lane: bytes, of_several: bytes }
    }

    fn by_default(bytes: u32) -> SliceLength {
        SliceLength { of_one_lane: bytes, of_several: bytes.min(limits::SLICE_BYTES_OF_LANES) }
    }
}

/// A plan, and what it was made from.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub plan: FlowPlan,
    pub cost: Cost,
}

impl Planner {
    /// With a seed for placement.
    pub fn new(default_slice_bytes: u32, seed: u64) -> Planner {
        Planner {
            codes: Codes::default(),
            default_slice_bytes,
            recent: Mutex::default(),
            draw: Mutex::new(Draw::seeded(seed)),
            links: Mutex::default(),
        }
    }

    /// The slice length to use for the one asked for (0: the default).
    pub fn slice_length(&self, asked: u32) -> Result<SliceLength> {
        match asked {
            0 => Ok(SliceLength::by_default(self.default_slice_bytes)),
            bytes if limits::slice_bytes_ok(bytes) => Ok(SliceLength::exactly(bytes)),
            bytes => Err(CoordinatorError::Invalid(format!(
                "slices of {bytes} bytes: the length must divide 32 KiB or be a multiple of it, \
                 from 1 KiB to 256 MiB"
            ))),
        }
    }

    /// The slice length for a read of `length` bytes: the usual one, but no longer than what is read. Of a star k times as
    /// much as was asked for meets at the reader.
    pub fn read_slice_length(&self, asked: u32, length: u64) -> Result<SliceLength> {
        let usual = self.slice_length(asked)?;
        let most = u64::from(usual.of_one_lane);
        let enough = length.clamp(u64::from(limits::MIN_SLICE_BYTES), most).next_power_of_two();
        let bytes = usual.of_one_lane.min(enough as u32);
        Ok(if asked == 0 { SliceLength::by_default(bytes) } else { usual })
    }

    fn draw(&self) -> MutexGuard<'_, Draw> {
        self.draw.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, LeastRecent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the links from now on, in Mb/s.
    pub fn set_links(&self, rates: LinkRates) {
        *self.links.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rates);
    }

    /// The least recently selected `count` of `nodes` (RP §3.3), and selects them.
    pub fn select(&self, nodes: &[NodeId], count: usize) -> Result<Vec<NodeId>> {
        Ok(self.recent().select(nodes, count)?.into_iter().map(|index| nodes[index]).collect())
    }

    /// Notes that the helpers of a flow were selected; its driver is none.
    pub fn mark(&self, flow: &Proved, driver: Peer) {
        let helpers = flow.sites().into_iter().filter(|helper| helper.0 != driver.number());
        self.recent().mark(helpers.map(|site| NodeId(site.0)));
    }
}

/// Who drives puts and reads.
pub(crate) const CLIENT: Site = Site(0);

/// The site of a node.
pub(crate) fn site(node: NodeId) -> Site {
    Site(node.0)
}

/// A copy that a flow may read, as it is preferred.
#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    member: Member,
    block: BlockId,
    facts: &'a BlockFacts,
    location: Location,
}

impl Source<'_> {
    fn helper(&self) -> Helper {
        Helper { member: self.member, site: site(self.location.node), stored_bytes: self.facts.stored_bytes }
    }
}

/// A flow that is proved, and all that binds it to the world.
struct Draft<'a> {
    view: &'a View,
    flow: Proved,
    header: FlowHeader,
    /// What it reads.
    sources: &'a [Source<'a>],
    writes: BTreeMap<Member, BlockWrite>,
    scheme: &'a str,
    /// First wanted slice and their number; all if `None`.
    slices: Option<(u64, u64)>,
}

/// How many slices may be under way for each lane of a flow. Of several, no more than its stages have at hand.
fn lane_window_slices(flow: &Flow, alone: u32) -> u32 {
    if flow.lanes.len() < 2 {
        return alone;
    }
    let stages = flow.lanes.iter().map(|lane| lane.stages.len() as u64).max().unwrap_or(1);
    u32::try_from(stages * limits::STAGE_WINDOW_SLICES).map_or(alone, |window| window.min(alone))
}

impl Draft<'_> {
    fn finish(self) -> Result<Planned> {
        let Draft { view, flow, mut header, sources, writes, scheme, slices } = self;
        header.lane_window_slices = lane_window_slices(&flow, header.window_slices);
        let (first, count) = slices.unwrap_or((0, flow.geometry.slices()));
        let stored = |member: Member| match writes.get(&member) {
            Some(write) => write.stored_bytes,
            None => sources.iter().find(|s| s.member == member).map_or(0, |s| s.facts.stored_bytes),
        };
        let cost = flow::predict(&flow, stored, Some(first..first + count));
        let blocks = sources.iter().map(|s| (s.member, s.facts.copy_at(s.block, s.location))).collect();
        let participants = participants(view, &flow)?;
        let binding = Binding {
            header,
            participants,
            blocks,
            writes,
            scheme: scheme.to_owned(),
            slices: first..first + count,
        };
        let mut plan = flow::bound::bind(flow, binding, || Token(rand::random()))?;
        plan.predicted = cost.links.iter().map(|(&sites, &bytes)| (sites, bytes)).collect();
        Ok(Planned { plan, cost })
    }
}

fn participants(view: &View, flow: &Proved) -> Result<Vec<Participant>> {
    let participant = |at: Site| -> Result<Participant> {
        let (site, peer) = (at, Peer::from_number(at.0));
        if at == CLIENT {
            return Ok(Participant {
                site,
                peer,
                control_addr: String::new(),
                data_addr: String::new(),
                rack: 0,
            });
        }
        let node = view.node(NodeId(at.0))?;
        let (control_addr, data_addr) = (node.control_addr.clone(), node.data_addr.clone());
        Ok(Participant { site, peer, control_addr, data_addr, rack: node.rack })
    };
    let sites = flow.sites();
    let mut participants = Vec::with_capacity(sites.len());
    for site in sites {
        participants.push(participant(site)?);
    }
    Ok(participants)
}

/// A copy of a block on a living node, preferably one that is no last resort, none to avoid.
fn living_copy(view: &View, facts: &BlockFacts, avoid: &BTreeSet<NodeId>) -> Option<Location> {
    let node = |l: &Location| view.node(l.node).ok().filter(|n| n.is_living && !avoid.contains(&l.node));
    let living = facts.locations.iter().filter_map(|l| node(l).map(|n| (n.is_last_resort(), *l)));
    living.min().map(|(_, location)| location)
}

/// Geometry of blocks that are moved or written whole. A flow has at least one slice, so an empty block is a byte long, of
/// which nothing is stored or sent.
fn plain(stored_bytes: u64, slice_bytes: u32) -> Geometry {
    Geometry { block_bytes: stored_bytes.max(1), alpha: 1, slice_bytes }
}

/// The number of slices that bytes `offset … offset+length` of a symbol touch, after the first of them.
fn slice_run(offset: u64, length: u64, slice_bytes: u32) -> (u64, u64) {
    let slice = u64::from(slice_bytes);
    let first = offset / slice;
    (first, (offset + length).div_ceil(slice) - first)
}
