//! `stripeline scrub`, `tasks`, `throttle`: looking after a cluster.

use crate::amount::Rate;
use crate::context::Context;
use crate::output::{ClosedStdout, fields, hex, table};
use crate::progress::count_bar;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use client::Client;
use serde_json::{Value, json};
use wire::proto::{BudgetChange, Budgets, NodeInfo, ScrubEvent, TaskControl, TaskStatus};

/// What to do with background tasks.
#[derive(Subcommand, Debug)]
pub enum TasksCommand {
    /// List the background tasks of the coordinator and of the nodes
    List,
    /// Pause a task where it is; it stays paused over restarts
    Pause(TaskArgs),
    /// Let a paused or stopped task go on
    Resume(TaskArgs),
    /// Stop a task; it begins anew when it is resumed
    Stop(TaskArgs),
}

/// Which task.
#[derive(Args, Debug)]
pub struct TaskArgs {
    /// Name, as 'tasks list' shows it
    name: String,
    /// The node whose task it is [default: the coordinator's]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    node: u32,
}

pub fn tasks(context: &Context, command: TasksCommand) -> Result<()> {
    let (action, args) = match command {
        TasksCommand::List => return list_tasks(context),
        TasksCommand::Pause(args) => ("pause", args),
        TasksCommand::Resume(args) => ("resume", args),
        TasksCommand::Stop(args) => ("stop", args),
    };
    let control = TaskControl { name: args.name, action: action.to_owned(), node: args.node, version: 0 };
    let task = context.with_client(async |client| Ok(client.control_task(control).await?))?;
    context.out.answer(&task_json(args.node, &task), || format!("{} is {}", task.name, task.state))
}

fn list_tasks(context: &Context) -> Result<()> {
    let status = context.with_client(async |client| Ok(client.status().await?))?;
    let of_nodes = status.nodes.iter().flat_map(|node| {
        let tasks = node.status.iter().flat_map(|status| &status.tasks);
        tasks.map(move |task| (node.node, task))
    });
    let tasks: Vec<(u32, &TaskStatus)> = status.tasks.iter().map(|task| (0, task)).chain(of_nodes).collect();
    let document: Vec<Value> = tasks.iter().map(|(node, task)| task_json(*node, task)).collect();
    context.out.answer(&document, || {
        let mut table = table(["WHERE", "TASK", "STATE", "DONE", "ERRORS", "DETAIL"]);
        for (node, task) in &tasks {
            let place = if *node == 0 { "coordinator".to_owned() } else { format!("node-{node}") };
            let done =
                if task.total == 0 { task.done.to_string() } else { format!("{}/{}", task.done, task.total) };
            let errors = task.errors.to_string();
            table.add_row([place, task.name.clone(), task.state.clone(), done, errors, task.detail.clone()]);
        }
        table.to_string()
    })
}

fn task_json(node: u32, task: &TaskStatus) -> Value {
    fields!(task => name state detail done total errors; "node": node)
}

#[derive(Debug, Args)]
pub struct ThrottleArgs {
    /// All that a node carries: such as 400mbit or 50MB/s
    #[arg(required_unless_present_any = ["clients", "healing", "archival"])]
    rate: Option<Rate>,
    /// What it carries for puts and reads, degraded ones too
    #[arg(long, value_name = "RATE")]
    clients: Option<Rate>,
    /// What it carries for repairs, recoveries and blocks that move
    #[arg(long, value_name = "RATE")]
    healing: Option<Rate>,
    /// What it carries for encodings
    #[arg(long, value_name = "RATE")]
    archival: Option<Rate>,
}

pub fn throttle(context: &Context, args: &ThrottleArgs) -> Result<()> {
    let bytes = |rate: Option<Rate>| rate.map(|rate| rate.0);
    let change = BudgetChange {
        client_bytes_per_s: bytes(args.clients),
        healing_bytes_per_s: bytes(args.healing),
        archival_bytes_per_s: bytes(args.archival),
    };
    let budgets = context.with_client(async |client| {
        if let Some(Rate(rate)) = args.rate {
            client.throttle(rate, rate).await?;
        }
        Ok(if change == BudgetChange::default() { None } else { Some(client.budgets(change).await?) })
    })?;
    let json = json!({"egress_bytes_per_s": bytes(args.rate), "ingress_bytes_per_s": bytes(args.rate),
        "budgets": budgets.as_ref().map(budgets_json)});
    context.out.answer(&json, || {
        let all = args.rate.map(|rate| format!("{rate} in each direction"));
        let of_kinds = budgets.as_ref().map(budgets_text);
        let limits: Vec<String> = all.into_iter().chain(of_kinds).collect();
        format!("every node, from now on: {}", limits.join("; "))
    })
}

/// How much of each kind of traffic nodes may carry, for a program.
pub fn budgets_json(budgets: &Budgets) -> Value {
    fields!(budgets => client_bytes_per_s healing_bytes_per_s archival_bytes_per_s)
}

/// The same for people.
pub fn budgets_text(budgets: &Budgets) -> String {
    let [clients, healing, archival] =
        [budgets.client_bytes_per_s, budgets.healing_bytes_per_s, budgets.archival_bytes_per_s].map(Rate);
    format!("clients {clients}, healing {healing}, archival {archival}, in each direction")
}

/// What scrubs found.
#[derive(Default)]
struct Scrubbed {
    /// Blocks that were read.
    blocks: u64,
    /// Those of them that are unsound.
    problems: u64,
    /// Copies, and folders, that could not be read.
    unread: u64,
    /// Copies that are not there.
    missing: u64,
    /// Nodes that were not read to their end, each with the reason.
    broken_off: Vec<String>,
}

/// Reads everything on one node or on all living ones; fails if anything is unsound, or not there, or was not read. A node that fails
/// keeps nobody from reading the others.
pub fn scrub(context: &Context, node: Option<u32>) -> Result<()> {
    let Scrubbed { blocks, problems, unread, missing, broken_off } = context.with_client(async |client| {
        let mut totals = Scrubbed::default();
        for node in nodes_to_scrub(&client, node).await? {
            match scrub_node(context, &client, &node, &mut totals).await {
                Err(error) if error.is::<ClosedStdout>() => return Err(error),
                Err(error) => {
                    let why = format!("{error:#}");
                    context.out.event(&json!({"node": node.node, "broken_off": why}))?;
                    totals.broken_off.push(format!("node-{}: {why}", node.node));
                }
                Ok(()) => {}
            }
        }
        Ok(totals)
    })?;
    let restored = "'stripeline repair block' restores them";
    let found = match (problems, missing) {
        (0, 0) => format!("{blocks} blocks read, all sound"),
        (_, 0) => format!("{problems} of {blocks} blocks are unsound; {restored}"),
        (0, _) => {
            format!("{missing} copies are missing, all {blocks} that were read are sound; {restored}")
        }
        _ => format!("{problems} of {blocks} blocks are unsound, {missing} more are missing; {restored}"),
    };
    if !broken_off.is_empty() {
        bail!("{}; nothing is known of what else is there; {found}", broken_off.join("; "));
    }
    match unread {
        0 if problems + missing == 0 => context.out.say(found),
        0 => bail!(found),
        _ => bail!("{unread} blocks or folders could not be read, so nothing is known of them; {found}"),
    }
}

/// Copies that the catalog places on a node, and that could not be read because they are not there.
async fn missing_on(context: &Context, client: &Client, node: &NodeInfo, blocks: u64) -> Result<u64> {
    let missing = client.compare_node(node.node).await?.missing;
    for copy in &missing {
        let problem = "missing: the catalog places it on this node, and it is not there";
        let event = json!({"done": blocks, "total": blocks, "node": node.node,
            "block": hex(&copy.block), "problem": problem});
        context.out.event(&event)?;
        context.out.say(format!("node-{}: block {}: {problem}", node.node, hex(&copy.block)))?;
    }
    Ok(missing.len() as u64)
}

async fn nodes_to_scrub(client: &Client, node: Option<u32>) -> Result<Vec<NodeInfo>> {
    let nodes: Vec<NodeInfo> = client.status().await?.nodes.into_iter().filter(|n| n.living).collect();
    let Some(id) = node else { return Ok(nodes) };
    match nodes.into_iter().find(|n| n.node == id) {
        Some(node) => Ok(vec![node]),
        None => bail!("node-{id} is not living; 'stripeline cluster status' shows who is"),
    }
}

async fn scrub_node(
    context: &Context,
    client: &Client,
    node: &NodeInfo,
    totals: &mut Scrubbed,
) -> Result<()> {
    let bar = count_bar(context.out, &format!("scrub node-{}", node.node));
    let mut events = client.scrub(node).await?;
    while let Some(event) = events.next().await? {
        if event.complete {
            bar.finish_and_clear();
            let ScrubEvent { done: blocks, unread, problem: why, .. } = event;
            totals.blocks += blocks;
            totals.unread += unread;
            if unread > 0 {
                context.out.event(&json!({"done": blocks, "total": blocks + unread, "node": node.node,
                    "unread": unread, "why": why}))?;
                let what = format!("{unread} blocks or folders could not be read, the first because: {why}");
                context.out.say(format!("node-{}: {what}", node.node))?;
            }
            totals.missing += missing_on(context, client, node, blocks).await?;
            return Ok(());
        }
        bar.set_length(event.total);
        bar.set_position(event.done);
        let problem = (!event.problem.is_empty()).then_some(&event.problem);
        context.out.event(&fields!(event => done total, node => node;
            "block": hex(&event.block), "problem": problem))?;
        if !event.problem.is_empty() {
            totals.problems += 1;
            bar.suspend(|| {
                context.out.say(format!("node-{}: block {}: {}", node.node, hex(&event.block), event.problem))
            })?;
        }
    }
    bail!("it did not say that it has read all of its blocks")
}
