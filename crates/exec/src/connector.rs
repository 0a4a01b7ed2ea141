//! How a stage's edges get their connections: by dialling, or by waiting for the peer's call.

use crate::connection::{Link, Origin, Pool, StreamContext, dial};
use crate::doing::Activity;
use crate::listener::Greeter;
use crate::stage::{Connect, Connecting, EdgePlan};
use flow::bound::EdgeEnd;
use model::{Cause, Fault};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Connects the edges of one stage.
pub(crate) struct Connector<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) greeter: &'a Greeter,
    pub(crate) context: &'a StreamContext,
}

impl Connect for Connector<'_> {
    fn begin(&self, plan: EdgePlan, sends: bool) -> Connecting {
        // A peer whose host is gone answers no call.
        let _connecting = self.context.doing.during(waits(plan.end(), sends));
        match plan {
            EdgePlan::Dial(end, peer, call) => {
                Connecting::Dialling(dial(&self.context.id, end, peer, sends, call, self.pool))
            }
            EdgePlan::Wait(end, arrives) => Connecting::Arriving(end, sends, arrives),
        }
    }

    fn complete(&self, begun: Connecting) -> Result<Link, Fault> {
        let (end, sends) = begun.edge();
        let _connecting = self.context.doing.during(waits(end, sends));
        match begun {
            Connecting::Dialling(dialling) => dialling.finish(&self.context.id, &self.context.abort),
            Connecting::Arriving(end, sends, arrives) => self.wait(&end, sends, &arrives),
        }
    }

    fn give_back(&self, link: Link) {
        match link.origin {
            Origin::Dialled(peer) => self.pool.put(peer, link.stream, link.released),
            // Nobody else has it any more: its stream was forgotten by whoever could end the flow.
            Origin::Accepted => {
                if let Some(stream) = Arc::into_inner(link.stream) {
                    self.greeter.again(stream);
                }
            }
        }
    }
}

fn waits(end: &EdgeEnd, sends: bool) -> Activity {
    if sends { Activity::Sending } else { Activity::Receiving(end.edge) }
}

impl Connector<'_> {
    fn wait(&self, end: &EdgeEnd, sends: bool, arrives: &mpsc::Receiver<Link>) -> Result<Link, Fault> {
        let stall = Duration::from_millis(u64::from(self.context.id.header.stall_ms));
        loop {
            match arrives.recv_timeout(stall) {
                Ok(link) => return Ok(link),
                // Whoever waits for input says so.
                Err(mpsc::RecvTimeoutError::Timeout) if sends => {}
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
