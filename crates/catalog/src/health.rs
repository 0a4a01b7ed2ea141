//! How far everything is from being lost: objects and stripes by the losses that they surely survive.

use crate::Catalog;
use crate::backend::Scan;
use crate::blocks::referenced;
use crate::error::Result;
use crate::rows::{ObjectRow, StripeRow};
use crate::table::Read;
use codes::Standing;
use model::{BlockFacts, BlockId, Flaw, MemberState, NodeId, StripeId};
use std::collections::{BTreeMap, BTreeSet};

/// Unreadable objects that are told by name.
const NAMED: usize = 16;

/// What the margin of something is: further losses, of nodes say, that it surely survives. `None`: it cannot be read now.
type Margin = Option<u64>;

/// Counts over the whole catalog, with the nodes that live.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// Objects that can be read, by their margin: that of the worst of their blocks.
    pub objects: BTreeMap<u64, u64>,
    /// Encoded stripes all of which can be had, by their margin.
    pub stripes: BTreeMap<u64, u64>,
    /// Objects that cannot be read now.
    pub unreadable: u64,
    /// The first of them, by name.
    pub unreadable_names: Vec<String>,
    /// Encoded stripes some of which cannot be had now.
    pub broken_stripes: u64,
    /// Blocks that have fewer living copies than they are to have.
    pub short: u64,
    /// Bytes of the copies that these have not.
    pub short_bytes: u64,
    /// Of these, blocks whose copies are all noted, on nodes some of which do not live.
    pub dead: u64,
    /// Copies that their nodes have lost or found damaged, and that no others have replaced.
    pub flawed: u64,
    /// The same of the missing ones among them.
    pub missing: u64,
}

impl Catalog {
    /// Counts everything.
    pub fn health(&self, living: &BTreeSet<NodeId>) -> Result<Health> {
        self.view(|txn| {
            let mut health = Health::default();
            txn.scan::<BlockFacts>(&[], |_, row| {
                let lacks = row.needs(living) as u64;
                let is_short = lacks > 0;
                health.short += u64::from(is_short);
                health.short_bytes += lacks * row.stored_bytes;
                health.dead += u64::from(is_short && row.lacks() == 0);
                health.flawed += row.flawed.len() as u64;
                let missing = row.flawed.iter().filter(|flawed| flawed.flaw == Flaw::Missing);
                health.missing += missing.count() as u64;
                Ok(Scan::Next)
            })?;
            let stripes = self.stripes(txn, living)?;
            for margin in stripes.values() {
                match margin {
                    Some(margin) => *health.stripes.entry(*margin).or_default() += 1,
                    None => health.broken_stripes += 1,
                }
            }
            txn.scan::<ObjectRow>(&[], |name, object| {
                match margin_of(txn, &object.blocks, &stripes, living)? {
                    Some(margin) => *health.objects.entry(margin).or_default() += 1,
                    None => {
                        health.unreadable += 1;
                        if health.unreadable_names.len() < NAMED {
                            health.unreadable_names.push(name);
                        }
                    }
                }
                Ok(Scan::Next)
            })?;
            Ok(health)
        })
    }

    /// The margin of every stripe; one whose code is not known cannot be read.
    fn stripes(&self, txn: &impl Read, living: &BTreeSet<NodeId>) -> Result<BTreeMap<StripeId, Margin>> {
        let mut margins = BTreeMap::new();
        txn.scan::<StripeRow>(&[], |id, stripe| {
            let is_usable = |state: &MemberState<BlockId>| match state.block() {
                Some(&block) => Ok(referenced(txn, block)?.lives(living)),
                None => Ok(true),
            };
            let usable = stripe.members.iter().map(is_usable).collect::<Result<Vec<bool>>>()?;
            let margin = match self.codes.standing(&stripe.code, &usable) {
                Standing::Survives(losses) => Some(losses as u64),
                Standing::Lost | Standing::Unknown => None,
            };
            margins.insert(id, margin);
            Ok(Scan::Next)
        })?;
        Ok(margins)
    }
}

/// The margin of an object's worst block. A block that can be read as it is can be read though the rest of its stripe cannot.
fn margin_of(
    txn: &impl Read,
    blocks: &[BlockId],
    stripes: &BTreeMap<StripeId, Margin>,
    living: &BTreeSet<NodeId>,
) -> Result<Margin> {
    // Of no blocks nothing can be lost: as safe as the best.
    let mut worst = u64::MAX;
    for &block in blocks {
        let row = referenced(txn, block)?;
        let copies = row.locations.iter().filter(|l| living.contains(&l.node)).count() as u64;
        let of_stripe = row.stripe.and_then(|place| stripes.get(&place.stripe).copied().flatten());
        let Some(margin) = of_stripe.max(copies.checked_sub(1)) else { return Ok(None) };
        worst = worst.min(margin);
    }
    Ok(Some(worst))
}
