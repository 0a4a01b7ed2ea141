//! What an archival encodes: the sealed stripes in which blocks of its objects wait, and groups of blocks that wait in none.

use super::super::compact::lacking;
use super::super::regroup;
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
use std::collections::{BTreeMap, BTreeSet};

/// Names that are listed at a time.
const NAMES_AT_ONCE: usize = 256;

/// What is to be encoded, and what is left.
#[derive(Default)]
pub(crate) struct Chosen {
    work: Vec<ToEncode>,
    /// The core rack of each stripe that waits, if it has one (EAR §3.1): it is encoded there.
    cores: BTreeMap<StripeId, String>,
    /// Stripes that take more blocks yet.
    pub open: Vec<StripeId>,
    /// The blocks of these.
    open_blocks: usize,
    /// Stripes that would take more room than the replicas do.
    dear: Vec<ToEncode>,
    /// What these would come to.
    dear_cost: Cost,
    /// Stripes that are to be encoded anew, and lack blocks.
    lacking: usize,
    /// Stripes that are to be encoded anew, and whose data are kept nowhere.
    virtuals: usize,
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
    /// Its blocks that are to leave their stripes for others of the code that is wanted.
    coded: Vec<(StripeId, BlockId)>,
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
    if row.change && code.is_none() {
        return Err(CoordinatorError::Invalid(
            "say which --code is to take the place of the present one".to_owned(),
        ));
    }
    let (mut chosen, mut loose, mut coded) = (Chosen::default(), Vec::new(), Vec::new());
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
                        "{} is archived as {other} already, or waits to be: say --change to have what is archived encoded anew",
                        row.title()
                    )));
                }
                other => chosen.otherwise += usize::from(other.is_some()),
            }
            chosen.young += usize::from(found.is_young);
            loose.extend(found.loose);
            waiting.extend(found.waiting);
            coded.extend(found.coded);
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
        Some(code) => {
            chosen.take_coded(with, &code, coded).await?;
            chosen.take_loose(&code, loose, row.is_prefix);
        }
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
            match is_wanted(&stripe.code) {
                true => {}
                false if wanted.change => found.coded.push((stripe.id, placement.block)),
                false => found.other_code = Some(stripe.code.clone()),
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
        self.cores.extend(row.core.clone().map(|core| (stripe, core)));
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

    /// Blocks that are to leave their stripes, with all others that live in these.
    async fn take_coded(
        &mut self,
        with: &Attempts,
        code: &Code,
        coded: Vec<(StripeId, BlockId)>,
    ) -> Result<()> {
        let (mut seen, mut olds) = (BTreeSet::new(), Vec::new());
        let living = with.cluster.view().living();
        for &(stripe, _) in &coded {
            if !seen.insert(stripe) {
                continue;
            }
            let Some(old) = regroup::old(&with.records, stripe).await? else { continue };
            match old.has_all(&living) {
                _ if old.is_virtual() => self.virtuals += 1,
                true => olds.push(old),
                false => self.lacking += 1,
            }
        }
        let wanted = coded.into_iter().map(|(_, block)| block).collect();
        for (regroup, cost) in regroup::changed(olds, &wanted, code, &with.planner.codes)? {
            let item = ToEncode::Coded(regroup);
            match cost.is_waste() {
                true => self.leave(item, cost),
                false => self.work.push(item),
            }
        }
        Ok(())
    }

    fn leave(&mut self, item: ToEncode, cost: Cost) {
        self.dear.push(item);
        self.dear_cost.add(cost);
    }

    /// What is to be done; with `short` also what lacks blocks, whatever it costs.
    pub fn work(self, short: bool) -> Vec<ToEncode> {
        let dear = if short { self.dear } else { Vec::new() };
        let work = self.work.into_iter().chain(dear);
        let cores = self.cores;
        in_turn(work, |item| match item {
            ToEncode::Gathered(stripe) => cores.get(stripe).map(String::as_str),
            ToEncode::Loose(..) | ToEncode::Coded(_) => None,
        })
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
        left.extend((self.lacking > 0).then(|| lacking(self.lacking)));
        let mut also = |count: usize, what: &str| {
            if count > 0 {
                left.push(format!("{count} {what}"));
            }
        };
        also(self.virtuals, "stripes keep no data as they are: put their objects again to change their code");
        also(self.pending, "stripes wait for puts to end");
        also(self.young, "objects were put too lately");
        also(self.otherwise, "objects are archived with another code, or wait for that");
        also(self.without_code, "blocks wait in no stripe: say with which --code they are to be archived");
        left
    }
}

/// Items in such an order that, of any that follow each other, each group has about the part that it has of all. Stripes that are
/// encoded at once are of as many core racks as there are then, and the links of all of these are used until the end.
fn in_turn<T, G: Ord>(items: impl Iterator<Item = T>, group: impl Fn(&T) -> G) -> Vec<T> {
    let mut sizes: BTreeMap<G, usize> = BTreeMap::new();
    let placed: Vec<(T, usize)> = items
        .map(|item| {
            let size = sizes.entry(group(&item)).or_default();
            *size += 1;
            (item, *size)
        })
        .collect();
    // The middle of an item's part of the whole.
    let turn = |item: &T, place: usize| {
        let size = sizes.get(&group(item)).copied().unwrap_or(1);
        (2 * place - 1) as f64 / (2 * size) as f64
    };
    let mut order: Vec<(f64, T)> =
        placed.into_iter().map(|(item, place)| (turn(&item, place), item)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    order.into_iter().map(|(_, item)| item).collect()
}

/// The blocks of a stripe that waits; `None` if a put has not ended that writes one of them.
async fn waiting_data(with: &Attempts, row: &GatheringRow) -> Result<Option<Vec<Placement>>> {
    let blocks: Vec<BlockId> = row.blocks.iter().map(|gathered| gathered.block).collect();
    let placements = with.records.run(move |catalog| catalog.placements(&blocks)).await?;
    Ok(placements.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_of_all_core_racks_are_encoded_in_turn_until_the_end() {
        // Four of a, two of b, one without a rack, in any order.
        let items = [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 5), ("b", 6), ("", 7)];
        let order = in_turn(items.into_iter(), |item| Some(item.0).filter(|rack| !rack.is_empty()));
        let names: Vec<&str> = order.iter().map(|item| item.0).collect();
        assert_eq!(names, ["a", "b", "a", "", "a", "b", "a"]);
        let of_a: Vec<u32> = order.iter().filter(|item| item.0 == "a").map(|item| item.1).collect();
        assert_eq!(of_a, [1, 2, 3, 4], "each group keeps its order");
        assert!(in_turn(std::iter::empty::<u8>(), |_| ()).is_empty());
    }
}
