//! Waiting for a coordinator that is away or starting, and the choice of failed calls to repeat.

use crate::clock;
use crate::error::{ClientError, Result};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tonic::Status;
use wire::codec::away::Away;

/// A coordinator that was killed is started again within seconds, by its supervisor or by hand, and compares its catalog with its nodes for
/// ten seconds at most.
const USUAL_WAIT: Duration = Duration::from_secs(30);

/// Pauses between two tries double from the first to the longest: a coordinator that only starts again is noticed soon, and a thousand
/// clients that wait send it a thousand small messages a second.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Receives the reason when a wait begins, and the longest time it takes.
pub type Waits = Arc<dyn Fn(&ClientError, Duration) + Send + Sync>;

/// The longest time for which calls wait for a coordinator that is away or starting.
#[derive(Clone)]
pub struct Patience {
    longest: Duration,
    told: Option<Waits>,
    /// Shared by clones: of calls that wait at once, one tells.
    is_waiting: Arc<AtomicBool>,
}

impl Default for Patience {
    /// 30 seconds, and nobody is told.
    fn default() -> Patience {
        Patience::of(USUAL_WAIT)
    }
}

impl Patience {
    /// Waits this long at most; with zero, calls fail at once.
    pub fn of(longest: Duration) -> Patience {
        Patience { longest, told: None, is_waiting: Arc::default() }
    }

    /// Tells `told` when a wait begins.
    #[must_use]
    pub fn telling(self, told: Waits) -> Patience {
        Patience { told: Some(told), ..self }
    }

    /// Tries until it succeeds, fails for another reason than a coordinator that is away, or has taken too long: `elapsed` tells how long it has
    /// taken so far.
    pub(crate) async fn wait<T, F: Future<Output = Result<T, Failed>>>(
        &self,
        elapsed: impl Fn() -> Duration,
        act: impl Fn() -> F,
    ) -> Result<T> {
        let mut pause = FIRST_PAUSE;
        loop {
            match act().await {
                Ok(done) => {
                    self.is_waiting.store(false, Ordering::Relaxed);
                    return Ok(done);
                }
                Err(Failed::Away(error)) if elapsed() + pause <= self.longest => {
                    tracing::debug!(%error, ?pause, "the coordinator is away");
                    if let (Some(told), false) = (&self.told, self.is_waiting.swap(true, Ordering::Relaxed)) {
                        told(&error, self.longest);
                    }
                    clock::rest(pause).await;
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
                Err(Failed::Away(error) | Failed::Else(error)) => return Err(error),
            }
        }
    }
}

/// A call that failed.
pub(crate) enum Failed {
    /// The coordinator is away or starts, and the same call may be made again.
    Away(ClientError),
    /// The call is over.
    Else(ClientError),
}

impl Failed {
    /// A call whose answer is lost may have been carried out: it is made again only if `may_repeat`.
    pub fn by(status: &Status, address: &str, may_repeat: bool) -> Failed {
        let error = ClientError::from_status(status, address);
        let away = Away::of(status);
        let did_nothing = away == Some(Away::Starts) || never_left(status);
        let is_lost = away.is_some() || matches!(error, ClientError::Unreachable { .. });
        if did_nothing || (is_lost && may_repeat) { Failed::Away(error) } else { Failed::Else(error) }
    }
}

/// Whether no connection was made, so that the call certainly never reached anybody.
fn never_left(status: &Status) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(status);
    while let Some(error) = cause {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}
