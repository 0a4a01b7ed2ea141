//! A new stripe: one flow makes its parities, data blocks that cannot stay where they are are copied before, and the catalog
//! takes all of it at once.

use super::outcome::check;
use super::{Attempt, Noted, Order, Step, held_or, token};
use crate::error::{CoordinatorError, Result};
use catalog::{Catalog, NewStripe, Purpose, Staged};
use codes::Code;
use flow::EncodeScheme;
use model::{BlockId, FlowId, Placement, StripeId};
use plan::Draw;
use plan::decide::{DecideError, EncodePlan, RepairPlan, RepairSpec, SliceLength, World, archival, is_made};

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
    pub(super) async fn encoding(&self, view: &World, code: &Code, data: &[BlockId]) -> Result<Step> {
        // Refused before anything is noted.
        encoding_scheme(&self.options.scheme)?;
        let blocks = data.to_vec();
        let load = move |c: &Catalog| blocks.iter().map(|&b| c.placement(b)).collect();
        let blocks: Vec<Placement> = self.with.records.run(load).await?;
        let avoid = self.course.around();
        let archival = archival(view, code, &blocks, &avoid, &mut Draw::seeded(rand::random()))?;
        let parities: Vec<Option<BlockId>> = (code.k()..code.n())
            .map(|index| is_made(code, &blocks, index).then(|| BlockId(rand::random())))
            .collect();
        let made =
            parities.iter().zip(&archival.parities).filter_map(|(block, node)| Some(((*block)?, *node)));
        let placed = || blocks.iter().zip(&archival.data);
        let moved = placed().filter(|(_, kept)| kept.is_relocated);
        let writes = moved.map(|(placement, kept)| (placement.block, kept.stored_at)).chain(made).collect();
        let stays = placed().filter(|(_, kept)| !kept.is_relocated);
        let kept = stays.filter_map(|(p, kept)| Some(p.facts.on(kept.stored_at)?.copy_of(p.block))).collect();
        let absent = std::iter::repeat_n(None, code.k() - data.len());
        let purpose = Purpose::Encode(NewStripe {
            stripe: StripeId(rand::random()),
            code: code.name().to_owned(),
            block_bytes: blocks.iter().map(|p| p.facts.stored_bytes).max().unwrap_or(0),
            members: data.iter().copied().map(Some).chain(absent).chain(parities).map(Into::into).collect(),
            data: code.k() as u16,
            kept,
        });
        Ok(Step::Order(Order { purpose, writes, blocks, archival: Some(archival) }))
    }

    pub(super) fn encoding_plan(&self, view: &World, code: &Code, noted: &Noted) -> Result<RepairPlan> {
        let bug = || CoordinatorError::Bug("an encoding without a stripe".to_owned());
        let Purpose::Encode(new) = &noted.intent.purpose else { return Err(bug()) };
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
                archival: noted.order.archival.as_ref().ok_or_else(bug)?,
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
