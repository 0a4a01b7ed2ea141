//! Who is to blame: the report nearest to the cause, and the edge on which input stays away though its sender waits for
//! nothing.

use super::{Driver, FromStage};
use crate::control::Heard;
use std::collections::BTreeSet;
use std::time::Duration;
use wire::{Cause, Fault, proto};

/// After the first fault the driver listens this long for what others say, to blame the cause and not its effects.
const BLAME_WINDOW: Duration = Duration::from_millis(150);

/// Stages stall one after another along a chain; the driver waits this long after the first one says so.
const STALL_WINDOW: Duration = Duration::from_millis(1_000);

impl<P: FnMut(proto::DriveProgress) + Send> Driver<'_, P> {
    /// Somebody waits for input. The others along the path will say so too; who does not is to blame.
    pub(super) async fn stalled(&mut self, fault: Fault) -> Result<(), Fault> {
        self.waits(&fault);
        let deadline = tokio::time::Instant::now() + STALL_WINDOW;
        let before = self.grants.lowest();
        while let Ok(Some(report)) = tokio::time::timeout_at(deadline, self.participants.hear()).await {
            match report.heard {
                Heard::Message(FromStage::Waiting(other)) => self.waits(&Fault::from(other)),
                _ => Box::pin(self.hear(report)).await?,
            }
        }
        if self.grants.lowest() != before {
            return Ok(());
        }
        // Lane by lane: who waits in one may be what another waits for.
        let waits: BTreeSet<(u32, u32)> = self.waiting.iter().map(|&(lane, _, to)| (lane, to)).collect();
        let guilty = self.waiting.iter().find(|&&(lane, from, _)| !waits.contains(&(lane, from))).copied();
        match guilty {
            // It is the end that waits for input whose word this is.
            Some((_, from, to)) => Err(Fault { reporter: to, ..fault }.suspecting(from, to)),
            None => Ok(()),
        }
    }

    fn waits(&mut self, fault: &Fault) {
        self.waiting.extend(fault.suspect.map(|(from, to)| (fault.lane, from, to)));
    }

    /// Listens a moment longer and keeps the report nearest to the cause.
    pub(super) async fn blame(&mut self, first: Fault) -> Fault {
        let mut worst = first;
        let deadline = tokio::time::Instant::now() + BLAME_WINDOW;
        while let Ok(Some(report)) = tokio::time::timeout_at(deadline, self.participants.hear()).await {
            let other = match report.heard {
                Heard::Message(FromStage::Failed(_)) | Heard::End(_) => {
                    match Box::pin(self.hear(report)).await {
                        Err(fault) => fault,
                        Ok(()) => continue,
                    }
                }
                // Who is done may end.
                Heard::Message(FromStage::Done(stats)) => {
                    self.running.remove(&(stats.lane, stats.stage));
                    continue;
                }
                Heard::Message(_) => continue,
            };
            if nearness(other.cause) < nearness(worst.cause) {
                worst = other;
            }
        }
        worst
    }
}

/// How near a cause is to the root: lower is nearer. A corrupt block explains a lost connection, not the reverse.
fn nearness(cause: Cause) -> u8 {
    match cause {
        Cause::Aborted => 4,
        Cause::Disconnected => 3,
        Cause::Stalled | Cause::Slow => 2,
        Cause::Unreachable => 1,
        _ => 0,
    }
}
