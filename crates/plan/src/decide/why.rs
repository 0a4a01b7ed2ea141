//! Why each survivor of a stripe helps with a repair, or does not.

use super::{NodeFacts, Source, World};
use codes::Code;
use flow::{Input, Member, Proved, Scheme};
use model::{MemberState, NodeId, StripePlacement};
use std::collections::BTreeSet;

/// A member of a stripe and its part in a repair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its index in the stripe.
    pub member: u16,
    /// Where its block is, or was.
    pub node: Option<NodeId>,
    /// Whether it is read.
    pub helps: bool,
    /// The reason, for people.
    pub why: &'static str,
}

/// The parts of all members but `made`, as `flow`, made by `scheme`, has them. `sources` could help, the least recently
/// selected first; `cut_off`: the search for a path was.
pub(super) fn parts(
    world: &World,
    stripe: &StripePlacement,
    sources: &[Source<'_>],
    made: &[Member],
    (flow, scheme): (&Proved, Scheme),
    (code, cut_off): (&Code, bool),
) -> Vec<Part> {
    let inputs = flow.lanes.iter().flat_map(|lane| &lane.stages).flat_map(|stage| &stage.inputs);
    let read = |input: &Input| if let Input::Local { member, .. } = input { Some(*member) } else { None };
    let taken: BTreeSet<Member> = inputs.filter_map(read).collect();
    let mut parts = Vec::new();
    for (index, block) in (0..).zip(&stripe.members) {
        let member = Member(index);
        if made.contains(&member) {
            continue;
        }
        let row = match block {
            MemberState::Stored((_, row)) => row,
            MemberState::Virtual(_) | MemberState::Zero => {
                let why = match block.is_virtual() {
                    true => "it is virtual: the stored members stand for it",
                    false => "the stripe is short: it is all zero",
                };
                parts.push(Part { member: index, node: None, helps: false, why });
                continue;
            }
        };
        let place = sources.iter().position(|source| source.member == member);
        let node = place.map(|place| sources[place].location.node);
        let helps = taken.contains(&member);
        let why = match place {
            None => unusable(world, row.locations.iter().map(|l| l.node)),
            Some(_) if row.stored_bytes == 0 => "nothing of it is stored",
            Some(place) => {
                let node = node.and_then(|n| world.node(n).ok());
                let at = |is: fn(&NodeFacts) -> bool| node.is_some_and(is);
                match (helps, at(|n| n.is_quarantined), at(|n| n.is_slow)) {
                    (true, true, _) => "there are not enough others, though it is quarantined",
                    (false, true, _) => "it is quarantined, and there are enough others",
                    (true, _, true) => "there are not enough others, though it held up repairs lately",
                    (false, _, true) => "it held up repairs lately, and there are enough others",
                    _ => reason(scheme, helps, (code, cut_off), place),
                }
            }
        };
        parts.push(Part { member: index, node: node.or(row.locations.first().map(|l| l.node)), helps, why });
    }
    parts
}

fn reason(scheme: Scheme, helps: bool, (code, cut_off): (&Code, bool), place: usize) -> &'static str {
    match (helps, scheme) {
        (true, _) if code.alpha() > 1 => {
            "some of its symbols are among the fewest that were found to suffice"
        }
        (false, _) if code.alpha() > 1 => {
            "none of its symbols is among the fewest that were found to suffice"
        }
        (true, _) if !code.is_mds() => "the code decodes from few blocks with it",
        (false, _) if !code.is_mds() => "the code decodes without it",
        (true, Scheme::RackAware) => "it is in the requestor's rack, or in one that holds many helpers",
        (false, Scheme::RackAware) => "the racks of those that help hold enough",
        (true, Scheme::Weighted) if cut_off => {
            "it is on the fastest path that was found until the search was cut off: there may be a faster one"
        }
        (false, Scheme::Weighted) if cut_off => {
            "no faster path through it was found until the search was cut off"
        }
        (true, Scheme::Weighted) => "it is on the path whose slowest link is fastest",
        (false, Scheme::Weighted) => "no path through it is faster",
        (true, _) if place == 0 => "it helped least recently",
        (true, _) => "it helped less recently than others",
        (false, _) => "it helped more recently than enough others",
    }
}

fn unusable(world: &World, nodes: impl Iterator<Item = NodeId>) -> &'static str {
    let mut nodes = nodes.peekable();
    if nodes.peek().is_none() {
        return "no copy of it is known";
    }
    let living = nodes.any(|node| world.node(node).is_ok_and(|node| node.is_living));
    if living { "its node failed in this repair" } else { "its node is dead" }
}
