//! What is being done at once, each thing known by a key: who does it may break off, and what it was about is known still.

use crate::error::CoordinatorError;
use std::collections::HashMap;
use tokio::task::{Id, JoinError, JoinSet};

/// See the module. Dropped, all of it ends.
#[derive(Debug)]
pub(crate) struct UnderWay<K, T> {
    tasks: JoinSet<T>,
    keys: HashMap<Id, K>,
}

/// Why something came to no end of its own.
#[derive(Debug)]
pub(crate) enum BrokeOff {
    /// The runtime ended it, and ends whoever hears of it: it is no failure, and goes on after a restart.
    WithTheRuntime,
    /// A mistake of the program: what it said.
    ByMistake(String),
}

impl From<BrokeOff> for CoordinatorError {
    fn from(broke_off: BrokeOff) -> CoordinatorError {
        match broke_off {
            BrokeOff::WithTheRuntime => CoordinatorError::ShuttingDown,
            BrokeOff::ByMistake(what) => CoordinatorError::Bug(what),
        }
    }
}

impl From<JoinError> for BrokeOff {
    fn from(error: JoinError) -> BrokeOff {
        if error.is_cancelled() { BrokeOff::WithTheRuntime } else { BrokeOff::ByMistake(error.to_string()) }
    }
}

impl<K, T> Default for UnderWay<K, T> {
    fn default() -> Self {
        UnderWay { tasks: JoinSet::new(), keys: HashMap::new() }
    }
}

impl<K, T: Send + 'static> UnderWay<K, T> {
    /// Begins something.
    pub fn begin(&mut self, key: K, work: impl Future<Output = T> + Send + 'static) {
        let id = self.tasks.spawn(work).id();
        self.keys.insert(id, key);
    }

    /// How much is under way.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// What ends next; `None` if nothing is under way.
    pub async fn next(&mut self) -> Option<(K, Result<T, BrokeOff>)> {
        let ended = self.tasks.join_next_with_id().await?;
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, Ok(outcome)),
            Err(error) => (error.id(), Err(BrokeOff::from(error))),
        };
        Some((self.keys.remove(&id)?, outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_breaks_off_is_told_by_its_key_and_the_rest_goes_on() {
        let mut under_way = UnderWay::default();
        assert!(under_way.next().await.is_none());
        for key in 0..3 {
            under_way.begin(key, async move {
                assert!(key != 1, "one breaks off");
                key * 10
            });
        }
        let mut ended = Vec::new();
        while let Some((key, outcome)) = under_way.next().await {
            ended.push((key, outcome.ok()));
        }
        ended.sort_unstable();
        assert_eq!((ended, under_way.len()), (vec![(0, Some(0)), (1, None), (2, Some(20))], 0));
    }
    #[tokio::test]
    async fn what_is_cancelled_has_not_failed() {
        let mut under_way = UnderWay::default();
        under_way.begin(1, std::future::pending::<()>());
        under_way.begin(2, async { panic!("a mistake") });
        let mut ended = Vec::new();
        while let Some((key, outcome)) = under_way.next().await {
            ended.push((key, CoordinatorError::from(outcome.unwrap_err())));
            under_way.tasks.abort_all();
        }
        assert!(matches!(ended[..], [(2, CoordinatorError::Bug(_)), (1, CoordinatorError::ShuttingDown)]));
    }
}
