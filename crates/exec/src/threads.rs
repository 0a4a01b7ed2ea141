//! Threads for stages. A thread that has ended its stage waits a while for another: to make one costs a tenth of what a
//! small repair costs a node. Nobody waits for a thread: where none is idle, one is made.

use crate::lock;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Threads that wait for work at most; as many as a node has stages in a wide recovery. Each keeps a stack of some pages.
const MAX_IDLE: usize = 128;

/// … and so long each: as long as connections wait for their next flow.
const IDLE_FOR: Duration = Duration::from_secs(60);

/// What a thread is for.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// Threads of a process that run stages or wait for one.
#[derive(Clone, Default)]
pub(crate) struct Threads(Arc<Mutex<Idle>>);

#[derive(Default)]
struct Idle {
    waiting: Vec<(u64, mpsc::SyncSender<Work>)>,
    next: u64,
}

impl Threads {
    /// Runs `work` in a thread of its own. Fails if the system has no further thread.
    pub fn run(&self, work: Work) -> std::io::Result<()> {
        let idle = lock(&self.0).waiting.pop();
        let work = match idle {
            // Whoever was listed waits, and has room for one.
            Some((_, idle)) => match idle.try_send(work) {
                Ok(()) => return Ok(()),
                Err(mpsc::TrySendError::Full(work) | mpsc::TrySendError::Disconnected(work)) => work,
            },
            None => work,
        };
        let threads = self.clone();
        std::thread::Builder::new().name("stage".to_owned()).spawn(move || threads.serve(work)).map(drop)
    }

    fn serve(&self, first: Work) {
        let (sender, receiver) = mpsc::sync_channel(1);
        first();
        while let Some(number) = self.list(&sender) {
            let next = receiver.recv_timeout(IDLE_FOR).or_else(|_| match self.strike(number) {
                true => Err(mpsc::RecvError),
                // Whoever took this thread from the list is about to send.
                false => receiver.recv(),
            });
            match next {
                Ok(work) => work(),
                Err(_) => return,
            }
        }
    }

    /// Enters a thread in the list, if there is room.
    fn list(&self, sender: &mpsc::SyncSender<Work>) -> Option<u64> {
        let mut idle = lock(&self.0);
        if idle.waiting.len() >= MAX_IDLE {
            return None;
        }
        idle.next += 1;
        let number = idle.next;
        idle.waiting.push((number, sender.clone()));
        Some(number)
    }

    /// Takes a thread from the list. Whether it was there.
    fn strike(&self, number: u64) -> bool {
        let mut idle = lock(&self.0);
        let before = idle.waiting.len();
        idle.waiting.retain(|(listed, _)| *listed != number);
        idle.waiting.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn threads_are_used_again_and_nobody_waits_for_one() {
        let threads = Threads::default();
        let (report, reports) = mpsc::channel();
        let mut seen = BTreeSet::new();
        for _ in 0..20 {
            let report = report.clone();
            threads
                .run(Box::new(move || report.send(format!("{:?}", std::thread::current().id())).unwrap()))
                .unwrap();
            seen.insert(reports.recv().unwrap());
            while lock(&threads.0).waiting.is_empty() {
                std::thread::yield_now();
            }
        }
        assert_eq!(seen.len(), 1);

        // More at once than may be idle: each needs all others.
        let everyone = Arc::new(std::sync::Barrier::new(2 * MAX_IDLE + 1));
        for _ in 0..2 * MAX_IDLE {
            let everyone = everyone.clone();
            let work = move || {
                everyone.wait();
            };
            threads.run(Box::new(work)).unwrap();
        }
        everyone.wait();
        while lock(&threads.0).waiting.len() < MAX_IDLE {
            std::thread::yield_now();
        }
    }

    #[test]
    fn work_that_panics_takes_only_its_own_thread_along() {
        let threads = Threads::default();
        let (held, ended) = mpsc::channel::<()>();
        let work = move || {
            let _held = held;
            std::panic::resume_unwind(Box::new(()));
        };
        threads.run(Box::new(work)).unwrap();
        // Its end of the channel is gone with it.
        assert!(ended.recv().is_err());
        assert!(lock(&threads.0).waiting.is_empty(), "it waits for no further work");
        let (report, reports) = mpsc::channel();
        threads.run(Box::new(move || report.send(()).unwrap())).unwrap();
        reports.recv().unwrap();
    }
}
