//! Plans of repairs of several blocks of a stripe in one pass (RP §4.4). The first requestor drives.

use super::choose::{ForSeveral, choose_for_several};
use super::repair::{RepairPlan, Target};
use super::{DecideError, Network, Planner, Result, Tokens, World, site};
use flow::{Member, MultiBlockRequest, Site};
use model::NodeId;
use std::collections::BTreeSet;

/// How the blocks are to be made.
#[derive(Debug)]
pub enum SeveralPlan {
    /// By one flow.
    OnePass(Box<RepairPlan>),
    /// Each by its own, one after another: that is predicted to be faster.
    EachAlone {
        /// Why.
        why: String,
    },
}

impl Planner {
    /// One flow that makes all `targets`, blocks of one stripe. Their own copies are not used. The first one says by which
    /// scheme, with which slices and as which flow.
    ///
    /// # Errors
    /// As [`repair`](Self::repair).
    pub fn repair_several(
        &self,
        world: &World,
        targets: &[Target<'_>],
        avoid: &BTreeSet<NodeId>,
        tokens: Tokens<'_>,
    ) -> Result<SeveralPlan> {
        let none = || DecideError::Bug("a repair of no blocks of a stripe".to_owned());
        let (placement, spec) = targets.first().ok_or_else(none)?;
        let stripe = placement.stripe.as_ref().ok_or_else(none)?;
        let made =
            |(target, spec): &Target<'_>| Some((Member(target.stripe.as_ref()?.index), site(spec.requestor)));
        let made: Vec<(Member, Site)> = targets.iter().map(made).collect::<Option<_>>().ok_or_else(none)?;
        let rest = self.rest(world, stripe, &made, spec.slices.of_one_lane, (avoid, &spec.helpers))?;
        let request = MultiBlockRequest {
            code: &rest.code,
            geometry: rest.geometry,
            targets: &made,
            helpers: &rest.helpers,
            absent: &rest.absent,
            empty: &rest.empty,
        };
        let network = Network::of(world);
        let way = choose_for_several(spec.scheme, &request, network)
            .map_err(|error| rest.unrecoverable(error, placement.block))?;
        let choice = match way {
            ForSeveral::OnePass(choice) => choice,
            ForSeveral::EachAlone { why } => return Ok(SeveralPlan::EachAlone { why }),
        };
        let ends: Vec<Site> = made.iter().map(|&(_, site)| site).collect();
        let is_cut_off = || request.at_one().is_ok_and(|one| network.is_cut_off(choice.scheme, &one, &ends));
        let cut_off = targets.iter().any(|(_, spec)| spec.explained) && is_cut_off();
        let plan = rest.plan(network, choice, targets, &made, cut_off, tokens)?;
        Ok(SeveralPlan::OnePass(Box::new(plan)))
    }
}
