//! `stripeline coordinator` and, in `node.rs` and `hdfs.rs` beside this, `stripeline node`: the daemons.

mod hdfs;
mod node;

pub use node::{NodeArgs, run_node};

use crate::amount::{Percent, Size};
use crate::context::{Context, run};
use crate::local::{DaemonDir, Ready, folder_of, own_start};
use crate::repair::ASSIGNMENTS;
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use disk::{Disk, RealDisk};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// Where a coordinator listens unless it is told.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7400);

/// Options of a coordinator, on the command line and in a file.
#[derive(Args, Deserialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CoordinatorArgs {
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Block size of puts that name none [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<Size>,
    /// Seconds from a node's death to its recovery without being asked; a fifteenth of that for what survives no further
    /// loss, up to sixteen times that for racks and for nodes that keep coming back [default: 900]
    #[arg(long, value_name = "SECONDS")]
    recovery_grace: Option<u64>,
    /// How helpers and requestors are assigned where many blocks are made again and nobody names a way: links evenly loaded, least
    /// recently used first, or by m-PPR's weights [default: balanced]
    #[arg(long, value_parser = ASSIGNMENTS)]
    assign: Option<String>,
    /// Percent of its capacity by which a node is fuller or emptier than the mean when blocks begin to move [default: 10]
    #[arg(long, value_name = "PERCENT")]
    balance_threshold: Option<Percent>,
    /// Seconds for which a stripe takes blocks before it is sealed as short as it is [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    open_for: Option<u64>,
    /// Found a new cluster if the folder is empty; else an empty folder waits for nodes that keep the catalog of theirs
    #[arg(long)]
    found: bool,
    /// A change is acknowledged once the coordinator's own disk has it, or once two nodes keep it too [default: own]
    #[arg(long, value_name = "WHERE")]
    catalog_sync: Option<CatalogSync>,
    #[command(flatten)]
    #[serde(skip)]
    hasty: HastyArgs,
    /// A TOML file with these options; those of the command line go before
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// In a file only: the command line has these before its commands.
    #[arg(skip)]
    dir: Option<PathBuf>,
}

/// Where a change must be before it is acknowledged.
#[derive(ValueEnum, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum CatalogSync {
    /// On the coordinator's own disk: what nobody keeps yet is lost with it, a tenth of a second of changes
    Own,
    /// On two of the nodes that keep the catalog's records too: the loss of the coordinator's disk loses nothing
    Holders,
}

/// Waits of a coordinator that tests shorten, so that hours of a cluster pass in seconds (docs/chaos.md).
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct HastyArgs {
    /// Milliseconds between heartbeats
    #[arg(long, value_name = "MS", hide = true)]
    heartbeat_ms: Option<u64>,
    /// Milliseconds after which a node that answers no call is dead
    #[arg(long, value_name = "MS", hide = true)]
    dead_after_ms: Option<u64>,
    /// Milliseconds for which a copy that is not counted on is kept
    #[arg(long, value_name = "MS", hide = true)]
    garbage_grace_ms: Option<u64>,
    /// Milliseconds for which a put may be idle
    #[arg(long, value_name = "MS", hide = true)]
    put_lease_ms: Option<u64>,
    /// Milliseconds for which a start waits for what nodes keep of the catalog
    #[arg(long, value_name = "MS", hide = true)]
    catch_up_ms: Option<u64>,
    /// Milliseconds between two comparisons of a node with the catalog
    #[arg(long, value_name = "MS", hide = true)]
    compare_every_ms: Option<u64>,
    /// Milliseconds between two looks for nodes that are filled unevenly
    #[arg(long, value_name = "MS", hide = true)]
    balance_every_ms: Option<u64>,
}

impl HastyArgs {
    fn apply(self, config: &mut coordinator::Config) {
        let set = |given: Option<u64>, into: &mut u64| *into = given.unwrap_or(*into);
        set(self.heartbeat_ms, &mut config.heartbeat_ms);
        set(self.dead_after_ms, &mut config.dead_after_ms);
        set(self.garbage_grace_ms, &mut config.garbage_grace_ms);
        set(self.put_lease_ms, &mut config.put_lease_ms);
        set(self.catch_up_ms, &mut config.catch_up_ms);
        set(self.compare_every_ms, &mut config.compare_every_ms);
        set(self.balance_every_ms, &mut config.balance_every_ms);
    }
}

/// Runs a coordinator until it is told to end.
pub fn run_coordinator(context: &Context, args: CoordinatorArgs) -> Result<()> {
    let file: CoordinatorArgs = read_config(args.config.as_deref())?;
    let (dir, disk) = open(context.dir.clone().or(file.dir))?;
    log_to_stderr();
    allow_many_descriptors();
    coordinator::quiet_panics();
    run(async move {
        let mut config =
            coordinator::Config::new(args.listen.or(file.listen).unwrap_or(DEFAULT_LISTEN), disk);
        if let Some(Size(bytes)) = args.block_size.or(file.block_size) {
            config.block_bytes = bytes;
        }
        if let Some(seconds) = args.recovery_grace.or(file.recovery_grace) {
            config.recovery_grace_ms = seconds.saturating_mul(1_000);
        }
        if let Some(name) = args.assign.or(file.assign) {
            config.assign = plan::decide::assign_named(&name)?;
        }
        if let Some(Percent(percent)) = args.balance_threshold.or(file.balance_threshold) {
            config.balance_threshold = percent / 100.0;
        }
        if let Some(seconds) = args.open_for.or(file.open_for) {
            config.open_for_ms = seconds.saturating_mul(1_000);
        }
        config.reserve_bytes = coordinator::RESERVE_BYTES;
        config.founds = args.found || file.found;
        config.waits_for_holders = args.catalog_sync.or(file.catalog_sync) == Some(CatalogSync::Holders);
        args.hasty.apply(&mut config);
        let mut handle = coordinator::start(config).await?;
        announce(&dir, handle.local_addr(), None);
        let end = tokio::select! {
            told = until_told_to_end() => told,
            why = handle.ended() => Err(why.into()),
        };
        handle.shutdown().await;
        end_announcement(&dir);
        end
    })
}

/// Raises the number of descriptors to what the system lets a process have: sixteen wide repairs take two for each of
/// their edges, and the usual limit of 1,024 is one for old programs. If it cannot be raised, whatever lacks a
/// descriptor says so.
fn allow_many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        let _ = writeln!(Unfailing, "the limit of open files stays at {:?}: {error}", limit.current);
    }
}

fn open(dir: Option<PathBuf>) -> Result<(DaemonDir, Arc<dyn Disk>)> {
    let dir = dir.context("a daemon needs a folder: give --dir, or dir in the --config file")?;
    let dir = folder_of(&dir);
    let disk = RealDisk::create(dir.data())?;
    Ok((dir, Arc::new(disk)))
}

/// Announces in the daemon's folder where it listens. The daemon serves even if nothing can be written there.
fn announce(dir: &DaemonDir, control: SocketAddr, data: Option<SocketAddr>) {
    let (pid, start_ticks) = own_start();
    let (control, data) = (control.to_string(), data.map(|data| data.to_string()));
    let announced = dir.announce(&Ready { pid, start_ticks, control: control.clone(), data });
    if let Err(error) = announced {
        tracing::warn!(
            "{error:#}; it serves at {control}, and commands of 'stripeline cluster' do not find it"
        );
    }
}

/// Withdraws the announcement. One that cannot be removed names a process that is gone, and is ignored.
fn end_announcement(dir: &DaemonDir) {
    if let Err(error) = dir.forget_ready() {
        tracing::warn!("{error:#}");
    }
}

/// SIGTERM, or Ctrl-C in a terminal.
async fn until_told_to_end() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot listen for Ctrl-C"),
    }
}

/// Standard error that drops what cannot be written. A daemon's log may lie on a full disk, which is no reason to end. (`eprintln` and tracing
/// report such a failure on standard error, and then panic.)
struct Unfailing;

impl Write for Unfailing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = std::io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Levels by module as `RUST_LOG` says; without it, what an operator should see.
fn log_to_stderr() {
    let filter = std::env::var("RUST_LOG").ok().and_then(|levels| levels.parse().ok());
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let layer = tracing_subscriber::fmt::layer().with_writer(|| Unfailing).with_ansi(false);
    // A second daemon in one process (tests) logs through the first one's subscriber.
    let _ = tracing_subscriber::registry().with(layer).with(filter).try_init();
}

fn read_config<T: DeserializeOwned + Default>(path: Option<&Path>) -> Result<T> {
    let Some(path) = path else { return Ok(T::default()) };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
        anyhow::anyhow!("{}, line {line}: {}", path.display(), error.message().replace('\n', " "))
    })
}
