//! The tally is what a walk through the whole catalog counts, after each step of any history, whoever lives.

use crate::backend::Scan;
use crate::blocks::referenced;
use crate::error::Result;
use crate::rows::{CandidateRow, ObjectRow, PlannedRow, StripeRow};
use crate::table::{Read, Snapshot};
use crate::{Catalog, Counts, Health, Survey};
use codes::Standing;
use model::{BlockFacts, BlockId, Flaw, MemberState, NodeId, StripeId};
use std::collections::{BTreeMap, BTreeSet};

/// With some node away, each time another, or none.
pub(crate) fn tally_is_right(catalog: &Catalog) {
    let mut living = BTreeSet::new();
    catalog
        .view(|txn| {
            txn.scan::<BlockFacts>(&[], |_, row| {
                living.extend(row.locations.iter().map(|location| location.node));
                Ok(Scan::Next)
            })
        })
        .unwrap();
    let away = living.iter().nth(catalog.changes() as usize % (living.len() + 1)).copied();
    living.retain(|node| Some(*node) != away);
    assert_eq!(catalog.survey(&living).unwrap(), walk(catalog, &living).unwrap());
}

fn walk(catalog: &Catalog, living: &BTreeSet<NodeId>) -> Result<Survey> {
    catalog.view(|txn| {
        let mut held = BTreeMap::new();
        for (_, row) in txn.all::<BlockFacts>(&[])? {
            row.locations.iter().for_each(|l| *held.entry(l.node).or_default() += 1);
        }
        Ok(Survey { counts: counts(catalog, txn, living)?, health: health(catalog, txn, living)?, held })
    })
}

fn usable(txn: &Snapshot<'_>, stripe: &StripeRow, living: &BTreeSet<NodeId>) -> Result<Vec<bool>> {
    let is_usable = |state: &MemberState<BlockId>| match state.block() {
        Some(&block) => referenced(txn, block).map(|row| row.lives(living) || row.stored_bytes == 0),
        None => Ok(true),
    };
    stripe.members.iter().map(is_usable).collect()
}

fn counts(catalog: &Catalog, txn: &Snapshot<'_>, living: &BTreeSet<NodeId>) -> Result<Counts> {
    let mut counts = Counts {
        objects: txn.all::<ObjectRow>(&[])?.len() as u64,
        object_bytes: txn.all::<ObjectRow>(&[])?.iter().map(|(_, row)| row.object_bytes).sum(),
        in_flight: txn.all::<PlannedRow>(&[])?.len() as u64,
        ..Counts::default()
    };
    for (_, row) in txn.all::<CandidateRow>(&[])? {
        counts.candidates.copies += 1;
        counts.candidates.bytes += row.stored_bytes;
    }
    for (_, row) in txn.all::<BlockFacts>(&[])? {
        counts.blocks += 1;
        for flawed in &row.flawed {
            match flawed.flaw {
                Flaw::Unread => unreachable!("no row says that"),
                Flaw::Missing => counts.lost_copies += 1,
                Flaw::Damaged => counts.damaged_copies += 1,
            }
        }
        let is_lost = u64::from(row.stripe.is_none() && !row.lives(living));
        counts.missing += is_lost;
        counts.unrecoverable += is_lost;
    }
    for (_, stripe) in txn.all::<StripeRow>(&[])? {
        counts.stripes += 1;
        let usable = usable(txn, &stripe, living)?;
        let mut missing = 0;
        for state in stripe.members.iter().filter(|state| !state.is_virtual()) {
            if let Some(&block) = state.block() {
                missing += u64::from(!referenced(txn, block)?.lives(living));
            }
        }
        if missing > 0 {
            counts.missing += missing;
            let had = catalog.codes.recoverable(&stripe.code, &usable);
            counts.unrecoverable += had.iter().filter(|had| !**had).count() as u64;
        }
    }
    Ok(counts)
}

fn health(catalog: &Catalog, txn: &Snapshot<'_>, living: &BTreeSet<NodeId>) -> Result<Health> {
    let mut health = Health::default();
    for (_, row) in txn.all::<BlockFacts>(&[])? {
        let lacks = row.needs(living) as u64;
        health.short += u64::from(lacks > 0);
        health.short_bytes += lacks * row.stored_bytes;
        let parts = match row.stripe {
            None => 1,
            Some(place) => {
                let stripe = txn.get::<StripeRow>(&place.stripe)?;
                stripe
                    .and_then(|stripe| catalog.codes.get(&stripe.code).ok())
                    .map_or(0, |code| code.k() as u64)
            }
        };
        health.carried_bytes += lacks * row.stored_bytes * parts;
        health.dead += u64::from(lacks > 0 && row.lacks() == 0);
        health.flawed += row.flawed.len() as u64;
        health.missing += row.flawed.iter().filter(|flawed| flawed.flaw == Flaw::Missing).count() as u64;
    }
    let mut stripes = BTreeMap::new();
    for (id, stripe) in txn.all::<StripeRow>(&[])? {
        let margin = match catalog.codes.standing(&stripe.code, &usable(txn, &stripe, living)?) {
            Standing::Survives(losses) => Some((losses as u64).saturating_sub(beside(txn, &stripe, living)?)),
            Standing::Lost | Standing::Unknown => None,
        };
        match margin {
            Some(margin) => *health.stripes.entry(margin).or_default() += 1,
            None => health.broken_stripes += 1,
        }
        stripes.insert(id, margin);
    }
    for (name, object) in txn.all::<ObjectRow>(&[])? {
        match margin_of(txn, &object.blocks, &stripes, living)? {
            Some(margin) => *health.objects.entry(margin).or_default() += 1,
            None => {
                health.unreadable += 1;
                if health.unreadable_names.len() < 16 {
                    health.unreadable_names.push(name);
                }
            }
        }
    }
    Ok(health)
}

/// Returns the number of members that share a node with another member, not counting one for each node.
fn beside(txn: &Snapshot<'_>, stripe: &StripeRow, living: &BTreeSet<NodeId>) -> Result<u64> {
    let (mut nodes, mut beside) = (BTreeSet::new(), 0);
    for state in stripe.members.iter().filter(|state| !state.is_virtual()) {
        let Some(&block) = state.block() else { continue };
        let row = referenced(txn, block)?;
        let first = row.locations.iter().find(|location| living.contains(&location.node));
        beside += first.map_or(0, |location| u64::from(!nodes.insert(location.node)));
    }
    Ok(beside)
}

fn margin_of(
    txn: &Snapshot<'_>,
    blocks: &[BlockId],
    stripes: &BTreeMap<StripeId, Option<u64>>,
    living: &BTreeSet<NodeId>,
) -> Result<Option<u64>> {
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
