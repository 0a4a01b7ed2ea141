//! Chain write of a replicated block: the client streams to the first replica, each replica writes and passes
//! on.
//!
//! ```text
//!   client ──▶ write b0 ──▶ write b1 ──▶ write b2
//! ```
//!
//! In `rep-r` every block equals block 0, which the client's bytes are; so replica i is block i of the stripe.

use codes::Code;
use gf::Matrix;

use crate::error::FlowError;
use crate::graph::{Edge, EdgeId, Flow, Geometry, Input, Lane, Member, Output, Site, Stage, StageId};
use crate::prove::{Proved, prove};
use crate::validate::MAX_STAGES;

/// client → replicas, in their order. A put that lost a replica goes on with the members that are left.
///
/// # Errors
/// [`FlowError::NothingWanted`] without replicas; a code other than replication fails the proof.
pub fn chain(
    code: &Code,
    geometry: Geometry,
    client: Site,
    replicas: &[(Member, Site)],
) -> Result<Proved, FlowError> {
    if replicas.is_empty() {
        return Err(FlowError::NothingWanted);
    }
    if replicas.len() >= MAX_STAGES {
        return Err(FlowError::TooMany { what: "replicas", count: replicas.len(), limit: MAX_STAGES - 1 });
    }
    let rows = code.alpha();
    let identity = Matrix::identity(code.field(), rows);
    let both = identity.stack(&identity)?;
    let mut stages = vec![Stage {
        site: client,
        inputs: vec![Input::Source { member: Member(0) }],
        outputs: vec![Output::Edge(EdgeId(0))],
        matrix: identity.clone(),
    }];
    let mut edges = Vec::new();
    for (index, &(member, site)) in replicas.iter().enumerate() {
        let index = index as u16;
        edges.push(Edge { from: StageId(index), to: StageId(index + 1), rows: rows as u16 });
        let write = Output::Write { member };
        let last = usize::from(index) + 1 == replicas.len();
        let (outputs, matrix) = if last {
            (vec![write], identity.clone())
        } else {
            (vec![Output::Edge(EdgeId(index + 1)), write], both.clone())
        };
        stages.push(Stage { site, inputs: vec![Input::Edge(EdgeId(index))], outputs, matrix });
    }
    prove(Flow::of_one(code.field(), geometry, Lane { stages, edges }), code, &[])
}
