//! What came out: every block is checked by itself, then all that is right is committed at once, or thrown away if it was
//! only measured.

use super::{Attempt, Attempts, Encoded, Noted, Outcome, Wanted};
use crate::cluster::Order;
use crate::error::{CoordinatorError, Result};
use crate::written::{self, Claim, Verdict};
use catalog::{Fate, Intent, Staged};
use flow::bound::BlockWrite;
use flow::{Cost, FlowPlan};
use model::{BlockCopy, BlockId, Cause, Fault};
use plan::decide::World;
use std::collections::BTreeSet;
use wire::proto;

/// A flow that came to its end.
pub(super) struct Flown {
    pub plan: FlowPlan,
    pub cost: Cost,
    pub result: proto::DriveResult,
}

/// What was written.
pub(super) struct Made {
    /// The flow of a repair, or that of each new stripe.
    pub flown: Vec<Flown>,
    /// What other flows wrote before.
    pub before: Vec<Staged>,
}

impl From<Flown> for Made {
    fn from(flown: Flown) -> Made {
        Made { flown: vec![flown], before: Vec::new() }
    }
}

impl Attempt<'_> {
    pub(super) async fn settle(&self, view: &World, noted: &Noted, made: Made) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        let all_or_none = noted.order.writes.len() == 1 || matches!(self.wanted, Wanted::Coded(..));
        let mut staged = made.before;
        let mut checked = Vec::new();
        for flown in &made.flown {
            checked.extend(self.checked(&flown.plan, &flown.result, &noted.intent).await);
        }
        for (block, checked) in checked {
            match checked {
                Ok(copy) => staged.push(copy),
                Err(error) if all_or_none => return Err(error),
                Err(error) => {
                    tracing::warn!(%block, %error, "not made with its stripe; it is repaired alone");
                    outcome.alone.push(block);
                }
            }
        }
        if self.options.discard {
            self.abort(&noted.intent).await?;
            for staged in &staged {
                self.throw_away(view, staged.copy).await?;
                outcome.made.push(staged.copy.block);
            }
            return Ok(outcome);
        }
        let (intent, now_ms) = (noted.intent.clone(), self.with.cluster.clock.now_ms());
        let living = self.options.without_leaver(&self.with.cluster.view());
        outcome.encoded = Encoded::of(&noted.order, (&self.options.scheme, &made.flown), view, &staged);
        let writers: Vec<BlockCopy> = staged.iter().map(|staged| staged.copy).collect();
        let commit = move |c: &catalog::Catalog| c.commit(&intent, &staged, &living, now_ms);
        let mut unconfirmed = BTreeSet::new();
        for (block, fate) in self.with.records.run(commit).await? {
            match fate {
                Fate::Good => outcome.made.push(block),
                Fate::Unconfirmed => {
                    unconfirmed
                        .extend(writers.iter().filter(|copy| copy.block == block).map(|copy| copy.node));
                    outcome.made.push(block);
                }
                // It came back, or was deleted: the copy is a candidate already.
                Fate::Refused(why) => tracing::info!(%block, why, "not committed"),
            }
        }
        self.with.comparison.confirm(&unconfirmed);
        if !(self.options.moves || self.options.spreads) {
            let healed = noted.order.blocks.iter().filter(|block| outcome.made.contains(&block.block));
            self.with.healed.made(healed.map(|block| block.facts.stored_bytes), now_ms);
        }
        Ok(outcome)
    }

    /// Returns each block of the plan with its verified copy, or with the error that disqualifies it. A copy counts only if the driver proves
    /// that its node stored exactly what was planned.
    pub(super) async fn checked(
        &self,
        plan: &FlowPlan,
        result: &proto::DriveResult,
        intent: &Intent,
    ) -> Vec<(BlockId, Result<Staged>)> {
        let told = check(plan, result, intent);
        let claims: Vec<Claim> = told.iter().filter_map(|(_, told)| told.as_ref().ok().cloned()).collect();
        let verdicts = written::judge(&self.with.cluster, &claims).await;
        let judged = |told: Result<Claim>| {
            let claim = told?;
            match verdicts.get(&claim.copy) {
                Some(Verdict::Written(start)) => {
                    let Claim { copy, stored_bytes, sums, .. } = claim;
                    Ok(Staged { copy, stored_bytes, sums, by: Some(*start) })
                }
                verdict => Err(not_written(claim.copy, verdict)),
            }
        };
        told.into_iter().map(|(block, told)| (block, judged(told))).collect()
    }

    /// Deletes the copy at once instead of after the grace, and without asking whether others are there: this flow made
    /// it to be measured, nothing ever counted on it, and the node deletes exactly this generation.
    async fn throw_away(&self, view: &World, copy: BlockCopy) -> Result<()> {
        let Attempts { records, cluster, .. } = self.with;
        let order = |c: &catalog::Catalog| Ok(Order { cluster: c.meta()?.cluster, by: c.last_change()? });
        let order = records.run(order).await?;
        match cluster.fleet.delete(view, copy.node, order, &[copy]).await {
            Ok(refused) if !refused.is_empty() => {
                tracing::warn!(?refused, "a discarded copy stays");
                Ok(())
            }
            Ok(_) => records.run(move |c| c.deleted(&[copy])).await,
            Err(error) => {
                tracing::info!(%error, "a discarded copy stays until it is collected");
                Ok(())
            }
        }
    }
}

/// Returns the error for a copy that does not count.
fn not_written(copy: BlockCopy, verdict: Option<&Verdict>) -> CoordinatorError {
    let BlockCopy { block, node, .. } = copy;
    let (cause, why) = match verdict {
        Some(Verdict::False) => {
            (Cause::WrongDigest, "did not say that it stored the block: the MAC is not its own".to_owned())
        }
        Some(Verdict::NotTold(why)) => {
            (Cause::Unreachable, format!("does not say whether it stored the block: {why}"))
        }
        _ => (Cause::NotFound, "does not have the block that it is said to have stored".to_owned()),
    };
    let fault = Fault::new(cause, format!("{node} {why}"));
    CoordinatorError::Flow(fault.suspecting(node, node).about(block))
}

/// Returns each block of the plan with what the driver says that its node stored, or with an error.
fn check(plan: &FlowPlan, result: &proto::DriveResult, intent: &Intent) -> Vec<(BlockId, Result<Claim>)> {
    let checked = |write: &BlockWrite| {
        let copy = intent.copies.iter().find(|copy| copy.block == write.block);
        let unknown = || CoordinatorError::Bug(format!("block {} was not to be written", write.block));
        (write.block, copy.ok_or_else(unknown).and_then(|copy| check_one(write, *copy, plan, result, intent)))
    };
    plan.binding.writes.values().map(checked).collect()
}

fn check_one(
    write: &BlockWrite,
    copy: BlockCopy,
    plan: &FlowPlan,
    result: &proto::DriveResult,
    intent: &Intent,
) -> Result<Claim> {
    let BlockCopy { block, node, generation } = copy;
    let wrong = |what: &str| {
        let fault = Fault::new(Cause::WrongDigest, format!("{node} {what}"));
        CoordinatorError::Flow(fault.suspecting(node, node).about(block))
    };
    let is_it = |s: &&proto::Staged| s.block == block.to_bytes() && s.node == node.0;
    let staged = result.staged.iter().find(is_it).ok_or_else(|| wrong("did not store the block"))?;
    let sums = wire::codec::block::sums(&staged.digest, &staged.fingerprint);
    let sums = sums.ok_or_else(|| wrong("reported a digest of another length"))?;
    if let (Some(new), true) = (intent.purpose.stripe_of(block), write.part.is_none())
        && sums.fingerprint.is_some_and(|found| write.sums.fingerprint.is_some_and(|wanted| wanted != found))
    {
        let (stripe, code) = (new.stripe, new.code.clone());
        return Err(CoordinatorError::WrongParity { stripe, member: usize::from(write.member.0), code });
    }
    // A parity that is new is known by its sums alone.
    let tells_all = sums.digest.is_some() && (write.part.is_some() || sums.fingerprint.is_some());
    let is_right = (staged.generation, staged.stored_bytes) == (generation, write.stored_bytes);
    match tells_all && is_right && sums.agrees(&write.sums) {
        true => {
            let by = wire::codec::block::start_of_store(&staged.store, staged.incarnation);
            let (flow, stored_bytes) = (plan.binding.header.flow, staged.stored_bytes);
            Ok(Claim { copy, flow, stored_bytes, sums, by, mac: staged.mac.clone() })
        }
        false => Err(wrong("stored something else than what was planned")),
    }
}
