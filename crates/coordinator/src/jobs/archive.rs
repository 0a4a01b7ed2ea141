//! Archival of an object: its blocks, k at a time, become stripes; then the surplus replicas go.

use super::in_parallel;
use crate::attempt::{Attempts, Outcome, RepairOptions, Wanted};
use crate::config::PARALLEL_ENCODINGS;
use crate::error::{CoordinatorError, Result};
use crate::job::Job;
use codes::Code;
use model::{BlockId, Placement};
use plan::decide::DecideError;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The job.
pub(super) async fn run(
    with: &Arc<Attempts>,
    job: &Arc<Job>,
    name: &str,
    code: &str,
    slice_bytes: u32,
) -> Result<String> {
    let code = archival_code(with, code)?;
    let object = name.to_owned();
    let (_, blocks) = with.records.run(move |catalog| catalog.object(&object)).await?;
    let groups = groups(&blocks, &code, name)?;
    if groups.is_empty() {
        return Ok(format!("{name:?} is archived as {} already, or empty: nothing to do", code.name()));
    }
    job.expect(groups.len() as u64);
    job.say(format!("{} stripes of {code} to encode", groups.len()));
    let count = groups.len();
    let work = |data: Vec<BlockId>| {
        let (with, job, code) = (Arc::clone(with), Arc::clone(job), code.clone());
        async move {
            let options = RepairOptions { slice_bytes, ..RepairOptions::default() };
            job.unless_stopped(|| with.carry(&job, Wanted::Coded(&code, &data), &options)).await
        }
    };
    let mut failure = None;
    let each = |outcome: Result<Outcome>| {
        if matches!(outcome, Err(CoordinatorError::Paused)) {
            return;
        }
        job.count(outcome.is_ok());
        if let Err(error) = outcome {
            job.say(format!("a stripe could not be encoded: {error}"));
            failure.get_or_insert(error);
        }
    };
    let whole = in_parallel(&job.task, groups, PARALLEL_ENCODINGS, work, each).await;
    match failure {
        Some(error) => Err(error),
        None if whole => Ok(format!("{count} stripes of {code} encoded")),
        None => Err(CoordinatorError::Conflict(format!("the archival of {name:?} was stopped"))),
    }
}

/// The code of that name, if objects can be archived with it on the nodes that live.
pub(crate) fn archival_code(with: &Attempts, name: &str) -> Result<Code> {
    let code = with.planner.codes.get(name).map_err(DecideError::from)?;
    if !code.is_systematic() || code.n() == code.k() || code.name().starts_with("rep-") {
        return Err(CoordinatorError::Invalid(format!(
            "{code} is no code for archival: its first k blocks must be the data, and parities must follow"
        )));
    }
    let view = with.cluster.view();
    let alive = view.topology.hosts(view.usable(&BTreeSet::new())).len();
    if alive < code.n() {
        return Err(CoordinatorError::CodeTooWide { code: code.to_string(), needed: code.n(), alive });
    }
    Ok(code)
}

/// The object's blocks, k at a time, without the groups that are stripes already.
pub(crate) fn groups(blocks: &[Placement], code: &Code, name: &str) -> Result<Vec<Vec<BlockId>>> {
    for stripe in blocks.iter().filter_map(|p| p.stripe.as_ref()) {
        if stripe.code != code.name() {
            return Err(CoordinatorError::Conflict(format!(
                "{name:?} is archived as {} already; get it and put it again to change the code",
                stripe.code
            )));
        }
    }
    let open = |group: &&[Placement]| group.iter().any(|p| p.stripe.is_none() && p.facts.stored_bytes > 0);
    Ok(blocks.chunks(code.k()).filter(open).map(|g| g.iter().map(|p| p.block).collect()).collect())
}
