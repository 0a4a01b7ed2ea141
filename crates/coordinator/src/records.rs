//! The catalog, off the runtime's threads: its calls block.

use crate::error::{CoordinatorError, Result};
use catalog::Catalog;
use std::sync::Arc;

/// An open catalog.
#[derive(Clone, Debug)]
pub(crate) struct Records(Arc<Catalog>);

impl Records {
    pub fn of(catalog: Catalog) -> Records {
        Records(Arc::new(catalog))
    }

    /// Runs a call where it does not stall the runtime.
    pub async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Catalog) -> catalog::Result<T> + Send + 'static,
    ) -> Result<T> {
        let catalog = Arc::clone(&self.0);
        let joined = tokio::task::spawn_blocking(move || call(&catalog)).await;
        Ok(joined.map_err(|_| CoordinatorError::ShuttingDown)??)
    }

    /// The same for a call that also decides something, and so can fail otherwise.
    pub async fn decide<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Catalog) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let catalog = Arc::clone(&self.0);
        let joined = tokio::task::spawn_blocking(move || call(&catalog)).await;
        joined.map_err(|_| CoordinatorError::ShuttingDown)?
    }

    /// Waits for running calls and closes it. Later calls fail.
    pub async fn close(&self) {
        let _ = self
            .run(|catalog| {
                catalog.close();
                Ok(())
            })
            .await;
    }
}
