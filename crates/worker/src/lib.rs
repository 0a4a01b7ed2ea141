//! Work in the background, of the coordinator and of nodes: each worker takes steps, and one runner owns everything else:
//! the operator's switch, waiting, errors, the report.
//!
//! ```text
//!   switch: go ─▶ step ─▶ Again ────────────────────▶ step …
//!             ▲         ─▶ Wait(so long) ─ woken or over ─▶
//!             │         ─▶ Err, a panic too: counted, told, tried again after a pause that grows to a bound
//!             └ pause, stop: no step begins; what a step has begun it ends
//! ```
//!
//! Absent: what the work is. Internal: the daemons are its users.

mod caught;
mod group;
mod task;

pub use caught::caught;
pub use group::Group;
pub use model::Switch;
pub use task::{Report, Task, Tasks, UnknownTask};

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// After an error a worker waits as long as it asked for last, and twice that after each further one, but no longer than
/// this: an operator who has mended the cause sees the next step within a minute.
const MAX_BACK_OFF: Duration = Duration::from_secs(60);

/// What comes after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The next one, at once.
    Again,
    /// The next one, after this time.
    Wait(Duration),
}

/// Work that goes on as long as its process.
pub trait Worker: Send {
    /// Why a step failed.
    type Error: Display + Send;

    /// The name of its task.
    fn name(&self) -> &'static str;

    /// How long it waits before the first step, and after one that failed.
    fn pause(&self) -> Duration;

    /// A bounded piece of work. It adds what it did to the task's report.
    fn step(&mut self, task: &Task) -> impl Future<Output = Result<Step, Self::Error>> + Send;

    /// The operator stopped it: it lets go of what it was in the middle of.
    fn stopped(&mut self, _task: &Task) {}
}

/// Runs a worker until the future is dropped.
pub async fn run(mut worker: impl Worker, task: Arc<Task>) {
    let (mut wait, mut failures) = (worker.pause(), 0);
    loop {
        tokio::time::sleep(wait).await;
        while !task.may_go_on().await {
            worker.stopped(&task);
            task.until_on().await;
        }
        task.note(|report| report.is_busy = true);
        let step = caught(worker.step(&task)).await.and_then(|step| step.map_err(|error| error.to_string()));
        (wait, failures) = match &step {
            Ok(Step::Again) => (Duration::ZERO, 0),
            Ok(Step::Wait(time)) => (*time, 0),
            Err(_) => (back_off(worker.pause(), failures), failures + 1),
        };
        task.note(|report| {
            report.is_busy = matches!(step, Ok(Step::Again));
            if let Err(error) = &step {
                report.errors += 1;
                report.detail.clone_from(error);
            }
        });
    }
}

fn back_off(pause: Duration, failures: u32) -> Duration {
    pause.saturating_mul(1 << failures.min(16)).min(MAX_BACK_OFF).max(pause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use tokio::time::Instant;

    /// Fails, panics, then has three blocks to do at once, then waits.
    struct Counting {
        steps: Arc<Mutex<Vec<Duration>>>,
        began: Instant,
        stops: Arc<Mutex<u32>>,
    }

    impl Worker for Counting {
        type Error = String;

        fn name(&self) -> &'static str {
            "counting"
        }

        fn pause(&self) -> Duration {
            Duration::from_secs(1)
        }

        async fn step(&mut self, task: &Task) -> Result<Step, String> {
            let steps = {
                let mut steps = self.steps.lock().map_err(|e| e.to_string())?;
                steps.push(self.began.elapsed());
                steps.len()
            };
            assert_eq!(task.status().state, "running");
            match steps {
                1 => Err("not yet".to_owned()),
                2 => panic!("not now"),
                3 | 4 => Ok(Step::Again),
                _ => Ok(Step::Wait(Duration::from_secs(10))),
            }
        }

        fn stopped(&mut self, _: &Task) {
            *self.stops.lock().unwrap_or_else(|e| e.into_inner()) += 1;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_runner_owns_the_switch_the_waits_and_the_errors() {
        let (steps, stops) = (Arc::default(), Arc::default());
        let tasks = Tasks::default();
        let task = tasks.add("counting");
        let worker = Counting { steps: Arc::clone(&steps), began: Instant::now(), stops: Arc::clone(&stops) };
        let running = tokio::spawn(run(worker, Arc::clone(&task)));
        let began = Instant::now();
        let at = |seconds: u64| tokio::time::sleep_until(began + Duration::from_secs(seconds));
        let seconds = || steps.lock().unwrap().iter().map(Duration::as_secs).collect::<Vec<_>>();
        at(5).await;
        // After a second, after the pause, after twice the pause; then all at once.
        assert_eq!(seconds(), [1, 2, 4, 4, 4]);
        let status = task.status();
        assert_eq!((status.state.as_str(), status.errors), ("idle", 2));
        assert!(status.detail.contains("not now"), "{}", status.detail);
        task.obey(Switch::Pause);
        assert_eq!(task.status().state, "paused");
        at(60).await;
        assert_eq!((seconds().len(), *stops.lock().unwrap()), (5, 0), "no step while it is paused");
        task.obey(Switch::Go);
        at(61).await;
        assert_eq!(seconds()[5..], [60]);
        task.obey(Switch::Stop);
        at(90).await;
        assert_eq!(
            (seconds().len(), *stops.lock().unwrap(), task.status().state.as_str()),
            (6, 1, "stopped")
        );
        running.abort();
    }

    #[test]
    fn pauses_after_errors_grow_to_a_bound() {
        let pauses = [0, 1, 5, 6, 40].map(|failures| back_off(Duration::from_secs(1), failures).as_secs());
        assert_eq!(pauses, [1, 2, 32, 60, 60]);
        assert_eq!(back_off(Duration::from_secs(600), 3).as_secs(), 600);
    }
}
