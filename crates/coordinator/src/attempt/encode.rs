//! A new stripe: one flow makes its parities, data blocks that cannot stay where they are are copied before, and the catalog
//! takes all of it at once. Where new stripes take the place of others, it takes all of these at once.

use super::outcome::{Flown, Made};
use super::{Attempt, Noted, Order, Outcome, Step, held_or, token};
use crate::error::{CoordinatorError, Result};
use crate::gathering::layout;
use catalog::{CatalogError, NewStripe, Purpose, Recoding, Staged};
use codes::Code;
use flow::{Cost, EncodeScheme};
use model::{BlockId, FlowId, MemberState, NodeId, Placement, StripeId};
use plan::decide::{DecideError, EncodePlan, RepairPlan, RepairSpec, SliceLength, World, archival, is_made};
use plan::{Archival, Draw};
use std::collections::BTreeSet;

/// Blocks that become a stripe.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ToEncode {
    /// These, which wait in none.
    Loose(Code, Vec<BlockId>),
    /// Those that wait in this one, which takes no more.
    Gathered(StripeId),
    /// These are in stripes already.
    Coded(Regroup),
}

/// Stripes whose live data become others, each group one: all of them are in a group.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Regroup {
    pub replaces: Vec<StripeId>,
    pub groups: Vec<(Code, Vec<BlockId>)>,
}

/// What was decided about a new stripe.
#[derive(Clone, Debug)]
pub(super) struct Encoding {
    code: Code,
    archival: Archival,
    /// Whether it lies as its policy wants it.
    is_obedient: bool,
    /// Its data blocks.
    data: Vec<Placement>,
    /// As it will be noted.
    new: NewStripe,
    /// What its blocks took up before.
    before_bytes: u64,
}

/// What encoding came to, of one stripe or of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Encoded {
    /// Changes of the catalog that made stripes.
    pub changes: u64,
    pub stripes: u64,
    /// Stripes whose place these take.
    pub replaced: u64,
    pub data_bytes: u64,
    /// Data and parities.
    pub stored_bytes: u64,
    /// The data with all replicas that are wanted; or what is in the stripes whose place these take, dead blocks included.
    pub before_bytes: u64,
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
        self.changes += other.changes;
        self.stripes += other.stripes;
        self.replaced += other.replaced;
        self.data_bytes += other.data_bytes;
        self.stored_bytes += other.stored_bytes;
        self.before_bytes += other.before_bytes;
        self.downloads += other.downloads;
        self.cross_rack_bytes += other.cross_rack_bytes;
        self.has_encoder |= other.has_encoder;
        self.relocated += other.relocated;
        self.violating += other.violating;
    }

    /// Of stripes whose parities were written.
    pub(super) fn of(
        order: &Order,
        (scheme, flown): (&str, &[Flown]),
        view: &World,
        staged: &[Staged],
    ) -> Option<Encoded> {
        let replaced = match &order.purpose {
            Purpose::Recode(recoding) => recoding.replaces.len() as u64,
            Purpose::Repair { .. } => return None,
            Purpose::Encode(_) => 0,
        };
        let mut total = Encoded { changes: 1, replaced, ..Encoded::default() };
        for (encoding, flown) in order.encodings.iter().zip(flown) {
            let scheme = encoding_scheme(scheme, &encoding.code);
            let is_star = scheme.is_ok_and(|scheme| scheme == EncodeScheme::Star);
            total.add(&encoding.came_to(is_star, &flown.cost, view, staged));
        }
        Some(total)
    }
}

impl Encoding {
    fn came_to(&self, is_star: bool, cost: &Cost, view: &World, staged: &[Staged]) -> Encoded {
        let Encoding { archival, data, .. } = self;
        let rack = |node: NodeId| view.topology.rack_of(node).ok();
        let data_bytes: u64 = data.iter().map(|p| p.facts.stored_bytes).sum();
        let is_parity = |block: BlockId| {
            let mut parities = self.new.members.iter().skip(self.code.k());
            parities.any(|member| member.stored() == Some(&block))
        };
        let made = staged.iter().filter(|s| is_parity(s.copy.block)).map(|staged| staged.stored_bytes);
        let home = rack(archival.archiver);
        let far = archival.data.iter().filter(|kept| is_star && rack(kept.read_from) != home);
        let is_far = |kept: &plan::Kept| kept.is_relocated && rack(kept.read_from) != rack(kept.stored_at);
        let moved = data.iter().zip(&archival.data).filter(|(_, kept)| is_far(kept));
        let moved: u64 = moved.map(|(placement, _)| placement.facts.stored_bytes).sum();
        Encoded {
            stripes: 1,
            changes: 0,
            replaced: 0,
            data_bytes,
            stored_bytes: if self.code.virtuals() > 0 { 0 } else { data_bytes } + made.sum::<u64>(),
            before_bytes: self.before_bytes,
            downloads: far.count() as u64,
            cross_rack_bytes: cost.cross_rack_bytes(|site| rack(NodeId(site.0))) + moved,
            has_encoder: is_star,
            relocated: archival.data.iter().filter(|kept| kept.is_relocated).count() as u64,
            violating: u64::from(!self.is_obedient),
        }
    }
}

/// The encoding scheme of that name; without one the usual one of the code.
///
/// # Errors
/// [`flow::FlowError::UnknownEncoding`], which lists those that are known.
pub(crate) fn encoding_scheme(name: &str, code: &Code) -> Result<EncodeScheme> {
    match name {
        "" => Ok(EncodeScheme::of(code).next().unwrap_or_default()),
        name => Ok(name.parse().map_err(DecideError::from)?),
    }
}

/// Whether an encoding scheme of that name is known, or none is named.
///
/// # Errors
/// As [`encoding_scheme`].
pub(crate) fn known_encoding(name: &str) -> Result<()> {
    match name {
        "" => Ok(()),
        name => Ok(name.parse::<EncodeScheme>().map(|_| ()).map_err(DecideError::from)?),
    }
}

impl Attempt<'_> {
    /// The stripe with new parities, and what is to be written where.
    pub(super) async fn encoding(&self, view: &World, what: &ToEncode) -> Result<Step> {
        // Refused before anything is noted.
        known_encoding(&self.options.scheme)?;
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
                Ok(order(Encoding::new(StripeId(rand::random()), code.clone(), archival, blocks)))
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
                let encoding = Encoding::new(stripe, code, sealed.into(), blocks);
                Ok(order(Encoding { is_obedient, ..encoding }))
            }
            ToEncode::Coded(regroup) => self.regrouped(view, regroup, &avoid, &mut draw).await,
        }
    }

    async fn placements(&self, blocks: Vec<BlockId>) -> Result<Vec<Option<Placement>>> {
        self.with.records.run(move |catalog| catalog.placements(&blocks)).await
    }

    /// Stripes whose live data become others.
    async fn regrouped(
        &self,
        view: &World,
        Regroup { replaces, groups }: &Regroup,
        avoid: &BTreeSet<NodeId>,
        draw: &mut Draw,
    ) -> Result<Step> {
        let mut before_bytes = 0;
        for &stripe in replaces {
            let contents = self.with.records.run(move |catalog| catalog.stripe_contents(stripe)).await?;
            before_bytes += contents.map_or(0, |contents| contents.stored_bytes);
        }
        let mut encodings = Vec::new();
        for (code, blocks) in groups {
            let mut data: Vec<Placement> =
                self.placements(blocks.clone()).await?.into_iter().flatten().collect();
            // Whose objects are gone meanwhile goes with its stripe.
            data.retain(|placement| !placement.facts.dead);
            for placement in &mut data {
                // It is as if it waited in none: what its sidecar says of a stripe must not be of this one.
                let stripe = placement.stripe.take().map(|stripe| stripe.id);
                if stripe.is_none_or(|stripe| !replaces.contains(&stripe)) {
                    let what = format!("block {} has left its stripe", placement.block);
                    return Err(CatalogError::Overtaken(what).into());
                }
            }
            if !data.is_empty() {
                let archival = archival(view, code, &data, avoid, draw)?;
                let before_bytes = std::mem::take(&mut before_bytes);
                let encoding = Encoding::new(StripeId(rand::random()), code.clone(), archival, data);
                encodings.push(Encoding { before_bytes, ..encoding });
            }
        }
        if encodings.is_empty() {
            return Ok(Step::Over(Outcome::default()));
        }
        let stripes = encodings.iter().map(|encoding| encoding.new.clone()).collect();
        let purpose = Purpose::Recode(Recoding { stripes, replaces: replaces.clone() });
        let writes = encodings.iter().flat_map(Encoding::writes).collect();
        Ok(Step::Order(Order { purpose, writes, blocks: Vec::new(), encodings }))
    }

    /// Makes the stripes, one after another.
    pub(super) async fn encode(&self, noted: &Noted) -> Result<Made> {
        let view = self.with.cluster.view();
        let mut made = Made { flown: Vec::new(), before: Vec::new() };
        for (number, encoding) in noted.order.encodings.iter().enumerate() {
            made.before.extend(self.relocate(&view, noted, encoding).await?);
            let flow = if number == 0 { noted.intent.flow } else { FlowId(rand::random()) };
            let plan = |view: &World| self.encoding_plan(view, noted, encoding, flow).map(Some);
            made.flown.extend(self.build(noted, encoding.archival.archiver, plan).await?);
        }
        Ok(made)
    }

    fn encoding_plan(
        &self,
        view: &World,
        noted: &Noted,
        encoding: &Encoding,
        flow: FlowId,
    ) -> Result<RepairPlan> {
        let Encoding { code, archival, data, new, .. } = encoding;
        let planned = self.with.planner.encode(
            view,
            &EncodePlan {
                code,
                stripe: new.stripe,
                block_bytes: new.block_bytes,
                members: &new.members,
                writes: &noted.intent.copies,
                flow,
                attempt: noted.intent.attempt,
                birth: noted.intent.birth,
                data,
                archival,
                scheme: encoding_scheme(&self.options.scheme, code)?,
                slices: self.with.planner.slice_length(self.options.slice_bytes)?,
            },
            &mut token,
        )?;
        let scheme = planned.plan.binding.scheme.clone();
        Ok(RepairPlan { planned, scheme, why: None, price: None, parts: Vec::new(), has_spares: false })
    }

    /// Copies the data blocks of which no replica could stay where it is.
    async fn relocate(&self, view: &World, noted: &Noted, encoding: &Encoding) -> Result<Vec<Staged>> {
        let mut staged = Vec::new();
        for copy in &noted.intent.copies {
            let Some(placement) = encoding.data.iter().find(|p| p.block == copy.block) else { continue };
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
            for (_, checked) in self.checked(&plan, &result, &noted.intent).await {
                staged.push(checked?);
            }
        }
        Ok(staged)
    }
}

impl Encoding {
    /// A stripe of these blocks that is to be encoded like this.
    fn new(stripe: StripeId, code: Code, archival: Archival, data: Vec<Placement>) -> Encoding {
        let parity = |index| match is_made(&code, &data, index) {
            true => MemberState::Stored(BlockId(rand::random())),
            false => MemberState::Zero,
        };
        let is_virtual = code.virtuals() > 0;
        let of_data = if is_virtual { MemberState::Virtual } else { MemberState::Stored };
        let absent = std::iter::repeat_n(MemberState::Zero, code.k() - data.len());
        let there = data.iter().map(|placement| of_data(placement.block));
        let members = there.chain(absent).chain((code.k()..code.n()).map(parity)).collect();
        let stays = data.iter().zip(&archival.data).filter(|(_, kept)| !is_virtual && !kept.is_relocated);
        let kept = stays.filter_map(|(p, kept)| Some(p.facts.on(kept.stored_at)?.copy_of(p.block)));
        let new = NewStripe {
            stripe,
            code: code.name().to_owned(),
            block_bytes: data.iter().map(|p| p.facts.stored_bytes).max().unwrap_or(0),
            members,
            data: code.k() as u16,
            kept: kept.collect(),
        };
        let before_bytes =
            data.iter().map(|p| p.facts.stored_bytes * u64::from(p.facts.replicas.max(1))).sum();
        Encoding { code, archival, is_obedient: true, data, new, before_bytes }
    }

    /// What is written where: blocks that move, and parities.
    fn writes(&self) -> Vec<(BlockId, NodeId)> {
        let moved = self.data.iter().zip(&self.archival.data).filter(|(_, kept)| kept.is_relocated);
        let moved = moved.map(|(placement, kept)| (placement.block, kept.stored_at));
        let parities = self.new.members.iter().skip(self.code.k()).zip(&self.archival.parities);
        let made = parities.filter_map(|(member, node)| Some((*member.stored()?, *node)));
        moved.chain(made).collect()
    }
}

/// What one stripe takes.
fn order(encoding: Encoding) -> Step {
    let (purpose, writes) = (Purpose::Encode(encoding.new.clone()), encoding.writes());
    Step::Order(Order { purpose, writes, blocks: Vec::new(), encodings: vec![encoding] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_scheme_that_is_not_known_is_refused_with_those_that_are() {
        let [rs, raid] = ["rs-4+2", "rapidraid-4+2"].map(|name| Code::parse(name).unwrap());
        for scheme in EncodeScheme::all() {
            assert_eq!(encoding_scheme(scheme.name(), &rs).ok(), Some(scheme));
        }
        assert_eq!(encoding_scheme("", &rs).ok(), Some(EncodeScheme::Star));
        assert_eq!(encoding_scheme("", &raid).ok(), Some(EncodeScheme::RapidRaid));
        let Err(error) = encoding_scheme("cyclic", &rs) else { panic!("a repair scheme encodes nothing") };
        let status = tonic::Status::from(error);
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert!(status.message().contains("star, pipeline, pipeline-lanes, star-lanes"), "{status}");
    }
}
