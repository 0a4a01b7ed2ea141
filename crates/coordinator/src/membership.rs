//! Nodes come, report, and say what they hold.

use crate::clock::Began;
use crate::cluster::{Cluster, Listed, Told, row_of};
use crate::comparison::Comparison;
use crate::damaged::Damaged;
use crate::error::{CoordinatorError, Result};
use crate::holders::Holders;
use crate::operator;
use crate::records::Records;
use crate::settings::Settings;
use crate::unnoted::{NewStart, Unnoted};
use catalog::CatalogError;
use catalog::incarnation::{Known, Start, Verdict, judge};
use catalog::rows::NodeRow;
use model::{BlockCopy, BlockId, Budgets, ClusterId, Incarnation, NodeId, Stamp, StoreId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tonic::Streaming;
use wire::codec::group::Lender;
use wire::mac::Secret;
use wire::proto::register_message::Kind;
use wire::{PROTOCOL_VERSION, proto};

/// A node that says nothing for this long while it registers is gone.
const REGISTER_SILENCE: Duration = Duration::from_secs(30);

/// Of what a node says is wrong with its disk, shown to people.
const MAX_AILMENT_CHARS: usize = 200;

/// Length of addresses, and of the names of racks and hosts.
pub(crate) const MAX_ADDRESS_BYTES: usize = 256;

/// What nodes tell of themselves.
#[derive(Debug)]
pub(crate) struct Membership {
    pub records: Records,
    pub cluster: Arc<Cluster>,
    pub comparison: Arc<Comparison>,
    pub holders: Arc<Holders>,
    pub damaged: Arc<Damaged>,
    pub unnoted: Unnoted,
    pub settings: Arc<Settings>,
    pub heartbeat_ms: u32,
    /// An empty catalog founds a new cluster.
    pub founds: bool,
}

impl Membership {
    /// Registers a node: first its hello, then its inventory. The node lives once the inventory is complete. Before anything is noted, it must
    /// answer a call of this coordinator as the start that it claims to be.
    pub async fn register(
        &self,
        mut messages: Streaming<proto::RegisterMessage>,
    ) -> Result<proto::RegisterReply> {
        let Some(Kind::Hello(hello)) = next(&mut messages).await? else {
            return Err(invalid("a registration begins with a hello"));
        };
        let (row, cluster) = self.check_hello(&hello)?;
        let node = NodeId(hello.node);
        let secret = Secret::from_slice(&hello.secret);
        let secret = secret.ok_or_else(|| invalid("the secret of the node's start has another length"))?;
        self.refuse_another_cluster(node, cluster).await?;
        let unanswered = self.cluster.calls.admit()?;
        let admitted = self.admit(node, &row, start_of(&hello)?).await?;
        self.cluster.calls.answers_at_first(node, &row, secret).await?;
        drop(unanswered);
        let answered = Began::now();
        let start = NewStart { node, row: row.clone(), cluster, seen: admitted.seen };
        let (cluster, is_noted) = self.unnoted.note(&self.records, start).await?;
        match self.hear(node, hello.heard.map(Stamp::from).unwrap_or_default()).await {
            // The node registers again, and says so again.
            Err(CoordinatorError::Catalog(CatalogError::NoRoom { .. })) if !is_noted => {}
            heard => _ = unless_damaged(node, heard)?,
        }
        // Committed before the inventory is complete, so the node cannot be blamed for lacking what came later.
        let placed = self.records.run(move |catalog| catalog.held_by(node)).await;
        let placed = unless_damaged(node, placed)?.unwrap_or_default();
        let Inventory { held, unjudged, strange } = inventory(&mut messages, node).await?;
        // An operator may have given it up while it listed what it has.
        let store = row.store;
        self.records.run(move |catalog| catalog.may_register(node, store)).await?;
        if answered.elapsed() > self.cluster.calls.every() {
            self.cluster.calls.answers_at_first(node, &row, secret).await?;
        }
        self.cluster.calls.remember(node, (store, row.incarnation), secret);
        self.cluster.health.registered(node, row, admitted.is_set_back);
        tracing::info!(%node, blocks = held.len(), halves = unjudged.len(), strange, "registered");
        let listed = Listed { whole: held, halves: unjudged };
        match self.comparison.registered(node, listed, &placed).await {
            // Nothing is deleted on a node that was not compared; it is at its next registration, or in turn.
            Err(CoordinatorError::Catalog(error @ CatalogError::NoRoom { .. })) => {
                tracing::warn!(%node, %error, "it registers without being compared with the catalog");
            }
            compared => _ = unless_damaged(node, compared)?,
        }
        let settings = Some(operator::told(self.settings.of_node(node)));
        let now = self.word(node).await?;
        let cluster = cluster.to_vec();
        Ok(proto::RegisterReply {
            cluster,
            heartbeat_ms: self.heartbeat_ms,
            settings,
            now,
            unnoted: !is_noted,
        })
    }

    /// A heartbeat; newly damaged blocks are dealt with.
    pub async fn heartbeat(&self, request: proto::HeartbeatRequest) -> Result<proto::HeartbeatReply> {
        let status = request.status.ok_or_else(|| invalid("a heartbeat without a status"))?;
        let (node, scrub_rounds) = (NodeId(status.node), status.scrub_rounds);
        let Some(Told { damaged, cleared }) = self.cluster.health.heartbeat(status) else {
            return Ok(proto::HeartbeatReply { register_again: true, ..Default::default() });
        };
        self.comparison.scrubbed(node, scrub_rounds);
        self.comparison.perhaps_back(cleared);
        let noted = self.damaged.found(damaged).await;
        self.cluster.health.dealt_with(&noted);
        let settings = Some(operator::told(self.settings.of_node(node)));
        let now = self.word(node).await?;
        let register_again = self.unnoted.can_be_noted(&self.records, node).await;
        Ok(proto::HeartbeatReply { register_again, settings, now })
    }

    /// Returns the last change, as nodes are told; `None` if the row that says it is damaged.
    async fn word(&self, node: NodeId) -> Result<Option<proto::Stamp>> {
        let word = self.holders.word().await;
        Ok(unless_damaged(node, word)?.map(Into::into))
    }

    /// Takes the report of a helper beside a DataNode of HDFS. Nothing of it is stored. A helper that is new, or counts as dead, must answer a
    /// call first.
    pub async fn lend(&self, lender: proto::Lender) -> Result<proto::LenderReply> {
        let lender = Lender::try_from(lender)?;
        if !self.cluster.lenders.reports(&lender) {
            self.admit_lender(&lender).await?;
        }
        let (_, budgets) = self.settings.limits();
        let budgets = budgets.map(|row| Budgets::from(row).into());
        Ok(proto::LenderReply { heartbeat_ms: self.heartbeat_ms, budgets })
    }

    async fn admit_lender(&self, lender: &Lender) -> Result<()> {
        let (node, calls) = (lender.node(), &self.cluster.calls);
        if !lender.leaves {
            let _unanswered = calls.admit()?;
            calls.answers_at_first(node, &row_of(lender), lender.secret).await?;
        }
        self.cluster.lenders.lends(lender).map_err(CoordinatorError::Conflict)?;
        if !lender.leaves {
            calls.remember(node, (lender.datanode.0, lender.incarnation), lender.secret);
        }
        Ok(())
    }

    /// A node says which change it has heard of. If nothing is known of it here, this catalog was set back, or another one is
    /// about: from then on nothing is let go, and a new term begins above the one that the node obeyed, for it obeys no
    /// other.
    async fn hear(&self, node: NodeId, heard: Stamp) -> Result<()> {
        let now_ms = self.cluster.clock.now_ms();
        let word = rand::random();
        let hear = move |catalog: &catalog::Catalog| {
            if !catalog.hear(node, heard, now_ms)? {
                return Ok(None);
            }
            let is_above = catalog.last_change()?.term.number > heard.term.number;
            if is_above { Ok(None) } else { catalog.begin_term(word, heard.term.number).map(Some) }
        };
        if let Some(term) = self.records.run(hear).await? {
            tracing::warn!(%node, %heard, %term, "it obeyed a change that is not known here: nothing is let go from now on");
        }
        Ok(())
    }

    /// A node ends: nothing is planned with it any more, and its recovery need not be waited for.
    pub fn goodbye(&self, request: &proto::GoodbyeRequest) {
        let node = NodeId(request.node);
        let ailment: String = request.ailment.chars().take(MAX_AILMENT_CHARS).collect();
        if !self.cluster.health.goodbye(node, &request.control_addr, &ailment) {
            return;
        }
        if ailment.is_empty() {
            tracing::info!(%node, "it said goodbye: it does not live any more");
        } else {
            tracing::warn!(%node, ailment, "its disk fails: what it holds is counted as away until it is well again");
        }
    }

    /// A node of another cluster is one whatever its number.
    async fn refuse_another_cluster(&self, node: NodeId, cluster: Option<ClusterId>) -> Result<()> {
        let meta = self.records.run(|catalog| catalog.meta()).await;
        let Some(meta) = unless_damaged(node, meta)? else { return Ok(()) };
        match cluster {
            Some(theirs) if meta.unnamed && self.founds => Err(CoordinatorError::Conflict(format!(
                "this coordinator is to found a new cluster, and {node} belongs to cluster {theirs}: start the coordinator without \
                 --found, so that it gets the catalog that nodes keep, or the node with an empty folder"
            ))),
            Some(theirs) if theirs != meta.cluster && !meta.unnamed => {
                Err(CatalogError::OtherCluster { node, theirs, ours: meta.cluster }.into())
            }
            _ => Ok(()),
        }
    }

    /// Judges who wants to register: refused is a clone, or a second node of the same number, and a store that is another
    /// than the one that has the number's copies. Taken for it, it would cost every copy that the true one has.
    async fn admit(&self, node: NodeId, row: &NodeRow, start: Start) -> Result<Admitted> {
        let before = self.records.run(move |catalog| catalog.node(node)).await;
        let before = unless_damaged(node, before)?.flatten();
        let is_other = before.as_ref().is_some_and(|known| known.store != start.store);
        let count = move |catalog: &catalog::Catalog| Ok(catalog.held_by(node)?.len() as u64);
        let copies = if is_other { self.records.run(count).await? } else { 0 };
        let known = match &before {
            None => None,
            Some(known) => {
                let answers = !start.is_the_accepted_one(known) && self.cluster.answers(node, known).await;
                Some(Known { store: known.store, word: known.incarnation, copies, answers })
            }
        };
        let seen = before.as_ref().map(|known| (known.store, known.incarnation));
        let at = before.map_or_else(String::new, |known| known.control_addr);
        let here = &row.control_addr;
        let store = start.store;
        let is_forgotten = self.records.run(move |catalog| catalog.is_forgotten(store)).await?;
        match judge(known.as_ref(), &start, is_forgotten) {
            Verdict::Welcome => Ok(Admitted { seen, is_set_back: false }),
            Verdict::SetBack => {
                tracing::warn!(%node, store = %start.store, "its folder was set back or swapped: it does not know its last start");
                Ok(Admitted { seen, is_set_back: true })
            }
            Verdict::Clone => Err(CoordinatorError::Conflict(format!(
                "{node} lives at {at}, and another process at {here} says that it is {node} too: its folder is a clone, or \
                 two nodes were given one number; end one of them, or give this one a folder and a number of its own"
            ))),
            Verdict::OtherStore => Err(self.other_store(node, store, copies).await),
            Verdict::Forgotten => Err(CatalogError::Forgotten { node, store }.into()),
        }
    }

    /// Why a store is refused that has the number of another one's copies: they may be going just now.
    async fn other_store(&self, node: NodeId, store: StoreId, copies: u64) -> CoordinatorError {
        let may = self.records.run(move |catalog| catalog.may_register(node, store)).await;
        may.err().unwrap_or_else(|| {
            CoordinatorError::Conflict(format!(
                "{node} has {copies} copies here, and this folder is another store than theirs: start it with the node's own \
                 folder; if that is lost, run `stripeline node forget {}` first; if it is another node, give it another number",
                node.0
            ))
        })
    }

    fn check_hello(&self, hello: &proto::NodeHello) -> Result<(NodeRow, Option<ClusterId>)> {
        if hello.protocol != PROTOCOL_VERSION {
            return Err(CoordinatorError::Conflict(format!(
                "node-{} speaks protocol {}, this coordinator {PROTOCOL_VERSION}; run the same version on both",
                hello.node, hello.protocol
            )));
        }
        if hello.node == 0 {
            return Err(invalid("node numbers begin at 1; 0 is the client"));
        }
        for address in [&hello.control_addr, &hello.data_addr] {
            if address.is_empty() || address.len() > MAX_ADDRESS_BYTES {
                return Err(invalid("a node needs a control and a data address, host:port"));
            }
        }
        if hello.rack.len().max(hello.host.len()) > MAX_ADDRESS_BYTES {
            return Err(invalid("the name of the rack, or of the host, is too long"));
        }
        if let Some(other) = self.cluster.health.holder_of(&hello.data_addr, NodeId(hello.node)) {
            return Err(CoordinatorError::Conflict(format!(
                "{other} lives at {} already; give node-{} another address",
                hello.data_addr, hello.node
            )));
        }
        let cluster = match hello.cluster.as_slice() {
            [] => None,
            bytes => Some(ClusterId::from_slice(bytes)?),
        };
        let row = NodeRow {
            control_addr: hello.control_addr.clone(),
            data_addr: hello.data_addr.clone(),
            rack: hello.rack.clone(),
            store: StoreId::from_slice(&hello.store)?,
            incarnation: Incarnation(hello.incarnation),
            host: hello.host.clone(),
        };
        Ok((row, cluster))
    }
}

/// A node that may register.
struct Admitted {
    /// The start that was accepted before.
    seen: Option<(StoreId, Incarnation)>,
    is_set_back: bool,
}

fn start_of(hello: &proto::NodeHello) -> Result<Start> {
    Ok(Start {
        store: StoreId::from_slice(&hello.store)?,
        accepted: hello.accepted.first().copied().map(Incarnation),
        tried: hello.tried.iter().copied().map(Incarnation).collect(),
        new: Incarnation(hello.incarnation),
    })
}

/// Returns what was read of the catalog or written there; `None` if the catalog's file is damaged. The node lives all the same, so that its
/// copies can be read. Nothing is deleted or noted until the file is rebuilt; then the node registers again.
fn unless_damaged<T>(node: NodeId, read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(CoordinatorError::Catalog(error))
            if error.is_damage() || matches!(error, CatalogError::ChangesWait(_)) =>
        {
            tracing::warn!(%node, %error, "the damaged catalog is gone around for this node");
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// What a node says it has.
#[derive(Default)]
struct Inventory {
    held: BTreeSet<BlockCopy>,
    /// Copies of which it has only one of two files: they are none, and it keeps them.
    unjudged: BTreeSet<BlockCopy>,
    /// Files that are no block's.
    strange: u64,
}

/// All of it, to the word that it is complete: an inventory that breaks off is none.
async fn inventory(messages: &mut Streaming<proto::RegisterMessage>, node: NodeId) -> Result<Inventory> {
    let mut inventory = Inventory::default();
    let copy = |named: &proto::BlockRef| -> Result<BlockCopy> {
        Ok(BlockCopy { block: BlockId::from_slice(&named.block)?, node, generation: named.generation })
    };
    loop {
        let Some(Kind::Blocks(part)) = next(messages).await? else {
            return Err(invalid("the node's inventory broke off: it cannot list its blocks"));
        };
        for named in &part.blocks {
            inventory.held.insert(copy(named)?);
        }
        for file in part.unjudged {
            match &file.block {
                Some(named) => _ = inventory.unjudged.insert(copy(named)?),
                None => inventory.strange += 1,
            }
            tracing::warn!(%node, name = file.name, "a file that it cannot judge");
        }
        if part.complete {
            return Ok(inventory);
        }
    }
}

async fn next(messages: &mut Streaming<proto::RegisterMessage>) -> Result<Option<Kind>> {
    let lost = |why: &str| invalid(&format!("the registration broke off: {why}"));
    match tokio::time::timeout(REGISTER_SILENCE, messages.message()).await {
        Ok(Ok(None)) => Ok(None),
        Ok(Ok(Some(message))) => match message.kind {
            Some(kind) => Ok(Some(kind)),
            None => Err(invalid("a registration message of no kind")),
        },
        Ok(Err(status)) => Err(lost(status.message())),
        Err(_) => Err(lost("the node is silent")),
    }
}

fn invalid(what: &str) -> CoordinatorError {
    CoordinatorError::Invalid(what.to_owned())
}
