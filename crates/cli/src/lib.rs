//! `stripeline`: daemons, the operator's commands and the researcher's calculator. The laboratory, a program of its own
//! (`stripeline-lab`), takes from here how amounts are read and answers written, and the bare sends that the demonstration
//! measures too.
//!
//! Absent: decisions and formats, which are the other crates'. Its commands and what `--json` prints are an API.

pub mod amount;
mod archive;
mod audit;
pub mod bare;
mod bucket;
mod catalog;
mod cluster;
mod codes;
mod compact;
mod context;
mod daemon;
mod demo;
mod explain;
mod health;
pub mod interrupt;
mod job;
mod links;
mod local;
mod objects;
mod operate;
pub mod output;
mod plan;
pub mod processor;
pub mod programs;
mod progress;
mod repair;
mod traffic;
mod tree;
mod unknown;

use clap::{Args, Parser, Subcommand};
use context::Context;
use output::{ClosedStdout, Output};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Cargo's profile that this was built with: `dev`, `release` or `dist`.
pub const PROFILE: &str = env!("STRIPELINE_PROFILE");

/// What `--version` says: two programs that say the same were built together.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("STRIPELINE_PROFILE"), ")");

/// Erasure-coded storage that repairs as fast as it reads.
#[derive(Parser, Debug)]
#[command(name = "stripeline", version = VERSION)]
struct Cli {
    /// Answer in JSON: one document, or one per line for what comes as a stream
    #[arg(long, global = true)]
    json: bool,
    /// Address of the coordinator [default: $STRIPELINE_COORDINATOR, or that of the local cluster]
    #[arg(long, global = true, value_name = "ADDR")]
    coordinator: Option<String>,
    /// Folder of the local cluster, or of the daemon to run [default: $STRIPELINE_HOME, or
    /// ~/.local/share/stripeline/default]
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Seconds to wait for a coordinator that is away or starting; 0 fails at once
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = WAIT_S)]
    wait: u64,
    #[command(subcommand)]
    command: Command,
}

/// A coordinator that was killed is back within this time, if something starts it again.
const WAIT_S: u64 = 30;

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a cluster of processes on this machine
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Store a file as an object, or all files of a folder
    Put(objects::PutArgs),
    /// Read an object, a range of it, or all objects of a prefix, also while nodes are dead
    Get(objects::GetArgs),
    /// List objects
    Ls {
        /// Only names that begin so
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
    },
    /// Show an object: its blocks, where they are, their stripes
    Stat {
        /// Name of the object
        name: String,
        /// Only the number of a living node that holds this block of it
        #[arg(long, value_name = "INDEX")]
        node_of: Option<u64>,
    },
    /// Remove an object, or all whose names begin alike
    Rm(tree::RmArgs),
    /// Turn replicas into an erasure code: of an object, or of all that a prefix, a bucket, an age selects
    Archive(archive::ArchiveArgs),
    /// Give back the room of deleted objects that stripes keep; the task 'compaction' does it every ten minutes
    Compact(archive::EncodingArgs),
    /// How the objects of a bucket are placed, and with which code they will be archived
    #[command(subcommand)]
    Bucket(bucket::BucketCommand),
    /// Rebuild lost blocks
    #[command(subcommand)]
    Repair(repair::RepairCommand),
    /// Show what something would do, without doing it
    #[command(subcommand)]
    Explain(repair::ExplainCommand),
    /// Read everything that nodes store, check it, and tell which copies are not there or could not be read
    Scrub {
        /// Only this node
        #[arg(long, value_name = "N")]
        node: Option<u32>,
    },
    /// Show how far everything is from being lost: objects and stripes by the losses that they survive. Ends with 0 if
    /// everything has all of its copies on living nodes, 3 if not or if the catalog's history is in doubt, 4 if something cannot be read now
    Health,
    /// Background tasks
    #[command(subcommand)]
    Tasks(operate::TasksCommand),
    /// Limit the network of every node, in each direction, until it is set again: in all, or one kind of traffic; none lifts a limit
    Throttle(operate::ThrottleArgs),
    /// What is known of the bandwidth of links, for schemes that look at it
    #[command(subcommand)]
    Links(links::LinksCommand),
    /// Show the last repairs: what each was to move and what it moved
    Audit(audit::AuditArgs),
    /// Back up the catalog, check it, recover it
    #[command(subcommand)]
    Catalog(catalog::CatalogCommand),
    /// Compute with erasure codes, offline
    #[command(subcommand)]
    Codes(codes::CodesCommand),
    /// Plan the paths of a repair, offline
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// Show it all on this machine in a few minutes: store, lose a node, repair by star and chain, compare
    Demo(demo::DemoArgs),
    /// Run a coordinator in the foreground
    Coordinator(daemon::CoordinatorArgs),
    /// Run a node in the foreground, or start or stop one of the local cluster
    Node(NodeCli),
    /// Repeat the papers' experiments on a testbed of network namespaces, and ours
    #[command(disable_help_flag = true)]
    Bench(LabArgs),
    /// Run a network of hosts on this machine, to measure on
    #[command(disable_help_flag = true)]
    Lab(LabArgs),
    /// Be one process of a bare send or chain: what repairs are compared with
    #[command(hide = true)]
    Bare(bare::Hop),
    /// Time one plain TCP connection over the loopback, through token buckets
    #[command(hide = true)]
    BareSend(bare::SendArgs),
}

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
struct NodeCli {
    #[command(subcommand)]
    command: Option<cluster::NodeCommand>,
    #[command(flatten)]
    daemon: daemon::NodeArgs,
}

/// What `stripeline-lab` is told.
#[derive(Args, Debug)]
struct LabArgs {
    /// See --help
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// The program `stripeline`.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let Cli { json, coordinator, dir, wait, .. } = cli;
    let context = Context { out: Output { json }, coordinator, dir, wait: Duration::from_secs(wait) };
    ended(run(&context, cli.command))
}

/// The end of a program: what went wrong as one sentence on standard error, and the exit code.
pub fn ended(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<ClosedStdout>() => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be a log on a full disk.
            let _ = writeln!(std::io::stderr(), "error: {}", sentence(&error));
            error.downcast_ref::<health::Verdict>().map_or(ExitCode::FAILURE, |verdict| verdict.code.into())
        }
    }
}

/// What happened and why, outermost first; a cause that an outer message tells already is not told again.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| match cause.to_string() {
        cause if told.is_empty() => cause,
        cause if told.contains(&cause) => told,
        cause => format!("{told}: {cause}"),
    })
}

fn run(context: &Context, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Cluster(command) => cluster::run(context, command),
        Command::Put(args) => objects::put(context, args),
        Command::Get(args) => objects::get(context, args),
        Command::Ls { prefix } => objects::ls(context, &prefix),
        Command::Stat { name, node_of } => objects::stat(context, &name, node_of),
        Command::Rm(args) => tree::rm(context, &args),
        Command::Archive(args) => archive::run(context, args),
        Command::Compact(args) => compact::run(context, args),
        Command::Bucket(command) => bucket::run(context, command),
        Command::Repair(command) => repair::run(context, command),
        Command::Explain(command) => repair::explain(context, command),
        Command::Scrub { node } => operate::scrub(context, node),
        Command::Health => health::run(context),
        Command::Tasks(command) => operate::tasks(context, command),
        Command::Throttle(args) => operate::throttle(context, &args),
        Command::Audit(args) => audit::run(context, &args),
        Command::Links(command) => links::run(context, command),
        Command::Catalog(command) => catalog::run(context, command),
        Command::Codes(command) => codes::run(command, context.out),
        Command::Plan(command) => plan::run(command, context.out),
        Command::Demo(args) => demo::run(context, &args),
        Command::Bench(args) => programs::become_lab("bench", context.out, &args.arguments),
        Command::Lab(args) => programs::become_lab("lab", context.out, &args.arguments),
        Command::Bare(hop) => Ok(hop.run()?),
        Command::BareSend(args) => bare::run_send(context.out, &args),
        Command::Coordinator(args) => daemon::run_coordinator(context, args),
        Command::Node(NodeCli { command: Some(command), .. }) => cluster::run_node_command(context, command),
        Command::Node(NodeCli { command: None, daemon }) => daemon::run_node(context, daemon),
    }
}
