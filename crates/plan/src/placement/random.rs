//! Random replication (RR; EAR §2.1, the default of HDFS): the first replica on a node of a random rack, the
//! others on different nodes of one other random rack. Survives the loss of any node and of any rack, and
//! knows nothing of later encoding.

use crate::draw::Draw;
use crate::error::PlanError;
use crate::topology::Topology;
use model::NodeId;

/// Nodes for `copies` replicas, all of distinct hosts, drawn from `alive`. If no single other rack can take all the
/// further replicas, they go to distinct random nodes, of other racks as long as there are any.
///
/// # Errors
/// [`PlanError::NotEnoughNodes`], [`PlanError::UnknownNode`].
pub fn random(
    topology: &Topology,
    alive: &[NodeId],
    copies: usize,
    draw: &mut Draw,
) -> Result<Vec<NodeId>, PlanError> {
    let alive = topology.one_per_host(alive, draw);
    let racks: Vec<Vec<NodeId>> =
        topology.by_rack(&alive)?.into_values().map(|nodes| nodes.into_iter().collect()).collect();
    let nodes: usize = racks.iter().map(Vec::len).sum();
    if nodes < copies {
        return Err(PlanError::NotEnoughNodes {
            code: format!("rep-{copies}"),
            needed: copies,
            alive: nodes,
        });
    }
    if copies == 0 {
        return Ok(Vec::new());
    }
    let home = draw.below(racks.len());
    let Some(&first) = draw.pick(&racks[home]) else { return Ok(Vec::new()) };
    let wide: Vec<usize> = (0..racks.len()).filter(|&r| r != home && racks[r].len() >= copies - 1).collect();
    let mut others = match draw.pick(&wide) {
        Some(&rack) => shuffled(racks[rack].clone(), draw),
        None => {
            let (near, far): (Vec<NodeId>, Vec<NodeId>) = racks
                .concat()
                .into_iter()
                .filter(|&node| node != first)
                .partition(|node| racks[home].contains(node));
            [shuffled(far, draw), shuffled(near, draw)].concat()
        }
    };
    others.truncate(copies - 1);
    Ok([vec![first], others].concat())
}

fn shuffled(mut nodes: Vec<NodeId>, draw: &mut Draw) -> Vec<NodeId> {
    draw.shuffle(&mut nodes);
    nodes
}
