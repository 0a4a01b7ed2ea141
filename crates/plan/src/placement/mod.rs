//! Where replicas go, one policy per file, and what becomes of them when their stripe is encoded.
//!
//! ```text
//!   policy(name, terms) ─▶ Policy ── places blocks, whose first replica's rack is the core rack ──▶ OpenStripe, one a rack
//!                                                                                                      │ full, or waited too long
//!                                                  which replicas stay, where parities go, who encodes ◀┘ seal
//! ```
//!
//! Of codes that a pipeline makes of replicas no replica stays: who stands where in it is decided then.
//!
//! A policy is a file and a line of [`policies`]. All see the cluster as [`Racks`]; all that must be kept of an open stripe is
//! its [`StripeState`].

pub mod ear;
pub mod ear_preliminary;
mod open_stripes;
mod policy;
mod racks;
pub mod random;
mod rapidraid;
mod seal;
mod seal_virtual;
mod spread;
mod stripe;
mod stripe_graph;
mod terms;
mod trial;

use crate::error::PlanError;
use std::sync::Arc;

pub use open_stripes::{Joined, OpenStripes};
pub use policy::{Policy, PolicyKind};
pub use racks::Racks;
pub use seal::{Fetch, Sealed, SealedBlock};
pub use spread::Spread;
pub use stripe::{OpenStripe, Placed, SettledGroup, StripeState};
pub use terms::{Rules, Terms};
pub use trial::{Totals, Trial, TrialReport};

/// All policies, in the order in which they are listed.
pub fn policies() -> &'static [PolicyKind] {
    const POLICIES: &[PolicyKind] =
        &[random::POLICY, ear_preliminary::POLICY, ear::POLICY, rapidraid::POLICY];
    POLICIES
}

/// The policy of a name such as `ear`.
///
/// # Errors
/// [`PlanError::UnknownPolicy`]; those of [`Rules::new`]; [`PlanError::OneReplica`]; [`PlanError::NoPipeline`],
/// [`PlanError::TooFewReplicas`].
pub fn policy(name: &str, terms: Terms) -> Result<Box<dyn Policy>, PlanError> {
    let kind = policies().iter().find(|kind| kind.name == name).ok_or_else(|| {
        let known = policies().iter().map(|kind| kind.name).collect();
        PlanError::UnknownPolicy { name: name.to_owned(), known }
    })?;
    (kind.make)(Arc::new(Rules::new(terms)?))
}
