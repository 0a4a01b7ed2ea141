//! What a recovery has to know of a block before it assigns helpers and requestors.

use super::repair::{keepers, survivors};
use super::{NodeFacts, Planner, Result, Source, World};
use crate::Requestors;
use crate::recovery::LostBlock;
use flow::Member;
use model::{BlockId, MemberState, NodeId, Placement, StripePlacement};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that come into question as a block's requestor: a recovery spreads its blocks as evenly over windows of so many,
/// each at another place, as over all nodes of a large cluster, and looks at a fraction of them.
const MAX_REQUESTORS: usize = 32;

/// Who may take part in the repair of a block.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// Who can help, and who can receive. Of a block that moves: the node that has it, and who can receive.
    pub lost: LostBlock,
    /// Of a block that moves, and that can be rebuilt as well: how.
    pub rebuilt: Option<LostBlock>,
    /// Those of the survivors that have their block in memory.
    pub cached: Vec<NodeId>,
    /// Nodes that hold a block of the stripe, or are being written one.
    pub holders: Vec<NodeId>,
}

/// Who may be given blocks.
#[derive(Clone, Debug)]
pub struct Takers {
    all: Requestors,
    /// Those that the operator names.
    asked: Option<Requestors>,
}

impl Takers {
    /// All nodes that may and have room for a block of so many bytes, and of them `asked`, if there are any.
    ///
    /// # Errors
    /// [`DecideError::Plan`](super::DecideError::Plan) for a node without a rack,
    /// [`DecideError::NoRoom`](super::DecideError::NoRoom).
    pub fn new(world: &World, asked: &BTreeSet<NodeId>, bytes: u64) -> Result<Takers> {
        let usable = world.roomy(&BTreeSet::new(), bytes, 1)?;
        let named: Vec<NodeId> = usable.iter().copied().filter(|node| asked.contains(node)).collect();
        let all = Requestors::new(&world.topology, &usable)?;
        let asked = if named.is_empty() { None } else { Some(Requestors::new(&world.topology, &named)?) };
        Ok(Takers { all, asked })
    }

    /// Those that come into question first: the ones that the operator names.
    pub fn preferred(&self) -> &[NodeId] {
        self.asked.as_ref().unwrap_or(&self.all).nodes()
    }
}

impl Planner {
    /// Who may help with a block and who may receive it: of the takers that the operator names, if any may, else of all.
    /// `moves`: a living copy of it is sent, or it is rebuilt without that one.
    ///
    /// # Errors
    /// [`DecideError::Code`](super::DecideError::Code) for a code that is not known,
    /// [`DecideError::Plan`](super::DecideError::Plan) if nobody may receive it.
    pub fn lost_block(
        &self,
        world: &World,
        placement: &Placement,
        moves: bool,
        takers: &mut Takers,
    ) -> Result<Candidates> {
        let copy = || world.living_copy(&placement.facts, &BTreeSet::new(), &[]).map(|l| l.node);
        let (mut rebuilt, stored_bytes) = (None, placement.facts.stored_bytes);
        let (survivors, needed, bytes) = match &placement.stripe {
            Some(stripe) => match copy().filter(|_| moves) {
                Some(node) if self.codes.get(&stripe.code)?.alpha() == 1 => {
                    rebuilt = self.sufficient(world, stripe).ok();
                    (vec![node], 1, stored_bytes)
                }
                _ => self.sufficient(world, stripe)?,
            },
            None => (replicas(world, placement), 1, stored_bytes),
        };
        let mut holders: Vec<NodeId> = match &placement.stripe {
            Some(stripe) => stripe.holders.iter().copied().collect(),
            None => placement.facts.there().map(|l| l.node).collect(),
        };
        if takers.all.allowed(&holders, 0, 1).is_err() {
            holders = keepers(world, placement, holders.into_iter());
        }
        // From a place that the block determines.
        let from = (placement.block.0 % (1 << 32)) as usize;
        let requestors = match takers.asked.as_mut().map(|asked| asked.allowed(&holders, 0, usize::MAX)) {
            Some(Ok(asked)) => asked,
            _ => {
                // A node with a flawed copy of a block may spoil the next one too, so other nodes are preferred.
                let doubtful: Vec<NodeId> =
                    holders.iter().copied().chain(placement.facts.flawed_on()).collect();
                let elsewhere = takers.all.allowed(&doubtful, from, MAX_REQUESTORS);
                elsewhere.or_else(|_| takers.all.allowed(&holders, from, MAX_REQUESTORS))?
            }
        };
        let is_cached = |node: &NodeId| held_in_memory(world, placement, *node);
        let cached = survivors.iter().copied().filter(is_cached).collect();
        let rebuilt = rebuilt.map(|(survivors, needed, bytes)| {
            let requestors = requestors.clone();
            LostBlock { survivors, needed, requestors, bytes }
        });
        let lost = LostBlock { survivors, needed, requestors, bytes };
        Ok(Candidates { lost, rebuilt, cached, holders })
    }

    /// Nodes of a stripe of which any so many suffice. Of a code where not any k will do: the ones that the code picks,
    /// the least recently selected preferred.
    fn sufficient(&self, world: &World, stripe: &StripePlacement) -> Result<(Vec<NodeId>, usize, u64)> {
        let code = self.codes.get(&stripe.code)?;
        // With several symbols to a block, fewer of them are read from more nodes.
        if code.is_mds() && code.virtuals() == 0 && code.alpha() == 1 {
            return Ok(any_of(world, stripe, code.k()));
        }
        let is_lost = |member: Member| member.0 == stripe.index;
        let (sources, known) = survivors(world, stripe, is_lost, &BTreeSet::new(), &[]);
        // What is empty costs nothing, and takes part.
        let (empty, stored): (Vec<Source<'_>>, Vec<Source<'_>>) =
            sources.into_iter().partition(|source| source.facts.stored_bytes == 0);
        let bytes = stripe.block_bytes;
        let at: BTreeMap<u16, NodeId> = stored.iter().map(|s| (s.member.0, s.location.node)).collect();
        let zero =
            known.absent.iter().chain(&known.empty).map(|m| m.0).chain(empty.iter().map(|s| s.member.0));
        let available: Vec<usize> = zero.chain(stored.iter().map(|s| s.member.0)).map(usize::from).collect();
        let wanted = code.symbols_of(&[usize::from(stripe.index)])?;
        let read = code.repair(&wanted, &available)?.blocks();
        let nodes: Vec<NodeId> = read.iter().filter_map(|member| at.get(member).copied()).collect();
        let needed = nodes.len();
        Ok((nodes, needed, bytes))
    }
}

/// Of an MDS code: the nodes of the survivors, those that are no last resort if they suffice, and how many must help.
fn any_of(world: &World, stripe: &StripePlacement, k: usize) -> (Vec<NodeId>, usize, u64) {
    let nobody = BTreeSet::new();
    let (mut nodes, mut suspects, mut zero) = (Vec::new(), Vec::new(), 0);
    for (index, member) in (0..).zip(&stripe.members) {
        match member {
            _ if index == stripe.index => {}
            // What is empty costs nothing, and takes part.
            MemberState::Zero => zero += 1,
            MemberState::Stored((_, row)) if row.stored_bytes == 0 => zero += 1,
            MemberState::Stored((_, row)) | MemberState::Virtual((_, row)) => {
                match world.living_copy(row, &nobody, &[]) {
                    Some(_) if row.stored_bytes == 0 => zero += 1,
                    Some(copy) if world.last_resort.contains(&copy.node) => {
                        suspects.push(copy.node);
                    }
                    Some(copy) => nodes.push(copy.node),
                    None => {}
                }
            }
        }
    }
    let needed = k.saturating_sub(zero).max(1);
    if nodes.len() < needed {
        nodes.append(&mut suspects);
    }
    (nodes, needed, stripe.block_bytes)
}

/// Whether a node that holds a block of the stripe (or a copy) reports it as cached.
fn held_in_memory(world: &World, placement: &Placement, node: NodeId) -> bool {
    let Some(at) = world.nodes.get(node).filter(|node| !node.cached_blocks.is_empty()) else {
        return false;
    };
    let is_cached = |block: &BlockId| at.cached_blocks.contains(block);
    match &placement.stripe {
        Some(stripe) => stripe.stored().any(|(block, row)| row.on(node).is_some() && is_cached(block)),
        None => is_cached(&placement.block),
    }
}

/// Nodes with a living copy, those that are no last resort if there are any.
fn replicas(world: &World, placement: &Placement) -> Vec<NodeId> {
    let living = |trusted: bool| -> Vec<NodeId> {
        let wanted = |node: &NodeFacts| node.is_living && (!trusted || !node.is_last_resort());
        let locations = placement.facts.locations.iter();
        let found = locations.filter(|l| world.nodes.get(l.node).is_some_and(wanted));
        found.map(|l| l.node).collect()
    };
    let trusted = living(true);
    if trusted.is_empty() { living(false) } else { trusted }
}
