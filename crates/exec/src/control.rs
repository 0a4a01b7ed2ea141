//! Control streams to other nodes: one to each, kept, shared by all flows that this process drives. A flow has a session
//! of it, which begins with Prepare and ends when either side says so, or with the stream.

use crate::lock;
use flow::Site;
use flow::bound::Participant;
use model::{Cause, Fault, Peer};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;
use wire::proto::driver_message::Kind as ToStage;
use wire::proto::node_client::NodeClient;
use wire::proto::stage_message::Kind as FromStage;
use wire::{Message, limits, proto};

/// Messages to one node that may wait: those of as many flows as a node takes part in, a few windows each. A node that
/// takes none is as good as unreachable.
const MAX_OUTGOING: usize = 4096;

/// Signs of life of the connection, so that one to a dead machine is noticed …
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// … and so long may it be silent: no shorter than the lease of the flows that share it.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_millis(flow::limits::LEASE_MS as u64);

/// A message without its frame.
const LONGEST: usize = limits::MAX_CONTROL_BYTES - 64;

/// What is said in sessions, by those who have them.
pub(crate) type Reports = mpsc::Sender<Report>;

/// What a participant says.
pub(crate) struct Report {
    pub site: Site,
    pub node: Peer,
    pub heard: Heard,
}

/// A message, or the end of all of them.
pub(crate) enum Heard {
    Message(FromStage),
    /// Why, if it is known.
    End(String),
}

/// The streams, by control address.
#[derive(Default)]
pub(crate) struct ControlStreams(Mutex<HashMap<String, ControlStream>>);

#[derive(Clone)]
struct ControlStream {
    outgoing: mpsc::Sender<proto::DriverMessage>,
    sessions: Arc<Sessions>,
}

/// A flow's part of the stream to one node. Dropping it ends the flow's stages there.
pub(crate) struct Session {
    stream: ControlStream,
    number: u64,
    node: Peer,
}

impl ControlStreams {
    /// Sends Prepare; everything that the node says comes as `reports` of this participant, the last one an end.
    pub fn begin(
        &self,
        at: &Participant,
        prepare: proto::Prepare,
        reports: Reports,
    ) -> Result<Session, Fault> {
        // One message that is too long would be the end of the stream, and of all other flows.
        if prepare.encoded_len() > LONGEST {
            return Err(Fault::new(Cause::Invalid, "a node's part of the plan is too long for a message"));
        }
        let listener = Listener { site: at.site, node: at.peer, reports };
        let (stream, number) = self.listen(&at.control_addr, listener)?;
        let session = Session { stream, number, node: at.peer };
        session.send(ToStage::Prepare(prepare))?;
        Ok(session)
    }

    fn listen(&self, addr: &str, listener: Listener) -> Result<(ControlStream, u64), Fault> {
        let mut streams = lock(&self.0);
        if let Some(stream) = streams.get(addr)
            && let Some(number) = stream.sessions.add(listener.clone())
        {
            return Ok((stream.clone(), number));
        }
        let stream = connect(addr, listener)?;
        streams.insert(addr.to_owned(), stream.clone());
        Ok((stream, FIRST))
    }
}

/// A new stream, with its first session: who listens must be known before it can end.
fn connect(addr: &str, first: Listener) -> Result<ControlStream, Fault> {
    let endpoint = Endpoint::from_shared(format!("http://{addr}"))
        .map_err(|e| Fault::new(Cause::Invalid, format!("control address {addr:?}: {e}")))?
        .connect_timeout(Duration::from_millis(limits::CONNECT_TIMEOUT_MS))
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .tcp_nodelay(true);
    let mut client = NodeClient::new(endpoint.connect_lazy())
        .max_decoding_message_size(limits::MAX_CONTROL_BYTES)
        .max_encoding_message_size(limits::MAX_CONTROL_BYTES);
    let (outgoing, messages) = mpsc::channel(MAX_OUTGOING);
    let open = Open { last: FIRST, listeners: HashMap::from([(FIRST, Some(first))]), ended: false };
    let sessions = Arc::new(Sessions(Mutex::new(open)));
    let listening = sessions.clone();
    tokio::spawn(async move {
        let why = match client.run_stages(ReceiverStream::new(messages)).await {
            Ok(answers) => listening.hear_all(answers.into_inner()).await,
            Err(status) => status.message().to_owned(),
        };
        listening.end(&why);
    });
    Ok(ControlStream { outgoing, sessions })
}

impl Session {
    /// Never waits: a driver that waited for one node would not hear the others.
    pub fn send(&self, kind: ToStage) -> Result<(), Fault> {
        let message = proto::DriverMessage { session: self.number, kind: Some(kind) };
        match self.stream.outgoing.try_send(message) {
            // That the stream has ended was reported.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => {
                let what = format!("{} takes no messages", self.node);
                Err(Fault::new(Cause::Unreachable, what).suspecting(self.node, self.node))
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.stream.sessions.remove(self.number) {
            // Where there is no room, the lease ends it.
            let _ = self.send(ToStage::Release(proto::Empty {}));
        }
    }
}

/// The sessions of one stream.
struct Sessions(Mutex<Open>);

/// The number of a stream's first one.
const FIRST: u64 = 1;

struct Open {
    /// The number of the latest.
    last: u64,
    /// Those that the node has not ended; `None` where nobody listens any more.
    listeners: HashMap<u64, Option<Listener>>,
    /// The stream is no more.
    ended: bool,
}

#[derive(Clone)]
struct Listener {
    site: Site,
    node: Peer,
    reports: Reports,
}

impl Sessions {
    /// The new session's number; `None` if the stream has ended.
    fn add(&self, listener: Listener) -> Option<u64> {
        let mut open = lock(&self.0);
        if open.ended {
            return None;
        }
        open.last += 1;
        let number = open.last;
        open.listeners.insert(number, Some(listener));
        Some(number)
    }

    /// Until the stream ends. Why it did.
    async fn hear_all(&self, mut answers: Streaming<proto::StageMessage>) -> String {
        loop {
            match answers.message().await {
                Ok(Some(message)) => self.hear(message),
                Ok(None) => return String::new(),
                Err(status) => return format!("{:?}: {}", status.code(), status.message()),
            }
        }
    }

    /// Forgets a session; whether the node may still run it.
    fn remove(&self, number: u64) -> bool {
        lock(&self.0).listeners.remove(&number).is_some()
    }

    fn hear(&self, message: proto::StageMessage) {
        let mut open = lock(&self.0);
        let ended = matches!(message.kind, Some(FromStage::Ended(_)));
        let heard = match message.kind {
            Some(FromStage::Ended(_)) => Heard::End(String::new()),
            Some(kind) => Heard::Message(kind),
            None => Heard::End("an empty message".to_owned()),
        };
        // Of a session that was released more may be on its way.
        let Some(slot) = open.listeners.get_mut(&message.session) else { return };
        let over = matches!(heard, Heard::End(_));
        let taken = slot.as_ref().is_some_and(|listener| listener.take(heard));
        if over || !taken {
            *slot = None;
        }
        if ended {
            open.listeners.remove(&message.session);
        }
    }

    fn end(&self, why: &str) {
        let listeners = {
            let mut open = lock(&self.0);
            open.ended = true;
            std::mem::take(&mut open.listeners)
        };
        for listener in listeners.into_values().flatten() {
            listener.take(Heard::End(why.to_owned()));
        }
    }
}

impl Listener {
    /// Hands a report on. Never waits, for others listen to the same stream; whether there was room.
    fn take(&self, heard: Heard) -> bool {
        let report = Report { site: self.site, node: self.node, heard };
        let full = match self.reports.try_send(report) {
            Ok(()) => return true,
            // The flow is over.
            Err(mpsc::error::TrySendError::Closed(_)) => return false,
            Err(mpsc::error::TrySendError::Full(report)) => report,
        };
        let heard = match full.heard {
            end @ Heard::End(_) => end,
            // Who filled the queue is not known: it is that of all participants.
            Heard::Message(_) => Heard::Message(FromStage::Failed(too_many_reports().into())),
        };
        let (reports, last) = (self.reports.clone(), Report { heard, ..full });
        tokio::spawn(async move {
            // The flow may be over meanwhile.
            let _ = reports.send(last).await;
        });
        false
    }
}

fn too_many_reports() -> Fault {
    Fault::new(Cause::Bug, "more reports than a flow's driver has room for")
}

/// Deadlines for participants to prepare.
pub(crate) struct Deadlines {
    /// After this, one that alone has not answered is taken for slow; `None`: nobody is.
    pub still: Option<Instant>,
    /// After this, whoever has not answered is unreachable.
    pub all: Instant,
}

/// Waits until all `sites` (with their nodes) have said that they are prepared. What they have of the blocks that they
/// write, and what else they said meanwhile.
///
/// # Errors
/// The first fault; or who has not answered in time.
pub(crate) async fn all_prepared(
    mut sites: BTreeMap<Site, Peer>,
    incoming: &mut mpsc::Receiver<Report>,
    mut deadlines: Deadlines,
) -> Result<(Vec<proto::Prepared>, Vec<Report>), Fault> {
    let (mut prepared, mut early) = (Vec::new(), Vec::new());
    while let Some((_, &silent)) = sites.first_key_value() {
        let fault = |cause, node: Peer, what: &str| Fault::new(cause, what).suspecting(node, node);
        let unreachable = |node: Peer, what: &str| fault(Cause::Unreachable, node, what);
        let deadline = deadlines.still.unwrap_or(deadlines.all).min(deadlines.all);
        let report = match tokio::time::timeout_at(deadline, incoming.recv()).await {
            Ok(Some(report)) => report,
            Ok(None) => return Err(Fault::new(Cause::Bug, "all participants fell silent")),
            Err(_) if deadlines.still.take().is_some_and(|still| still < deadlines.all) => {
                // Several are silent only if it is this process that is slow.
                if sites.len() == 1 {
                    return Err(fault(Cause::Slow, silent, "it stands still: it has not prepared"));
                }
                continue;
            }
            Err(_) => return Err(unreachable(silent, "it does not prepare in time")),
        };
        if !sites.contains_key(&report.site) {
            if early.len() == incoming.max_capacity() {
                return Err(too_many_reports());
            }
            early.push(report);
            continue;
        }
        match report.heard {
            Heard::Message(FromStage::Prepared(kept)) => {
                sites.remove(&report.site);
                prepared.push(kept);
            }
            Heard::Message(FromStage::Failed(fault)) => return Err(fault.into()),
            Heard::Message(_) => {
                return Err(unreachable(report.node, "it does not keep to the protocol"));
            }
            Heard::End(why) if why.is_empty() => {
                return Err(unreachable(report.node, "it closed the control stream"));
            }
            Heard::End(why) => return Err(unreachable(report.node, &why)),
        }
    }
    Ok((prepared, early))
}
