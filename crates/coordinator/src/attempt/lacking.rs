//! What lacks: looked up anew for each attempt, as things are then.

use super::{Attempt, Order, Outcome, RepairOptions, Step, Wanted};
use crate::cluster::sites;
use crate::error::{CoordinatorError, Result};
use catalog::{CatalogError, Purpose, is_misplaced, would_spread};
use model::{BlockId, MemberState, NodeId, Placement, StripePlacement};
use plan::decide::{World, requestors};
use std::collections::BTreeSet;

/// What is to be made.
enum Lacking {
    Nothing,
    /// Not in one pass with others: this block by itself.
    Alone(BlockId),
    /// These blocks; the copy on that node goes.
    These(Vec<Placement>, Option<NodeId>),
}

impl Lacking {
    /// How many blocks.
    fn count(&self) -> u64 {
        match self {
            Lacking::Nothing => 0,
            Lacking::Alone(_) => 1,
            Lacking::These(blocks, _) => blocks.len() as u64,
        }
    }
}

/// What is wrong with a block.
enum Lack {
    Nothing,
    /// A copy is missing, or one is to be elsewhere; the one on this node (dead) goes.
    Copy(Option<NodeId>),
    /// There are enough copies without the one on this dead node.
    Surplus(NodeId),
}

impl Attempt<'_> {
    /// What is to be repaired, with a node for each block, no two alike.
    pub(super) async fn repair(&self, view: &World) -> Result<Step> {
        let lacking = self.lacking(view).await?;
        if let (0, Wanted::Stripe(..)) = (self.noted, self.wanted) {
            self.job.add(lacking.count());
        }
        let (blocks, replaces) = match lacking {
            Lacking::Nothing => return Ok(Step::Over(Outcome::default())),
            Lacking::Alone(block) => {
                return Ok(Step::Over(Outcome { alone: vec![block], ..Outcome::default() }));
            }
            Lacking::These(blocks, replaces) => (blocks, replaces),
        };
        let load = |node: NodeId| {
            let stored = view.node(node).map_or(0, |n| n.blocks);
            // A repair under way counts for more than any number of blocks stored.
            (self.with.cluster.load.of(node) << 32) + stored.min(u64::from(u32::MAX))
        };
        let asked = self.options.requestor;
        // Who is slow to send may well receive.
        let failed = self.course.failed();
        // A node with a flawed copy of a block may spoil the next one too, so other nodes are preferred.
        let flawed = blocks.iter().flat_map(|placement| placement.facts.flawed_on());
        let doubtful: BTreeSet<NodeId> = failed.iter().copied().chain(flawed).collect();
        let nodes = requestors(view, blocks.iter(), asked, &doubtful, load)
            .or_else(|_| requestors(view, blocks.iter(), asked, failed, load))?;
        if self.options.spreads {
            let sites = sites(view);
            let mut pairs = blocks.iter().zip(&nodes);
            if !pairs.all(|(placement, &node)| would_spread(&placement.facts, node, &sites)) {
                let why = "no node with room for it is in another rack, or on another host, than its copies";
                return Err(CoordinatorError::Conflict(why.to_owned()));
            }
        }
        let writes = blocks.iter().map(|placement| placement.block).zip(nodes).collect();
        let purpose = Purpose::Repair { replaces };
        Ok(Step::Order(Order { purpose, writes, blocks, encodings: Vec::new() }))
    }

    async fn lacking(&self, view: &World) -> Result<Lacking> {
        let (block, members) = match self.wanted {
            Wanted::Block(block) => return self.lack_of_block(view, block).await,
            Wanted::Stripe(block, members) => (block, members),
            Wanted::Coded(..) => return Ok(Lacking::Nothing),
        };
        let placement = self.with.records.run(move |catalog| catalog.placement(block)).await?;
        if placement.stripe.is_none() {
            return Ok(Lacking::Alone(block));
        }
        let mut lost = lost(&placement, view, members)?;
        Ok(match lost.len() {
            0 => Lacking::Nothing,
            1 => lost.pop().map_or(Lacking::Nothing, |only| Lacking::Alone(only.block)),
            _ => Lacking::These(lost, None),
        })
    }

    async fn lack_of_block(&self, view: &World, block: BlockId) -> Result<Lacking> {
        let (records, options) = (&self.with.records, self.options);
        let placement = match records.run(move |catalog| catalog.placement(block)).await {
            // Deleted: nothing to do, unless it was asked for by id.
            Err(CoordinatorError::Catalog(CatalogError::NoSuchBlock(_))) if options.replaces.is_some() => {
                return Ok(Lacking::Nothing);
            }
            placement => placement?,
        };
        if placement.facts.is_virtual() {
            // What stands for it may lack something; of itself there is nothing to make.
            let living = view.living();
            return match records.run(move |catalog| catalog.is_in_need(block, &living)).await? {
                true => Err(CoordinatorError::Conflict(format!(
                    "block {block} is virtual, and too few blocks of its stripe live to give it: bring nodes back"
                ))),
                false => Ok(Lacking::Nothing),
            };
        }
        let replaces = match lack(&placement, view, options) {
            _ if options.discard => None,
            Lack::Nothing => return Ok(Lacking::Nothing),
            Lack::Surplus(node) => {
                let surplus = placement.facts.on(node).map(|location| location.copy_of(block));
                let (now_ms, living) = (self.with.cluster.clock.now_ms(), options.without_leaver(view));
                if let Some(copy) = surplus {
                    records.run(move |c| c.drop_surplus(&copy, &living, now_ms)).await?;
                }
                return Ok(Lacking::Nothing);
            }
            Lack::Copy(replaces) => replaces,
        };
        Ok(Lacking::These(vec![placement], replaces))
    }
}

fn lack(placement: &Placement, view: &World, options: &RepairOptions) -> Lack {
    let living = options.without_leaver(view);
    let row = &placement.facts;
    let is_listed = |node: NodeId| row.on(node).is_some();
    if let Some(node) = options.replaces
        && (!is_listed(node) || living.contains(&node))
    {
        return Lack::Nothing;
    }
    if options.spreads {
        let all_live = row.locations.iter().all(|l| living.contains(&l.node));
        let lies_badly = all_live && is_misplaced(row, &sites(view));
        return if lies_badly { Lack::Copy(None) } else { Lack::Nothing };
    }
    if placement.stripe.is_some() {
        return if row.lives(&living) { Lack::Nothing } else { Lack::Copy(None) };
    }
    let alive = row.locations.iter().filter(|l| living.contains(&l.node)).count();
    let dead = row.locations.iter().map(|l| l.node).find(|node| !living.contains(node));
    match options.replaces {
        Some(node) if alive >= row.replicas as usize => Lack::Surplus(node),
        Some(node) => Lack::Copy(Some(node)),
        None if alive >= row.replicas as usize => Lack::Nothing,
        // Copies on dead nodes count as long as others lack altogether: their nodes may return.
        None if row.lacks() > 0 => Lack::Copy(None),
        None => Lack::Copy(dead),
    }
}

/// The blocks of a stripe that are to be made: those of which no copy lives, or the `members` given.
pub(crate) fn lost(placement: &Placement, view: &World, members: &[u16]) -> Result<Vec<Placement>> {
    let Some(stripe) = &placement.stripe else { return Ok(Vec::new()) };
    let living = view.living();
    let mut lost = Vec::new();
    for (index, member) in (0..).zip(&stripe.members) {
        let MemberState::Stored((block, facts)) = member else { continue };
        if members.contains(&index) || (members.is_empty() && !facts.lives(&living)) {
            let stripe = StripePlacement { index, ..stripe.clone() };
            lost.push(Placement { block: *block, facts: facts.clone(), stripe: Some(stripe) });
        }
    }
    if !members.is_empty() && lost.len() < members.len() {
        return Err(CoordinatorError::Invalid(format!(
            "the stripe has blocks 0 to {}, and each can be named once; those of a short stripe that are empty cannot",
            stripe.members.len().saturating_sub(1)
        )));
    }
    Ok(lost)
}
