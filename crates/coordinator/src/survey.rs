//! What there is, what lacks and how far all is from being lost, counted by going through the whole catalog: anew only when something
//! has changed. Where that takes long `cluster status` has it done no more than a tenth of the time, and says how old its counts are.
//! `health` says whether all is well: it has no old ones.

use crate::clock::Clock;
use crate::error::Result;
use crate::records::Records;
use catalog::{Counts, Health};
use codes::Codebook;
use model::NodeId;
use plan::decide::Planner;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A count that took less than this is never told late.
const LONG_MS: u64 = 100;

/// One that took longer is told for so many times what it took, though something has changed since.
const REST: u64 = 10;

/// Whether counts may be late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Late {
    /// They may, and it is told by how much.
    Told,
    /// They are as of now.
    Never,
}

/// The whole catalog, counted.
#[derive(Debug)]
pub(crate) struct Survey {
    pub counts: Counts,
    pub health: Health,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Surveyor(Mutex<Option<Last>>);

#[derive(Debug)]
struct Last {
    survey: Arc<Survey>,
    /// Changes of the catalog before it, and who lived.
    of: (u64, BTreeSet<NodeId>),
    began_ms: u64,
    took_ms: u64,
}

impl Surveyor {
    /// With the nodes that live; and for how many milliseconds that may no longer be so.
    pub async fn survey(
        &self,
        records: &Records,
        planner: &Arc<Planner>,
        clock: &Clock,
        (living, late): (BTreeSet<NodeId>, Late),
    ) -> Result<(Arc<Survey>, u64)> {
        // Who comes while it is counted waits for that.
        let mut last = self.0.lock().await;
        let (of, began_ms) = ((records.changes(), living.clone()), clock.now_ms());
        if let Some((late_ms, last)) = last.as_ref().and_then(|l| Some((l.late_ms(&of, late, began_ms)?, l)))
        {
            return Ok((Arc::clone(&last.survey), late_ms));
        }
        let planner = Arc::clone(planner);
        let count = move |catalog: &catalog::Catalog| {
            let codes: &Codebook = &planner.codes;
            let counts = catalog.counts(&living, |code, usable| codes.recoverable(code, usable))?;
            Ok(Survey { counts, health: catalog.health(&living)? })
        };
        let survey = Arc::new(records.run(count).await?);
        let took_ms = clock.now_ms().saturating_sub(began_ms);
        *last = Some(Last { survey: Arc::clone(&survey), of, began_ms, took_ms });
        Ok((survey, 0))
    }
}

impl Last {
    /// For how many milliseconds it may no longer be so; `None`: it is to be counted anew.
    fn late_ms(&self, of: &(u64, BTreeSet<NodeId>), late: Late, now_ms: u64) -> Option<u64> {
        let age_ms = now_ms.saturating_sub(self.began_ms);
        match late {
            _ if self.of == *of => Some(0),
            Late::Never => None,
            Late::Told => {
                Some(age_ms).filter(|age_ms| self.took_ms >= LONG_MS && *age_ms < self.took_ms * REST)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_now_unless_that_takes_long_and_then_they_say_so() {
        let of = |changes: u64, nodes: &[u32]| (changes, nodes.iter().copied().map(NodeId).collect());
        let last = |took_ms| {
            let survey = Arc::new(Survey { counts: Counts::default(), health: Health::default() });
            Last { survey, of: of(7, &[1, 2]), began_ms: 1_000, took_ms }
        };
        for late in [Late::Told, Late::Never] {
            assert_eq!(last(4_000).late_ms(&of(7, &[1, 2]), late, 1_000_000), Some(0), "nothing has changed");
        }
        for (changed, why) in [(of(8, &[1, 2]), "the catalog has"), (of(7, &[1]), "a node died")] {
            assert_eq!(last(LONG_MS - 1).late_ms(&changed, Late::Told, 1_001), None, "{why}");
            assert_eq!(last(4_000).late_ms(&changed, Late::Told, 40_999), Some(39_999), "{why}");
            assert_eq!(last(4_000).late_ms(&changed, Late::Told, 41_000), None, "{why}");
            assert_eq!(last(4_000).late_ms(&changed, Late::Never, 1_001), None, "{why}");
        }
    }
}
