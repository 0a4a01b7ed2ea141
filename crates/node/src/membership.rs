//! A node's side of membership: it registers with its whole inventory, then sends heartbeats; when the coordinator is
//! away it tries again, for ever, at intervals.

use crate::flows::{FlowStore, named};
use crate::parts::Parts;
use crate::store::{Identity, StoreError, Unjudged};
use model::{Budgets, ClusterId};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tonic::transport::{Channel, Endpoint};
use wire::codec::group::Lender;
use wire::proto::coordinator_client::CoordinatorClient;
use wire::proto::register_message::Kind;
use wire::{PROTOCOL_VERSION, limits, proto};

/// Blocks in one inventory message: about 60 KiB.
const BLOCKS_PER_MESSAGE: usize = 1024;

/// Inventory messages under way.
const MESSAGES_AHEAD: usize = 8;

/// Between two attempts to reach the coordinator.
const RETRY: Duration = Duration::from_millis(500);

/// So often what was heard of the catalog is made durable: a node that is killed forgets no more than this of it.
const NOTE_HEARD: Duration = Duration::from_secs(10);

/// A heartbeat that takes longer counts as failed.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(5);

/// TCP and HTTP/2 signs of life: a registration takes as long as it takes to compare what the node has, and one with a coordinator
/// whose machine is dead ends by this.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// A coordinator that lives answers within milliseconds.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(1);

/// A node that was never registered and is refused for this long ends: it is of another cluster or version. A refusal
/// because an address is still taken for a dead node's is over sooner.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(10);

/// Why there was no registration.
enum Unregistered {
    /// The coordinator is away.
    Away(String),
    /// It wants nothing of this node.
    Refused(String),
    /// An operator gave its store up: that is kept in the catalog, and nothing changes it but another word of an operator.
    GivenUp(String),
}

/// Why a node ends though nobody told it to.
#[derive(Debug)]
pub enum Refusal {
    /// It was never welcome.
    Unwelcome(String),
    /// An operator gave its store up.
    GivenUp(String),
}

/// A node, as it introduces itself.
pub struct Member {
    /// What it is made of.
    pub parts: Parts,
    /// Its rack.
    pub rack: String,
    /// The machine that it shares with other nodes; empty if with none.
    pub host: String,
    /// Where it answers.
    pub control_addr: SocketAddr,
    /// Where it takes slices.
    pub data_addr: SocketAddr,
}

/// Registers and sends heartbeats until the task is dropped. Returns why the node is refused for good, if it is.
pub async fn run(member: Member) -> Refusal {
    let coordinator = &member.parts.coordinator;
    let mut complained = false;
    let mut refused_since = Some(Instant::now());
    loop {
        if member.parts.ailment.now().is_some() {
            tokio::time::sleep(RETRY).await;
            continue;
        }
        let why = match register(&member).await {
            Ok((mut client, every)) => {
                (complained, refused_since) = (false, None);
                tracing::info!("registered with the coordinator at {coordinator}");
                heartbeats(&member, &mut client, every).await;
                tokio::time::sleep(RETRY).await;
                continue;
            }
            Err(Unregistered::GivenUp(why)) => return Refusal::GivenUp(why),
            Err(Unregistered::Refused(why)) => {
                if refused_since.is_some_and(|since| since.elapsed() > REFUSAL_PATIENCE) {
                    return Refusal::Unwelcome(why);
                }
                why
            }
            Err(Unregistered::Away(why)) => {
                refused_since = refused_since.map(|_| Instant::now());
                why
            }
        };
        if !complained {
            complained = true;
            tracing::warn!("cannot register with the coordinator at {coordinator}: {why}; trying on");
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn connect(coordinator: &str) -> Result<CoordinatorClient<Channel>, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{coordinator}"))?;
    let endpoint = endpoint
        .connect_timeout(Duration::from_millis(limits::CONNECT_TIMEOUT_MS))
        .tcp_keepalive(Some(KEEP_ALIVE))
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE);
    Ok(CoordinatorClient::new(endpoint.connect().await?))
}

async fn register(member: &Member) -> Result<(CoordinatorClient<Channel>, Duration), Unregistered> {
    let Parts { node, flows, .. } = &member.parts;
    let mut client = connect(&member.parts.coordinator).await.map_err(away)?;
    let (messages, outgoing) = tokio::sync::mpsc::channel(MESSAGES_AHEAD);
    // Only now that somebody answers: starts that nobody can have welcomed are not noted.
    let store = flows.store.clone();
    let before = tokio::task::spawn_blocking(move || store.try_start()).await.map_err(away)?.map_err(away)?;
    let incarnation = flows.store.incarnation();
    let (heard, kept) = (flows.store.heard(), flows.store.held());
    let Identity { store, cluster, accepted, tried, .. } = before;
    let hello = proto::NodeHello {
        node: node.0,
        cluster: cluster.map(ClusterId::to_vec).unwrap_or_default(),
        control_addr: member.control_addr.to_string(),
        data_addr: member.data_addr.to_string(),
        rack: member.rack.clone(),
        host: member.host.clone(),
        protocol: PROTOCOL_VERSION,
        store: store.to_vec(),
        accepted: accepted.iter().map(|word| word.0).collect(),
        tried: tried.iter().filter(|word| **word != incarnation).map(|word| word.0).collect(),
        incarnation: incarnation.0,
        // What it keeps is what it has heard of, whoever told it last.
        heard: Some(kept.map_or(heard, |kept| kept.last.stamp.max(heard)).into()),
        secret: flows.secret.to_vec(),
    };
    let listed = Arc::clone(flows);
    let inventory = tokio::task::spawn_blocking(move || send_inventory(&listed, hello, &messages));
    let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
    let reply = client.register(outgoing).await;
    // An inventory that broke off is why the coordinator refused it.
    inventory.await.map_err(away)?.map_err(away)?;
    let reply = reply.map_err(unregistered)?.into_inner();
    member.parts.answered.now();
    let cluster = ClusterId::from_slice(&reply.cluster).map_err(away)?;
    if let Some(wanted) = &reply.settings {
        member.parts.obey(wanted, true);
    }
    let (store, now) = (flows.store.clone(), reply.now.map(model::Stamp::from).unwrap_or_default());
    let heard = tokio::task::spawn_blocking(move || store.hear(now)).await.map_err(away)?;
    heard.map_err(|error| match error {
        StoreError::OlderTerm { .. } => Unregistered::Refused(error.to_string()),
        error => away(error),
    })?;
    if reply.unnoted {
        tracing::warn!(
            "the coordinator's catalog cannot note this start now: the node is read from, and registers again later"
        );
    } else {
        let store = flows.store.clone();
        // Before the first heartbeat: who counts as serving can be told from a clone by its next start.
        tokio::task::spawn_blocking(move || store.welcomed(cluster)).await.map_err(away)?.map_err(away)?;
    }
    Ok((client, heartbeat_pause(reply.heartbeat_ms)))
}

/// Tells the coordinator that the node leaves, so that it need not find out; within a bounded time, for one that is away finds
/// out when it is back. `ailment`: what its disk failed with, if that is why.
pub async fn say_goodbye(parts: &Parts, control_addr: SocketAddr, ailment: String) {
    let (coordinator, node) = (&parts.coordinator, parts.node);
    let goodbye = async {
        let channel = Endpoint::from_shared(format!("http://{coordinator}")).map_err(away)?.connect().await;
        let mut client = CoordinatorClient::new(channel.map_err(away)?);
        let control_addr = control_addr.to_string();
        client.goodbye(proto::GoodbyeRequest { node: node.0, control_addr, ailment }).await.map_err(away)
    };
    match tokio::time::timeout(GOODBYE_PATIENCE, goodbye).await {
        Ok(Ok(_)) => tracing::info!("said goodbye to the coordinator at {coordinator}"),
        _ => tracing::info!("the coordinator at {coordinator} does not answer: it will find out"),
    }
}

/// The signs of life of a helper that is no member: it keeps nothing, so the first is as any other.
pub(crate) struct Signs {
    coordinator: Arc<str>,
    /// The connection, from the last one that was answered.
    client: Option<CoordinatorClient<Channel>>,
}

impl Signs {
    /// To the coordinator at that host and port.
    pub fn to(coordinator: Arc<str>) -> Signs {
        Signs { coordinator, client: None }
    }

    /// Gives one; says when the next is due, and what each kind of traffic may take until then.
    pub async fn give(&mut self, lender: &Lender) -> Result<(Duration, Budgets), String> {
        let client = match self.client.take() {
            Some(client) => Ok(client),
            None => connect(&self.coordinator).await,
        };
        let mut client = client.map_err(|away| away.to_string())?;
        let answer = tokio::time::timeout(HEARTBEAT_TIMEOUT, client.lend(proto::Lender::from(lender))).await;
        let answer = answer.map_err(|_| "it does not answer".to_owned())?;
        let reply = answer.map_err(|status| status.message().to_owned())?.into_inner();
        self.client = Some(client);
        let budgets = reply.budgets.map(Budgets::from).unwrap_or_default();
        Ok((heartbeat_pause(reply.heartbeat_ms), budgets))
    }
}

impl fmt::Display for Signs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.coordinator)
    }
}

/// Between two signs of life, as a coordinator asks for it, within reason.
fn heartbeat_pause(ms: u32) -> Duration {
    Duration::from_millis(u64::from(ms.clamp(50, 60_000)))
}

/// Hello, then the names of all copies, folder by folder. An error ends it without the word that it is complete, and the
/// coordinator takes it for none.
fn send_inventory(
    flows: &FlowStore,
    hello: proto::NodeHello,
    messages: &Sender<proto::RegisterMessage>,
) -> Result<(), StoreError> {
    // A coordinator that takes no more says why in its answer.
    let send = |kind| messages.blocking_send(proto::RegisterMessage { kind: Some(kind) }).is_ok();
    if !send(Kind::Hello(hello)) {
        return Ok(());
    }
    let mut next = proto::BlockInventory::default();
    for listing in flows.store.list() {
        let listing = listing?;
        let copies = listing.copies.into_iter().map(|copy| Ok(named(copy)));
        for listed in copies.chain(listing.unjudged.into_iter().map(|name| Err(unjudged(name)))) {
            match listed {
                Ok(copy) => next.blocks.push(copy),
                Err(unjudged) => next.unjudged.push(unjudged),
            }
            let is_full = next.blocks.len() + next.unjudged.len() == BLOCKS_PER_MESSAGE;
            if is_full && !send(Kind::Blocks(std::mem::take(&mut next))) {
                return Ok(());
            }
        }
    }
    next.complete = true;
    send(Kind::Blocks(next));
    Ok(())
}

/// A name that says nothing for sure, as a message.
pub fn unjudged(file: Unjudged) -> proto::UnjudgedFile {
    let half = |name, copy| proto::UnjudgedFile { name, block: Some(named(copy)) };
    match file {
        Unjudged::Data(copy) => half(copy.to_string(), copy),
        Unjudged::Sidecar(copy) => half(format!("{copy}.meta"), copy),
        Unjudged::Strange(name) => proto::UnjudgedFile { name, block: None },
    }
}

fn away(error: impl fmt::Display) -> Unregistered {
    Unregistered::Away(error.to_string())
}

fn unregistered(status: tonic::Status) -> Unregistered {
    match status.code() {
        tonic::Code::PermissionDenied => Unregistered::GivenUp(status.message().to_owned()),
        tonic::Code::FailedPrecondition => Unregistered::Refused(status.message().to_owned()),
        _ => Unregistered::Away(status.message().to_owned()),
    }
}

/// Returns when the coordinator is gone or wants a new registration, or the disk fails.
async fn heartbeats(member: &Member, client: &mut CoordinatorClient<Channel>, every: Duration) {
    let parts = &member.parts;
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut noted = Instant::now();
    loop {
        ticks.tick().await;
        if let Some(why) = parts.ailment.now() {
            tracing::error!("its disk fails: {why}; it leaves until the disk is well again");
            return say_goodbye(parts, member.control_addr, why).await;
        }
        if noted.elapsed() > NOTE_HEARD {
            noted = Instant::now();
            parts.note_heard().await;
        }
        let request = proto::HeartbeatRequest { status: Some(parts.status()) };
        match tokio::time::timeout(HEARTBEAT_TIMEOUT, client.heartbeat(request)).await {
            Ok(Ok(reply)) if !reply.get_ref().register_again => {
                let reply = reply.get_ref();
                let now = reply.now.map(model::Stamp::from).unwrap_or_default();
                // A new term is taken only by registering.
                if let Err(error) = parts.flows.store.obey(now) {
                    tracing::warn!("a heartbeat's answer is not believed: {error}");
                    return;
                }
                parts.answered.now();
                if let Some(wanted) = &reply.settings {
                    parts.obey(wanted, false);
                }
            }
            _ => return,
        }
    }
}
