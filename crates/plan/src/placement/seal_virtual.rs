//! What becomes of replicas of a code that stores no data block: each node stores one block of the codeword. A pipeline makes it
//! (RapidRAID §IV), or, of a vertical code, an encoder that reads all data blocks.

use super::racks::Racks;
use super::seal::{Fetch, Sealed, SealedBlock, encoder};
use super::stripe::OpenStripe;
use crate::draw::Draw;
use crate::error::PlanError;
use crate::pipeline::{Site, lacks, lag, lay_out, limit};
use crate::topology::RackId;
use model::NodeId;

/// The pipeline that fetches the fewest blocks; of a vertical code any nodes, and an encoder in the core rack if there is one. They are in the target racks if these can take it without more blocks in a rack than there
/// may be, else in any. For each data block its replicas that live, at least one, with their racks.
///
/// # Errors
/// [`PlanError::NotEnoughNodes`].
pub(super) fn seal(
    stripe: &OpenStripe,
    living: &[Vec<(NodeId, RackId)>],
    racks: &Racks,
    draw: &mut Draw,
) -> Result<Sealed, PlanError> {
    let (rules, targets) = (stripe.rules(), &stripe.state().targets);
    let (code, capacity) = (&rules.terms().code, rules.per_rack());
    let replicas: Vec<Vec<NodeId>> =
        living.iter().map(|nodes| nodes.iter().map(|&(node, _)| node).collect()).collect();
    let mut sites = sites(racks, targets);
    if limit(&sites, code.stored(), capacity) != Some(capacity) {
        sites = self::sites(racks, racks.ids());
    }
    draw.shuffle(&mut sites);
    let nodes = lay_out(code, &replicas, &sites, capacity, draw)?;
    let stored = (code.k()..).zip(&nodes).filter_map(|(member, &node)| Some((member, racks.rack_of(node)?)));
    let is_obedient = rules.are_obeyed(stored, targets);
    let stays = |read_from| SealedBlock { read_from, stored_at: read_from, is_relocated: false };
    if code.pipeline().is_none() {
        let encoder = encoder(stripe.state().core, racks, draw).ok_or(PlanError::NoTarget { alive: 0 })?;
        let near = |living: &Vec<(NodeId, RackId)>| stays(nearest(living, encoder, racks));
        let data = living.iter().map(near).collect();
        return Ok(Sealed { encoder, data, parities: nodes, fetches: None, is_obedient });
    }
    let data: Vec<SealedBlock> = living
        .iter()
        .enumerate()
        .map(|(block, living)| {
            let lives = |node: &NodeId| living.iter().any(|(other, _)| other == node);
            let in_pipeline =
                [block, block + lag(code)].map(|position| nodes[position]).into_iter().find(lives);
            stays(in_pipeline.unwrap_or(living[0].0))
        })
        .collect();
    let fetch = |(position, block): (usize, usize)| {
        let (to, rack) = (nodes[position], racks.rack_of(nodes[position]));
        let near = living[block].iter().find(|&&(_, other)| Some(other) == rack);
        Fetch { block, from: near.map_or(data[block].read_from, |&(node, _)| node), to }
    };
    let fetches = lacks(code, &replicas, &nodes).map(fetch).collect();
    Ok(Sealed { encoder: nodes[0], data, parities: nodes, fetches: Some(fetches), is_obedient })
}

/// The replica that an encoder reads: its own, one of its rack, or any.
fn nearest(living: &[(NodeId, RackId)], encoder: NodeId, racks: &Racks) -> NodeId {
    let home = racks.rack_of(encoder);
    let own = living.iter().find(|&&(node, _)| node == encoder);
    let near = own.or_else(|| living.iter().find(|&&(_, rack)| Some(rack) == home));
    near.unwrap_or(&living[0]).0
}

/// The nodes of these racks that can take a block.
fn sites(racks: &Racks, of: &[RackId]) -> Vec<Site> {
    let in_rack =
        |&rack: &RackId| racks.roomy(rack).iter().map(move |&node| Site { rack, nodes: vec![node] });
    of.iter().flat_map(in_rack).collect()
}
