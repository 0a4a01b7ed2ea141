//! The lives of a coordinator in one process: it compares its catalog with what nodes keep, serves, and begins anew when a damaged
//! catalog was made anew.

use crate::clock;
use crate::config::Config;
use crate::error::CoordinatorError;
use crate::service::Away;
use crate::succession::{self, Found, Round, Succession};
use crate::{SHUTDOWN_PATIENCE, Serving, serve};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tonic::transport::server::TcpIncoming;

/// Who serves now.
pub(crate) type Slot = Arc<Mutex<Option<Serving>>>;

/// Where a coordinator listens, in all of its lives: callers wait rather than fail between two of them.
pub(crate) struct Listener {
    addr: SocketAddr,
    listener: std::net::TcpListener,
}

impl Listener {
    /// Also tells the address that it got.
    pub async fn bind(addr: SocketAddr) -> Result<(Listener, SocketAddr), CoordinatorError> {
        let listen = |source| CoordinatorError::Listen { addr, source };
        let listener = TcpListener::bind(addr).await.map_err(listen)?;
        let local_addr = listener.local_addr().map_err(listen)?;
        Ok((Listener { addr, listener: listener.into_std().map_err(listen)? }, local_addr))
    }

    fn incoming(&self) -> Result<TcpIncoming, CoordinatorError> {
        let again = self.listener.try_clone().and_then(TcpListener::from_std);
        let again = again.map_err(|source| CoordinatorError::Listen { addr: self.addr, source })?;
        Ok(TcpIncoming::from(again).with_nodelay(Some(true)))
    }
}

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
    pub listener: Listener,
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
        let until_then = self.listener.incoming()?;
        let succession = Arc::new(succession);
        let away = Away::new(Arc::clone(&succession));
        away.say(why);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tonic::transport::Server::builder()
            .tcp_nodelay(true)
            .add_service(away.clone().server())
            .serve_with_incoming_shutdown(until_then, async {
                let _ = stopped.await;
            });
        let mut server = tokio::spawn(serving);
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
        let incoming = self.listener.incoming()?;
        let served = serve(self.config.clone(), found, incoming, self.ends.clone()).await?;
        *self.slot() = Some(served);
        Ok(())
    }

    fn slot(&self) -> MutexGuard<'_, Option<Serving>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
