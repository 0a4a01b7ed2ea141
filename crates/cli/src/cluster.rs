//! `stripeline cluster` and `stripeline node`: a cluster of processes on this machine, and nodes that leave any cluster.

use crate::amount::{Rate, Size, count};
use crate::context::Context;
use crate::local::{DaemonDir, Home, Running, UpArgs, bring_up, start_node, stop_all};
use crate::output::{fields, hex, table};
use crate::repair::{self, Spread};
use anyhow::{Result, bail};
use clap::Subcommand;
use model::ClusterId;
use serde_json::{Value, json};
use wire::proto::{BlockRef, ClusterStatus, NodeInfo};

/// What to do with the local cluster.
#[derive(Subcommand, Debug)]
pub enum ClusterCommand {
    /// Start a coordinator and nodes on this machine, or those of them that do not run
    Up(UpArgs),
    /// Show the nodes, and what needs attention
    Status,
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

fn stop_node(home: &Home, id: u32, kill: bool) -> Result<bool> {
    let _lock = home.lock()?;
    if !home.cluster()?.is_some_and(|cluster| cluster.nodes.iter().any(|node| node.id == id)) {
        bail!("there is no node {id} in the cluster of {}", home.path().display());
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
    let stopped = stop_all(&nodes, false)? + stop_all(&[home.coordinator()], false)?;
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
        fields!(n => node rack living leaving slow set_back last_seen_ms_ago control_addr data_addr,
            s => blocks stored_bytes free_bytes running_stages half_blocks,
            throttle => egress_bytes_per_s ingress_bytes_per_s; "corrupt_blocks": corrupt_blocks,
            "wishes": wishes(n))
    };
    let nodes: Vec<Value> = status.nodes.iter().map(node).collect();
    let throttle = status.throttle.map(|limit| fields!(limit => egress_bytes_per_s ingress_bytes_per_s));
    fields!(status => objects blocks stripes garbage garbage_bytes lost_copies damaged_copies in_flight missing_blocks
        unrecoverable_blocks quarantined safe_mode unknown_copies;
        "cluster": hex(&status.cluster), "nodes": nodes, "throttle": throttle, "waits": waits(status))
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
    let mut table = table(["NODE", "RACK", "STATE", "BLOCKS", "STORED", "FREE", "LIMIT", "CONTROL"]);
    for n in &status.nodes {
        let s = n.status.clone().unwrap_or_default();
        let state = match (n.living, n.leaving, n.slow) {
            (true, false, false) => "living".to_owned(),
            (true, false, true) => "living, slow".to_owned(),
            (true, true, _) => "decommissioned".to_owned(),
            (false, ..) => format!("dead for {} s", n.last_seen_ms_ago / 1000),
        };
        let limit = Rate(s.throttle.unwrap_or_default().egress_bytes_per_s);
        table.add_row([
            format!("node-{}", n.node),
            n.rack.clone(),
            state,
            s.blocks.to_string(),
            Size(s.stored_bytes).to_string(),
            s.free_bytes.map_or_else(|| "unknown".to_owned(), |bytes| Size(bytes).to_string()),
            limit.to_string(),
            n.control_addr.clone(),
        ]);
    }
    let living = status.nodes.iter().filter(|n| n.living).count();
    let mut text = format!(
        "cluster {}: {living} of {} nodes living, {} objects, {} blocks, {} stripes\n",
        ClusterId::from_slice(&status.cluster).map(|id| id.to_string()).unwrap_or_default(),
        status.nodes.len(),
        status.objects,
        status.blocks,
        status.stripes
    );
    if let Some(limit) = &status.throttle {
        let (up, down) = (Rate(limit.egress_bytes_per_s), Rate(limit.ingress_bytes_per_s));
        text += &format!("set by an operator: each node sends at {up} and receives at {down} at most\n");
    }
    for node in status.nodes.iter().filter(|node| !node.wishes.is_empty()) {
        text += &format!("set by an operator: node-{}: {}\n", node.node, wishes(node).join(", "));
    }
    if status.missing_blocks + status.unrecoverable_blocks > 0 {
        text += &format!(
            "attention: {} blocks have no living copy, {} of them cannot be rebuilt now\n",
            status.missing_blocks, status.unrecoverable_blocks
        );
    }
    if !status.safe_mode.is_empty() {
        text += &format!(
            "attention: nothing is archived or let go, for the catalog's history may be broken: {}; \
             'stripeline catalog end-safe-mode' takes it as it is\n",
            status.safe_mode
        );
    }
    if status.unknown_copies > 0 {
        text += &format!(
            "attention: nodes have {} copies of which nothing is known; they are kept\n",
            status.unknown_copies
        );
    }
    if status.lost_copies + status.damaged_copies > 0 {
        text += &format!(
            "attention: {} copies are missing and {} damaged; nothing counts on them, and others are made in their place\n",
            status.lost_copies, status.damaged_copies
        );
    }
    if status.garbage > 0 {
        let waits = waits(status);
        text += &format!("{} superfluous copies ({}) are kept", status.garbage, Size(status.garbage_bytes));
        text += &(if waits.is_empty() { "\n".to_owned() } else { format!(": {waits}\n") });
    }
    for node in &status.nodes {
        let halves = node.status.as_ref().map_or(0, |s| s.half_blocks);
        if halves > 0 {
            text += &format!(
                "attention: node-{} has {halves} files of blocks without the file that belongs beside them; they are kept\n",
                node.node
            );
        }
    }
    for node in status.nodes.iter().filter(|node| node.set_back) {
        text += &format!(
            "attention: the folder of node-{} was set back or swapped: it does not know its last start\n",
            node.node
        );
    }
    for node in &status.quarantined {
        text += &format!("attention: {node} is quarantined\n");
    }
    text + &table.to_string()
}
