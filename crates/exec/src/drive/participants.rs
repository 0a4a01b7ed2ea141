//! The nodes of a flow as its driver has them: its own stages, and a control stream to each other node.

use super::FromStage;
use crate::control::{ControlStreams, Heard, Report, Reports, Session};
use crate::prepared::Prepared;
use flow::Site;
use flow::bound::Participant;
use model::{Fault, Peer};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use tokio::sync::mpsc;
use wire::proto;
use wire::proto::driver_message::Kind as ToStage;

pub(super) struct Participants {
    pub here: Option<Here>,
    pub there: Vec<Remote>,
    /// What each of those there had when it was prepared.
    pub kept: Vec<proto::Prepared>,
    /// Reports that came before all were prepared.
    pub early: VecDeque<Report>,
    pub incoming: mpsc::Receiver<Report>,
}

impl Participants {
    /// The next report; `None` if nobody is left.
    pub async fn hear(&mut self) -> Option<Report> {
        match self.early.pop_front() {
            Some(report) => Some(report),
            None => self.incoming.recv().await,
        }
    }

    /// Gives everyone the grants of the lanes that it takes part in.
    pub fn grant(&self, grants: &[proto::Grant]) -> Result<(), Fault> {
        if let Some(here) = &self.here {
            for grant in grants {
                here.prepared.grant(grant.lane, grant.first, grant.count)?;
            }
        }
        for remote in &self.there {
            let own = within(grants, &remote.lanes);
            if !own.is_empty() {
                remote.session.send(ToStage::Grants(proto::Grants { grants: own }))?;
            }
        }
        Ok(())
    }

    /// Tells everyone that these were all grants.
    pub fn finish(&self) -> Result<(), Fault> {
        if let Some(here) = &self.here {
            here.prepared.finish()?;
        }
        for remote in &self.there {
            remote.session.send(ToStage::Finish(proto::Finish {}))?;
        }
        Ok(())
    }

    /// A sign of life.
    pub fn keep_alive(&self) -> Result<(), Fault> {
        self.there.iter().try_for_each(|remote| remote.session.send(ToStage::KeepAlive(proto::Empty {})))
    }

    /// Asks everyone what his stages are doing; the answers are reports. The sites that are asked.
    pub fn look(&self) -> Result<BTreeSet<Site>, Fault> {
        for remote in &self.there {
            remote.session.send(ToStage::Look(proto::Empty {}))?;
        }
        if let Some(here) = &self.here {
            here.look();
        }
        let here = self.here.iter().map(|here| here.site);
        Ok(self.there.iter().map(|remote| remote.site).chain(here).collect())
    }

    /// Of the blocks that are written, the slices that some node lacks; `None`: all, for one of them begins.
    pub fn lack(&self) -> Option<Vec<Range<u64>>> {
        let here = self.here.as_ref().map(|here| here.prepared.kept());
        let kept = here.into_iter().chain(&self.kept);
        let writers: Vec<&proto::Prepared> = kept.filter(|kept| kept.writes).collect();
        if writers.is_empty() || !writers.iter().all(|kept| kept.resumes) {
            return None;
        }
        let lacks = writers.iter().flat_map(|kept| &kept.lacks);
        Some(lacks.map(|run| run.first..run.first.saturating_add(run.count)).collect())
    }
}

/// The grants of these lanes.
pub(super) fn within(grants: &[proto::Grant], lanes: &BTreeSet<u32>) -> Vec<proto::Grant> {
    grants.iter().filter(|grant| lanes.contains(&grant.lane)).copied().collect()
}

/// The lanes in which a participant has stages.
pub(super) fn lanes_of(prepare: &proto::Prepare) -> BTreeSet<u32> {
    prepare.stages.iter().map(|stage| stage.lane).collect()
}

/// The driver's own stages.
pub(super) struct Here {
    site: Site,
    node: Peer,
    /// Its events are taken out.
    prepared: Prepared,
    /// Does not keep the reports open.
    events: mpsc::WeakSender<Report>,
    forward: tokio::task::JoinHandle<()>,
}

impl Here {
    pub fn new(site: Site, node: Peer, mut prepared: Prepared, events: mpsc::Sender<Report>) -> Here {
        let (_, empty) = mpsc::channel(1);
        let mut own = std::mem::replace(&mut prepared.events, empty);
        let weak = events.downgrade();
        let forward = tokio::spawn(async move {
            while let Some(message) = own.recv().await {
                let report = Report { site, node, heard: Heard::Message(message) };
                if events.send(report).await.is_err() {
                    return;
                }
            }
            // The flow may be over meanwhile.
            let _ = events.send(Report { site, node, heard: Heard::End(String::new()) }).await;
        });
        Here { site, node, prepared, events: weak, forward }
    }

    pub fn site(&self) -> Site {
        self.site
    }

    fn look(&self) {
        let Some(events) = self.events.upgrade() else { return };
        let (site, node, look) = (self.site, self.node, self.prepared.look());
        tokio::spawn(async move {
            let heard = Heard::Message(FromStage::Doing(look.await));
            // The flow may have ended meanwhile.
            let _ = events.send(Report { site, node, heard }).await;
        });
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.forward.abort();
        self.prepared.abort();
    }
}

/// A node that takes part.
pub(super) struct Remote {
    pub site: Site,
    pub node: Peer,
    session: Session,
    lanes: BTreeSet<u32>,
}

impl Remote {
    /// Has it prepare; it says by a report that it has.
    pub fn begin(
        streams: &ControlStreams,
        at: &Participant,
        prepare: proto::Prepare,
        reports: Reports,
    ) -> Result<Remote, Fault> {
        let lanes = lanes_of(&prepare);
        let session = streams.begin(at, prepare, reports)?;
        Ok(Remote { site: at.site, node: at.peer, session, lanes })
    }
}
