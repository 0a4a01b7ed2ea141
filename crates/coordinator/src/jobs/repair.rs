//! Repairs that an operator asks for: of one block as often as copies are missing, or of what is lost of stripes.

use crate::attempt::{Attempts, Outcome, RepairOptions, Wanted};
use crate::error::Result;
use crate::job::Job;
use catalog::rows::RepairRow;
use model::BlockId;

/// Runs a repair that an operator ordered; it resumes after a restart.
pub(super) async fn ordered(with: &Attempts, job: &Job, row: &RepairRow) -> Result<String> {
    let RepairRow { blocks, stripes, scheme, slice_bytes, verify, requestor, helpers, patient } = row.clone();
    let options = RepairOptions {
        scheme,
        slice_bytes,
        verify,
        requestor,
        helpers,
        patient,
        ..RepairOptions::default()
    };
    match blocks[..] {
        [block] if !stripes => run(with, job, block, &options).await,
        _ => run_stripes(with, job, &blocks, &[], &options).await,
    }
}

/// One block, as often as copies are missing.
pub(super) async fn run(
    with: &Attempts,
    job: &Job,
    block: BlockId,
    options: &RepairOptions,
) -> Result<String> {
    job.expect(1);
    let copies = copies(with, job, block, options).await?;
    job.count(true);
    let is_virtual = copies == 0 && is_virtual(with, block).await?;
    Ok(match copies {
        _ if is_virtual => format!(
            "block {block} is virtual: the stored blocks of its stripe give it, and nothing of it is to be repaired"
        ),
        0 => format!("block {block} is not missing: nothing to repair"),
        _ if options.discard => format!("block {block} was rebuilt, verified and thrown away"),
        _ => format!("block {block} is whole again"),
    })
}

/// Makes copies of a block until it lacks none, or the one that is thrown away. How many were made.
async fn copies(with: &Attempts, job: &Job, block: BlockId, options: &RepairOptions) -> Result<usize> {
    let mut copies = 0;
    loop {
        let made = again(with, job, Wanted::Block(block), options).await?.made.len();
        copies += made;
        if made == 0 || options.discard {
            return Ok(copies);
        }
    }
}

async fn is_virtual(with: &Attempts, block: BlockId) -> Result<bool> {
    let placement = with.records.run(move |catalog| catalog.placements(&[block])).await?.pop().flatten();
    Ok(placement.is_some_and(|placement| placement.facts.is_virtual()))
}

/// The stripes of some blocks, one after another; of each what is lost or, to measure, the `members` given.
pub(super) async fn run_stripes(
    with: &Attempts,
    job: &Job,
    blocks: &[BlockId],
    members: &[u16],
    options: &RepairOptions,
) -> Result<String> {
    let mut repaired = 0;
    for &block in blocks {
        let Outcome { made, alone, .. } = again(with, job, Wanted::Stripe(block, members), options).await?;
        made.iter().for_each(|_| job.count(true));
        repaired += made.len();
        for block in alone {
            let copies = copies(with, job, block, options).await;
            job.count(copies.is_ok());
            repaired += usize::from(copies? > 0);
        }
    }
    Ok(match (repaired, options.discard) {
        (0, _) => "no block is missing: nothing to repair".to_owned(),
        (_, true) => format!("{repaired} blocks were rebuilt, verified and thrown away"),
        (_, false) => format!("{repaired} blocks are whole again"),
    })
}

async fn again(with: &Attempts, job: &Job, wanted: Wanted<'_>, options: &RepairOptions) -> Result<Outcome> {
    job.unless_stopped(|| with.carry_when_free(job, wanted, options)).await
}
