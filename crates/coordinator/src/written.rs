//! Checks whether copies were written. Drivers and clients relay what nodes said, and may relay anything.
//!
//! | the copy comes with | it counts |
//! |---|---|
//! | a MAC that fits the secret of the start that it names | at once |
//! | a MAC that does not fit | never: whoever passed it on made it up, or took it from another copy |
//! | no MAC, or that of a start whose secret is not known (here since a restart, there since several) | if its node has it now, as the node itself says |

use crate::cluster::{Check, Cluster, Fleet, Seen};
use crate::error::{CoordinatorError, Result};
use catalog::{CommittedBlock, FIRST_GENERATION, MIN_REPLICAS, PlannedBlock, StartOfStore};
use model::{BlockCopy, BlockId, FlowId, NodeId, Sums};
use plan::decide::World;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::task::JoinSet;
use wire::mac::{Mac, WrittenCopy};

/// Copies that one call asks a node about.
const ASKED_AT_ONCE: usize = 1_024;

/// A copy that a driver or client says is durable.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub copy: BlockCopy,
    /// The flow that should have written the copy.
    pub flow: FlowId,
    pub stored_bytes: u64,
    pub sums: Sums,
    /// The start of its store that wrote the copy; `None` if it is not named.
    pub by: Option<StartOfStore>,
    /// The MAC as received; empty if there is none.
    pub mac: Vec<u8>,
}

/// Result of the check of a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The node wrote the copy and said so under this start, or has it and says so under this start.
    Written(StartOfStore),
    /// The MAC does not fit.
    False,
    /// The node was asked and has no such copy.
    Absent,
    /// The node could not be asked, for this reason.
    NotTold(String),
}

/// The start and the MAC that a client names for each copy that its put wrote.
pub(crate) type Named = BTreeMap<(BlockId, NodeId), (StartOfStore, Vec<u8>)>;

impl Claim {
    /// Returns `None` if the node must be asked.
    fn judge(&self, cluster: &Cluster) -> Option<Verdict> {
        let by = self.by.filter(|_| !self.mac.is_empty())?;
        let secret = cluster.calls.secret(self.copy.node, by)?;
        let written = WrittenCopy {
            flow: self.flow,
            block: self.copy.block,
            generation: self.copy.generation,
            stored_bytes: self.stored_bytes,
            sums: &self.sums,
            store: by.0,
            incarnation: by.1,
        };
        let is_true = Mac::from_slice(&self.mac).is_some_and(|told| secret.of_copy(&written).is(&told));
        Some(if is_true { Verdict::Written(by) } else { Verdict::False })
    }
}

/// Checks all claims. Nodes are asked only where MACs do not decide.
pub(crate) async fn judge(cluster: &Cluster, claims: &[Claim]) -> BTreeMap<BlockCopy, Verdict> {
    let (mut verdicts, mut open): (_, BTreeMap<NodeId, Vec<&Claim>>) = (BTreeMap::new(), BTreeMap::new());
    for claim in claims {
        match claim.judge(cluster) {
            Some(verdict) => _ = verdicts.insert(claim.copy, verdict),
            None => open.entry(claim.copy.node).or_default().push(claim),
        }
    }
    if !open.is_empty() {
        ask(cluster, open, &mut verdicts).await;
    }
    verdicts
}

async fn ask(
    cluster: &Cluster,
    open: BTreeMap<NodeId, Vec<&Claim>>,
    verdicts: &mut BTreeMap<BlockCopy, Verdict>,
) {
    let view = cluster.view();
    let mut asked = JoinSet::new();
    for (&node, claims) in &open {
        let copies = claims.iter().map(|claim| claim.copy).collect();
        asked.spawn(on_node(Arc::clone(&cluster.fleet), view.clone(), node, copies));
    }
    let mut answers = BTreeMap::new();
    while let Some(answer) = asked.join_next().await {
        answers.extend(answer);
    }
    for (node, claims) in open {
        // This is the start that was asked; the node answers for no other.
        let start = view.node(node).ok().and_then(|facts| facts.store);
        for claim in claims {
            let verdict = match (answers.get(&node), start) {
                (Some(Ok(seen)), Some(start)) => found(claim, seen, start),
                (Some(Err(why)), _) => Verdict::NotTold(why.clone()),
                _ => Verdict::NotTold("its answer is not known".to_owned()),
            };
            verdicts.insert(claim.copy, verdict);
        }
    }
}

fn found(claim: &Claim, seen: &BTreeMap<BlockCopy, Vec<u8>>, start: StartOfStore) -> Verdict {
    let digest = seen.get(&claim.copy);
    match digest.is_some_and(|digest| claim.sums.digest.is_some_and(|known| known[..] == digest[..])) {
        true => Verdict::Written(start),
        false => Verdict::Absent,
    }
}

type Digests = std::result::Result<BTreeMap<BlockCopy, Vec<u8>>, String>;

/// Returns the digests of those copies that the node has now.
async fn on_node(
    fleet: Arc<dyn Fleet>,
    view: World,
    node: NodeId,
    copies: Vec<BlockCopy>,
) -> (NodeId, Digests) {
    let mut there = BTreeMap::new();
    for some in copies.chunks(ASKED_AT_ONCE) {
        match fleet.check(&view, node, some, Check::default()).await {
            Ok(seen) => there.extend(seen.into_iter().map(|Seen { copy, digest }| (copy, digest))),
            Err(error) => return (node, Err(error.to_string())),
        }
    }
    (node, Ok(there))
}

/// Keeps only the written copies of a put's blocks. `planned` holds the put's own blocks.
///
/// # Errors
/// [`CoordinatorError::NotWritten`] if a MAC does not fit, or too few copies of a block were written; [`CoordinatorError::NotToldYet`]
/// if nodes that did not answer may have the missing ones.
pub(crate) async fn keep_written(
    cluster: &Cluster,
    blocks: &mut [CommittedBlock],
    planned: &BTreeMap<BlockId, PlannedBlock>,
    mut told: Named,
) -> Result<()> {
    let mut claims = Vec::new();
    for block in blocks.iter() {
        // The catalog refuses blocks that were not planned.
        let Some(plan) = planned.get(&block.block) else { continue };
        let nodes: BTreeSet<NodeId> = block.nodes.iter().copied().collect();
        for node in nodes.into_iter().filter(|node| plan.nodes.contains(node)) {
            let (by, mac) = told.remove(&(block.block, node)).unzip();
            let copy = BlockCopy { block: block.block, node, generation: FIRST_GENERATION };
            // The sums are those of the plan; the catalog refuses a client that names others.
            let PlannedBlock { flow, stored_bytes, sums, .. } = *plan;
            claims.push(Claim { copy, flow, stored_bytes, sums, by, mac: mac.unwrap_or_default() });
        }
    }
    let verdicts = judge(cluster, &claims).await;
    for block in blocks {
        if let Some(plan) = planned.get(&block.block) {
            keep(block, plan.nodes.len().min(MIN_REPLICAS), &verdicts)?;
        }
    }
    Ok(())
}

fn keep(written: &mut CommittedBlock, needed: usize, verdicts: &BTreeMap<BlockCopy, Verdict>) -> Result<()> {
    let block = written.block;
    let (mut absent, mut silent) = (None, None);
    let mut kept = Vec::new();
    for &node in &written.nodes {
        match verdicts.get(&BlockCopy { block, node, generation: FIRST_GENERATION }) {
            Some(Verdict::Written(start)) => {
                written.by.insert(node, *start);
                kept.push(node);
            }
            Some(Verdict::False) => {
                let why = "did not say that it wrote it: the MAC is not its own".to_owned();
                return Err(CoordinatorError::NotWritten { block, node, why });
            }
            Some(Verdict::Absent) => absent = Some(node),
            Some(Verdict::NotTold(why)) => silent = Some((node, why.clone())),
            None => kept.push(node),
        }
    }
    match (kept.len() < needed, silent, absent) {
        (true, Some((node, why)), _) => Err(CoordinatorError::NotToldYet { block, node, why }),
        (true, None, Some(node)) => {
            Err(CoordinatorError::NotWritten { block, node, why: "does not have it".to_owned() })
        }
        // The catalog refuses a block that lacks copies although none of those named is in doubt.
        _ => {
            written.nodes = kept;
            Ok(())
        }
    }
}
