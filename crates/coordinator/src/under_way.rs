//! What is being done at once, each thing known by a key: who does it may break off, and what it was about is known still.

use std::collections::HashMap;
use tokio::task::{Id, JoinSet};

/// See the module. Dropped, all of it ends.
#[derive(Debug)]
pub(crate) struct UnderWay<K, T> {
    tasks: JoinSet<T>,
    keys: HashMap<Id, K>,
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

    /// What ends next; `None` if nothing is under way. The error says how it broke off, by a mistake of the program or with the runtime.
    pub async fn next(&mut self) -> Option<(K, Result<T, String>)> {
        let ended = self.tasks.join_next_with_id().await?;
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, Ok(outcome)),
            Err(error) => (error.id(), Err(error.to_string())),
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
}
