//! What nodes hold, listed piece by piece while the first of it is repaired already.

use crate::assigning::Lost;
use crate::attempt::Attempts;
use crate::error::Result;
use catalog::rows::RecoveryRow;
use model::{BlockId, NodeId, Placement};
use plan::Urgency;
use plan::decide::Planner;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where a listing goes on: at which of the nodes, from which block on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    node: usize,
    from: Option<BlockId>,
}

/// Some of what nodes hold.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub lost: Vec<Lost>,
    /// Where the next one begins; `None` at the end.
    pub next: Option<Place>,
}

/// The piece that begins there.
pub(super) async fn piece(with: &Attempts, nodes: Vec<NodeId>, at: Place) -> Result<Piece> {
    let Some(&node) = nodes.get(at.node) else { return Ok(Piece::default()) };
    let planner = Arc::clone(&with.planner);
    let mut living = with.cluster.view().living();
    nodes.iter().for_each(|node| _ = living.remove(node));
    let list = move |catalog: &catalog::Catalog| {
        let (blocks, next) = catalog.blocks_on_from(node, at.from)?;
        // Deleted since it was listed: `None`.
        let placements = catalog.placements(&blocks)?.into_iter().flatten();
        let lost = placements.map(|placement| Lost {
            urgency: urgency_of(&planner, &placement, &living),
            node: Some(node),
            block: placement.block,
            bytes: placement.facts.stored_bytes,
        });
        let next = match next {
            Some(from) => Place { node: at.node, from: Some(from) },
            None => Place { node: at.node + 1, from: None },
        };
        Ok(Piece { lost: lost.collect(), next: (next.node < nodes.len()).then_some(next) })
    };
    with.records.run(list).await
}

/// All that the nodes hold, the most urgent first.
pub(super) async fn lost_on(with: &Attempts, row: &RecoveryRow) -> Result<Vec<Lost>> {
    let (mut lost, mut at) = (BTreeSet::new(), Some(Place::default()));
    while let Some(place) = at {
        let piece = piece(with, row.nodes.clone(), place).await?;
        lost.extend(piece.lost);
        at = piece.next;
    }
    Ok(lost.into_iter().collect())
}

/// By the copies or blocks that can be read, and how many must be.
fn urgency_of(planner: &Planner, placement: &Placement, living: &BTreeSet<NodeId>) -> Urgency {
    let Some(stripe) = &placement.stripe else {
        let copies = placement.facts.locations.iter().filter(|l| living.contains(&l.node)).count();
        return Urgency::of(copies, 1);
    };
    let usable = stripe.usable(living).into_iter().filter(|&usable| usable).count();
    // A code that is not known stops only its own blocks, when they are repaired.
    Urgency::of(usable, planner.codes.get(&stripe.code).map_or(usable, |code| code.k()))
}
