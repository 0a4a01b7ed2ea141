//! Decisions: which scheme, who helps, who receives, in which order, in which slices, and what that costs. Each is a function
//! of the [`World`], what is wanted and whom to avoid; what it yields is a flow that is built and proved by `flow`, bound to
//! nodes and blocks, and priced.
//!
//! Sites are node numbers; site 0 is the client. Ids of flows, tokens and seeds come from whoever asks.

mod assign;
mod choose;
mod course;
mod draft;
mod encode;
mod error;
mod ground;
mod hedge;
mod in_flight;
mod lost;
mod multi_block;
mod order;
mod price;
mod read;
mod relocate;
mod repair;
mod symbol_cost;
mod usual;
mod wanted;
mod why;
mod world;
mod write;

pub use assign::{BATCH, assign_named, at_once, in_turn};
pub use course::{Bounds, Course, Next};
pub use draft::{Planned, Tokens};
pub use encode::{EncodePlan, archival, expected_parity, is_made};
pub use error::DecideError;
pub use ground::Ground;
pub use hedge::{Hedging, Kind};
pub use in_flight::InFlight;
pub use lost::{Candidates, Takers};
pub use multi_block::SeveralPlan;
pub use price::Price;
pub use read::{ReadPlan, ReadRequest, WATCHED_READ_BYTES};
pub use relocate::Relocation;
pub use repair::{RepairPlan, RepairSpec, Target, requestor, requestors};
pub use usual::{InTheory, Usual};
pub use why::Part;
pub use world::{NodeFacts, World, nearly_full};
pub use write::{NewParity, ParitiesRequest, WriteRequest, replica_nodes, stripe_nodes};

use codes::Codebook;
use draft::{Draft, Source, plain, slice_run};
use error::Result;
use flow::{Proved, Site, limits};
use model::{NodeId, Peer};
use order::Network;

/// The settings of whoever plans.
#[derive(Debug)]
pub struct Planner {
    /// The codes of stripes.
    pub codes: Codebook,
    default_slice_bytes: u32,
}

/// How long slices are, in bytes: shorter where a flow has several lanes, each of which fills at its share of the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceLength {
    /// Of a flow with one lane.
    pub of_one_lane: u32,
    /// Of a flow with several.
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

impl Planner {
    /// With the slice length, in bytes, of flows for which none is asked.
    pub fn new(default_slice_bytes: u32) -> Planner {
        Planner { codes: Codebook::default(), default_slice_bytes }
    }

    /// The slice length to use for the one asked for (0: the default).
    ///
    /// # Errors
    /// [`DecideError::Invalid`].
    pub fn slice_length(&self, asked: u32) -> Result<SliceLength> {
        match asked {
            0 => Ok(SliceLength::by_default(self.default_slice_bytes)),
            bytes if limits::slice_bytes_ok(bytes) => Ok(SliceLength::exactly(bytes)),
            bytes => Err(DecideError::Invalid(format!(
                "slices of {bytes} bytes: the length must divide 32 KiB or be a multiple of it, \
                 from 1 KiB to 256 MiB"
            ))),
        }
    }

    /// The slice length for a read of `length` bytes: the usual one, but no longer than what is read. Of a star k times as
    /// much as was asked for meets at the reader.
    ///
    /// # Errors
    /// [`DecideError::Invalid`].
    pub fn read_slice_length(&self, asked: u32, length: u64) -> Result<SliceLength> {
        let usual = self.slice_length(asked)?;
        let most = u64::from(usual.of_one_lane);
        let enough = length.clamp(u64::from(limits::MIN_SLICE_BYTES), most).next_power_of_two();
        let bytes = usual.of_one_lane.min(enough as u32);
        Ok(if asked == 0 { SliceLength::by_default(bytes) } else { usual })
    }
}

/// The helpers of a flow: all who take part but its driver. They are to be marked as selected.
pub fn helpers_of(flow: &Proved, driver: Peer) -> impl Iterator<Item = NodeId> {
    flow.sites().into_iter().map(|site| NodeId(site.0)).filter(move |node| node.0 != driver.number())
}

/// Who drives puts and reads.
const CLIENT: Site = Site(0);

/// The site of a node.
fn site(node: NodeId) -> Site {
    Site(node.0)
}
