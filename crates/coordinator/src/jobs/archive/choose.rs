//! What an archival encodes: the sealed stripes in which blocks of its objects wait, and groups of blocks that wait in none.

use super::Title;
use super::archival_code;
use super::cost::{Cost, too_dear};
use crate::attempt::{Attempts, ToEncode};
use crate::error::{CoordinatorError, Result};
use catalog::rows::{EncodingRow, GatheringRow};
use catalog::{Catalog, CatalogError};
use codes::Code;
use model::{BlockId, Placement, StripeId};
use plan::decide::DecideError;
use std::collections::BTreeMap;

/// Names that are listed at a time.
const NAMES_AT_ONCE: usize = 256;

/// What is to be encoded, and what is left.
#[derive(Default)]
pub(crate) struct Chosen {
    work: Vec<ToEncode>,
    /// Stripes that take more blocks yet.
    pub open: Vec<StripeId>,
    /// The blocks of these.
    open_blocks: usize,
    /// Stripes that would take more room than the replicas do.
    dear: Vec<ToEncode>,
    /// What these would come to.
    dear_cost: Cost,
    /// Stripes with blocks of puts that have not ended.
    pending: usize,
    /// Objects that were put too lately.
    young: usize,
    /// Objects that are archived with another code, or wait for that.
    otherwise: usize,
    /// Blocks that wait in no stripe, and for which no code was named.
    without_code: usize,
}

/// What the catalog knows of one object that matters here.
#[derive(Default)]
struct Found {
    /// Blocks that wait in no stripe.
    loose: Vec<Placement>,
    /// Stripes in which the others wait.
    waiting: Vec<(StripeId, GatheringRow)>,
    /// The code that it is archived with, or waits for, if it is not the one that is wanted.
    other_code: Option<String>,
    /// It was put too lately.
    is_young: bool,
}

/// Looks through the objects.
///
/// # Errors
/// [`CoordinatorError::Conflict`] for one object that is archived with another code, or waits for one,
/// [`CoordinatorError::Invalid`] for one that waits for none if no code is named; those of [`archival_code`].
pub(crate) async fn choose(with: &Attempts, row: &EncodingRow) -> Result<Chosen> {
    let code = match row.code.as_str() {
        "" => None,
        name => Some(archival_code(&with.planner, &with.cluster, name)?),
    };
    let (mut chosen, mut loose) = (Chosen::default(), Vec::new());
    let mut waiting: BTreeMap<StripeId, GatheringRow> = BTreeMap::new();
    let mut after: Option<String> = None;
    loop {
        let names = names(with, row, after.clone()).await?;
        after = names.last().cloned();
        for name in names {
            let wanted = row.clone();
            let found = with.records.run(move |catalog| find(catalog, &name, &wanted)).await?;
            match found.other_code {
                Some(other) if !row.is_prefix => {
                    return Err(CoordinatorError::Conflict(format!(
                        "{} is archived as {other} already, or waits to be; get it and put it again to change the code",
                        row.title()
                    )));
                }
                other => chosen.otherwise += usize::from(other.is_some()),
            }
            chosen.young += usize::from(found.is_young);
            loose.extend(found.loose);
            waiting.extend(found.waiting);
        }
        if after.is_none() || !row.is_prefix {
            break;
        }
    }
    if code.is_none() && !row.is_prefix && waiting.is_empty() && !loose.is_empty() {
        return Err(CoordinatorError::Invalid(format!(
            "{} waits in no stripe: say with which code it is to be archived",
            row.title()
        )));
    }
    for (stripe, gathering) in waiting {
        chosen.take_waiting(with, stripe, &gathering).await?;
    }
    match code {
        Some(code) => chosen.take_loose(&code, loose, row.is_prefix),
        None => chosen.without_code = loose.len(),
    }
    Ok(chosen)
}

/// The next names.
async fn names(with: &Attempts, row: &EncodingRow, after: Option<String>) -> Result<Vec<String>> {
    if !row.is_prefix {
        return Ok(vec![row.name.clone()]);
    }
    let prefix = row.name.clone();
    with.records.run(move |catalog| catalog.list_objects(&prefix, after.as_deref(), NAMES_AT_ONCE)).await
}

fn find(catalog: &Catalog, name: &str, wanted: &EncodingRow) -> catalog::Result<Found> {
    let (object, blocks) = match catalog.object(name) {
        // It was listed and is deleted since.
        Err(CatalogError::NoSuchObject(_)) if wanted.is_prefix => return Ok(Found::default()),
        found => found?,
    };
    let mut found = Found::default();
    if wanted.before_unix_ms > 0 && object.created_ms >= wanted.before_unix_ms {
        found.is_young = true;
        return Ok(found);
    }
    let is_wanted = |code: &str| wanted.code.is_empty() || code == wanted.code;
    for placement in blocks.into_iter().filter(|placement| placement.facts.stored_bytes > 0) {
        if let Some(stripe) = &placement.stripe {
            if !is_wanted(&stripe.code) {
                found.other_code = Some(stripe.code.clone());
            }
            continue;
        }
        match catalog.gathering_of(placement.block)? {
            None => found.loose.push(placement),
            Some((_, row)) if !is_wanted(&row.terms.code) => found.other_code = Some(row.terms.code),
            Some(waiting) => found.waiting.push(waiting),
        }
    }
    Ok(found)
}

impl Chosen {
    async fn take_waiting(&mut self, with: &Attempts, stripe: StripeId, row: &GatheringRow) -> Result<()> {
        let is_open = row.sealed_ms.is_none();
        if is_open {
            self.open.push(stripe);
            self.open_blocks += row.blocks.len();
        }
        let data = match waiting_data(with, row).await? {
            Some(data) => data,
            None => {
                self.pending += 1;
                return Ok(());
            }
        };
        let code = with.planner.codes.get(&row.terms.code).map_err(DecideError::from)?;
        let cost = Cost::of(&code, &data);
        let item = ToEncode::Gathered(stripe);
        match is_open || cost.is_waste() {
            true => self.leave(item, cost),
            false => self.work.push(item),
        }
        Ok(())
    }

    /// Blocks that wait in no stripe become some, those of many objects by their lengths: parities are as long as the longest
    /// block, and in falling order these lengths add up to the least.
    fn take_loose(&mut self, code: &Code, mut loose: Vec<Placement>, is_of_many: bool) {
        if is_of_many {
            loose.sort_by_key(|placement| std::cmp::Reverse(placement.facts.stored_bytes));
        }
        let groups: Vec<&[Placement]> = loose.chunks(code.k()).collect();
        let mut whole = Cost::default();
        groups.iter().for_each(|group| whole.add(Cost::of(code, group)));
        for group in groups {
            let cost = Cost::of(code, group);
            let data = group.iter().map(|placement| placement.block).collect();
            let item = ToEncode::Loose(code.clone(), data);
            let is_waste = if is_of_many { cost.is_waste() } else { whole.is_waste() };
            match is_waste {
                true => self.leave(item, cost),
                false => self.work.push(item),
            }
        }
    }

    fn leave(&mut self, item: ToEncode, cost: Cost) {
        self.dear.push(item);
        self.dear_cost.add(cost);
    }

    /// What is to be done; with `short` also what lacks blocks, whatever it costs.
    pub fn work(self, short: bool) -> Vec<ToEncode> {
        let dear = if short { self.dear } else { Vec::new() };
        self.work.into_iter().chain(dear).collect()
    }

    /// What stays as it is, and why, for people.
    pub fn left(&self, row: &EncodingRow) -> Vec<String> {
        let mut left = Vec::new();
        if !row.short && !self.dear.is_empty() {
            let waiting = match self.open_blocks {
                0 => String::new(),
                blocks => format!(" ({blocks} blocks are in stripes that take more)"),
            };
            left.push(too_dear(self.dear.len(), &waiting, self.dear_cost));
        }
        let mut also = |count: usize, what: &str| {
            if count > 0 {
                left.push(format!("{count} {what}"));
            }
        };
        also(self.pending, "stripes wait for puts to end");
        also(self.young, "objects were put too lately");
        also(self.otherwise, "objects are archived with another code, or wait for that");
        also(self.without_code, "blocks wait in no stripe: say with which --code they are to be archived");
        left
    }
}

/// The blocks of a stripe that waits; `None` if a put has not ended that writes one of them.
async fn waiting_data(with: &Attempts, row: &GatheringRow) -> Result<Option<Vec<Placement>>> {
    let blocks: Vec<BlockId> = row.blocks.iter().map(|gathered| gathered.block).collect();
    let placements = with.records.run(move |catalog| catalog.placements(&blocks)).await?;
    Ok(placements.into_iter().collect())
}
