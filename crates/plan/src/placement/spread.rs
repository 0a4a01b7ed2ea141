//! How the replicas of one block lie: in two racks, as HDFS does it, or each in a rack of its own.

use super::racks::Racks;
use crate::draw::Draw;
use crate::error::PlanError;
use crate::topology::RackId;
use model::NodeId;
use std::fmt;

/// How many racks the replicas of a block are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spread {
    /// The first in one rack, all others on different nodes of one other rack (EAR §2.1, the default of HDFS).
    #[default]
    TwoRacks,
    /// Each in a rack of its own (EAR §5.2, experiment 6f).
    EachOwn,
}

impl Spread {
    /// All of them.
    pub const ALL: [Spread; 2] = [Spread::TwoRacks, Spread::EachOwn];

    /// The name of it in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            Spread::TwoRacks => "two-racks",
            Spread::EachOwn => "each-own",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Spread> {
        Spread::ALL.into_iter().find(|spread| spread.name() == name)
    }

    /// How many racks have a replica.
    pub fn racks(self, replicas: usize) -> usize {
        match self {
            Spread::TwoRacks => replicas.min(2),
            Spread::EachOwn => replicas,
        }
    }

    /// Nodes for the replicas of a block, all distinct, the first of them in `home`. With two racks, where no other rack has
    /// room for all the further replicas, they go to different nodes of several, of `home` only if the others do not suffice.
    /// A node to go `through` is among them if any draw can contain it.
    pub(super) fn draw(
        self,
        racks: &Racks,
        (home, replicas): (RackId, usize),
        through: Option<NodeId>,
        draw: &mut Draw,
    ) -> Result<Vec<NodeId>, PlanError> {
        let (in_home, elsewhere) = match through.map(|node| (node, racks.rack_of(node))) {
            Some((node, Some(rack))) if rack == home => (Some(node), None),
            Some((node, Some(rack))) => (None, Some((node, rack))),
            _ => (None, None),
        };
        let first = in_home.or_else(|| draw.pick(racks.roomy(home)).copied());
        let first = first.ok_or(PlanError::NoRoomInRack { rack: home.0 })?;
        let others = replicas.saturating_sub(1);
        let mut nodes = vec![first];
        match self {
            _ if others == 0 => {}
            Spread::TwoRacks => match other_rack(racks, home, others, elsewhere, draw) {
                Some(rack) => nodes.extend(some_of(racks.roomy(rack), others, elsewhere, draw)),
                None => nodes.extend(anywhere(racks, (home, first), others, draw)?),
            },
            Spread::EachOwn => {
                let has_room = |rack: &&RackId| **rack != home && !racks.roomy(**rack).is_empty();
                let mut far: Vec<RackId> = racks.ids().iter().filter(has_room).copied().collect();
                if far.len() < others {
                    return Err(PlanError::NotEnoughRacks { needed: replicas, racks: far.len() + 1 });
                }
                draw.shuffle(&mut far);
                if let Some((_, rack)) = elsewhere {
                    let at = far.iter().position(|&other| other == rack).unwrap_or(0);
                    far.swap(0, at);
                }
                for &rack in &far[..others] {
                    let through = elsewhere.filter(|&(_, other)| other == rack).map(|(node, _)| node);
                    nodes.extend(through.or_else(|| draw.pick(racks.roomy(rack)).copied()));
                }
            }
        }
        Ok(nodes)
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A random rack besides `home` with room for all the `others`, or the one to go through; `None` if there is none.
fn other_rack(
    racks: &Racks,
    home: RackId,
    others: usize,
    through: Option<(NodeId, RackId)>,
    draw: &mut Draw,
) -> Option<RackId> {
    let is_wide = |rack: RackId| rack != home && racks.roomy(rack).len() >= others;
    if let Some((_, rack)) = through.filter(|&(_, rack)| is_wide(rack)) {
        return Some(rack);
    }
    let wide: Vec<RackId> = racks.ids().iter().copied().filter(|&rack| is_wide(rack)).collect();
    draw.pick(&wide).copied()
}

/// `count` random ones of `nodes`, which are at least as many; the one to go through first, if it is among them.
fn some_of(
    nodes: &[NodeId],
    count: usize,
    through: Option<(NodeId, RackId)>,
    draw: &mut Draw,
) -> Vec<NodeId> {
    let mut nodes = nodes.to_vec();
    let fixed = through.and_then(|(node, _)| nodes.iter().position(|&other| other == node));
    if let Some(at) = fixed {
        nodes.swap(0, at);
    }
    for place in usize::from(fixed.is_some())..count {
        let other = place + draw.below(nodes.len() - place);
        nodes.swap(place, other);
    }
    nodes.truncate(count);
    nodes
}

/// Random nodes of any racks but `home`; then of `home`, besides the first.
fn anywhere(
    racks: &Racks,
    (home, first): (RackId, NodeId),
    others: usize,
    draw: &mut Draw,
) -> Result<Vec<NodeId>, PlanError> {
    let far = racks.ids().iter().filter(|&&rack| rack != home);
    let mut nodes: Vec<NodeId> = far.flat_map(|&rack| racks.roomy(rack)).copied().collect();
    draw.shuffle(&mut nodes);
    let mut near: Vec<NodeId> = racks.roomy(home).iter().copied().filter(|&node| node != first).collect();
    draw.shuffle(&mut near);
    nodes.extend(near);
    if nodes.len() < others {
        let needed = others + 1;
        let alive = nodes.len() + 1;
        return Err(PlanError::NotEnoughNodes { code: format!("rep-{needed}"), needed, alive });
    }
    nodes.truncate(others);
    Ok(nodes)
}
