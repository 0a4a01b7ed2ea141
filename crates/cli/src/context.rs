//! What every command knows: how to answer, and where the cluster is.

use crate::local::Home;
use crate::output::Output;
use anyhow::{Context as _, Result, bail};
use client::{Client, ClientError, Patience};
use std::future::Future;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Names the coordinator where no `--coordinator` does.
const COORDINATOR_ENV: &str = "STRIPELINE_COORDINATOR";

/// The options that stand before and beside a command.
#[derive(Clone, Debug)]
pub struct Context {
    pub out: Output,
    pub coordinator: Option<String>,
    pub dir: Option<PathBuf>,
    /// Longest wait for a coordinator that is away or starting.
    pub wait: Duration,
}

impl Context {
    /// The folder of the local cluster.
    pub fn home(&self) -> Result<Home> {
        Home::locate(self.dir.clone())
    }

    /// Where the coordinator is: as given, as the environment says, or as the local cluster's own says.
    pub fn address(&self) -> Result<String> {
        if let Some(address) = &self.coordinator {
            return Ok(address.clone());
        }
        let from_env = std::env::var(COORDINATOR_ENV).ok().filter(|address| !address.is_empty());
        // A folder that was given on the command line goes before the environment.
        if let (None, Some(address)) = (&self.dir, from_env) {
            return Ok(address);
        }
        let home = self.home()?;
        // One that was killed is waited for where it was.
        match home.coordinator().announced()? {
            Some(ready) => Ok(ready.control),
            None => bail!(
                "no cluster runs in {}; start one with 'stripeline cluster up', or give --coordinator or {COORDINATOR_ENV}",
                home.path().display()
            ),
        }
    }

    /// Connects and runs `work` to its end.
    pub fn with_client<T>(&self, work: impl AsyncFnOnce(Client) -> Result<T>) -> Result<T> {
        let address = self.address()?;
        let patience = Patience::of(self.wait).telling(Arc::new(say_waiting));
        run(async { work(Client::connect_with(&address, Arc::default(), patience).await?).await })
    }
}

fn say_waiting(why: &ClientError, longest: Duration) {
    // Standard error may be a log on a full disk.
    let _ =
        writeln!(io::stderr(), "waiting up to {} s (--wait) for the coordinator: {why}", longest.as_secs());
}

/// Runs `work` on a runtime of its own.
pub fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    run_on(Builder::new_multi_thread().enable_all().build(), work)
}

/// A node's threads for blocking work wait this long for more of it, as long as connections and stages' threads do.
const KEEP_THREADS: Duration = Duration::from_secs(60);

/// Runs `work`, and everything asynchronous, on this thread: enough for a node, whose bytes move on threads of their own.
/// Two would wake each other for every message.
pub fn run_on_one_thread<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    run_on(Builder::new_current_thread().enable_all().thread_keep_alive(KEEP_THREADS).build(), work)
}

fn run_on<T>(runtime: io::Result<Runtime>, work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime.context("cannot start threads")?;
    let result = runtime.block_on(work);
    // A thread may wait for standard input or a dead socket for ever; nobody needs it any more.
    runtime.shutdown_background();
    result
}
