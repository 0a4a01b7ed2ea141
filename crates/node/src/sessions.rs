//! The control stream of a process that drives flows: each flow in which this node takes part is a session of it.

use crate::ending::Ending;
use exec::{Engine, Prepared, StageIo};
use model::{Cause, Fault, NodeId};
use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::{Status, Streaming};
use wire::codec::part;
use wire::proto;
use wire::proto::driver_message::Kind as ToStage;
use wire::proto::stage_message::Kind as FromStage;

/// Sessions of one driver: as many as there may be stages.
const MAX_SESSIONS: usize = exec::engine::MAX_STAGES;

/// Messages to one session that may wait. They wait only until all is prepared, or while the driver takes no answers.
const MAX_MESSAGES: usize = 64;

/// Grants in one message: runs of some windows of all lanes.
const MAX_GRANTS: usize = 4096;

type Answers = mpsc::Sender<Result<proto::StageMessage, Status>>;

/// Until the stream ends, or the node does and nothing runs any more.
pub async fn serve(
    node: NodeId,
    engine: Engine,
    ending: Ending,
    mut incoming: Streaming<proto::DriverMessage>,
    answers: Answers,
) {
    // Those that run; `None`: whoever attends is about to see the end.
    let mut sessions: HashMap<u64, Option<mpsc::Sender<ToStage>>> = HashMap::new();
    // Dropping it ends them all.
    let mut attended = JoinSet::new();
    let (mut ending, mut ends) = (pin!(ending.asked()), false);
    loop {
        tokio::select! {
            message = incoming.message() => {
                let Ok(Some(proto::DriverMessage { session, kind: Some(kind) })) = message else { return };
                if let ToStage::Prepare(prepare) = kind {
                    let refused = match () {
                        () if ends => Some(Fault::new(Cause::Unreachable, "the node ends")),
                        () if sessions.contains_key(&session) => {
                            Some(Fault::new(Cause::Invalid, "a second Prepare in a session"))
                        }
                        () if attended.len() >= MAX_SESSIONS => {
                            Some(Fault::new(Cause::Busy, format!("{MAX_SESSIONS} flows of one driver run here")))
                        }
                        () => None,
                    };
                    if let Some(fault) = refused {
                        let fault = fault.suspecting(node, node);
                        let _ = answers.send(said(session, FromStage::Failed(fault.into()))).await;
                        continue;
                    }
                    let (commands, messages) = mpsc::channel(MAX_MESSAGES);
                    sessions.insert(session, Some(commands));
                    let attending = Session { number: session, messages, answers: answers.clone() };
                    attended.spawn(attending.attend(engine.clone(), prepare));
                } else if let Some(slot) = sessions.get_mut(&session) {
                    let too_long = matches!(&kind, ToStage::Grants(grants) if grants.grants.len() > MAX_GRANTS);
                    let taken = slot.as_ref().is_some_and(|commands| {
                        !too_long && !matches!(commands.try_send(kind), Err(mpsc::error::TrySendError::Full(_)))
                    });
                    if !taken {
                        *slot = None;
                    }
                }
            }
            Some(ended) = attended.join_next() => match ended {
                Ok(session) => _ = sessions.remove(&session),
                Err(broken) => {
                    tracing::error!("a session broke: {broken}");
                    let gone = |slot: &Option<mpsc::Sender<ToStage>>| slot.as_ref().is_some_and(|s| s.is_closed());
                    for (session, _) in sessions.extract_if(|_, slot| gone(slot)) {
                        let _ = answers.send(said(session, FromStage::Ended(proto::Empty {}))).await;
                    }
                }
            },
            () = &mut ending, if !ends => ends = true,
        }
        if ends && sessions.is_empty() {
            return;
        }
    }
}

/// One flow on this node.
struct Session {
    number: u64,
    messages: mpsc::Receiver<ToStage>,
    answers: Answers,
}

impl Session {
    /// From Prepare to the end of all stages. Its number.
    async fn attend(mut self, engine: Engine, prepare: proto::Prepare) -> u64 {
        let lease_ms = prepare.header.as_ref().map_or(flow::limits::LEASE_MS, |h| h.lease_ms);
        let lease = Duration::from_millis(u64::from(lease_ms));
        let prepared = match part::decode(&prepare) {
            Ok(stages) => engine.prepare(stages, prepare.grants, prepare.finish, StageIo::default()).await,
            Err(fault) => Err(fault),
        };
        match prepared {
            Ok(prepared) => {
                // Whoever does not hear it has released the session, or is gone.
                let _ = self.run(prepared, lease).await;
            }
            Err(fault) => {
                tracing::info!("refused a flow: {fault}");
                let _ = self.say(FromStage::Failed(fault.into())).await;
            }
        }
        self.number
    }

    /// Passes the driver's commands to the stages and their reports to the driver, until either side ends; ends the
    /// stages when the driver is silent for a whole lease. An error: nobody hears this session any more.
    async fn run(&mut self, mut prepared: Prepared, lease: Duration) -> Result<(), Gone> {
        let mut deadline = Instant::now() + lease;
        self.say_by(deadline, FromStage::Prepared(prepared.kept().clone())).await?;
        // One look at a time, however often it is asked for.
        let mut looks = JoinSet::new();
        let fault = loop {
            tokio::select! {
                report = prepared.events.recv() => match report {
                    Some(report) => self.say_by(deadline, report).await?,
                    // All stages have ended and said how.
                    None => break None,
                },
                Some(Ok(doing)) = looks.join_next() => self.say_by(deadline, FromStage::Doing(doing)).await?,
                command = tokio::time::timeout_at(deadline, self.messages.recv()) => {
                    // Only the driver's word counts, not that of stages which wait.
                    deadline = Instant::now() + lease;
                    let obeyed = match command {
                        Ok(Some(ToStage::Release(_))) => return Ok(()),
                        Ok(Some(command)) => obey(&prepared, &mut looks, command),
                        Ok(None) => Err(Fault::new(Cause::Aborted, "more, or longer, messages than a session takes")),
                        Err(_) => Err(Fault::new(Cause::Aborted, "the driver was silent for a whole lease")),
                    };
                    if let Err(fault) = obeyed {
                        break Some(fault);
                    }
                }
            }
        };
        // The stages end now, whether anybody hears of it or not.
        drop(prepared);
        if let Some(fault) = fault {
            self.say(FromStage::Failed(fault.into())).await?;
        }
        self.say(FromStage::Ended(proto::Empty {})).await
    }

    /// A driver that takes no answers is as good as silent.
    async fn say_by(&self, deadline: Instant, kind: FromStage) -> Result<(), Gone> {
        tokio::time::timeout_at(deadline, self.say(kind)).await.unwrap_or(Err(Gone))
    }

    async fn say(&self, kind: FromStage) -> Result<(), Gone> {
        self.answers.send(said(self.number, kind)).await.map_err(|_| Gone)
    }
}

/// The stream has ended, or its driver takes nothing from it.
struct Gone;

fn obey(prepared: &Prepared, looks: &mut JoinSet<proto::Doing>, command: ToStage) -> Result<(), Fault> {
    match command {
        ToStage::Grants(grants) => grants.grants.iter().try_for_each(|grant| obey_grant(prepared, grant)),
        ToStage::Finish(_) => prepared.finish(),
        ToStage::Look(_) => {
            if looks.is_empty() {
                looks.spawn(prepared.look());
            }
            Ok(())
        }
        ToStage::KeepAlive(_) => Ok(()),
        // `serve` and `run` have dealt with these.
        ToStage::Prepare(_) | ToStage::Release(_) => {
            Err(Fault::new(Cause::Bug, "a message of the wrong kind"))
        }
    }
}

fn obey_grant(prepared: &Prepared, grant: &proto::Grant) -> Result<(), Fault> {
    prepared.grant(grant.lane, grant.first, grant.count)
}

fn said(session: u64, kind: FromStage) -> Result<proto::StageMessage, Status> {
    Ok(proto::StageMessage { session, kind: Some(kind) })
}
