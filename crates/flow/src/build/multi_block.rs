//! Several lost blocks of a stripe in one pass, each to a requestor of its own (RP §4.4). Every helper reads its block
//! once.
//!
//! ```text
//!   b2 ═══[C2]═══▶ b3 ═══[I|C3]═══▶ … ═══▶ bk ═══[I|Ck]═╦═ row 1 ──▶ R1 writes b0
//!                    (f rows on every edge)             ╚═ row 2 ──▶ R2 writes b1
//! ```
//!
//! Beside it the conventional way: one requestor decodes all and forwards all but its own, which is an encoding star.

use std::collections::BTreeSet;

use codes::Code;

use super::chain::along;
use super::encode::{EncodeRequest, by_site, scatter, star};
use super::request::{Helper, RepairRequest, Sink};
use super::scheme::Scheme;
use crate::error::FlowError;
use crate::graph::{Geometry, Member, Site};
use crate::prove::Proved;

/// A repair of several blocks of a stripe.
#[derive(Clone, Debug)]
pub struct MultiBlockRequest<'a> {
    /// The stripe's code.
    pub code: &'a Code,
    /// How its blocks are cut. A hop hands a slice on when it has all f rows of it. Cut f times as fine as for one
    /// block, where slices number s, f blocks take f + (k−1)/s timeslots.
    pub geometry: Geometry,
    /// The lost blocks and the sites that write them. The first of these sites decodes in the conventional scheme.
    pub targets: &'a [(Member, Site)],
    /// Blocks that may be used, as in [`RepairRequest::helpers`].
    pub helpers: &'a [Helper],
    /// Blocks that are all zero.
    pub absent: &'a [Member],
    /// Further blocks that are all zero, as in [`RepairRequest::empty`](super::RepairRequest::empty).
    pub empty: &'a [Member],
}

impl<'a> MultiBlockRequest<'a> {
    /// The same repair at one requestor, the first target's: it tells which helpers suffice.
    ///
    /// # Errors
    /// [`FlowError::NothingWanted`] without targets.
    pub fn at_one(&self) -> Result<RepairRequest<'a>, FlowError> {
        let Some(&(_, requestor)) = self.targets.first() else { return Err(FlowError::NothingWanted) };
        let members: Vec<Member> =
            by_site(self.targets, None).into_iter().flat_map(|(_, members)| members).collect();
        Ok(RepairRequest {
            code: self.code,
            geometry: self.geometry,
            wanted: RepairRequest::whole_blocks(self.code, &members),
            helpers: self.helpers,
            absent: self.absent,
            empty: self.empty,
            requestor,
            sink: Sink::Write,
        })
    }
}

/// Whether `scheme` repairs several blocks at several requestors.
pub fn repairs_several(scheme: Scheme) -> bool {
    matches!(
        scheme,
        Scheme::Conventional | Scheme::Pipeline | Scheme::RackAware | Scheme::Weighted | Scheme::PipeB
    )
}

/// Builds and proves the flow that `scheme` makes of several lost blocks.
///
/// # Errors
/// [`FlowError::OneRequestor`] for a scheme that is not made for it; else as [`build`](super::build).
pub fn build(scheme: Scheme, request: &MultiBlockRequest<'_>) -> Result<Proved, FlowError> {
    match scheme {
        Scheme::Conventional => {
            let archiver = request.at_one()?.requestor;
            star(&EncodeRequest {
                code: request.code,
                geometry: request.geometry,
                data: request.helpers,
                absent: request.absent,
                empty: request.empty,
                archiver,
                targets: request.targets,
            })
        }
        scheme if repairs_several(scheme) => chain(request),
        scheme => Err(FlowError::OneRequestor { scheme }),
    }
}

/// N1 → N2 → … → Nk → all requestors. A block that a requestor's site stores is added last.
///
/// # Errors
/// As [`build`].
pub fn chain(request: &MultiBlockRequest<'_>) -> Result<Proved, FlowError> {
    let at_one = request.at_one()?;
    let requestors: BTreeSet<Site> = request.targets.iter().map(|&(_, site)| site).collect();
    let mut path = at_one.shares()?;
    path.sort_by_key(|share| requestors.contains(&share.site));
    let mut lane = along(&at_one, path)?;
    scatter(&at_one, &mut lane, &by_site(request.targets, None))?;
    at_one.prove(lane)
}
