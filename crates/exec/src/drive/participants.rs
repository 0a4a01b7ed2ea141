//! The nodes of a flow as its driver has them: its own stages, and a control stream to each other node.

use super::{FromStage, MAX_MESSAGES, ToStage};
use crate::engine::Engine;
use crate::prepared::Prepared;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use wire::{Cause, Fault, limits, proto};

pub(super) struct Participants {
    pub here: Option<Here>,
    pub there: Vec<Remote>,
    pub incoming: mpsc::Receiver<Report>,
}

/// What a participant says.
pub(super) struct Report {
    pub site: u32,
    pub node: u32,
    pub heard: Heard,
}

/// A message, or the end of all of them.
pub(super) enum Heard {
    Message(FromStage),
    /// Why, if it is known.
    End(String),
}

impl Participants {
    /// Gives everyone the grants of the lanes that it takes part in.
    pub async fn grant(&self, grants: &[proto::Grant]) -> Result<(), Fault> {
        if let Some(here) = &self.here {
            for grant in grants {
                here.prepared.0.grant(grant.lane, grant.first, grant.count)?;
            }
        }
        for remote in &self.there {
            let own = within(grants, &remote.lanes);
            if !own.is_empty() {
                remote.send(ToStage::Grants(proto::Grants { grants: own })).await;
            }
        }
        Ok(())
    }

    /// Tells everyone that these were all grants.
    pub async fn finish(&self) -> Result<(), Fault> {
        if let Some(here) = &self.here {
            here.prepared.0.finish()?;
        }
        for remote in &self.there {
            remote.send(ToStage::Finish(proto::Finish {})).await;
        }
        Ok(())
    }

    /// A sign of life.
    pub async fn keep_alive(&self) {
        for remote in &self.there {
            remote.send(ToStage::KeepAlive(proto::Empty {})).await;
        }
    }

    /// Asks everyone what his stages are doing; the answers are reports. The sites that are asked.
    pub async fn look(&self) -> BTreeSet<u32> {
        for remote in &self.there {
            remote.send(ToStage::Look(proto::Empty {})).await;
        }
        if let Some(here) = &self.here {
            here.look();
        }
        let here = self.here.iter().map(|here| here.site);
        self.there.iter().map(|remote| remote.site).chain(here).collect()
    }

    /// Of the blocks that are written, the slices that some node lacks; `None`: all, for one of them begins.
    pub fn lack(&self) -> Option<Vec<Range<u64>>> {
        let here = self.here.as_ref().map(|here| here.prepared.0.kept());
        let kept = here.into_iter().chain(self.there.iter().map(|remote| &remote.kept));
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
    site: u32,
    prepared: Arc<OwnStages>,
    /// Does not keep the reports open.
    events: mpsc::WeakSender<Report>,
    forward: tokio::task::JoinHandle<()>,
}

/// [`Prepared`], its events taken out.
struct OwnStages(Prepared);

impl Here {
    pub fn new(site: u32, mut prepared: Prepared, events: mpsc::Sender<Report>) -> Here {
        let (_, empty) = mpsc::channel(1);
        let mut own = std::mem::replace(&mut prepared.events, empty);
        let weak = events.downgrade();
        let forward = tokio::spawn(async move {
            while let Some(message) = own.recv().await {
                let heard =
                    message.kind.map_or_else(|| Heard::End("an empty message".to_owned()), Heard::Message);
                let report = Report { site, node: 0, heard };
                if events.send(report).await.is_err() {
                    return;
                }
            }
        });
        Here { site, prepared: Arc::new(OwnStages(prepared)), events: weak, forward }
    }

    pub fn site(&self) -> u32 {
        self.site
    }

    fn look(&self) {
        let Some(events) = self.events.upgrade() else { return };
        let (site, look) = (self.site, self.prepared.0.look());
        tokio::spawn(async move {
            let heard = Heard::Message(FromStage::Doing(look.await));
            // The flow may have ended meanwhile.
            let _ = events.send(Report { site, node: 0, heard }).await;
        });
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.forward.abort();
        self.prepared.0.abort();
    }
}

/// A node that takes part.
pub(super) struct Remote {
    site: u32,
    commands: mpsc::Sender<proto::DriverMessage>,
    lanes: BTreeSet<u32>,
    kept: proto::Prepared,
    forward: tokio::task::JoinHandle<()>,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.forward.abort();
    }
}

impl Remote {
    pub async fn prepare(
        engine: &Engine,
        participant: proto::Participant,
        prepare: proto::Prepare,
        events: mpsc::Sender<Report>,
    ) -> Result<Remote, Fault> {
        let node = participant.node;
        let unreachable = |what: String| Fault::new(Cause::Unreachable, what).suspecting(node, node);
        let channel = engine.channel(&participant.control_addr)?;
        let mut client = proto::node_client::NodeClient::new(channel)
            .max_decoding_message_size(limits::MAX_CONTROL_BYTES)
            .max_encoding_message_size(limits::MAX_CONTROL_BYTES);
        let (commands, outgoing) = mpsc::channel(MAX_MESSAGES);
        let lanes = lanes_of(&prepare);
        // There is room for the first message.
        let _ = commands.try_send(proto::DriverMessage { kind: Some(ToStage::Prepare(prepare)) });
        let mut answers = client
            .run_stages(ReceiverStream::new(outgoing))
            .await
            .map_err(|s| unreachable(s.message().to_owned()))?
            .into_inner();
        let kept = match answers.next().await {
            Some(Ok(proto::StageMessage { kind: Some(FromStage::Prepared(kept)) })) => kept,
            Some(Ok(proto::StageMessage { kind: Some(FromStage::Failed(fault)) })) => {
                return Err(fault.into());
            }
            Some(Ok(_)) => return Err(unreachable("it does not keep to the protocol".into())),
            Some(Err(status)) => return Err(unreachable(status.message().to_owned())),
            None => return Err(unreachable("it closed the control stream".into())),
        };
        let site = participant.site;
        let forward = tokio::spawn(async move {
            loop {
                let heard = match answers.next().await {
                    Some(Ok(proto::StageMessage { kind: Some(message) })) => Heard::Message(message),
                    Some(Ok(_)) => Heard::End("an empty message".to_owned()),
                    Some(Err(status)) => Heard::End(format!("{:?}: {}", status.code(), status.message())),
                    None => Heard::End(String::new()),
                };
                let last = matches!(heard, Heard::End(_));
                if events.send(Report { site, node, heard }).await.is_err() || last {
                    return;
                }
            }
        });
        Ok(Remote { site, commands, lanes, kept, forward })
    }

    async fn send(&self, kind: ToStage) {
        // A participant that is gone is noticed by the end of its reports.
        let _ = self.commands.send(proto::DriverMessage { kind: Some(kind) }).await;
    }
}
