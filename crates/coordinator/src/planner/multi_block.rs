//! Plans of repairs of several blocks of a stripe in one pass (RP §4.4). The first requestor drives.

use super::choose::{Choice, ForSeveral, choose_for_several};
use super::read::unrecoverable;
use super::repair::{RepairPlan, RepairSpec, survivors};
use super::why::parts;
use super::{Draft, Planner, Source, site};
use crate::error::{CoordinatorError, Result};
use crate::health::View;
use flow::{Geometry, Member, MultiBlockRequest, Site};
use model::{NodeId, Placement};
use std::collections::{BTreeMap, BTreeSet};

/// A block that is to be made: what it is, and how its copy is to be written, by which requestor among others.
pub(crate) type Target<'a> = (&'a Placement, RepairSpec);

/// How the blocks are to be made.
pub(crate) enum SeveralPlan {
    /// By one flow.
    OnePass(Box<RepairPlan>),
    /// Each by its own, one after another: that is predicted to be faster.
    EachAlone {
        /// Why.
        why: String,
    },
}

impl Planner {
    /// A node for each lost block of a stripe, no two alike. The one that is asked for decodes and drives; the others are
    /// chosen.
    pub fn requestors<'a>(
        &self,
        view: &View,
        lost: impl Iterator<Item = &'a Placement>,
        asked: Option<NodeId>,
        avoid: &BTreeSet<NodeId>,
        load: impl Fn(NodeId) -> u64,
    ) -> Result<Vec<NodeId>> {
        let mut taken: Vec<NodeId> = Vec::new();
        for placement in lost {
            if taken.is_empty() {
                taken.push(self.requestor(view, placement, asked, avoid, &load)?);
                continue;
            }
            let mut known = placement.clone();
            if let Some(stripe) = &mut known.stripe {
                stripe.holders.extend(&taken);
            }
            taken.push(self.requestor(view, &known, None, avoid, &load)?);
        }
        Ok(taken)
    }

    /// One flow that makes all `targets`, blocks of one stripe. Their own copies are not used. The first one says by which
    /// scheme, with which slices and as which flow.
    pub fn repair_several(
        &self,
        view: &View,
        targets: &[Target<'_>],
        avoid: &BTreeSet<NodeId>,
    ) -> Result<SeveralPlan> {
        let none = || CoordinatorError::Bug("a repair of no blocks of a stripe".to_owned());
        let (placement, spec) = targets.first().ok_or_else(none)?;
        let stripe = placement.stripe.as_ref().ok_or_else(none)?;
        let code = self.codes.get(&stripe.code)?;
        let geometry = Geometry {
            block_bytes: stripe.block_bytes,
            alpha: code.alpha() as u16,
            slice_bytes: spec.slices.of_one_lane,
        };
        let mut sites: Vec<(Member, Site)> = Vec::new();
        for (target, spec) in targets {
            let member = target.stripe.as_ref().map(|s| Member(s.index)).ok_or_else(none)?;
            sites.push((member, site(spec.requestor)));
        }
        let (mut sources, absent) = survivors(self, view, stripe, avoid, &spec.helpers);
        sources.retain(|source| sites.iter().all(|(member, _)| *member != source.member));
        let helpers: Vec<_> = sources.iter().map(Source::helper).collect();
        let request =
            MultiBlockRequest { code: &code, geometry, targets: &sites, helpers: &helpers, absent: &absent };
        let network = self.network(view);
        let way = choose_for_several(spec.scheme, &request, &network)
            .map_err(|e| unrecoverable(e, placement, helpers.len() + absent.len(), &code))?;
        let Choice { scheme, flow, why } = match way {
            ForSeveral::OnePass(choice) => choice,
            ForSeveral::EachAlone { why } => return Ok(SeveralPlan::EachAlone { why }),
        };
        let members: Vec<Member> = sites.iter().map(|&(member, _)| member).collect();
        let stored = |m: Member| helpers.iter().find(|h| h.member == m).map_or(0, |h| h.stored_bytes);
        let price = Some(network.price(&flow, stored, None));
        let parts = match targets.iter().any(|(_, spec)| spec.explained) {
            true => {
                let ends: Vec<_> = sites.iter().map(|&(_, site)| site).collect();
                let cut_off = request.at_one().is_ok_and(|one| network.is_cut_off(scheme, &one, &ends));
                parts(view, stripe, &sources, &members, (&flow, scheme), (code.is_mds(), cut_off))
            }
            false => Vec::new(),
        };
        let remade = |index: u16| {
            let made = sites.iter().zip(targets).find(|((member, _), _)| member.0 == index);
            made.map(|(_, (_, spec))| spec.generation)
        };
        let mut writes = BTreeMap::new();
        for (&(member, _), (target, spec)) in sites.iter().zip(targets) {
            writes.insert(member, spec.write(target, member, stripe.note(member.0, remade)));
        }
        let header = spec.header(code.field(), flow.geometry);
        let planned =
            Draft { view, flow, header, sources: &sources, writes, scheme: scheme.name(), slices: None }
                .finish()?;
        let scheme = scheme.name().to_owned();
        let has_spares = planned.plan.flow.sites().len() - sites.len() < helpers.len();
        let plan = RepairPlan { planned, scheme, why, price, parts, has_spares };
        Ok(SeveralPlan::OnePass(Box::new(plan)))
    }
}
