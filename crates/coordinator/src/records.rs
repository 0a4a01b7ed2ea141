//! The catalog, off the runtime's threads: its calls block.

use crate::clock;
use crate::error::{CoordinatorError, Result};
use crate::under_way::BrokeOff;
use catalog::{Catalog, CatalogError, Condition};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// An open catalog.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    catalog: Arc<Catalog>,
    /// Why it can be used no more: after a commit that failed nobody knows what is durable.
    failed: watch::Sender<Option<String>>,
    /// A check of all of the file has ended since the start.
    checked: watch::Sender<bool>,
    /// While the file is damaged: what is waited for.
    renewal_waits: Arc<Mutex<String>>,
}

impl Records {
    pub fn of(catalog: Catalog) -> Records {
        let (failed, checked) = (watch::Sender::new(None), watch::Sender::new(false));
        Records { catalog: Arc::new(catalog), failed, checked, renewal_waits: Arc::default() }
    }

    /// How the catalog's file stands.
    pub fn condition(&self) -> Condition {
        self.catalog.condition()
    }

    /// All of the file was looked at.
    pub fn check_has_ended(&self) {
        self.checked.send_replace(true);
    }

    /// Waits until all of the file was looked at since the start, or damage was met, but no longer than `patience`.
    pub async fn wait_for_check(&self, patience: Duration) {
        if self.condition() == Condition::Unchecked {
            let mut checked = self.checked.subscribe();
            let _ = clock::within(patience, checked.wait_for(|checked| *checked)).await;
        }
    }

    /// What is waited for while the file is damaged.
    pub fn say_renewal_waits(&self, waits: String) {
        *self.renewal_waits.lock().unwrap_or_else(PoisonError::into_inner) = waits;
    }

    /// See [`say_renewal_waits`](Self::say_renewal_waits).
    pub fn renewal_waits(&self) -> String {
        self.renewal_waits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many changes were made since the start.
    pub fn changes(&self) -> u64 {
        self.catalog.changes()
    }

    /// Ends when the catalog has failed.
    pub async fn failed(&self) -> CoordinatorError {
        let mut failed = self.failed.subscribe();
        let why = failed.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.map_or(CoordinatorError::ShuttingDown, |why| CatalogError::Failed(why).into())
    }

    fn looked_at<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(CoordinatorError::Catalog(CatalogError::Failed(why))) = &result {
            tracing::error!(
                why,
                "the catalog failed: this coordinator ends, and a new start finds what is durable"
            );
            self.failed.send_replace(Some(why.clone()));
        }
        result
    }

    /// Runs a call where it does not stall the runtime.
    pub async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Catalog) -> catalog::Result<T> + Send + 'static,
    ) -> Result<T> {
        self.decide(move |catalog| Ok(call(catalog)?)).await
    }

    /// The same for a call that also decides something, and so can fail otherwise.
    pub async fn decide<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Catalog) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let catalog = Arc::clone(&self.catalog);
        let joined = tokio::task::spawn_blocking(move || call(&catalog)).await;
        self.looked_at(joined.map_err(|error| BrokeOff::from(error).into()).flatten())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_mistake_in_a_call_is_told_and_is_no_shutdown() {
        let disk: Arc<dyn disk::Disk> = Arc::new(disk::CrashDisk::new(&disk::PowerSwitch::new()));
        let records = Records::of(Catalog::open(&disk, model::ClusterId(1)).unwrap());
        let failed = records.run::<()>(|_| panic!("a mistake")).await.unwrap_err();
        assert!(matches!(&failed, CoordinatorError::Bug(what) if what.contains("a mistake")), "{failed}");
        records.run(|catalog| catalog.meta()).await.expect("it goes on");
    }
}
