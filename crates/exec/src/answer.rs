//! Small reads in one exchange (`wire::call`): a stage that only reads, has all its grants, and whose driver takes its one
//! stream, runs while the reader waits for the answer, in the thread that took the call. It needs no control stream and no lease:
//! it waits for nobody.

use crate::connection::{Abort, Call, Identity, StreamContext};
use crate::engine::{Engine, StageIo};
use crate::stage::{self, OutputPlan, StageTask};
use flow::bound::{EdgeEnd, FlowHeader, InputSpec, NodeStages, OutputSpec, StageSpec};
use model::{Cause, Fault};
use std::sync::Arc;
use wire::call::{Head, MAX_ANSWER_BYTES, MAX_CALL_BYTES};
use wire::codec::part;
use wire::frame::HEADER_BYTES;
use wire::proto;

/// The call for a participant of a flow, if its part can be done that way: the edge, and what to send over it.
pub(crate) fn call_for(stages: &NodeStages, prepare: &proto::Prepare) -> Option<((u16, u16), Call)> {
    let [spec] = &stages.stages[..] else { return None };
    let end = only_answers(spec, &stages.header, prepare)?;
    let call = Head::Call.seal(prepare);
    (call.len() <= MAX_CALL_BYTES).then(|| ((end.lane, end.edge), call.into()))
}

/// The edge of a stage that does nothing but read and send that edge a few slices.
fn only_answers<'a>(
    spec: &'a StageSpec,
    header: &FlowHeader,
    prepare: &proto::Prepare,
) -> Option<&'a EdgeEnd> {
    let [OutputSpec::Edge(end)] = &spec.outputs[..] else { return None };
    let [grant] = &prepare.grants[..] else { return None };
    let only_reads = spec.inputs.iter().all(|input| matches!(input, InputSpec::Local { .. }));
    let slice = u64::from(header.geometry.slice_bytes) + HEADER_BYTES as u64;
    let bytes = grant.count.saturating_mul(slice).saturating_mul(u64::from(end.rows));
    let small = bytes <= MAX_ANSWER_BYTES && prepare.finish && !header.serial;
    (only_reads && end.dial.is_none() && small).then_some(end)
}

impl Engine {
    /// Answers a call: reserves, opens, reads, combines. May block on the disk.
    pub fn answer(&self, prepare: &proto::Prepare) -> Result<(proto::StageStats, Vec<u8>), Fault> {
        let NodeStages { header, stages: mut specs } = part::decode(prepare)?;
        let enrich = |f: Fault| self.enrich(&header, f);
        let invalid = || enrich(Fault::new(Cause::Invalid, "a call for more than a small read"));
        let (Some(spec), true) = (specs.pop(), specs.is_empty()) else { return Err(invalid()) };
        let end = only_answers(&spec, &header, prepare).cloned().ok_or_else(invalid)?;
        let grant = prepare.grants.first().copied().unwrap_or_default();
        if grant.first.checked_add(grant.count).is_none_or(|end| end > header.geometry.slices()) {
            return Err(enrich(Fault::new(Cause::Invalid, "a grant beyond the block's slices")));
        }
        self.note_attempt(header.flow, header.attempt).map_err(enrich)?;
        let _reservation = self.reserve(&header, std::slice::from_ref(&spec)).map_err(enrich)?;
        let inputs = self.open_inputs(&spec, &header, &mut StageIo::default()).map_err(enrich)?;
        let context = StreamContext {
            id: Identity { node: self.node(), header: header.clone() },
            throttle: self.throttle().clone(),
            abort: Arc::new(Abort::default()),
            doing: Arc::default(),
            on_wait: Arc::new(|_| {}),
        };
        // It takes no commands and reports to nobody.
        let (_, commands) = tokio::sync::mpsc::channel(1);
        let (events, _) = tokio::sync::mpsc::channel(1);
        let task = StageTask {
            spec,
            inputs,
            outputs: vec![OutputPlan::Answer(end)],
            context: Arc::new(context),
            commands,
            events,
            injection: self.0.config.injection.clone(),
        };
        let (frames, stats) = stage::answer(task, grant.first, grant.count).map_err(enrich)?;
        Ok((stats, frames))
    }
}
