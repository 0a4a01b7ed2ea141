//! When a node is asked to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// What everything that a node has begun looks at.
#[derive(Clone, Debug)]
pub struct Ending {
    asked: Arc<AtomicBool>,
    /// Closed when the node is asked to end.
    serving: watch::Receiver<()>,
}

/// Dropped, it asks.
#[derive(Debug)]
pub struct Serving {
    asked: Arc<AtomicBool>,
    _serving: watch::Sender<()>,
}

impl Ending {
    /// Of a node that serves until the other half is dropped.
    pub fn new() -> (Serving, Ending) {
        let (asked, (sender, serving)) = (Arc::new(AtomicBool::new(false)), watch::channel(()));
        (Serving { asked: Arc::clone(&asked), _serving: sender }, Ending { asked, serving })
    }

    /// Ends when the node is asked to.
    pub async fn asked(&self) {
        let mut serving = self.serving.clone();
        while serving.changed().await.is_ok() {}
    }

    /// Whether it was.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.asked.store(true, Ordering::SeqCst);
    }
}
