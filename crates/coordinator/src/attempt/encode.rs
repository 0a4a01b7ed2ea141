//! A new stripe: one flow makes its parities, data blocks that cannot stay where they are are copied before, and the catalog
//! takes all of it at once.

use super::outcome::check;
use super::{Attempt, Noted, Order, Outcome, Step, held_or, token};
use crate::error::{CoordinatorError, Result};
use crate::gathering::layout;
use catalog::{CatalogError, NewStripe, Purpose, Staged};
use codes::Code;
use flow::{Cost, EncodeScheme};
use model::{BlockId, FlowId, NodeId, Placement, StripeId};
use plan::decide::{DecideError, EncodePlan, RepairPlan, RepairSpec, SliceLength, World, archival, is_made};
use plan::{Archival, Draw};

/// Blocks that become a stripe.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ToEncode {
    /// These, which wait in none.
    Loose(Code, Vec<BlockId>),
    /// Those that wait in this one, which takes no more.
    Gathered(StripeId),
}

/// What was decided about a new stripe.
#[derive(Clone, Debug)]
pub(super) struct Encoding {
    pub code: Code,
    pub archival: Archival,
    /// Whether it lies as its policy wants it.
    is_obedient: bool,
}

/// What encoding came to, of one stripe or of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Encoded {
    pub stripes: u64,
    pub data_bytes: u64,
    /// Data and parities.
    pub stored_bytes: u64,
    /// The data with all replicas that are wanted.
    pub replicated_bytes: u64,
    /// Data blocks that the encoder read from other racks (EAR §2.2), if there was one.
    pub downloads: u64,
    /// There was one node that encoded.
    pub has_encoder: bool,
    /// Over links between racks, parities and relocated blocks included, as planned.
    pub cross_rack_bytes: u64,
    /// Data blocks of which no replica could stay.
    pub relocated: u64,
    /// Stripes that do not lie as their policy wants it.
    pub violating: u64,
}

impl Encoded {
    pub fn add(&mut self, other: &Encoded) {
        self.stripes += other.stripes;
        self.data_bytes += other.data_bytes;
        self.stored_bytes += other.stored_bytes;
        self.replicated_bytes += other.replicated_bytes;
        self.downloads += other.downloads;
        self.cross_rack_bytes += other.cross_rack_bytes;
        self.has_encoder |= other.has_encoder;
        self.relocated += other.relocated;
        self.violating += other.violating;
    }

    /// Of a stripe whose parities were written.
    pub(super) fn of(
        order: &Order,
        (scheme, cost): (&str, &Cost),
        view: &World,
        staged: &[Staged],
    ) -> Option<Encoded> {
        let Encoding { archival, is_obedient, .. } = order.encoding.as_ref()?;
        let rack = |node: NodeId| view.topology.rack_of(node).ok();
        let data_bytes = order.blocks.iter().map(|p| p.facts.stored_bytes).sum();
        let is_data = |staged: &&Staged| order.blocks.iter().any(|p| p.block == staged.copy.block);
        let made: u64 = staged.iter().filter(|s| !is_data(s)).map(|staged| staged.stored_bytes).sum();
        let replicated =
            order.blocks.iter().map(|p| p.facts.stored_bytes * u64::from(p.facts.replicas.max(1)));
        let home = rack(archival.archiver);
        let is_star = encoding_scheme(scheme).is_ok_and(|scheme| scheme == EncodeScheme::Star);
        let far = archival.data.iter().filter(|kept| is_star && rack(kept.read_from) != home);
        let moved = order
            .blocks
            .iter()
            .zip(&archival.data)
            .filter(|(_, kept)| kept.is_relocated && rack(kept.read_from) != rack(kept.stored_at));
        let moved: u64 = moved.map(|(placement, _)| placement.facts.stored_bytes).sum();
        let flown = cost.cross_rack_bytes(|site| rack(NodeId(site.0)));
        Some(Encoded {
            stripes: 1,
            data_bytes,
            stored_bytes: data_bytes + made,
            replicated_bytes: replicated.sum(),
            downloads: far.count() as u64,
            cross_rack_bytes: flown + moved,
            has_encoder: is_star,
            relocated: archival.data.iter().filter(|kept| kept.is_relocated).count() as u64,
            violating: u64::from(!is_obedient),
        })
    }
}

/// The encoding scheme of that name; the star if there is none.
///
/// # Errors
/// [`flow::FlowError::UnknownEncoding`], which lists those that are known.
pub(crate) fn encoding_scheme(name: &str) -> Result<EncodeScheme> {
    match name {
        "" => Ok(EncodeScheme::default()),
        name => Ok(name.parse().map_err(DecideError::from)?),
    }
}

impl Attempt<'_> {
    /// The stripe with new parities, and what is to be written where.
    pub(super) async fn encoding(&self, view: &World, what: &ToEncode) -> Result<Step> {
        // Refused before anything is noted.
        encoding_scheme(&self.options.scheme)?;
        let avoid = self.course.around();
        let mut draw = Draw::seeded(rand::random());
        match what {
            ToEncode::Loose(code, data) => {
                // Whose objects are gone needs no archival.
                let blocks: Vec<Placement> =
                    self.placements(data.clone()).await?.into_iter().flatten().collect();
                if blocks.is_empty() {
                    return Ok(Step::Over(Outcome::default()));
                }
                let archival = archival(view, code, &blocks, &avoid, &mut draw)?;
                let encoding = Encoding { code: code.clone(), archival, is_obedient: true };
                Ok(order(StripeId(rand::random()), encoding, blocks))
            }
            &ToEncode::Gathered(stripe) => {
                let row = self.with.records.run(move |catalog| catalog.gathering(stripe)).await?;
                // It is encoded, or its blocks are gone.
                let Some(row) = row else { return Ok(Step::Over(Outcome::default())) };
                if row.sealed_ms.is_none() {
                    return Err(CoordinatorError::Conflict(format!("stripe {stripe} takes more blocks")));
                }
                let gathered = row.blocks.iter().map(|gathered| gathered.block).collect();
                let blocks: Option<Vec<Placement>> = self.placements(gathered).await?.into_iter().collect();
                let left = || CatalogError::Overtaken(format!("a block has left stripe {stripe}"));
                let blocks = blocks.ok_or_else(left)?;
                let planner = &self.with.planner;
                let longest = blocks.iter().map(|p| p.facts.stored_bytes).max().unwrap_or(0);
                let ground = view.ground(&avoid, longest, &mut draw)?;
                let sealed = layout(planner, &row, &blocks, view, &ground, &mut draw)?;
                let code = planner.codes.get(&row.terms.code).map_err(DecideError::from)?;
                let is_obedient = sealed.is_obedient;
                let encoding = Encoding { code, archival: sealed.into(), is_obedient };
                Ok(order(stripe, encoding, blocks))
            }
        }
    }

    async fn placements(&self, blocks: Vec<BlockId>) -> Result<Vec<Option<Placement>>> {
        self.with.records.run(move |catalog| catalog.placements(&blocks)).await
    }

    pub(super) fn encoding_plan(&self, view: &World, noted: &Noted) -> Result<RepairPlan> {
        let bug = || CoordinatorError::Bug("an encoding without a stripe".to_owned());
        let Purpose::Encode(new) = &noted.intent.purpose else { return Err(bug()) };
        let Encoding { code, archival, .. } = noted.order.encoding.as_ref().ok_or_else(bug)?;
        let planned = self.with.planner.encode(
            view,
            &EncodePlan {
                code,
                stripe: new.stripe,
                block_bytes: new.block_bytes,
                members: &new.members,
                writes: &noted.intent.copies,
                flow: noted.intent.flow,
                attempt: noted.intent.attempt,
                birth: noted.intent.birth,
                data: &noted.order.blocks,
                archival,
                scheme: encoding_scheme(&self.options.scheme)?,
                slices: self.with.planner.slice_length(self.options.slice_bytes)?,
            },
            &mut token,
        )?;
        let scheme = planned.plan.binding.scheme.clone();
        Ok(RepairPlan { planned, scheme, why: None, price: None, parts: Vec::new(), has_spares: false })
    }

    /// Copies the data blocks of which no replica could stay where it is.
    pub(super) async fn relocate(&self, view: &World, noted: &Noted) -> Result<Vec<Staged>> {
        let mut staged = Vec::new();
        for copy in &noted.intent.copies {
            let Some(placement) = noted.order.blocks.iter().find(|p| p.block == copy.block) else { continue };
            let spec = RepairSpec {
                scheme: None,
                slices: SliceLength::exactly(
                    self.with.planner.slice_length(self.options.slice_bytes)?.of_one_lane,
                ),
                verify: true,
                scheduled: false,
                requestor: copy.node,
                generation: copy.generation,
                birth: noted.intent.birth,
                flow: FlowId(rand::random()),
                attempt: 1,
                moves: false,
                helpers: Vec::new(),
                explained: false,
            };
            let avoid = self.course.around();
            let plan = self.with.planner.copy(view, &(placement, spec), &avoid, &mut token)?.planned.plan;
            let mut progress = |_, _| {};
            let drive = self.with.cluster.fleet.drive(view, copy.node, &plan, &mut progress);
            let result = held_or(self.job, drive).await??;
            for (_, checked) in check(&plan, &result, &noted.intent) {
                staged.push(checked?);
            }
        }
        Ok(staged)
    }
}

/// What a stripe takes that is to be encoded like this.
fn order(stripe: StripeId, encoding: Encoding, blocks: Vec<Placement>) -> Step {
    let Encoding { code, archival, .. } = &encoding;
    let parities: Vec<Option<BlockId>> = (code.k()..code.n())
        .map(|index| is_made(code, &blocks, index).then(|| BlockId(rand::random())))
        .collect();
    let made = parities.iter().zip(&archival.parities).filter_map(|(block, node)| Some(((*block)?, *node)));
    let placed = || blocks.iter().zip(&archival.data);
    let moved = placed().filter(|(_, kept)| kept.is_relocated);
    let writes = moved.map(|(placement, kept)| (placement.block, kept.stored_at)).chain(made).collect();
    let stays = placed().filter(|(_, kept)| !kept.is_relocated);
    let kept = stays.filter_map(|(p, kept)| Some(p.facts.on(kept.stored_at)?.copy_of(p.block))).collect();
    let absent = std::iter::repeat_n(None, code.k() - blocks.len());
    let data = blocks.iter().map(|placement| Some(placement.block));
    let purpose = Purpose::Encode(NewStripe {
        stripe,
        code: code.name().to_owned(),
        block_bytes: blocks.iter().map(|p| p.facts.stored_bytes).max().unwrap_or(0),
        members: data.chain(absent).chain(parities).map(Into::into).collect(),
        data: code.k() as u16,
        kept,
    });
    Step::Order(Order { purpose, writes, blocks, encoding: Some(encoding) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_scheme_that_is_not_known_is_refused_with_those_that_are() {
        for scheme in EncodeScheme::all() {
            assert_eq!(encoding_scheme(scheme.name()).ok(), Some(scheme));
        }
        assert_eq!(encoding_scheme("").ok(), Some(EncodeScheme::Star));
        let Err(error) = encoding_scheme("cyclic") else { panic!("a repair scheme encodes nothing") };
        let status = tonic::Status::from(error);
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert!(status.message().contains("star, pipeline, pipeline-lanes, star-lanes"), "{status}");
    }
}
