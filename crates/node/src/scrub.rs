//! The scrubber: reads every block against its sidecar, again and again, at a bounded rate. Seen, paused and stopped
//! as the task `scrub`.

use crate::flows::FlowStore;
use crate::store::{StoreError, Verdict};
use exec::BlockStore;
use model::BlockId;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::proto;

/// Bytes per second that a scrub reads: a disk of 4 TB in about ten days at an eighth of its speed, and no more than
/// a few percent of one core.
pub const SCRUB_BYTES_PER_S: u64 = 5 << 20;

/// Between two rounds; a node with little data need not read it all day.
pub const SCRUB_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// How often a waiting task looks whether it was told something.
const LOOK: Duration = Duration::from_millis(200);

const RUNNING: u8 = 0;
const PAUSED: u8 = 1;
const STOPPED: u8 = 2;

/// The state of the scrub task.
#[derive(Default)]
pub struct Scrub {
    state: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
    errors: AtomicU64,
    detail: Mutex<String>,
}

/// What is said of each block.
pub type Report<'a> = &'a mut dyn FnMut(BlockId, Option<String>, u64, u64) -> bool;

impl Scrub {
    /// What an operator sees.
    pub fn status(&self) -> proto::TaskStatus {
        let state = match self.state.load(Ordering::SeqCst) {
            PAUSED => "paused",
            STOPPED => "stopped",
            _ if self.total.load(Ordering::SeqCst) > 0 => "running",
            _ => "idle",
        };
        proto::TaskStatus {
            name: "scrub".into(),
            state: state.into(),
            detail: self.detail.lock().unwrap_or_else(|p| p.into_inner()).clone(),
            done: self.done.load(Ordering::SeqCst),
            total: self.total.load(Ordering::SeqCst),
            errors: self.errors.load(Ordering::SeqCst),
        }
    }

    /// pause, resume, stop, or status.
    pub fn control(&self, action: &str) -> Result<(), String> {
        let state = match action {
            "pause" => PAUSED,
            "resume" => RUNNING,
            "stop" => STOPPED,
            "status" => return Ok(()),
            other => return Err(format!("{other:?} is no action: pause, resume, stop or status is wanted")),
        };
        self.state.store(state, Ordering::SeqCst);
        Ok(())
    }

    /// The background task: rounds at the slow rate, until the process ends. Blocks its thread.
    pub fn run(&self, store: &FlowStore, ended: &dyn Fn() -> bool) {
        // The first round begins after a pause too: starting a cluster is busy enough.
        let mut next = Instant::now() + SCRUB_PAUSE.min(Duration::from_secs(600));
        while !ended() {
            if Instant::now() < next || self.state.load(Ordering::SeqCst) != RUNNING {
                std::thread::sleep(LOOK);
                continue;
            }
            self.round(store, SCRUB_BYTES_PER_S, ended, &mut |_, _, _, _| true);
            next = Instant::now() + SCRUB_PAUSE;
        }
    }

    /// Reads everything once. `report` hears of every block (and a problem, if there is one) and says whether to go
    /// on. `bytes_per_s` 0 is as fast as the disk.
    pub fn round(&self, store: &FlowStore, bytes_per_s: u64, ended: &dyn Fn() -> bool, report: Report<'_>) {
        let listed: Vec<_> = store.store.list().collect();
        let total = listed.len() as u64;
        self.total.store(total, Ordering::SeqCst);
        let (mut corrupt, mut unread) = (0, 0);
        for (done, entry) in (1..).zip(listed) {
            while self.state.load(Ordering::SeqCst) == PAUSED && !ended() {
                std::thread::sleep(LOOK);
            }
            if ended() || self.state.load(Ordering::SeqCst) == STOPPED {
                break;
            }
            let checked = entry.and_then(|listed| {
                Ok((listed.block, store.store.verify(listed.block, |bytes| wait_for(bytes_per_s, bytes))?))
            });
            self.done.store(done, Ordering::SeqCst);
            let (block, problem) = match checked {
                Ok((block, Verdict::Whole)) => (block, None),
                Ok((block, Verdict::Damaged(damage))) | Err(StoreError::Corrupt { block, damage }) => {
                    corrupt += 1;
                    store.report_corrupt(block);
                    (block, Some(damage.to_string()))
                }
                // Deleted meanwhile.
                Err(StoreError::NotFound { .. }) => continue,
                // Says nothing about the block: too few descriptors, a folder that cannot be listed.
                Err(error) => {
                    unread += 1;
                    self.errors.fetch_add(1, Ordering::SeqCst);
                    tracing::warn!("scrub: {error}");
                    continue;
                }
            };
            if let Some(problem) = &problem {
                self.errors.fetch_add(1, Ordering::SeqCst);
                tracing::warn!("scrub: block {block}: {problem}");
            }
            if !report(block, problem, done, total) {
                break;
            }
        }
        self.total.store(0, Ordering::SeqCst);
        let detail = format!("last round: {total} blocks, {corrupt} corrupt, {unread} could not be read");
        *self.detail.lock().unwrap_or_else(|p| p.into_inner()) = detail;
    }
}

/// Waits as long as `bytes` take at that rate; 0 is as fast as the disk.
fn wait_for(bytes_per_s: u64, bytes: u64) {
    if bytes_per_s > 0 {
        std::thread::sleep(Duration::from_secs_f64(bytes as f64 / bytes_per_s as f64));
    }
}

/// Runs the background task on a thread of its own.
pub fn spawn(
    scrub: Arc<Scrub>,
    store: Arc<FlowStore>,
    ended: Arc<dyn Fn() -> bool + Send + Sync>,
) -> std::io::Result<()> {
    std::thread::Builder::new().name("scrub".into()).spawn(move || scrub.run(&store, &*ended)).map(drop)
}
