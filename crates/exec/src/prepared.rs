//! A flow's stages on this process, as whoever passes on the driver's commands has them.

use crate::connection::Abort;
use crate::doing::{Doing, Watched, look};
use crate::listener::Expected;
use crate::stage::Command;
use model::{Cause, Fault, FlowId};
use std::sync::{Arc, Weak};
use tokio::sync::mpsc;
use wire::proto;

/// A flow's stages on this process, ready for grants. Dropping it ends them.
pub struct Prepared {
    pub(crate) stages: Vec<PreparedStage>,
    /// What the stages report; closed when all have ended.
    pub events: mpsc::Receiver<proto::stage_message::Kind>,
    /// Slices of a symbol.
    pub(crate) slices: u64,
    pub(crate) kept: proto::Prepared,
    pub(crate) ending: Ending,
}

/// One of them.
pub(crate) struct PreparedStage {
    pub lane: u32,
    pub stage: u32,
    pub commands: mpsc::Sender<Command>,
    /// Gone when the stage has ended.
    pub doing: Weak<Doing>,
}

/// Ends a flow's stages on this process when dropped.
pub(crate) struct Ending {
    pub abort: Arc<Abort>,
    pub expected: Arc<Expected>,
    pub flow: FlowId,
    pub attempt: u32,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.abort.fire();
        self.expected.withdraw(self.flow, self.attempt);
    }
}

impl Prepared {
    /// Grants slices [first, first + count) of a lane to all its stages here.
    pub fn grant(&self, lane: u32, first: u64, count: u64) -> Result<(), Fault> {
        if first.checked_add(count).is_none_or(|end| end > self.slices) {
            return Err(Fault::new(Cause::Invalid, "a grant beyond the block's slices"));
        }
        self.command(|l| l == lane, Command::Run(first, count))
    }

    /// No further grants.
    pub fn finish(&self) -> Result<(), Fault> {
        self.command(|_| true, Command::Finish)
    }

    fn command(&self, concerns: impl Fn(u32) -> bool, command: Command) -> Result<(), Fault> {
        for stage in self.stages.iter().filter(|stage| concerns(stage.lane)) {
            match stage.commands.try_send(command) {
                // A stage that has ended has said why.
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
                Err(mpsc::error::TrySendError::Full(_)) => {
                    return Err(Fault::new(Cause::Invalid, "more grants than a window holds"));
                }
            }
        }
        Ok(())
    }

    /// What is there of the blocks that the stages write.
    pub fn kept(&self) -> &proto::Prepared {
        &self.kept
    }

    /// How many stages run here.
    pub fn stages(&self) -> usize {
        self.stages.len()
    }

    /// Looks at what the stages do, for a while.
    pub fn look(&self) -> impl Future<Output = proto::Doing> + Send + 'static {
        let watched = |stage: &PreparedStage| {
            let doing = stage.doing.upgrade()?;
            Some(Watched { lane: stage.lane, stage: stage.stage, doing })
        };
        look(self.stages.iter().filter_map(watched).collect())
    }

    /// Ends the stages now.
    pub fn abort(&self) {
        self.ending.abort.fire();
    }
}
