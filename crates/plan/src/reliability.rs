//! What a layout of stripes over racks is worth (RP §4.2): how long a lost node's blocks take to be made again, from the price of
//! their repair flows, and from that how long data last.
//!
//! ```text
//!   code, layout, scheme ──flow of each block's repair──▶ bytes over all links, bytes between racks ──hardware──▶ hours
//!                                                                     hours, failures ──Markov chain──▶ MTTDL
//! ```

use codes::reliability::{Layout, Rates, Survival, mttdl_hours};
use codes::{Code, CodeError};
use flow::{Cost, FlowError, Geometry, Helper, Member, RepairRequest, Scheme, Sink, Site, predict};
use std::cmp::Reverse;

/// Bytes of a block whose repair is priced: only ratios are asked.
const BLOCK_BYTES: u64 = 1 << 20;
const SLICE_BYTES: u32 = 32 << 10;

/// The cluster and its failures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hardware {
    /// Racks of the cluster.
    pub racks: u32,
    /// Nodes in each.
    pub nodes_per_rack: u32,
    /// Bytes that a node keeps.
    pub node_bytes: f64,
    /// What repairs may take of each node's link, each way, in bytes per hour.
    pub node_rate: f64,
    /// … and of the link of each rack to the others.
    pub rack_rate: f64,
    /// Hours until a node is lost, on average.
    pub node_hours: f64,
    /// Hours until a rack fails, on average.
    pub rack_hours: f64,
    /// The part of a rack's nodes that do not come back from that.
    pub lost_with_rack: f64,
}

/// What a code in a layout is worth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Worth {
    /// Blocks' worth of bytes that the repair of a block moves, on average.
    pub moved: f64,
    /// … of them from one rack to another.
    pub cross_rack: f64,
    /// Hours until all blocks of a lost node are made again, by all nodes together.
    pub repair_hours: f64,
    /// Hours until a stripe is lost, on average.
    pub mttdl_hours: f64,
}

/// Why a layout cannot be judged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WorthError {
    /// More racks than there are, or more blocks in one than it has nodes.
    #[error(
        "{blocks} blocks, {per_rack} in a rack, do not fit into {racks} racks of {nodes_per_rack} nodes, with one node left to repair into"
    )]
    NoRoom {
        /// Blocks of a stripe.
        blocks: usize,
        /// In a rack at most.
        per_rack: usize,
        /// Racks of the cluster.
        racks: u32,
        /// Nodes in each.
        nodes_per_rack: u32,
    },
    /// The code cannot, or its chain is too large.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// No flow.
    #[error(transparent)]
    Flow(#[from] FlowError),
}

/// Judges stripes of `code`, of which `survival` is known, with `per_rack` blocks in a rack, whose blocks are repaired by
/// `scheme` into their own racks. A node's loss is the loss of a block of many stripes, which are repaired at once: links are
/// evenly loaded, and the time is that of the narrower ones.
///
/// # Errors
/// [`WorthError`].
pub fn worth(
    (code, survival): (&Code, &Survival),
    per_rack: usize,
    scheme: Scheme,
    hardware: &Hardware,
) -> Result<Worth, WorthError> {
    let layout = Layout::of(code.stored(), per_rack);
    let fits = layout.racks().len() <= hardware.racks as usize
        && layout.racks().iter().all(|&blocks| blocks < hardware.nodes_per_rack as usize);
    if !fits {
        let Hardware { racks, nodes_per_rack, .. } = *hardware;
        return Err(WorthError::NoRoom { blocks: code.stored(), per_rack, racks, nodes_per_rack });
    }
    let (mut moved, mut crossed) = (0, 0);
    for lost in 0..code.stored() {
        let cost = repair(code, &layout, lost, scheme)?;
        moved += cost.network_bytes();
        crossed += cost.cross_rack_bytes(|site| rack_of(&layout, site));
    }
    let repaired = (code.stored() as u64 * BLOCK_BYTES) as f64;
    let (moved, cross_rack) = (moved as f64 / repaired, crossed as f64 / repaired);
    let nodes = f64::from(hardware.racks) * f64::from(hardware.nodes_per_rack);
    let over_nodes = hardware.node_bytes * moved / (nodes * hardware.node_rate);
    let over_racks = hardware.node_bytes * cross_rack / (f64::from(hardware.racks) * hardware.rack_rate);
    let repair_hours = over_nodes.max(over_racks);
    let rates = Rates {
        node: 1.0 / hardware.node_hours,
        rack: 1.0 / hardware.rack_hours,
        lost_with_rack: hardware.lost_with_rack,
        repair: 1.0 / repair_hours,
    };
    Ok(Worth { moved, cross_rack, repair_hours, mttdl_hours: mttdl_hours(survival, &layout, &rates)? })
}

/// Blocks have the sites of their numbers; the requestor is another node of the lost block's rack.
fn repair(code: &Code, layout: &Layout, lost: usize, scheme: Scheme) -> Result<Cost, WorthError> {
    let (requestor, first) = (Site(code.stored() as u32 + lost as u32), code.virtuals());
    let member = |block: usize| Member((first + block) as u16);
    let helper = |block: usize| Helper {
        member: member(block),
        site: Site(block as u32),
        stored_bytes: BLOCK_BYTES,
        cost: 1,
    };
    let home = rack_of(layout, Site(lost as u32));
    let mut helpers: Vec<Helper> = (0..code.stored()).filter(|&block| block != lost).map(helper).collect();
    // Few racks are to take part: its own, then the largest.
    let size = |rack: usize| Reverse(layout.racks()[rack]);
    let rack = |helper: &Helper| rack_of(layout, helper.site);
    helpers.sort_by_key(|helper| (rack(helper) != home, size(rack(helper)), rack(helper)));
    let mut needed = request_of(code, member(lost), &helpers, requestor).needed()?;
    // Algorithm 1: its own rack comes last, a rack at a time.
    needed.sort_by_key(|helper| (rack(helper) == home, size(rack(helper)), rack(helper)));
    let flow = flow::build(scheme, &request_of(code, member(lost), &needed, requestor))?;
    Ok(predict(&flow, |_| BLOCK_BYTES, None))
}

fn request_of<'a>(code: &'a Code, lost: Member, helpers: &'a [Helper], requestor: Site) -> RepairRequest<'a> {
    RepairRequest {
        code,
        geometry: Geometry { block_bytes: BLOCK_BYTES, alpha: code.alpha() as u16, slice_bytes: SLICE_BYTES },
        wanted: RepairRequest::whole_blocks(code, &[lost]),
        helpers,
        absent: &[],
        empty: &[],
        requestor,
        sink: Sink::Write,
    }
}

/// The rack of a block's site, or of the requestor that stands in for it.
fn rack_of(layout: &Layout, site: Site) -> usize {
    let blocks: usize = layout.racks().iter().sum();
    let block = site.0 as usize % blocks;
    let mut last = 0;
    let ends = layout.racks().iter().map(|size| {
        last += size;
        last
    });
    ends.take_while(|&end| end <= block).count()
}
