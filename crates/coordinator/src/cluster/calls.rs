//! The coordinator's calls to nodes. A node lives as long as it answers them. Heartbeats are only reports and keep no node alive.
//!
//! ```text
//!   each node, four times in the time after which it is dead:
//!     coordinator ── challenge ──▶ its control address ── MAC by the secret of its start ──▶ it lives
//! ```
//!
//! The secret comes with the registration. The coordinator makes the same call before it accepts the registration: a process that does not answer
//! at its own control address, as the start that it claims to be, is not accepted as a node.

use super::connection::{Call, Over};
use super::fleet::{ANSWER_PATIENCE, Fleet};
use super::health::Due;
use crate::error::{CoordinatorError, Result};
use catalog::StartOfStore;
use catalog::rows::NodeRow;
use model::{NodeId, StoreId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use wire::mac::{Challenge, Secret, Whose};

/// Calls per node within the time after which it is dead: three may be lost.
const CALLS: u32 = 4;

/// Largest number of registering processes that have not answered yet. A living node answers within milliseconds; any other process occupies a
/// place until the call times out.
const MAX_UNANSWERED: usize = 128;

/// Number of starts per node whose secrets are kept: a copy written by one start may be committed after the next start began.
const STARTS_KEPT: usize = 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct Calls {
    fleet: Arc<dyn Fleet>,
    dead_after: Duration,
    secrets: Mutex<BTreeMap<NodeId, VecDeque<(StartOfStore, Secret)>>>,
    unanswered: Semaphore,
}

impl Calls {
    pub fn new(fleet: Arc<dyn Fleet>, dead_after: Duration) -> Calls {
        let unanswered = Semaphore::new(MAX_UNANSWERED);
        Calls { fleet, dead_after, secrets: Mutex::default(), unanswered }
    }

    /// Returns the time between two calls of a node.
    pub fn every(&self) -> Duration {
        self.dead_after / CALLS
    }

    /// Takes a place among the registering processes that have not answered yet.
    ///
    /// # Errors
    /// [`CoordinatorError::TooMany`] if all places are taken.
    pub fn admit(&self) -> Result<SemaphorePermit<'_>> {
        let what = "processes that want to register and have not answered a call";
        self.unanswered.try_acquire().map_err(|_| CoordinatorError::TooMany { what, limit: MAX_UNANSWERED })
    }

    /// Checks that the registering process answers at the address that it names.
    ///
    /// # Errors
    /// [`CoordinatorError::Unanswered`] if it does not; [`CoordinatorError::Conflict`] if another process has registered under the same
    /// start.
    pub async fn answers_at_first(&self, node: NodeId, row: &NodeRow, secret: Secret) -> Result<()> {
        if self.secret(node, (row.store, row.incarnation)).is_some_and(|known| known != secret) {
            return Err(CoordinatorError::Conflict(format!(
                "another process has registered as {node}, under the same start of its store; start this one again"
            )));
        }
        let patience = ANSWER_PATIENCE.min(self.dead_after);
        match self.proves(node, row, secret, Call { over: Over::Once, patience }).await {
            true => Ok(()),
            false => Err(CoordinatorError::Unanswered { node, addr: row.control_addr.clone() }),
        }
    }

    /// Keeps the secret of an accepted start.
    pub fn remember(&self, node: NodeId, start: StartOfStore, secret: Secret) {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let starts = secrets.entry(node).or_default();
        starts.retain(|(known, _)| *known != start);
        starts.push_front((start, secret));
        starts.truncate(STARTS_KEPT);
    }

    /// Returns the secret of a start that this coordinator accepted; only the last few starts of a node are kept.
    pub fn secret(&self, node: NodeId, start: StartOfStore) -> Option<Secret> {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.get(&node)?.iter().find(|(known, _)| *known == start).map(|(_, secret)| *secret)
    }

    /// Forgets the secrets of a store that was given up; another store may get its number.
    pub fn forget(&self, node: NodeId, store: StoreId) {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(starts) = secrets.get_mut(&node) {
            starts.retain(|((of, _), _)| *of != store);
        }
        secrets.retain(|_, starts| !starts.is_empty());
    }

    /// Whether that start of the node answers a call now.
    pub async fn answers(&self, due: &Due) -> bool {
        let Some(secret) = self.secret(due.node, (due.row.store, due.row.incarnation)) else { return false };
        // The wait is longer than the time to the next call, because a late answer counts too.
        let over = if due.is_silent { Over::New } else { Over::Kept };
        let call = Call { over, patience: self.every() * (CALLS - 1) };
        self.proves(due.node, &due.row, secret, call).await
    }

    async fn proves(&self, node: NodeId, row: &NodeRow, secret: Secret, call: Call) -> bool {
        let (challenge, whose) =
            (Challenge::draw(), Whose { node, store: row.store, incarnation: row.incarnation });
        let answer = self.fleet.identify(node, &row.control_addr, challenge, call).await;
        answer.is_some_and(|answer| {
            answer.whose == whose && answer.mac.is(&secret.of_start(&challenge, &whose))
        })
    }
}
