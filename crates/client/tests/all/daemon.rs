//! A daemon on a runtime of its own, so that it can be killed.

use std::fmt::Debug;
use tokio::runtime::{Builder, Runtime};

/// Dropping it drops every task and socket of the daemon at once, as the end of a process does.
pub struct Daemon<T> {
    handle: Option<T>,
    runtime: Option<Runtime>,
}

impl<T: Send + 'static> Daemon<T> {
    pub async fn start<E: Debug + Send + 'static>(
        start: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<Daemon<T>, E> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let starting = runtime.spawn(start);
        let mut daemon = Daemon { handle: None, runtime: Some(runtime) };
        daemon.handle = Some(starting.await.unwrap()?);
        Ok(daemon)
    }

    pub fn get(&self) -> &T {
        self.handle.as_ref().unwrap()
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.handle.as_mut().unwrap()
    }

    /// Ends it in an orderly way.
    pub async fn end<F: Future<Output = ()> + Send + 'static>(mut self, end: impl FnOnce(T) -> F) {
        let handle = self.handle.take().unwrap();
        self.runtime.as_ref().unwrap().spawn(end(handle)).await.unwrap();
    }
}

impl<T> Drop for Daemon<T> {
    fn drop(&mut self) {
        let runtime = self.runtime.take();
        // What the daemon does when it is dropped may need its runtime.
        let guard = runtime.as_ref().map(Runtime::enter);
        self.handle.take();
        drop(guard);
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}
