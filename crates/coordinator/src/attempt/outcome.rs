//! What came out: each block is checked and committed by itself, or thrown away if it was only measured.

use super::{Attempt, Outcome, Target};
use crate::catalog::rows::Sums;
use crate::catalog::{Catalog, Placement, RepairTicket};
use crate::error::{CoordinatorError, Result};
use crate::health::View;
use crate::shared::{Shared, now_ms};
use model::{Cause, Fault, NodeId};
use std::sync::Arc;
use wire::proto;

impl Attempt<'_> {
    pub(super) async fn settle(
        &self,
        view: &View,
        targets: Vec<Target>,
        result: &proto::DriveResult,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let is_only = targets.len() == 1;
        for target in &targets {
            let block = target.ticket.block;
            match check_staged(result, &target.placement, &target.ticket) {
                Ok(sums) if !self.options.discard => match self.commit(target, sums).await {
                    Ok(()) => outcome.made.push(block),
                    // It came back, or was deleted: the copy is garbage already.
                    Err(CoordinatorError::Overtaken(why)) => tracing::info!(%block, why, "not committed"),
                    Err(error) => return Err(error),
                },
                Ok(_) => {
                    self.abort(std::slice::from_ref(target)).await?;
                    throw_away(self.shared, view, &target.ticket).await?;
                    outcome.made.push(block);
                }
                Err(error) => {
                    self.abort(std::slice::from_ref(target)).await?;
                    if is_only {
                        return Err(error);
                    }
                    tracing::warn!(%block, %error, "not made with its stripe; it is repaired alone");
                    outcome.alone.push(block);
                }
            }
        }
        Ok(outcome)
    }

    async fn commit(&self, target: &Target, sums: Sums) -> Result<()> {
        let (ticket, replaces, now_ms) = (target.ticket, target.replaces, now_ms());
        let living = self.options.without_leaver(&self.shared.health.view());
        let commit = move |c: &Catalog| c.commit_repair(&ticket, &sums, replaces, &living, now_ms);
        self.shared.catalog.run(commit).await
    }
}

/// Deletes the copy at once instead of after the grace, and without asking whether others are there: this flow made it
/// to be measured, nothing ever counted on it, and the node deletes exactly this generation.
async fn throw_away(shared: &Arc<Shared>, view: &View, ticket: &RepairTicket) -> Result<()> {
    let cluster = shared.catalog.run(|catalog| catalog.meta()).await?.cluster;
    let copy = ticket.target.copy_of(ticket.block);
    match shared.nodes.delete(view, copy.node, cluster, &[copy]).await {
        Ok(refused) if !refused.is_empty() => {
            tracing::warn!(?refused, "a discarded copy stays");
            Ok(())
        }
        Ok(_) => shared.catalog.run(move |c| c.garbage_deleted(&[copy])).await,
        Err(error) => {
            tracing::info!(%error, "a discarded copy stays until it is collected as garbage");
            Ok(())
        }
    }
}

/// The requestor must say that it holds just the block that was lost.
fn check_staged(result: &proto::DriveResult, placement: &Placement, ticket: &RepairTicket) -> Result<Sums> {
    let node = ticket.target.node;
    let wrong = |what: &str| {
        let fault = Fault::new(Cause::WrongDigest, format!("node-{node} {what}"));
        CoordinatorError::Flow(fault.suspecting(NodeId(node), NodeId(node)).about(ticket.block))
    };
    let is_it = |s: &&proto::Staged| s.block == ticket.block.to_bytes() && s.node == node;
    let staged = result.staged.iter().find(is_it).ok_or_else(|| wrong("did not store the block"))?;
    let sums = Sums::from_wire(&staged.digest, &staged.fingerprint);
    let sums = sums.ok_or_else(|| wrong("reported a digest of another length"))?;
    let right = staged.generation == ticket.target.generation
        && staged.stored_bytes == placement.row.stored_bytes
        && sums.digest.is_some()
        && sums.agrees(&placement.row.sums);
    if right { Ok(sums) } else { Err(wrong("stored something else than what was lost")) }
}
