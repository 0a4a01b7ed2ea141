//! The lives of a coordinator in one process: it compares its catalog with what nodes keep, serves, and begins anew when a damaged
//! catalog was made anew.

use crate::clock;
use crate::config::Config;
use crate::error::CoordinatorError;
use crate::service::Away;
use crate::succession::{self, Found, Round, Succession};
use crate::{SHUTDOWN_PATIENCE, Serving, serve};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use wire::net::ControlPort;

/// Who serves now.
pub(crate) type Slot = Arc<Mutex<Option<Serving>>>;

/// Who hears when a coordinator's life ends.
#[derive(Clone)]
pub(crate) struct Ends {
    /// It cannot go on.
    pub failed: mpsc::Sender<CoordinatorError>,
    /// Its catalog was made anew, and it begins anew over that.
    pub renewed: mpsc::Sender<()>,
}

/// The lives of a coordinator in one process: the next one begins when a damaged catalog was made anew.
pub(crate) struct Lives {
    pub config: Config,
    /// The one port of all lives: callers wait rather than fail between two of them.
    pub port: ControlPort,
    pub serving: Slot,
    pub ends: Ends,
    pub renewals: mpsc::Receiver<()>,
}

impl Lives {
    pub async fn run(&mut self, mut waits: Option<(Succession, String)>) -> Result<(), CoordinatorError> {
        loop {
            while let Some((succession, why)) = waits.take() {
                let found = self.compare(succession, why).await?;
                waits = self.serve(found).await?;
            }
            if self.renewals.recv().await.is_none() {
                return Ok(());
            }
            let serving = self.slot().take();
            if let Some(serving) = serving {
                serving.shut_down().await;
            }
            let succession = Succession::new(self.config.clone());
            waits = match succession.round().await? {
                Round::Over(found) => self.serve(*found).await?,
                Round::Wait(why) => Some((succession, why)),
            };
        }
    }

    /// Answers that the catalog is compared, until it is.
    async fn compare(&self, succession: Succession, why: String) -> Result<Found, CoordinatorError> {
        let succession = Arc::new(succession);
        let away = Away::new(Arc::clone(&succession));
        away.say(why);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = self.port.serve(away.clone().server(), async {
            let _ = stopped.await;
        });
        let mut server = tokio::spawn(serving.map_err(|source| self.cannot_listen(source))?);
        let found = succession.run(|why| away.say(why)).await;
        let _ = stop.send(());
        if clock::within(SHUTDOWN_PATIENCE, &mut server).await.is_none() {
            server.abort();
        }
        found
    }

    /// Serves. If the database breaks off over its file as soon as that is read, what passes its checks is served from a file of its own.
    pub async fn serve(&mut self, found: Found) -> Result<Option<(Succession, String)>, CoordinatorError> {
        let damage = match self.try_to_serve(found).await {
            Err(CoordinatorError::Catalog(error)) if error.is_damage() => error,
            served => return served.map(|()| None),
        };
        succession::salvage(&self.config.disk, damage).await?;
        let succession = Succession::new(self.config.clone());
        match succession.round().await? {
            Round::Over(found) => self.try_to_serve(*found).await.map(|()| None),
            Round::Wait(why) => Ok(Some((succession, why))),
        }
    }

    async fn try_to_serve(&self, found: Found) -> Result<(), CoordinatorError> {
        let served = serve(self.config.clone(), found, &self.port, self.ends.clone()).await?;
        *self.slot() = Some(served);
        Ok(())
    }

    fn cannot_listen(&self, source: std::io::Error) -> CoordinatorError {
        CoordinatorError::Listen { addr: self.port.addr(), source }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Serving>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
