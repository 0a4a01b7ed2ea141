//! The coordinator's own calls to nodes: a node lives as long as it answers them. Whatever a node sends by itself is a report, and
//! keeps nobody alive.
//!
//! ```text
//!   each node, four times in the time after which it is dead:
//!     coordinator ── challenge ──▶ its control address ── MAC by the secret of its start ──▶ it lives
//! ```
//!
//! The secret comes with the registration, and the same call comes before it is believed: a process that does not answer at the address
//! that it names, as the start that it says it is, is no node.

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

/// A node is called so often in the time after which it is dead: three calls may be lost.
const CALLS: u32 = 4;

/// Processes that want to register and have not answered yet. A node that lives answers within milliseconds; each of the others holds
/// its place for the time that an answer is waited for.
const MAX_UNANSWERED: usize = 128;

/// Starts of a node whose secrets are kept: what an earlier one wrote may be committed after the next one began.
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

    /// Between two calls of a node.
    pub fn every(&self) -> Duration {
        self.dead_after / CALLS
    }

    /// A place among those that want to register and have not answered.
    ///
    /// # Errors
    /// [`CoordinatorError::TooMany`].
    pub fn admit(&self) -> Result<SemaphorePermit<'_>> {
        let what = "processes that want to register and have not answered a call";
        self.unanswered.try_acquire().map_err(|_| CoordinatorError::TooMany { what, limit: MAX_UNANSWERED })
    }

    /// Has whoever wants to register as this node answer at the address that it names.
    ///
    /// # Errors
    /// [`CoordinatorError::Unanswered`]; [`CoordinatorError::Conflict`] if another process has registered under the same word.
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

    /// Keeps the secret of a start that is accepted.
    pub fn remember(&self, node: NodeId, start: StartOfStore, secret: Secret) {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let starts = secrets.entry(node).or_default();
        starts.retain(|(known, _)| *known != start);
        starts.push_front((start, secret));
        starts.truncate(STARTS_KEPT);
    }

    /// The secret of a start that this coordinator has accepted, unless many others followed.
    pub fn secret(&self, node: NodeId, start: StartOfStore) -> Option<Secret> {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.get(&node)?.iter().find(|(known, _)| *known == start).map(|(_, secret)| *secret)
    }

    /// A store was given up; another one may have its number.
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
        // Longer than until the next call: a late answer counts too.
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
