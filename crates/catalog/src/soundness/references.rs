//! References between rows, both ways: a row that another names must be there and name it back. In the other direction counts are
//! compared, and only if they differ are the rows that nothing names searched for.

use super::check::{Findings, Pace};
use crate::blocks::{MISSING, dead_key};
use crate::error::Result;
use crate::rows::{
    CandidateRow, DeadRow, GatheredRow, GatheringRow, HeldKey, HeldRow, IntentRow, LackRow, LeavingRow,
    MetaKey, MetaRow, NodeRow, ObjectRow, OrderRow, PlannedRow, PositionRow, PutBlockKey, PutBlockRow,
    PutRow, StripeRow,
};
use crate::table::{Read, Row, Snapshot, typed};
use model::{BlockCopy, BlockFacts, NodeId};
use std::collections::BTreeSet;

/// What references are checked with.
struct Check<'a> {
    txn: &'a Snapshot<'a>,
    pace: &'a Pace<'a>,
    findings: &'a Findings<'a>,
}

/// How many references were seen, by kind. Those of a pair must be equal.
#[derive(Default)]
struct Named {
    /// Blocks that objects list.
    by_objects: u64,
    /// Blocks that stripes have as members.
    by_stripes: u64,
    /// Blocks that are parts of objects.
    parts: u64,
    /// Blocks that are in stripes.
    members: u64,
    locations: u64,
    lacking: u64,
    dead: u64,
}

pub(super) fn check(txn: &Snapshot<'_>, pace: &Pace<'_>, findings: &Findings<'_>) -> Result<()> {
    let check = Check { txn, pace, findings };
    check.alone()?;
    let nodes = check.nodes()?;
    let mut named = Named::default();
    check.objects(&mut named)?;
    check.stripes(&mut named)?;
    check.blocks(&nodes, &mut named)?;
    check.indexes(&named)?;
    check.gathered()?;
    check.in_flight()?;
    check.candidates()
}

impl Check<'_> {
    /// Visits the rows that pass their checks; the others were noted by `check_rows`.
    fn each<R: Row>(&self, mut visit: impl FnMut(R::Key, R) -> Result<()>) -> Result<()> {
        let scanned = self.txn.raw_scan(R::TABLE, &[], &mut |key, value| {
            if let Ok((key, row)) = typed::<R>(key, value) {
                visit(key, row)?;
            }
            Ok(self.pace.row())
        });
        self.unless_damage(scanned)
    }

    fn unless_damage(&self, result: Result<()>) -> Result<()> {
        match result {
            Err(error) if error.is_damage() => self.findings.add(error),
            result => result,
        }
    }

    /// Returns a row that others name, and notes it if it is missing. `None` too if it is damaged, which was noted before.
    fn named<R: Row>(&self, key: &R::Key) -> Result<Option<R>> {
        match self.txn.get::<R>(key) {
            Ok(None) => {
                self.findings.row::<R>(key, MISSING)?;
                Ok(None)
            }
            Err(error) if error.is_damage() => Ok(None),
            found => found,
        }
    }

    fn count<R: Row>(&self) -> Result<u64> {
        let mut count = 0;
        self.each::<R>(|_, _| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    /// Checks the rows that every catalog has once.
    fn alone(&self) -> Result<()> {
        let meta = self.named::<MetaRow>(&MetaKey)?;
        self.named::<PositionRow>(&MetaKey)?;
        let Some(MetaRow { next_version, .. }) = meta else { return Ok(()) };
        self.each::<ObjectRow>(|name, row| match row.version < next_version {
            true => Ok(()),
            false => self.findings.row::<MetaRow>(
                &MetaKey,
                &format!("it gives version {next_version} next, and {name:?} has {}", row.version),
            ),
        })
    }

    fn nodes(&self) -> Result<BTreeSet<NodeId>> {
        let mut nodes = BTreeSet::new();
        self.each::<NodeRow>(|node, _| {
            nodes.insert(node);
            Ok(())
        })?;
        self.each::<LeavingRow>(|node, _| self.named::<NodeRow>(&node).map(|_| ()))?;
        self.each::<OrderRow>(|node, _| self.named::<LeavingRow>(&node).map(|_| ()))?;
        Ok(nodes)
    }

    fn objects(&self, named: &mut Named) -> Result<()> {
        self.each::<ObjectRow>(|name, object| {
            named.by_objects += object.blocks.len() as u64;
            for block in &object.blocks {
                let Some(facts) = self.named::<BlockFacts>(block)? else { continue };
                let is_of_it =
                    facts.part.as_ref().is_some_and(|p| p.name == name && p.version == object.version);
                if !is_of_it || facts.dead {
                    self.findings.row::<BlockFacts>(
                        block,
                        &format!("object {name:?} lists it, and it is no part of that"),
                    )?;
                }
            }
            Ok(())
        })
    }

    fn stripes(&self, named: &mut Named) -> Result<()> {
        self.each::<StripeRow>(|stripe, row| {
            for (index, member) in (0..).zip(&row.members) {
                let Some(block) = member.block() else { continue };
                named.by_stripes += 1;
                let Some(facts) = self.named::<BlockFacts>(block)? else { continue };
                let is_member = facts.stripe.is_some_and(|place| {
                    (place.stripe, place.index, place.is_virtual) == (stripe, index, member.is_virtual())
                });
                if !is_member {
                    let why =
                        format!("stripe {stripe} has it as member {index}, and it is not in that place");
                    self.findings.row::<BlockFacts>(block, &why)?;
                }
            }
            Ok(())
        })
    }

    fn blocks(&self, nodes: &BTreeSet<NodeId>, named: &mut Named) -> Result<()> {
        self.each::<BlockFacts>(|block, row| {
            named.parts += u64::from(row.part.is_some() && !row.dead);
            named.members += u64::from(row.stripe.is_some());
            named.locations += row.locations.len() as u64;
            for location in &row.locations {
                let held = self.named::<HeldRow>(&HeldKey { node: location.node, block })?;
                if held.is_some_and(|held| held.generation != location.generation) {
                    let why = format!(
                        "it lies on {} in another generation than the node's list says",
                        location.node
                    );
                    self.findings.row::<BlockFacts>(&block, &why)?;
                }
                if !nodes.contains(&location.node) {
                    self.named::<NodeRow>(&location.node)?;
                }
            }
            if row.lacks() > 0 {
                named.lacking += 1;
                let lack = self.named::<LackRow>(&block)?;
                if lack.is_some_and(|lack| lack.copies as usize != row.lacks()) {
                    self.findings.row::<LackRow>(&block, "its block lacks another number of copies")?;
                }
            }
            if let Some(key) = dead_key(block, &row) {
                named.dead += 1;
                self.named::<DeadRow>(&key)?;
            }
            Ok(())
        })
    }

    /// Looks for rows of an index that no row is named by. If the counts are equal there are none.
    fn indexes(&self, named: &Named) -> Result<()> {
        if self.count::<HeldRow>()? != named.locations {
            self.each::<HeldRow>(|key, _| {
                let facts = self.named::<BlockFacts>(&key.block)?;
                match facts.is_some_and(|facts| facts.on(key.node).is_none()) {
                    true => self.findings.row::<HeldRow>(&key, "its block does not lie there"),
                    false => Ok(()),
                }
            })?;
        }
        if self.count::<LackRow>()? != named.lacking {
            self.each::<LackRow>(|block, _| {
                let facts = self.named::<BlockFacts>(&block)?;
                match facts.is_some_and(|facts| facts.lacks() == 0) {
                    true => self.findings.row::<LackRow>(&block, "its block lacks nothing"),
                    false => Ok(()),
                }
            })?;
        }
        if self.count::<DeadRow>()? != named.dead {
            self.each::<DeadRow>(|key, _| self.named::<BlockFacts>(&key.block).map(|_| ()))?;
        }
        if named.parts != named.by_objects {
            self.parts_without_objects()?;
        }
        if named.members != named.by_stripes {
            self.members_without_stripes()?;
        }
        Ok(())
    }

    fn parts_without_objects(&self) -> Result<()> {
        self.each::<BlockFacts>(|block, facts| {
            let Some(part) = facts.part.filter(|_| !facts.dead) else { return Ok(()) };
            let object = self.named::<ObjectRow>(&part.name)?;
            match object.is_some_and(|object| !object.blocks.contains(&block)) {
                true => self.findings.row::<ObjectRow>(
                    &part.name,
                    &format!("block {block} is part of it, and it does not list that"),
                ),
                false => Ok(()),
            }
        })
    }

    fn members_without_stripes(&self) -> Result<()> {
        self.each::<BlockFacts>(|block, facts| {
            let Some(place) = facts.stripe else { return Ok(()) };
            let stripe = self.named::<StripeRow>(&place.stripe)?;
            match stripe.is_some_and(|stripe| stripe.blocks().all(|member| member != block)) {
                true => self.findings.row::<StripeRow>(
                    &place.stripe,
                    &format!("block {block} is in it, and it does not have that"),
                ),
                false => Ok(()),
            }
        })
    }

    /// Checks stripes that are not encoded yet.
    fn gathered(&self) -> Result<()> {
        let mut blocks = 0;
        self.each::<GatheringRow>(|stripe, row| {
            blocks += row.blocks.len() as u64;
            for gathered in &row.blocks {
                let found = self.named::<GatheredRow>(&gathered.block)?;
                if found.is_some_and(|row| row.stripe != stripe) {
                    self.findings.row::<GatheredRow>(
                        &gathered.block,
                        &format!("stripe {stripe} gathers it, and it names another"),
                    )?;
                }
            }
            Ok(())
        })?;
        if self.count::<GatheredRow>()? != blocks {
            self.each::<GatheredRow>(|_, row| {
                self.named::<GatheringRow>(&row.stripe).map(|_: Option<GatheringRow>| ())
            })?;
        }
        Ok(())
    }

    /// Every planned copy belongs to a put or to an order.
    fn in_flight(&self) -> Result<()> {
        let mut planned: BTreeSet<BlockCopy> = BTreeSet::new();
        self.each::<PutBlockRow>(|key: PutBlockKey, row| {
            let generation = crate::FIRST_GENERATION;
            planned.extend(row.nodes.iter().map(|&node| BlockCopy { block: key.block, node, generation }));
            self.named::<PutRow>(&key.put).map(|_| ())
        })?;
        self.each::<IntentRow>(|_, row| {
            planned.extend(row.copies);
            Ok(())
        })?;
        self.each::<PlannedRow>(|copy, _| match planned.contains(&copy) {
            true => Ok(()),
            false => self.findings.row::<PlannedRow>(&copy, "no put and no order is there that plans it"),
        })
    }

    /// A candidate without its block's row must give a reason that suffices alone: it was let go with its block, or never counted.
    fn candidates(&self) -> Result<()> {
        self.each::<CandidateRow>(|copy, row| {
            if row.reason.is_word() {
                return Ok(());
            }
            self.named::<BlockFacts>(&copy.block).map(|_| ())
        })
    }
}
