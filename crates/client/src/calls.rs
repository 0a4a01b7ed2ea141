//! Calls to the coordinator: which are made again, and how long one that is away is waited for ([`Patience`](crate::Patience)).

use crate::clock::within;
use crate::connect::{Client, Coordinator};
use crate::error::{ClientError, Result};
use crate::patience::Failed;
use std::future::Future;
use std::time::Duration;
use tonic::{Response, Status};

/// A call that is no job is answered from the catalog, at worst behind a few dozen others that sync.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The call of the coordinator with this name, for [`Client::call`] and its like.
macro_rules! rpc {
    ($name:ident) => {
        |mut coordinator: crate::connect::Coordinator, request| async move { coordinator.$name(request).await }
    };
}
pub(crate) use rpc;

impl Client {
    /// Makes a call that is answered at once, and again if it certainly was not received.
    pub(crate) async fn call<R: Clone, T, F>(
        &self,
        what: &'static str,
        request: R,
        act: impl Fn(Coordinator, R) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.waiting(|| self.once(what, false, act(self.coordinator.clone(), request.clone()))).await
    }

    /// Makes a call that may be repeated, also if its answer is lost.
    pub(crate) async fn call_again<R: Clone, T, F>(
        &self,
        what: &'static str,
        request: R,
        act: impl Fn(Coordinator, R) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.waiting(|| self.once(what, true, act(self.coordinator.clone(), request.clone()))).await
    }

    /// Makes a call that takes as long as it takes, and again if it certainly was not received.
    pub(crate) async fn call_for_long<R: Clone, T, F>(
        &self,
        request: R,
        act: impl Fn(Coordinator, R) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let call = || async {
            let answer = act(self.coordinator.clone(), request.clone()).await;
            answer.map(Response::into_inner).map_err(|status| Failed::by(&status, &self.address, false))
        };
        self.waiting(call).await
    }

    /// Tells the coordinator what it may miss: nothing is waited for, and nothing tried again.
    pub(crate) async fn tell<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) {
        if let Err(Failed::Away(error) | Failed::Else(error)) = self.once(what, false, call).await {
            tracing::debug!(%error, "the coordinator was not told");
        }
    }

    async fn waiting<T, F: Future<Output = Result<T, Failed>>>(&self, act: impl Fn() -> F) -> Result<T> {
        let began = self.now();
        self.patience.wait(|| self.now().saturating_sub(began), act).await
    }

    async fn once<T>(
        &self,
        what: &'static str,
        may_repeat: bool,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failed> {
        match within(CALL_TIMEOUT, call).await {
            Some(Ok(response)) => Ok(response.into_inner()),
            Some(Err(status)) => Err(Failed::by(&status, &self.address, may_repeat)),
            None => Err(Failed::Else(ClientError::TimedOut { what, seconds: CALL_TIMEOUT.as_secs() })),
        }
    }
}
