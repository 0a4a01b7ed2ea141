//! All stripes that are being filled: one for each core rack, or one for all.

use super::policy::Policy;
use super::racks::Racks;
use super::stripe::{OpenStripe, Placed, StripeState};
use crate::draw::Draw;
use crate::error::PlanError;
use crate::topology::RackId;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Open stripes of one policy. The rack of a block's first replica is drawn anew for each block and decides which stripe it
/// joins (EAR §3.1.1): consecutive blocks in one core rack would load that rack at a time.
#[derive(Debug)]
pub struct OpenStripes {
    policy: Box<dyn Policy>,
    open: BTreeMap<Option<RackId>, OpenStripe>,
}

/// A block that was placed.
#[derive(Debug)]
pub struct Joined {
    /// The core rack of its stripe.
    pub core: Option<RackId>,
    /// Its place in the stripe, from 0.
    pub position: usize,
    /// Its nodes.
    pub placed: Placed,
    /// Its stripe, if it was the last block that this lacked. It is no longer among the open ones.
    pub filled: Option<OpenStripe>,
}

impl OpenStripes {
    /// None so far.
    pub fn new(policy: Box<dyn Policy>) -> OpenStripes {
        OpenStripes { policy, open: BTreeMap::new() }
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Takes up stripes that were open before, in place of others with the same core rack.
    pub fn resume(&mut self, stripes: impl IntoIterator<Item = StripeState>) {
        for state in stripes {
            self.open.insert(state.core, OpenStripe::resume(self.policy.rules(), state));
        }
    }

    /// Places a block. After an error no stripe has got a block.
    ///
    /// # Errors
    /// Those of [`Policy::core`], [`Policy::open`] and [`Policy::place`].
    pub fn place(&mut self, racks: &Arc<Racks>, draw: &mut Draw) -> Result<Joined, PlanError> {
        let core = self.policy.core(racks, draw)?;
        let stripe = match self.open.entry(core) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.policy.open(core, racks, draw)?),
        };
        let position = stripe.len();
        let placed = self.policy.place(stripe, racks, draw)?;
        let is_full = stripe.is_full();
        let filled = if is_full { self.open.remove(&core) } else { None };
        Ok(Joined { core, position, placed, filled })
    }

    /// The stripes that are being filled, by their core racks.
    pub fn iter(&self) -> impl Iterator<Item = &OpenStripe> {
        self.open.values()
    }

    /// Takes a stripe out, to be sealed as short as it is.
    pub fn take(&mut self, core: Option<RackId>) -> Option<OpenStripe> {
        self.open.remove(&core)
    }
}
