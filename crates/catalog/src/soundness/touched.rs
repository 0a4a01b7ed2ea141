//! Which objects damage touches: of the rows that pass their checks, who names rows that are not among them.

use super::MAX_TOLD;
use crate::Catalog;
use crate::backend::Scan;
use crate::error::Result;
use crate::rows::{ObjectRow, StripeRow};
use crate::table::{Read, Row, Snapshot, typed};
use codes::Codebook;
use model::{BlockFacts, BlockId, StripeId};
use std::collections::BTreeSet;

/// Names of objects without a row that are counted; their blocks tell them.
const MAX_NAMES: usize = 1 << 16;

/// An object that damage touches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touched {
    /// Its name.
    pub name: String,
    /// It can be read all the same, and some of its stripes cannot be repaired in full.
    pub is_readable: bool,
}

/// The first objects that are touched, and how many more are.
pub(super) fn touched(catalog: &Catalog) -> Result<(Vec<Touched>, u64)> {
    let mut found = Found { told: Vec::new(), others: 0 };
    catalog.backend.view(&mut |rows| {
        let txn = Snapshot::strict(rows);
        let mut stripes = Stripes { txn: &txn, codes: &catalog.codes, last: None };
        each::<ObjectRow>(&txn, |name, object| {
            match standing(&txn, &object.blocks, &mut stripes)? {
                Standing::Sound => {}
                standing => found.add(name, standing == Standing::Weak),
            }
            Ok(())
        })?;
        let mut nameless = BTreeSet::new();
        each::<BlockFacts>(&txn, |_, facts| {
            if let Some(part) = facts.part.filter(|_| !facts.dead)
                && nameless.len() < MAX_NAMES
                && get::<ObjectRow>(&txn, &part.name)?.is_none()
            {
                nameless.insert(part.name);
            }
            Ok(())
        })?;
        nameless.into_iter().for_each(|name| found.add(name, false));
        Ok(())
    })?;
    Ok((found.told, found.others))
}

struct Found {
    told: Vec<Touched>,
    others: u64,
}

impl Found {
    fn add(&mut self, name: String, is_readable: bool) {
        match self.told.len() < MAX_TOLD {
            true => self.told.push(Touched { name, is_readable }),
            false => self.others += 1,
        }
    }
}

/// How an object stands, as far as the catalog's rows go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Standing {
    Sound,
    /// A member of one of its stripes is not known.
    Weak,
    Unreadable,
}

fn standing(txn: &Snapshot<'_>, blocks: &[BlockId], stripes: &mut Stripes<'_, '_>) -> Result<Standing> {
    let mut worst = Standing::Sound;
    for block in blocks {
        let Some(facts) = get::<BlockFacts>(txn, block)? else { return Ok(Standing::Unreadable) };
        let Some(place) = facts.stripe else { continue };
        let stripe = stripes.find(place.stripe)?;
        let is_had = !facts.locations.is_empty() || stripe.had.get(usize::from(place.index)) == Some(&true);
        worst = worst.max(match (is_had, stripe.is_known) {
            (false, _) => Standing::Unreadable,
            (true, false) => Standing::Weak,
            (true, true) => Standing::Sound,
        });
    }
    Ok(worst)
}

/// Stripes; the last one is kept, for blocks of an object that share one follow each other.
struct Stripes<'a, 'b> {
    txn: &'a Snapshot<'b>,
    codes: &'a Codebook,
    last: Option<(StripeId, Stripe)>,
}

#[derive(Clone, Default)]
struct Stripe {
    /// Its row and those of all of its members are there.
    is_known: bool,
    /// Which members can be had if every node lives.
    had: Vec<bool>,
}

impl Stripes<'_, '_> {
    fn find(&mut self, id: StripeId) -> Result<Stripe> {
        if let Some((_, stripe)) = self.last.as_ref().filter(|(last, _)| *last == id) {
            return Ok(stripe.clone());
        }
        let stripe = match get::<StripeRow>(self.txn, &id)? {
            None => Stripe::default(),
            Some(row) => {
                let (mut is_known, mut usable) = (true, Vec::new());
                for member in &row.members {
                    let Some(block) = member.block() else {
                        usable.push(true);
                        continue;
                    };
                    let facts = get::<BlockFacts>(self.txn, block)?;
                    is_known &= facts.is_some();
                    usable.push(facts.is_some_and(|facts| !facts.locations.is_empty()));
                }
                Stripe { is_known, had: self.codes.recoverable(&row.code, &usable) }
            }
        };
        self.last = Some((id, stripe.clone()));
        Ok(stripe)
    }
}

/// A row; `None` also if it does not pass its check.
fn get<R: Row>(txn: &Snapshot<'_>, key: &R::Key) -> Result<Option<R>> {
    match txn.get::<R>(key) {
        Err(error) if error.is_damage() => Ok(None),
        found => found,
    }
}

/// Visits rows that pass their checks.
fn each<R: Row>(txn: &Snapshot<'_>, mut visit: impl FnMut(R::Key, R) -> Result<()>) -> Result<()> {
    txn.raw_scan(R::TABLE, &[], &mut |key, value| {
        if let Ok((key, row)) = typed::<R>(key, value) {
            visit(key, row)?;
        }
        Ok(Scan::Next)
    })
}
