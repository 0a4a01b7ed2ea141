//! Whom the driver's own stages wait for, for whoever wonders why a read is late: a word in memory of each (`doing.rs`), asked
//! while the flow runs.

use crate::doing::{Activity, Doing};
use crate::lock;
use crate::prepared::Prepared;
use flow::{Flow, FlowPlan};
use model::Peer;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};

/// Asked while a flow runs, or after it. It knows nobody before the flow's stages here are prepared.
#[derive(Clone, Default)]
pub struct Awaited(Arc<Mutex<Vec<Own>>>);

/// A stage of the driver's own.
struct Own {
    /// Gone when the stage has ended.
    doing: Weak<Doing>,
    /// Edges that it receives, with their senders.
    senders: Vec<(u32, Peer)>,
}

impl Awaited {
    /// The senders of the edges on which input is waited for right now.
    pub fn senders(&self) -> BTreeSet<Peer> {
        let waited = |own: &Own| match own.doing.upgrade()?.look() {
            Activity::Receiving(edge) => {
                own.senders.iter().find(|(index, _)| *index == u32::from(edge)).map(|(_, peer)| *peer)
            }
            _ => None,
        };
        lock(&self.0).iter().filter_map(waited).collect()
    }

    /// The stages of `plan` that run here.
    pub(crate) fn set(&self, plan: &FlowPlan<Flow>, here: &Prepared) {
        let own = here.stages.iter().map(|stage| {
            let received = plan
                .all_edges()
                .filter(|(lane, _, edge)| *lane == stage.lane && u32::from(edge.to.0) == stage.stage);
            let sender = |(lane, index, edge)| {
                let (from, _) = plan.sites_of(lane, edge)?;
                Some((index, plan.peer(from)))
            };
            Own { doing: stage.doing.clone(), senders: received.filter_map(sender).collect() }
        });
        *lock(&self.0) = own.collect();
    }
}
