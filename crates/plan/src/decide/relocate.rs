//! A member of a stripe that lies worse than the cluster allows, and where it is to lie: what HDFS-RAID's placement monitor and
//! block mover do (EAR §2.2). Stripes are encoded where they may stay; later nodes come, go and change racks.

use super::{Planner, World, requestor};
use crate::RackId;
use model::{BlockId, NodeId, Placement, StripePlacement};
use std::collections::{BTreeMap, BTreeSet};

/// Where a member is to lie instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// The member.
    pub block: BlockId,
    /// Where it lies.
    pub from: NodeId,
    /// A node with room for it, which has no other.
    pub to: NodeId,
}

/// A stored member, whole and on a living node.
struct Lying {
    block: BlockId,
    index: u16,
    on: NodeId,
}

impl Planner {
    /// What is to move of a stripe all of whose members are whole, on nodes that live and stay: one of two on a host, if there is
    /// a host without; or one of a rack whose loss the stripe does not survive, if it goes to one that then holds fewer than that rack
    /// did. So moves come to an end. `load`: of the nodes that may get it the one with the least does.
    pub fn relocation(
        &self,
        world: &World,
        stripe: &StripePlacement,
        load: impl Fn(NodeId) -> u64,
    ) -> Option<Relocation> {
        let members = lying(world, stripe)?;
        let crowded = |member: &&Lying| {
            let host = world.topology.host_of(member.on);
            members
                .iter()
                .any(|other| other.block != member.block && world.topology.host_of(other.on) == host)
        };
        if let Some(member) = members.iter().find(crowded) {
            return target(world, stripe, member, &load);
        }
        let mut racks: BTreeMap<RackId, Vec<&Lying>> = BTreeMap::new();
        for member in &members {
            racks.entry(world.topology.rack_of(member.on).ok()?).or_default().push(member);
        }
        let is_too_full = |members: &&Vec<&Lying>| !self.survives_without(world, stripe, members);
        let fullest = racks.values().filter(is_too_full).max_by_key(|members| members.len())?;
        let found = target(world, stripe, fullest.first()?, &load)?;
        let there = racks.get(&world.topology.rack_of(found.to).ok()?).map_or(0, Vec::len);
        (there + 1 < fullest.len()).then_some(found)
    }

    fn survives_without(&self, world: &World, stripe: &StripePlacement, rack: &[&Lying]) -> bool {
        let mut living = world.living();
        rack.iter().for_each(|member| _ = living.remove(&member.on));
        match self.codes.standing(&stripe.code, &stripe.usable(&living)) {
            codes::Standing::Survives(_) | codes::Standing::Unknown => true,
            codes::Standing::Lost => false,
        }
    }
}

/// The stored members, if all of them are whole on nodes that live and stay.
fn lying(world: &World, stripe: &StripePlacement) -> Option<Vec<Lying>> {
    let stays =
        |node: &NodeId| world.nodes.get(*node).is_some_and(|facts| facts.is_living && !facts.is_leaving);
    let mut members = Vec::new();
    for (index, member) in (0..).zip(&stripe.members) {
        let Some((block, facts)) = member.stored() else { continue };
        match &facts.locations[..] {
            [only] if facts.lacks() == 0 && stays(&only.node) => {
                members.push(Lying { block: *block, index, on: only.node });
            }
            _ => return None,
        }
    }
    // What is being written to further nodes ends first.
    let on: BTreeSet<NodeId> = members.iter().map(|member| member.on).collect();
    stripe.holders.is_subset(&on).then_some(members)
}

fn target(
    world: &World,
    stripe: &StripePlacement,
    member: &Lying,
    load: impl Fn(NodeId) -> u64,
) -> Option<Relocation> {
    let (block, facts) = stripe.members.get(usize::from(member.index))?.stored()?;
    let own = StripePlacement { index: member.index, ..stripe.clone() };
    let placement = Placement { block: *block, facts: facts.clone(), stripe: Some(own) };
    let to = requestor(world, &placement, None, &BTreeSet::new(), load).ok()?;
    Some(Relocation { block: *block, from: member.on, to })
}
