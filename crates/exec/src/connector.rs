//! How a stage's edges get their connections: by dialling, or by waiting for the peer's call.

use crate::connection::{Link, Pool, StreamContext, dial};
use crate::stage::{Connect, Connecting, EdgePlan};
use std::sync::mpsc;
use std::time::Duration;
use wire::spec::EdgeEnd;
use wire::{Cause, Fault};

/// Connects the edges of one stage.
pub(crate) struct Connector<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) context: &'a StreamContext,
}

impl Connect for Connector<'_> {
    fn begin(&self, plan: EdgePlan, sends: bool) -> Connecting {
        match plan {
            EdgePlan::Dial(end, peer, call) => {
                Connecting::Dialling(dial(&self.context.id, end, peer, sends, call, self.pool))
            }
            EdgePlan::Wait(end, arrives) => Connecting::Arriving(end, sends, arrives),
        }
    }

    fn complete(&self, begun: Connecting) -> Result<Link, Fault> {
        match begun {
            Connecting::Dialling(dialling) => dialling.finish(&self.context.id, &self.context.abort),
            Connecting::Arriving(end, sends, arrives) => self.wait(&end, sends, &arrives),
        }
    }
}

impl Connector<'_> {
    fn wait(&self, end: &EdgeEnd, sends: bool, arrives: &mpsc::Receiver<Link>) -> Result<Link, Fault> {
        let stall = Duration::from_millis(u64::from(self.context.id.header.stall_ms));
        loop {
            match arrives.recv_timeout(stall) {
                Ok(link) => return Ok(link),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let what = format!("nobody connected for {} ms", stall.as_millis());
                    (self.context.on_wait)(self.context.id.fault(Cause::Stalled, end, !sends, what));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) if self.context.abort.fired() => {
                    return Err(Fault::new(Cause::Aborted, "the flow was ended"));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let what = "whoever connected was gone before it was answered";
                    return Err(self.context.id.fault(Cause::Disconnected, end, !sends, what));
                }
            }
        }
    }
}
