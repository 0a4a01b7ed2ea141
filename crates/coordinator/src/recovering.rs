//! Recovering the catalog: what nodes have and its history knows nothing of, by an operator's word; what a catalog that is kept
//! aside committed, unasked, as soon as the nodes are back (`branches.rs`). What is taken: `Catalog::recover`.

use crate::branches::remember;
use crate::error::{CoordinatorError, Result};
use crate::operator::{Operator, being_forgotten, found_block};
use catalog::rows::SafeModeRow;
use catalog::{Branch, Catalog, Choices, Findings, FoundBlock, Recovered, RecoveredAt};
use model::{BlockCopy, BlockId, NodeId};
use plan::decide::{DecideError, World};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use worker::{Step, Task, Worker};

/// Nodes that come are looked for this often.
const LOOK: Duration = Duration::from_millis(500);

/// What could not be done is tried again after this long.
const RETRY: Duration = Duration::from_secs(10);

/// What came of it.
struct Taken {
    recovered: Recovered,
    /// Nodes that were not asked.
    away: Vec<u32>,
    branches: Vec<Branch>,
    /// What cannot be judged, if there is any.
    unjudged: Option<String>,
}

/// What living nodes have.
#[derive(Default)]
struct Found {
    blocks: Vec<FoundBlock>,
    /// Copies of which their nodes can tell no more than the name.
    illegible: Vec<BlockCopy>,
}

impl Operator {
    pub fn living(&self) -> BTreeSet<NodeId> {
        self.cluster.view().living()
    }

    /// Takes from the sidecars of all living nodes what the catalog's history knows nothing of, and does with versions that were
    /// left out what is asked for. If every node was asked and nothing is left to decide, the history is whole again. Returns
    /// also the nodes that were not asked, and why nothing is let go then, if nothing is.
    pub async fn recover(&self, choices: Choices) -> Result<(Recovered, Vec<u32>, String)> {
        let Taken { recovered, away, branches, unjudged } = self.take(choices, false).await?;
        let is_settled = away.is_empty() && recovered.incomplete.is_empty() && recovered.newer.is_empty();
        if is_settled && unjudged.is_none() && self.is_complete(&branches).await? {
            self.end_safe_mode().await?;
        }
        let broken = self.records.run(|catalog| catalog.safe_mode()).await?;
        let safe_mode = self.why_safe(broken.as_ref()).await?;
        let safe_mode = match unjudged.filter(|_| broken.is_some()) {
            Some(unjudged) => format!("{safe_mode}; {unjudged}"),
            None => safe_mode,
        };
        Ok((recovered, away, safe_mode))
    }

    /// Takes what catalogs that are kept aside committed, and nothing else. If every node was asked and nothing at all is left to
    /// decide, the history is whole again.
    pub async fn take_from_branches(&self) -> Result<Adopted> {
        let Taken { recovered, away, branches, unjudged } = self.take(Choices::default(), true).await?;
        let Recovered { objects, incomplete, newer, removed, others, .. } = recovered;
        for (name, version) in incomplete.iter().chain(&newer) {
            tracing::warn!(
                name,
                version,
                "of the catalog that is kept aside; not taken: see 'stripeline catalog recover'"
            );
        }
        for (name, version) in &removed {
            tracing::warn!(name, version, "stands, though the catalog that is kept aside had removed it");
        }
        let left = incomplete.len() + newer.len() + removed.len();
        if let Some(unjudged) = &unjudged {
            tracing::warn!("of the catalog that is kept aside, perhaps: {unjudged}");
        }
        let is_over = left == 0 && others == 0 && away.is_empty() && unjudged.is_none();
        let is_complete = is_over && self.is_complete(&branches).await?;
        if is_complete {
            tracing::warn!("what the catalog that is kept aside committed is taken: the history is whole");
            self.end_safe_mode().await?;
        }
        Ok(Adopted { objects, left, is_unsure: is_over && !is_complete })
    }

    async fn take(&self, choices: Choices, is_unasked: bool) -> Result<Taken> {
        let branches = self.branches.compared().await?;
        let view = self.cluster.view();
        let asked = view.living();
        if asked.is_empty() {
            return Err(DecideError::NotEnoughNodes { alive: 0, needed: 1 }.into());
        }
        let gone = self.records.run(being_forgotten).await?;
        let away: Vec<u32> = away(&view, &gone).map(|node| node.0).collect();
        let Found { blocks: found, illegible } = self.found(&view).await?;
        let (planner, replicas) = (Arc::clone(&self.planner), self.replicas);
        let at = RecoveredAt { now_ms: self.cluster.clock.now_ms(), created_ms: (self.wall_ms)() };
        // Who is gone for good has nothing any more.
        let asked = asked.union(&gone).copied().collect();
        let findings = Findings { found, asked, branches, is_unasked };
        let (recovered, branches) = self
            .records
            .run(move |catalog| {
                let recoverable = |code: &str, usable: &[bool]| planner.codes.recoverable(code, usable);
                Ok((catalog.recover(&findings, &choices, replicas, recoverable, at)?, findings.branches))
            })
            .await?;
        let Recovered { objects, stripes, incomplete, newer, removed, dropped_copies, .. } = &recovered;
        let (incomplete, newer, removed) = (incomplete.len(), newer.len(), removed.len());
        tracing::info!(objects, stripes, incomplete, newer, removed, dropped_copies, "recovered");
        let unjudged = self.unjudged(illegible).await?;
        Ok(Taken { recovered, away, branches, unjudged })
    }

    /// What living nodes have, by their sidecars.
    async fn found(&self, view: &World) -> Result<Found> {
        let mut found = Found::default();
        for node in view.living() {
            let listed = self.cluster.fleet.list(view, node, true).await?;
            let total = listed.len();
            for stored in listed {
                match found_block(node, stored)? {
                    Ok(block) => found.blocks.push(block),
                    Err(copy) => found.illegible.push(copy),
                }
            }
            tracing::info!(%node, blocks = total, "sidecars read");
        }
        Ok(found)
    }

    /// Copies of which nobody knows whether a change that is lost stored them: their sidecars cannot be read, and of their blocks nothing is
    /// known here. For people; `None` if there are none.
    async fn unjudged(&self, illegible: Vec<BlockCopy>) -> Result<Option<String>> {
        let unknown = move |catalog: &Catalog| {
            let strangers = catalog.strangers(&illegible)?;
            let blocks: Vec<BlockId> = strangers.iter().map(|copy| copy.block).collect();
            let known = catalog.placements(&blocks)?;
            let unknown = strangers.into_iter().zip(known).filter(|(_, known)| known.is_none());
            Ok(unknown.map(|(copy, _)| copy).collect::<Vec<BlockCopy>>())
        };
        let unknown = self.records.run(unknown).await?;
        Ok(unknown.first().map(|BlockCopy { block, node, .. }| {
            format!(
                "{} copies of which nothing is known cannot be read, and may be of versions that changes stored that are lost, block {block} \
                 on {node} among them: 'stripeline catalog end-safe-mode' takes the history as it is",
                unknown.len()
            )
        }))
    }

    /// Ends safe mode that a node's word began, if every node has said what it has and no name is uncertain. Else what is waited
    /// for.
    pub async fn settle(&self, why: SafeModeRow) -> Result<Option<String>> {
        let view = self.cluster.view();
        let gone = self.records.run(being_forgotten).await?;
        if self.branches.are_any().await? {
            return Ok(Some(
                "what a catalog that is kept aside committed is not all taken or listed".to_owned(),
            ));
        }
        if let Some(node) = away(&view, &gone).next() {
            let count = away(&view, &gone).count();
            return Ok(Some(format!("{count} nodes are away, {node} among them")));
        }
        if !self.none_keeps_another_history(&view, &[]).await? {
            return Ok(Some("a node keeps records of changes that are not known here".to_owned()));
        }
        let Found { blocks: found, illegible } = self.found(&view).await?;
        if let Some(unjudged) = self.unjudged(illegible).await? {
            return Ok(Some(unjudged));
        }
        let planner = Arc::clone(&self.planner);
        let uncertain = move |catalog: &Catalog| {
            catalog.uncertain_versions(&found, |code, usable| planner.codes.recoverable(code, usable))
        };
        let uncertain = self.records.run(uncertain).await?;
        if let Some((name, version)) = uncertain.first() {
            return Ok(Some(format!(
                "{} versions may have been stored by changes that are lost, {name:?} version {version} among them: 'stripeline \
                 catalog recover' takes or lists them, 'stripeline catalog end-safe-mode' gives up what is left",
                uncertain.len()
            )));
        }
        // Who came meanwhile was not asked.
        let nodes = |view: &World| view.nodes.iter().map(|(node, _)| node).collect::<BTreeSet<_>>();
        let knows_all = self.records.run(|catalog| catalog.knows_its_nodes()).await?;
        if !knows_all || nodes(&self.cluster.view()) != nodes(&view) {
            return Ok(Some("not every node was asked".to_owned()));
        }
        if self.records.run(move |catalog| catalog.heard_is_settled(&why)).await? {
            tracing::warn!(
                "all nodes have said what they have, and no name is uncertain: copies are let go again"
            );
        }
        Ok(None)
    }

    /// Whether all nodes are known, and none keeps what is not. A catalog that was made anew knows of no nodes but those that came:
    /// only people know whether these are all.
    async fn is_complete(&self, branches: &[Branch]) -> Result<bool> {
        let knows_all = self.records.run(|catalog| catalog.knows_its_nodes()).await?;
        Ok(knows_all && self.none_keeps_another_history(&self.cluster.view(), branches).await?)
    }

    /// Whether no living node keeps records of changes that are known neither here nor in what is kept aside: what nodes have of
    /// copies says nothing of what was deleted by those. A node that does not say keeps some, as far as is known.
    async fn none_keeps_another_history(&self, view: &World, branches: &[Branch]) -> Result<bool> {
        for node in view.living() {
            let answer = self.cluster.fleet.ask(node, &view.node(node)?.control_addr).await;
            let Some(answer) = answer else { return Ok(false) };
            if let Some(held) = answer.held
                && !remember(branches, held.stamp)
                && !self.records.run(move |catalog| catalog.remembers(held.stamp)).await?
            {
                tracing::warn!(%node, held = %held.stamp, "it keeps records of changes that are not known here");
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Nodes that do not live, and were not given up.
fn away(view: &World, gone: &BTreeSet<NodeId>) -> impl Iterator<Item = NodeId> {
    let is_away = |node: &NodeId| !gone.contains(node) && !view.node(*node).is_ok_and(|node| node.is_living);
    view.nodes.iter().map(|(node, _)| node).filter(is_away)
}

/// Takes what catalogs that are kept aside committed, each time that nodes have come, until nothing is left of it.
pub(crate) struct Adopter {
    operator: Arc<Operator>,
    /// Who lived at the last look: nodes that come together are asked together.
    seen: BTreeSet<NodeId>,
    /// Who had been asked.
    asked: BTreeSet<NodeId>,
}

impl Adopter {
    pub fn new(operator: Arc<Operator>) -> Adopter {
        Adopter { operator, seen: BTreeSet::new(), asked: BTreeSet::new() }
    }
}

impl Worker for Adopter {
    type Error = CoordinatorError;

    fn name(&self) -> &'static str {
        "branches"
    }

    fn pause(&self) -> Duration {
        RETRY
    }

    async fn step(&mut self, task: &Task) -> Result<Step> {
        let living = self.operator.living();
        if std::mem::replace(&mut self.seen, living.clone()) != living {
            return Ok(Step::Wait(LOOK));
        }
        if living.is_subset(&self.asked) || !self.operator.branches.are_any().await? {
            return Ok(Step::Wait(LOOK));
        }
        let taken = self.operator.take_from_branches().await?;
        self.asked = living;
        if taken.is_unsure {
            self.asked.clear();
        }
        task.note(|report| {
            report.done += taken.objects;
            report.detail =
                format!("{} objects taken, {} versions left to decide", taken.objects, taken.left);
        });
        Ok(Step::Wait(if taken.is_unsure { RETRY } else { LOOK }))
    }
}

/// What came of it.
pub(crate) struct Adopted {
    pub objects: u64,
    /// Versions that are listed for people.
    pub left: usize,
    /// Nothing is left, but a node does not say what else it keeps.
    pub is_unsure: bool,
}
