//! Copies that nodes have and the catalog knows nothing of. They stay until an operator names them: a missing row is no proof that a
//! copy was let go (HEALING.md, "States of a copy").
//!
//! ```text
//!   names on a node ─▶ no row names them ─▶ listed again, with sidecars ─▶ there yet: unknown
//! ```
//! A copy whose last row is removed while its node lists it was just deleted. It is not in the second list.

use crate::error::{CoordinatorError, Result};
use crate::operator::{Operator, being_forgotten, found_block};
use catalog::{Catalog, Condition, FoundBlock};
use model::{BlockCopy, BlockId, NodeId};
use std::collections::BTreeSet;
use wire::codec::unknown::{LetGo, Unknown, UnknownCopy};

/// Copies that are told one by one: with the longest names of objects about two megabytes, a sixteenth of a message.
const MAX_TOLD: usize = 1_024;

/// Copies that an operator may name at once: each is looked for on its node.
const MAX_NAMED: usize = 1_024;

/// Copies that are compared in one view of the catalog, so that no change waits long for it.
const BATCH: usize = 1_024;

impl Operator {
    /// Lists unknown copies on this node, or on all nodes. Nodes that do not answer are named: nothing is said of what they have.
    ///
    /// # Errors
    /// If there is no such node, or the catalog cannot be read.
    pub async fn unknown(&self, node: Option<NodeId>) -> Result<Unknown> {
        let view = self.cluster.view();
        let gone = self.records.run(being_forgotten).await?;
        let nodes: Vec<NodeId> = match node {
            Some(node) => view.node(node).map(|_| vec![node])?,
            None => view.nodes.iter().map(|(node, _)| node).filter(|node| !gone.contains(node)).collect(),
        };
        let mut unknown = Unknown { kept_because: self.kept_because().await?, ..Unknown::default() };
        for node in nodes {
            if !view.node(node)?.is_living {
                unknown.unasked.push((node, "it is away".to_owned()));
                continue;
            }
            // Sidecars are read only if there is something to tell.
            let named = match self.cluster.fleet.list(&view, node, false).await {
                Ok(listed) => listed.into_iter().filter_map(|stored| {
                    let block = BlockId::from_slice(&stored.block).ok()?;
                    Some(BlockCopy { block, node, generation: stored.generation })
                }),
                Err(error) => {
                    unknown.unasked.push((node, error.to_string()));
                    continue;
                }
            };
            let strange = self.unknown_of(named.collect()).await?;
            if strange.is_empty() {
                continue;
            }
            match self.cluster.fleet.list(&view, node, true).await {
                Ok(listed) => {
                    for stored in listed {
                        let (is_damaged, why) = (stored.damaged, stored.unjudged.clone());
                        let Ok(found) = found_block(node, stored) else { continue };
                        let copy = told(found, is_damaged, why);
                        if !strange.contains(&copy.copy) {
                            continue;
                        }
                        match unknown.copies.len() < MAX_TOLD {
                            true => unknown.copies.push(copy),
                            false => unknown.others += 1,
                        }
                    }
                }
                Err(error) => unknown.unasked.push((node, error.to_string())),
            }
        }
        Ok(unknown)
    }

    /// Notes these copies as superfluous by an operator's word, as far as they are unknown and there. The collector deletes them after
    /// its grace.
    ///
    /// # Errors
    /// If none is named, too many are, or one on a node that there is not: then nothing is changed. If the catalog takes no changes.
    pub async fn let_unknown_go(&self, mut named: Vec<BlockCopy>) -> Result<LetGo> {
        named.sort();
        named.dedup();
        if named.is_empty() {
            return Err(CoordinatorError::Invalid("name the copies that are to go".to_owned()));
        }
        if named.len() > MAX_NAMED {
            return Err(CoordinatorError::TooMany { what: "copies named to go", limit: MAX_NAMED });
        }
        let view = self.cluster.view();
        named.iter().try_for_each(|copy| view.node(copy.node).map(|_| ()))?;
        let mut there = Vec::new();
        for &copy in &named {
            // A node that does not answer may have it.
            let is_absent = self.cluster.fleet.is_absent(&view, copy.node, copy).await.unwrap_or(false);
            there.extend((!is_absent).then_some(copy));
        }
        let now_ms = self.cluster.clock.now_ms();
        let noted = match there.is_empty() {
            true => there,
            false => self.records.run(move |catalog| catalog.let_unknown_go(&there, now_ms)).await?,
        };
        for BlockCopy { block, node, generation } in &noted {
            tracing::warn!(%block, %node, generation, "an operator lets an unknown copy go");
        }
        named.retain(|copy| !noted.contains(copy));
        let (noted, kept_because) = (noted.len() as u64, self.kept_because().await?);
        Ok(LetGo { noted, refused: named, kept_because })
    }

    async fn unknown_of(&self, copies: Vec<BlockCopy>) -> Result<BTreeSet<BlockCopy>> {
        let mut unknown = BTreeSet::new();
        for batch in copies.chunks(BATCH).map(<[BlockCopy]>::to_vec) {
            unknown.extend(self.records.run(move |catalog| catalog.unknown_of(&batch)).await?);
        }
        Ok(unknown)
    }

    /// Why nothing is deleted now, for people; empty if deletions go on.
    async fn kept_because(&self) -> Result<String> {
        let state = |catalog: &Catalog| Ok((catalog.condition(), catalog.safe_mode()?));
        let (condition, broken) = self.records.run(state).await?;
        match (condition, broken) {
            (Condition::Unchecked, None) => Ok(
                "the catalog's file is being checked since the coordinator's start: nothing is deleted before that has ended"
                    .to_owned(),
            ),
            (_, broken) => self.why_safe(broken.as_ref()).await,
        }
    }
}

/// A copy as its node tells it, or its name alone.
fn told(found: std::result::Result<FoundBlock, BlockCopy>, is_damaged: bool, why: String) -> UnknownCopy {
    match found {
        Ok(FoundBlock { block, location, facts, .. }) => UnknownCopy {
            copy: location.copy_of(block),
            stored_bytes: Some(facts.stored_bytes),
            part: facts.part,
            unread: None,
        },
        Err(copy) => {
            let why = match why.as_str() {
                "" if is_damaged => "its sidecar or its length is damaged".to_owned(),
                "" => "its sidecar makes no sense".to_owned(),
                _ => why,
            };
            UnknownCopy { copy, stored_bytes: None, part: None, unread: Some(why) }
        }
    }
}
