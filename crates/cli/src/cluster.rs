//! `stripeline cluster` and `stripeline node`: a cluster of processes on this machine, and nodes that leave any cluster.

use crate::amount::{Rate, Size, count};
use crate::context::Context;
use crate::local::{DaemonDir, Home, Running, UpArgs, bring_up, start_node, stop_all};
use crate::operate::{budgets_json, budgets_text};
use crate::output::{fields, hex, table};
use crate::repair::{self, Spread};
use crate::unknown::{self, UnknownArgs};
use anyhow::{Result, bail};
use clap::Subcommand;
use model::ClusterId;
use serde_json::{Value, json};
use wire::proto::{
    BlockRef, Budgets, ClusterStatus, ForgetNodeReply, LenderInfo, MarginCount, NodeInfo, NodeStatus,
};

/// What to do with the local cluster.
#[derive(Subcommand, Debug)]
pub enum ClusterCommand {
    /// Start a coordinator and nodes on this machine, or those of them that do not run
    Up(UpArgs),
    /// Show the nodes, and what needs attention
    Status,
    /// List copies that nodes have and of which the catalog knows nothing. They are kept until you name them with --delete
    Unknown(UnknownArgs),
    /// End the daemons that 'cluster up' started; their data stay
    Down,
}

/// What to do with one node of it.
#[derive(Subcommand, Debug)]
pub enum NodeCommand {
    /// End a node of the local cluster; its data stay
    Stop {
        /// Number of the node
        id: u32,
        /// As a crash would: without a chance to finish anything
        #[arg(long)]
        kill: bool,
    },
    /// Start a node of the local cluster again
    Start {
        /// Number of the node
        id: u32,
    },
    /// Move all blocks of a living node elsewhere, and give it none
    Decommission {
        /// Number of the node
        id: u32,
        #[command(flatten)]
        spread: Spread,
        /// Show the bytes of every link
        #[arg(short, long)]
        verbose: bool,
    },
    /// Give up a dead node for good, its disk with it: what it had is made again elsewhere as far as it can be, nothing waits for it
    /// any more, and its store is refused if it returns. Its number may then be given to a node with an empty folder
    Forget {
        /// Number of the node
        id: u32,
        /// Though blocks cannot be had from the nodes that live: those are lost, unless others that are away return
        #[arg(long)]
        accept_loss: bool,
    },
    /// Let a store register again that was given up by mistake; a node that is refused for that tells its id. Nothing counts on its
    /// copies until they were compared: what a block lacks is taken back, the rest is superfluous, or kept as unknown
    Readmit {
        /// Id of the store, 32 hexadecimal digits
        store: model::StoreId,
    },
    /// Let a decommissioned node hold blocks again
    Recommission {
        /// Number of the node
        id: u32,
    },
}

pub fn run(context: &Context, command: ClusterCommand) -> Result<()> {
    match command {
        ClusterCommand::Up(args) => up(context, &args),
        ClusterCommand::Status => status(context),
        ClusterCommand::Unknown(args) => unknown::run(context, &args),
        ClusterCommand::Down => down(context),
    }
}

pub fn run_node_command(context: &Context, command: NodeCommand) -> Result<()> {
    let (id, state, changed) = match command {
        NodeCommand::Start { id } => (id, "running", start_node(&context.home()?, id)?),
        NodeCommand::Stop { id, kill } => (id, "stopped", stop_node(&context.home()?, id, kill)?),
        NodeCommand::Decommission { id, spread, verbose } => {
            return repair::decommission(context, id, spread, verbose);
        }
        NodeCommand::Forget { id, accept_loss } => return forget(context, id, accept_loss),
        NodeCommand::Readmit { store } => {
            let node = context.with_client(async |client| Ok(client.readmit_store(store).await?))?.0;
            let answer = json!({"store": store.to_string(), "node": node});
            return context.out.answer(&answer, || {
                format!("store {store} may register again as node-{node}: start the node with that folder")
            });
        }
        NodeCommand::Recommission { id } => {
            context.with_client(async |client| Ok(client.recommission(model::NodeId(id)).await?))?;
            let answer = json!({"node": id, "leaving": false});
            return context.out.answer(&answer, || format!("node-{id} may hold blocks again"));
        }
    };
    let already = if changed { "" } else { " already" };
    context.out.answer(&json!({"node": id, "state": state, "changed": changed}), || {
        format!("node-{id} is{already} {state}")
    })
}

/// Asks until it is over: what is begun goes on, whoever waits for it.
fn forget(context: &Context, id: u32, accept_loss: bool) -> Result<()> {
    let reply = context.with_client(async |client| {
        loop {
            let reply = client.forget_node(model::NodeId(id), accept_loss).await?;
            if reply.over {
                return Ok(reply);
            }
            context.out.event(&forgotten_json(id, &reply))?;
            context.out.say(format!("{} copies dropped so far; {}", reply.dropped, reply.state))?;
        }
    })?;
    context.out.answer(&forgotten_json(id, &reply), || forgotten_text(id, &reply))
}

fn forgotten_json(id: u32, reply: &ForgetNodeReply) -> Value {
    fields!(reply => over dropped candidates short_blocks lost_blocks lost_objects lost_names state; "node": id)
}

fn forgotten_text(id: u32, reply: &ForgetNodeReply) -> String {
    let ForgetNodeReply { dropped, candidates, short_blocks, lost_blocks, lost_objects, .. } = reply;
    let mut lines = vec![format!(
        "node-{id} is forgotten, and its number is free: {dropped} copies that were left of it are listed no more, {candidates} \
         deletions are waited for no more"
    )];
    if *short_blocks > 0 {
        lines.push(format!(
            "{short_blocks} blocks had too few copies then; they are made again where there are nodes for them"
        ));
    }
    if *lost_blocks > 0 {
        let names = reply.lost_names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let more = if *lost_objects > reply.lost_names.len() as u64 { ", …" } else { "" };
        lines.push(format!(
            "{lost_blocks} blocks of {} could not be had without it: {names}{more}; they stay listed, should another node \
             bring them back",
            count(*lost_objects, "object")
        ));
    }
    lines.join("\n")
}

fn stop_node(home: &Home, id: u32, kill: bool) -> Result<bool> {
    let _lock = home.lock()?;
    if !home.cluster()?.is_some_and(|cluster| cluster.nodes.iter().any(|node| node.id == id)) {
        bail!(
            "there is no node {id} that the cluster of {} started: one that runs elsewhere, or whose store shares a process with others, ends \
             with that process",
            home.path().display()
        );
    }
    Ok(stop_all(&[home.node(id)], kill)? > 0)
}

fn up(context: &Context, args: &UpArgs) -> Result<()> {
    let home = context.home()?;
    let Running { cluster, coordinator, started } = bring_up(&home, args)?;
    let document = json!({
        "dir": home.path(),
        "coordinator": coordinator,
        "nodes": cluster.nodes.len(),
        "racks": cluster.racks,
        "started": started,
    });
    context.out.answer(&document, || {
        format!(
            "{} in {} up, the coordinator at {coordinator} ({} started)\ndata and logs: {}",
            count(cluster.nodes.len() as u64, "node"),
            count(u64::from(cluster.racks), "rack"),
            count(started as u64, "daemon"),
            home.path().display()
        )
    })
}

fn down(context: &Context) -> Result<()> {
    let home = context.home()?;
    let Some(cluster) = home.cluster()? else { bail!("there is no cluster in {}", home.path().display()) };
    let _lock = home.lock()?;
    let nodes: Vec<DaemonDir> = cluster.nodes.iter().map(|node| home.node(node.id)).collect();
    // The coordinator first: nodes still take what it has for them to keep of its catalog.
    let stopped = stop_all(&[home.coordinator()], false)? + stop_all(&nodes, false)?;
    context.out.answer(&json!({"dir": home.path(), "stopped": stopped}), || {
        format!("{} stopped; their data stay in {}", count(stopped as u64, "daemon"), home.path().display())
    })
}

fn status(context: &Context) -> Result<()> {
    let status = context.with_client(async |client| Ok(client.status().await?))?;
    context.out.answer(&status_json(&status), || status_text(&status))
}

fn status_json(status: &ClusterStatus) -> Value {
    let node = |n: &NodeInfo| {
        let s = n.status.clone().unwrap_or_default();
        let throttle = s.throttle.unwrap_or_default();
        let corrupt_blocks: Vec<String> = s.corrupt_blocks.iter().map(copy_text).collect();
        fields!(n => node rack host living leaving slow set_back forgotten ailment state blocks_left unread_copies nearly_full control_addr data_addr,
            s => blocks stored_bytes free_bytes takes_no_writes running_stages half_blocks,
            throttle => egress_bytes_per_s ingress_bytes_per_s; "corrupt_blocks": corrupt_blocks,
            "wishes": wishes(n), "last_seen_ms_ago": ago(n.last_seen_ms_ago))
    };
    let nodes: Vec<Value> = status.nodes.iter().map(node).collect();
    let throttle = status.throttle.map(|limit| fields!(limit => egress_bytes_per_s ingress_bytes_per_s));
    let budgets = status.budgets.as_ref().map(budgets_json);
    fields!(status => objects object_bytes stored_bytes free_bytes nearly_full blocks stripes open_stripes sealed_stripes waiting_blocks garbage garbage_bytes lost_copies damaged_copies in_flight missing_blocks
        unrecoverable_blocks quarantined safe_mode unknown_copies;
        "objects_by_margin": margins(&status.objects_by_margin), "stripes_by_margin": margins(&status.stripes_by_margin),
        "lenders": status.lenders.iter().map(lender_json).collect::<Vec<_>>(),
        "cluster": hex(&status.cluster), "nodes": nodes, "throttle": throttle, "budgets": budgets, "waits": waits(status))
}

fn margins(counts: &[MarginCount]) -> Vec<Value> {
    let known = counts.iter().filter(|counted| counted.losses < u64::MAX);
    known.map(|counted| json!({"losses": counted.losses, "count": counted.count})).collect()
}

/// Returns the milliseconds since the last sign of life; `None` if there was none since the coordinator's start.
fn ago(ms: u64) -> Option<u64> {
    Some(ms).filter(|ms| *ms < u64::MAX)
}

/// What operators want of a node's tasks: "scrub: pause".
fn wishes(node: &NodeInfo) -> Vec<String> {
    node.wishes.iter().map(|wish| format!("{}: {}", wish.name, wish.action)).collect()
}

/// As its file is named.
fn copy_text(copy: &BlockRef) -> String {
    format!("{}.{}", hex(&copy.block), copy.generation)
}

/// What superfluous copies wait for.
fn waits(status: &ClusterStatus) -> &str {
    status.tasks.iter().find(|task| task.name == "gc").map_or("", |task| task.detail.as_str())
}

fn status_text(status: &ClusterStatus) -> String {
    let living = status.nodes.iter().filter(|n| n.living).count();
    let mut lines = vec![format!(
        "cluster {}: {living} of {} nodes living, {} objects, {} blocks, {} stripes",
        ClusterId::from_slice(&status.cluster).map(|id| id.to_string()).unwrap_or_default(),
        status.nodes.len(),
        status.objects,
        status.blocks,
        status.stripes
    )];
    let ClusterStatus { object_bytes, stored_bytes, free_bytes, .. } = status;
    let (objects, stored, free) = (Size(*object_bytes), Size(*stored_bytes), Size(*free_bytes));
    lines.push(format!("{stored} stored for {objects} of objects, {free} free"));
    let margins = [("objects", &status.objects_by_margin), ("stripes", &status.stripes_by_margin)];
    lines.extend(margins.into_iter().filter_map(|(what, counts)| surviving(what, counts)));
    if status.waiting_blocks > 0 {
        let ClusterStatus { waiting_blocks: blocks, open_stripes: open, sealed_stripes: sealed, .. } = status;
        lines
            .push(format!("{blocks} blocks wait to be archived, in {open} open and {sealed} sealed stripes"));
    }
    lines.extend(set_by_operators(status));
    lines.extend(wrong_with_copies(status).map(|what| format!("attention: {what}")));
    lines.extend(wrong_with_nodes(status).map(|what| format!("attention: {what}")));
    if status.garbage > 0 {
        let (copies, room, waits) = (status.garbage, Size(status.garbage_bytes), waits(status));
        let why = if waits.is_empty() { String::new() } else { format!(": {waits}") };
        lines.push(format!("{copies} superfluous copies ({room}) are kept{why}"));
    }
    if !status.nodes.is_empty() || status.lenders.is_empty() {
        lines.push(nodes_table(status).to_string());
    }
    if !status.lenders.is_empty() {
        lines.push(lenders_table(status).to_string());
    }
    lines.join("\n")
}

/// "objects by the losses that they survive: 12 survive 2, 3 survive 1".
fn surviving(what: &str, counts: &[MarginCount]) -> Option<String> {
    // Of what has no blocks nothing can be lost.
    let counts = counts.iter().rev().filter(|counted| counted.losses < u64::MAX);
    let each: Vec<String> =
        counts.map(|counted| format!("{} survive {}", counted.count, counted.losses)).collect();
    (!each.is_empty()).then(|| format!("{what} by further losses: {}", each.join(", ")))
}

fn nodes_table(status: &ClusterStatus) -> comfy_table::Table {
    let mut table = table(["NODE", "RACK", "STATE", "BLOCKS", "STORED", "FREE", "LIMIT", "CONTROL"]);
    for n in &status.nodes {
        let s = n.status.clone().unwrap_or_default();
        let state = if n.slow { format!("{}, slow", n.state_text) } else { n.state_text.clone() };
        let limit = Rate(s.throttle.unwrap_or_default().egress_bytes_per_s);
        table.add_row([
            format!("node-{}", n.node),
            if n.host.is_empty() { n.rack.clone() } else { format!("{}, {}", n.rack, n.host) },
            state,
            s.blocks.to_string(),
            Size(s.stored_bytes).to_string(),
            match s.free_bytes {
                _ if !s.takes_no_writes.is_empty() => "takes no writes".to_owned(),
                Some(bytes) => Size(bytes).to_string(),
                None => "unknown".to_owned(),
            },
            limit.to_string(),
            n.control_addr.clone(),
        ]);
    }
    table
}

fn lenders_table(status: &ClusterStatus) -> comfy_table::Table {
    let mut table = table(["DATANODE", "RACK", "ITS HELPER", "RUNNING", "CONTROL"]);
    for lender in &status.lenders {
        let state = match lender.living {
            true => "living".to_owned(),
            false => match ago(lender.last_seen_ms_ago) {
                Some(ms) => format!("silent for {} s", ms / 1000),
                None => "not heard since the coordinator's start".to_owned(),
            },
        };
        table.add_row([
            hex(&lender.datanode),
            lender.rack.clone(),
            state,
            lender.running_stages.to_string(),
            lender.control_addr.clone(),
        ]);
    }
    table
}

fn lender_json(lender: &LenderInfo) -> Value {
    fields!(lender => rack living control_addr running_stages; "datanode": hex(&lender.datanode),
        "last_seen_ms_ago": ago(lender.last_seen_ms_ago))
}

fn set_by_operators(status: &ClusterStatus) -> impl Iterator<Item = String> {
    let limit = status.throttle.as_ref().map(|limit| {
        let (up, down) = (Rate(limit.egress_bytes_per_s), Rate(limit.ingress_bytes_per_s));
        format!("set by an operator: each node sends at {up} and receives at {down} at most")
    });
    let budgets = status.budgets.as_ref().filter(|budgets| **budgets != Budgets::default());
    let budgets =
        budgets.map(|budgets| format!("set by an operator: budgets of each node: {}", budgets_text(budgets)));
    let wishing = status.nodes.iter().filter(|node| !node.wishes.is_empty());
    let of_tasks =
        wishing.map(|node| format!("set by an operator: node-{}: {}", node.node, wishes(node).join(", ")));
    limit.into_iter().chain(budgets).chain(of_tasks)
}

fn wrong_with_copies(status: &ClusterStatus) -> impl Iterator<Item = String> {
    let ClusterStatus { missing_blocks, unrecoverable_blocks, lost_copies, damaged_copies, .. } = status;
    let missing = (missing_blocks + unrecoverable_blocks > 0).then(|| {
        format!(
            "{missing_blocks} blocks have no living copy, {unrecoverable_blocks} of them cannot be rebuilt now"
        )
    });
    let broken = (!status.safe_mode.is_empty()).then(|| {
        format!(
            "nothing is archived or let go, for the catalog's history may be broken: {}; 'stripeline catalog recover' lists what \
             is to be decided, 'stripeline catalog end-safe-mode' takes it as it is",
            status.safe_mode
        )
    });
    let unknown = (status.unknown_copies > 0).then(|| {
        format!(
            "nodes have {} copies of which nothing is known; they are kept: 'stripeline cluster unknown' lists them",
            status.unknown_copies
        )
    });
    let flawed = (lost_copies + damaged_copies > 0).then(|| {
        format!("{lost_copies} copies are missing and {damaged_copies} damaged: nothing counts on them")
    });
    [missing, broken, unknown, flawed].into_iter().flatten()
}

/// Formats the stored and the free bytes of a node.
fn taken(status: Option<&NodeStatus>) -> String {
    let (stored, free) = status.map_or((0, 0), |s| (s.stored_bytes, s.free_bytes.unwrap_or_default()));
    format!("{} stored, {} free", Size(stored), Size(free))
}

fn wrong_with_nodes(status: &ClusterStatus) -> impl Iterator<Item = String> {
    let halves = status.nodes.iter().filter_map(|node| {
        let halves = node.status.as_ref().map_or(0, |s| s.half_blocks);
        (halves > 0).then(|| {
            format!(
                "node-{} has {halves} files of blocks without the file that belongs beside them; they are kept",
                node.node
            )
        })
    });
    let set_back = status.nodes.iter().filter(|node| node.set_back).map(|node| {
        format!(
            "the folder of node-{} was set back or swapped, or its last start could not write to it: it does not know that start",
            node.node
        )
    });
    let unread = status.nodes.iter().filter(|node| node.unread_copies > 0).map(|node| {
        format!(
            "node-{} cannot read {} copies now: 'stripeline health' says why",
            node.node, node.unread_copies
        )
    });
    let leaving = status.nodes.iter().filter(|node| node.state == "leaving");
    let leaving = leaving.map(|node| format!("node-{} is {}", node.node, node.state_text));
    let quarantined = status.quarantined.iter().map(|node| format!("{node} is quarantined"));
    let ailing = status.nodes.iter().filter(|node| !node.ailment.is_empty()).map(|node| {
        format!(
            "the disk of node-{} failed, and what it holds is counted as away: {}",
            node.node, node.ailment
        )
    });
    let full = status.nodes.iter().filter(|node| node.living).filter_map(|node| {
        let why = &node.status.as_ref()?.takes_no_writes;
        (!why.is_empty()).then(|| {
            format!("the disk of node-{} takes no writes; what it holds can be read: {why}", node.node)
        })
    });
    let nearly = status.nodes.iter().filter(|node| node.nearly_full);
    let nearly =
        nearly.map(|node| format!("node-{} is nearly full: {}", node.node, taken(node.status.as_ref())));
    let all = status.nearly_full.then(|| {
        let (stored, free) = (Size(status.stored_bytes), Size(status.free_bytes));
        format!("the cluster is nearly full: {stored} stored, {free} free; archive what is replicated, remove objects, or add nodes")
    });
    let nodes =
        halves.chain(set_back).chain(quarantined).chain(ailing).chain(unread).chain(leaving).chain(full);
    nodes.chain(nearly).chain(all)
}
