//! What a placement policy is.

use super::racks::Racks;
use super::stripe::{OpenStripe, Placed};
use super::terms::Rules;
use crate::draw::Draw;
use crate::error::PlanError;
use crate::topology::RackId;
use std::fmt;
use std::sync::Arc;

/// Decides where the replicas of blocks go, and which blocks become a stripe. It remembers nothing: what it must know of earlier
/// blocks is in the open stripe.
pub trait Policy: fmt::Debug + Send + Sync {
    /// What it was asked for.
    fn rules(&self) -> &Arc<Rules>;

    /// The core rack of the stripe that the next block joins, so that there is an open stripe for each rack; `None` if blocks
    /// become stripes in the order in which they come, wherever they are.
    ///
    /// # Errors
    /// [`PlanError::NotEnoughNodes`] if no node has room.
    fn core(&self, racks: &Racks, draw: &mut Draw) -> Result<Option<RackId>, PlanError>;

    /// A stripe without blocks.
    ///
    /// # Errors
    /// [`PlanError::TooManyTargetRacks`], [`PlanError::TooFewRacks`], [`PlanError::TooFewNodesInRacks`].
    fn open(
        &self,
        core: Option<RackId>,
        racks: &Arc<Racks>,
        draw: &mut Draw,
    ) -> Result<OpenStripe, PlanError>;

    /// Places the next block of a stripe.
    ///
    /// # Errors
    /// [`PlanError::StripeFull`]; [`PlanError::NoRoomInRack`], [`PlanError::NotEnoughRacks`], [`PlanError::NotEnoughNodes`] for
    /// the replicas of one block; [`PlanError::NoLayout`].
    fn place(
        &self,
        stripe: &mut OpenStripe,
        racks: &Arc<Racks>,
        draw: &mut Draw,
    ) -> Result<Placed, PlanError>;
}

/// Makes a policy, or says what it cannot keep of the rules.
type Make = fn(Arc<Rules>) -> Result<Box<dyn Policy>, PlanError>;

/// A line of the table of policies.
#[derive(Clone, Copy, Debug)]
pub struct PolicyKind {
    /// Its name in options and settings.
    pub name: &'static str,
    /// What it does, in a line.
    pub description: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Makes one for some rules.
    pub(super) make: Make,
}

/// A random rack with room.
pub(super) fn any_rack(rules: &Rules, racks: &Racks, draw: &mut Draw) -> Result<RackId, PlanError> {
    racks.draw(draw).ok_or_else(|| {
        let needed = rules.terms().replicas;
        PlanError::NotEnoughNodes { code: format!("rep-{needed}"), needed, alive: racks.roomy_nodes() }
    })
}

/// An error for a stripe that takes no more blocks.
pub(super) fn require_open(stripe: &OpenStripe) -> Result<(), PlanError> {
    let k = stripe.rules().terms().code.k();
    if stripe.is_full() { Err(PlanError::StripeFull { k }) } else { Ok(()) }
}
