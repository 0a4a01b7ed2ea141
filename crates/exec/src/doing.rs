//! What a stage does right now, for whoever looks: a word in memory, written before and after all that may block. So a
//! driver that finds its flow slow can tell who waits for whom; nothing is timed on the data path.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use wire::proto;

/// A stage is looked at so often …
const LOOKS: u32 = 30;

/// … with this pause between: in all as long as a slow disk or a scheduler takes for a few turns, and no more than a third of the
/// time between two times of looking.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// What a stage does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Activity {
    /// It waits for grants.
    Idle,
    /// Its disk, arithmetic.
    Working,
    /// Its node's throttle: others may wait for it, and it is not to blame.
    Throttled,
    /// The other end of an edge takes nothing.
    Sending,
    /// There is no input on this edge.
    Receiving(u16),
}

/// The activity of one stage. One thread writes, any may look.
#[derive(Debug, Default)]
pub struct Doing(AtomicU32);

impl Doing {
    pub(crate) fn now(&self, activity: Activity) {
        let word = match activity {
            Activity::Idle => 0,
            Activity::Working => 1,
            Activity::Sending => 2,
            Activity::Throttled => 3,
            Activity::Receiving(edge) => 4 + u32::from(edge),
        };
        self.0.store(word, Ordering::Relaxed);
    }

    /// Until what it returns is dropped; then the stage works.
    pub(crate) fn during(&self, activity: Activity) -> During<'_> {
        self.now(activity);
        During(self)
    }

    pub(crate) fn look(&self) -> Activity {
        match self.0.load(Ordering::Relaxed) {
            0 => Activity::Idle,
            1 => Activity::Working,
            2 => Activity::Sending,
            3 => Activity::Throttled,
            word => Activity::Receiving((word - 4) as u16),
        }
    }
}

/// See [`Doing::during`].
pub(crate) struct During<'a>(&'a Doing);

impl Drop for During<'_> {
    fn drop(&mut self) {
        self.0.now(Activity::Working);
    }
}

/// A stage to be looked at.
pub(crate) struct Watched {
    pub lane: u32,
    pub stage: u32,
    pub doing: Arc<Doing>,
}

/// Looks at stages for a while. Those that have ended by then are left out: nobody else holds what they did.
pub(crate) async fn look(stages: Vec<Watched>) -> proto::Doing {
    let mut seen: Vec<proto::StageDoing> = stages
        .iter()
        .map(|s| proto::StageDoing { lane: s.lane, stage: s.stage, ..Default::default() })
        .collect();
    for _ in 0..LOOKS {
        for (watched, seen) in stages.iter().zip(&mut seen) {
            match watched.doing.look() {
                Activity::Idle => seen.idle += 1,
                Activity::Sending => seen.sending += 1,
                Activity::Throttled => seen.throttled += 1,
                Activity::Receiving(edge) => count(&mut seen.receiving, u32::from(edge)),
                Activity::Working => {}
            }
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    let runs = |watched: &Watched| Arc::strong_count(&watched.doing) > 1;
    let stages = stages.iter().zip(seen).filter(|(watched, _)| runs(watched)).map(|(_, seen)| seen);
    proto::Doing { looks: LOOKS, stages: stages.collect() }
}

fn count(receiving: &mut Vec<proto::EdgeLooks>, edge: u32) {
    match receiving.iter_mut().find(|seen| seen.edge == edge) {
        Some(seen) => seen.looks += 1,
        None => receiving.push(proto::EdgeLooks { edge, looks: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_stage_does_is_seen_until_it_ends() {
        let stage = Arc::new(Doing::default());
        let watched = || vec![Watched { lane: 1, stage: 7, doing: Arc::clone(&stage) }];
        let seen = look(watched()).await;
        assert_eq!((seen.looks, seen.stages[0].idle), (LOOKS, LOOKS));
        {
            let _during = stage.during(Activity::Receiving(4));
            let seen = look(watched()).await;
            assert_eq!(seen.stages[0].receiving, [proto::EdgeLooks { edge: 4, looks: LOOKS }]);
        }
        {
            let _during = stage.during(Activity::Throttled);
            assert_eq!(look(watched()).await.stages[0].throttled, LOOKS);
        }
        let seen = look(watched()).await;
        assert_eq!(seen.stages[0], proto::StageDoing { lane: 1, stage: 7, ..Default::default() });
        let watched = watched();
        drop(stage);
        assert!(look(watched).await.stages.is_empty());
    }
}
