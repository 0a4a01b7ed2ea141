//! `stripeline node`: one node, or those of one host, each with a disk of its own, in one process.

use super::hdfs::run_helper;
use super::{
    allow_many_descriptors, announce, end_announcement, log_to_stderr, open, read_config, until_told_to_end,
};
use crate::amount::{Rate, Size};
use crate::context::{Context, run_on_one_thread};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use disk::Disk;
use exec::Throttle;
use model::NodeId;
use node::clock::within;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Any free port: nodes tell the coordinator which one they got.
const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Between two tries to serve a store that failed, while others of the process serve theirs: a disk that was changed is back
/// within a moment, and one that is broken is not asked all the time.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// A machine has fewer disks.
const MAX_STORES: usize = 64;

/// Options of a node, on the command line and in a file.
#[derive(Args, Deserialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct NodeArgs {
    /// Number of the node in its cluster, from 1; its folder is --dir
    #[arg(long, value_name = "N", conflicts_with = "store")]
    id: Option<u32>,
    /// For several nodes in one process, one for each disk: number and folder of each, given once for each. `hdfs`: no node,
    /// but a helper beside the DataNode whose folders --data-dir names
    #[arg(long, value_name = "N=FOLDER|hdfs")]
    store: Vec<StoreArg>,
    /// With --store hdfs: a data folder of the DataNode (dfs.datanode.data.dir), given once for each
    #[arg(long, value_name = "FOLDER")]
    pub(super) data_dir: Vec<PathBuf>,
    /// With --store hdfs: where the DataNode's plugin and programs of this machine ask for blocks, a loopback address
    /// [default: 127.0.0.1:7450]
    #[arg(long, value_name = "ADDR")]
    pub(super) gateway: Option<SocketAddr>,
    /// With --store hdfs: who says whether a block may be read for a flow. `ask`: the DataNode, whose plugin listens in one of its data
    /// folders; a path: the same, at that socket; `off`: nobody, for clusters without dfs.block.access.token.enable whose DataNodes
    /// have no plugin [default: ask]
    #[arg(long, value_name = "ask|off|SOCKET")]
    pub(super) block_tokens: Option<String>,
    /// Name of the machine, for nodes that share it: they never get two blocks of one stripe, or two copies of one block
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Its rack [default: rack-1]
    #[arg(long)]
    pub(super) rack: Option<String>,
    /// Where to listen for control messages; further nodes of --store take the ports after it [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    pub(super) listen_control: Option<SocketAddr>,
    /// Where to listen for slices; further nodes of --store take the ports after it [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    pub(super) listen_data: Option<SocketAddr>,
    /// Limit of what each node sends, such as 400mbit [default: none]
    #[arg(long, value_name = "RATE")]
    pub(super) throttle_up: Option<Rate>,
    /// Limit of what each receives [default: none]
    #[arg(long, value_name = "RATE")]
    pub(super) throttle_down: Option<Rate>,
    /// Recently read blocks that are kept in memory, for recoveries by m-PPR [default: none]
    #[arg(long, value_name = "SIZE")]
    cache: Option<Size>,
    /// Room of the disk that is never given to blocks [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    reserve: Option<Size>,
    /// Milliseconds between two tries of the disk
    #[arg(long, value_name = "MS", hide = true)]
    #[serde(skip)]
    try_disk_ms: Option<u64>,
    /// A TOML file with these options; those of the command line go before
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// In a file only: the command line has these before its commands.
    #[arg(skip)]
    dir: Option<PathBuf>,
    #[arg(skip)]
    coordinator: Option<String>,
}

/// What a process serves.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub enum StoreArg {
    /// A node's own folder.
    Numbered(NumberedFolder),
    /// Those of a DataNode.
    Hdfs,
}

impl FromStr for StoreArg {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text == "hdfs" { Ok(StoreArg::Hdfs) } else { text.parse().map(StoreArg::Numbered) }
    }
}

impl TryFrom<String> for StoreArg {
    type Error = String;
    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

/// A node's number and its folder, as `3=/disk1/stripeline`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumberedFolder {
    number: u32,
    folder: PathBuf,
}

impl FromStr for NumberedFolder {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(number, folder)| Some((number.parse().ok()?, folder)));
        match parsed {
            Some((number, folder)) if number > 0 && !folder.is_empty() => {
                Ok(NumberedFolder { number, folder: folder.into() })
            }
            _ => {
                Err("a node's number from 1 and its folder are wanted, such as 3=/disk1/stripeline"
                    .to_owned())
            }
        }
    }
}

/// Runs a node, or several, until it is told to end.
pub fn run_node(context: &Context, args: NodeArgs) -> Result<()> {
    let file: NodeArgs = read_config(args.config.as_deref())?;
    let of_file = args.store.is_empty() && args.id.is_none();
    let is_helper = if of_file { &file.store } else { &args.store } == &[StoreArg::Hdfs];
    let stores = if is_helper { Vec::new() } else { stores(context, &args, &file)? };
    let Some(coordinator) = context.coordinator.clone().or_else(|| file.coordinator.clone()) else {
        bail!(
            "a node needs its coordinator's address: give --coordinator, or coordinator in the --config file"
        );
    };
    log_to_stderr();
    allow_many_descriptors();
    if is_helper {
        return run_helper(context, coordinator, &args, &file);
    }
    let options = Arc::new(Options { coordinator, args, file });
    run_on_one_thread(async move {
        let (tell, told) = watch::channel(false);
        let mut serving = pin!(serve_all(options, stores, told));
        tokio::select! {
            ended = &mut serving => ended,
            end = until_told_to_end() => {
                let _ = tell.send(true);
                serving.await.and(end)
            }
        }
    })
}

/// The nodes that are asked for: one in the folder of all daemons, or those of `--store`, whose folders must be there: that
/// of a disk that is not mounted is not made anew.
fn stores(context: &Context, args: &NodeArgs, file: &NodeArgs) -> Result<Vec<NumberedFolder>> {
    let of_file = args.store.is_empty() && args.id.is_none();
    let numbered = |store: &StoreArg| match store {
        StoreArg::Numbered(store) => Ok(store.clone()),
        StoreArg::Hdfs => Err(anyhow!("--store hdfs stands alone: a process is a helper or has nodes")),
    };
    let stores = if of_file { &file.store } else { &args.store };
    let stores: Vec<NumberedFolder> = stores.iter().map(numbered).collect::<Result<_>>()?;
    if stores.is_empty() {
        let Some(number) = args.id.or(file.id).filter(|&id| id > 0) else {
            bail!("a node needs a number from 1: give --id or --store, or id or store in the --config file");
        };
        let folder = context.dir.clone().or_else(|| file.dir.clone());
        let folder = folder.context("a daemon needs a folder: give --dir, or dir in the --config file")?;
        return Ok(vec![NumberedFolder { number, folder }]);
    }
    if context.dir.is_some() || (of_file && (file.dir.is_some() || file.id.is_some())) {
        bail!("--store names the folders and numbers of several nodes: leave --dir and --id out");
    }
    if args.host.is_none() && file.host.is_none() {
        bail!(
            "nodes of one process share a machine: give its name with --host, so that no two of them get blocks of one stripe"
        );
    }
    if stores.len() > MAX_STORES {
        bail!("--store is given {} times, and may be {MAX_STORES} times", stores.len());
    }
    let numbers: BTreeSet<u32> = stores.iter().map(|store| store.number).collect();
    let folders: BTreeSet<&Path> = stores.iter().map(|store| store.folder.as_path()).collect();
    if numbers.len().min(folders.len()) < stores.len() {
        bail!("each node of --store needs a number and a folder of its own");
    }
    Ok(stores)
}

/// What all nodes of the process are started with: options of the command line go before those of the file.
struct Options {
    coordinator: String,
    args: NodeArgs,
    file: NodeArgs,
}

impl Options {
    /// Of the `nth` node, from 0.
    fn config(&self, node: NodeId, nth: u16, disk: Arc<dyn Disk>) -> Result<node::Config> {
        let Options { coordinator, args, file } = self;
        let mut config = node::Config::new(node, coordinator.clone(), disk);
        let text =
            |argument: &Option<String>, file: &Option<String>| argument.clone().or_else(|| file.clone());
        config.rack = text(&args.rack, &file.rack).unwrap_or_else(|| "rack-1".to_owned());
        config.host = text(&args.host, &file.host).unwrap_or_default();
        config.listen_control = nth_port(args.listen_control.or(file.listen_control), nth)?;
        config.listen_data = nth_port(args.listen_data.or(file.listen_data), nth)?;
        let rate = |argument: Option<Rate>, file: Option<Rate>| argument.or(file).unwrap_or(Rate(0)).0;
        let (up, down) =
            (rate(args.throttle_up, file.throttle_up), rate(args.throttle_down, file.throttle_down));
        config.throttle = Arc::new(Throttle::new(up, down));
        if let Some(Size(bytes)) = args.cache.or(file.cache) {
            config.cache_bytes = bytes;
        }
        if let Some(Size(bytes)) = args.reserve.or(file.reserve) {
            config.reserve_bytes = bytes;
        }
        if let Some(ms) = args.try_disk_ms {
            config.try_disk_every = Duration::from_millis(ms);
        }
        Ok(config)
    }
}

/// The address of the `nth` node, from 0: the ports follow each other, unless any will do.
fn nth_port(first: Option<SocketAddr>, nth: u16) -> Result<SocketAddr> {
    let mut address = first.unwrap_or(ANY_PORT);
    if address.port() != 0 {
        let port = address.port().checked_add(nth);
        address.set_port(port.with_context(|| format!("there are no {} ports from {address} on", nth + 1))?);
    }
    Ok(address)
}

/// Serves all of them until the process is told to end. A store that fails does not take the others with it: it is tried
/// again. If not one could be served, and if there is but one, its error ends it.
async fn serve_all(
    options: Arc<Options>,
    stores: Vec<NumberedFolder>,
    told: watch::Receiver<bool>,
) -> Result<()> {
    if let [store] = stores.as_slice() {
        return serve(&options, store, 0, told, || {}).await;
    }
    let (first_tries, mut tried) = mpsc::channel(stores.len());
    let mut nodes = JoinSet::new();
    for (nth, store) in (0..).zip(stores) {
        nodes.spawn(keep_serving(Arc::clone(&options), store, nth, told.clone(), first_tries.clone()));
    }
    drop(first_tries);
    let mut failure = None;
    for _ in 0..nodes.len() {
        match tried.recv().await {
            Some(Ok(())) => failure = None,
            Some(Err(error)) => failure = Some(error),
            None => break,
        }
        if failure.is_none() {
            // One serves: the others are tried as long as it takes.
            while nodes.join_next().await.is_some() {}
            return Ok(());
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Serves a store, again and again if it fails. What came of the first try is told to `first_try`.
async fn keep_serving(
    options: Arc<Options>,
    store: NumberedFolder,
    nth: u16,
    mut told: watch::Receiver<bool>,
    first_try: mpsc::Sender<Result<()>>,
) {
    let (number, folder) = (store.number, store.folder.display().to_string());
    loop {
        let started = || drop(first_try.try_send(Ok(())));
        let served = match store.folder.is_dir() {
            true => serve(&options, &store, nth, told.clone(), started).await,
            false => Err(anyhow!("the folder is not there; is its disk mounted?")),
        };
        let Err(error) = served else { return };
        if let Some(node::NodeError::GivenUp(_)) = error.downcast_ref() {
            tracing::error!("node-{number} in {folder}: {error:#}; the others go on without it");
            let _ = first_try.try_send(Err(error.context(format!("node-{number} in {folder}"))));
            return;
        }
        tracing::error!(
            "node-{number} in {folder}: {error:#}; the others go on, and it is tried again in {} s",
            TRY_AGAIN.as_secs()
        );
        let _ = first_try.try_send(Err(error.context(format!("node-{number} in {folder}"))));
        if within(TRY_AGAIN, told.wait_for(|told| *told)).await.is_some() {
            return;
        }
    }
}

/// Serves a store until the process is told to end, or the coordinator refuses it.
async fn serve(
    options: &Options,
    store: &NumberedFolder,
    nth: u16,
    mut told: watch::Receiver<bool>,
    started: impl FnOnce(),
) -> Result<()> {
    let (dir, disk) = open(Some(store.folder.clone()))?;
    let mut handle = node::start(options.config(NodeId(store.number), nth, disk)?).await?;
    announce(&dir, handle.control_addr(), Some(handle.data_addr()));
    started();
    let end = tokio::select! {
        _ = told.wait_for(|told| *told) => Ok(()),
        why = handle.refused() => Err(why.into()),
    };
    handle.shutdown().await;
    end_announcement(&dir);
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_file_is_read_and_its_mistakes_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.toml");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_config::<NodeArgs>(Some(&path))
        };
        let file =
            read("id = 3\nrack = \"a\"\nthrottle-up = \"400mbit\"\nlisten-data = \"0.0.0.0:9000\"").unwrap();
        assert_eq!((file.id, file.throttle_up), (Some(3), Some(Rate(50_000_000))));
        let error = |text| read(text).err().unwrap().to_string();
        assert!(
            error("id = 3\nthrottle-up = \"fast\"").contains("line 2"),
            "{}",
            error("id = 3\nthrottle-up = \"fast\"")
        );
        assert!(error("nonsense = 1").contains("nonsense"));
        let several = read("host = \"h\"\nstore = [\"3=/disk1\", \"4=/disk2\"]").unwrap().store;
        assert_eq!(several, ["3=/disk1", "4=/disk2"].map(|store| store.parse().unwrap()));
        assert!(error("store = [\"/disk1\"]").contains("3=/disk1/stripeline"));
        assert!(read_config::<NodeArgs>(Some(Path::new("/nonexistent"))).is_err());
    }

    #[test]
    fn several_nodes_need_a_host_and_folders_of_their_own() {
        let context = Context {
            out: crate::Output { json: false },
            coordinator: None,
            dir: None,
            wait: Duration::ZERO,
        };
        let asked = |stores: &[&str], host: Option<&str>| {
            let store = stores.iter().map(|store| store.parse().unwrap()).collect();
            let args = NodeArgs { store, host: host.map(str::to_owned), ..NodeArgs::default() };
            stores_of(&context, &args)
        };
        assert_eq!(asked(&["3=/a", "4=/b"], Some("h")).unwrap().len(), 2);
        assert!(asked(&["3=/a", "4=/b"], None).unwrap_err().to_string().contains("--host"));
        assert!(asked(&["3=/a", "3=/b"], Some("h")).is_err(), "one number twice");
        assert!(asked(&["3=/a", "4=/a"], Some("h")).is_err(), "one folder twice");
        let hdfs = asked(&["hdfs", "4=/b"], Some("h")).unwrap_err().to_string();
        assert!(hdfs.contains("stands alone"), "{hdfs}");
        assert!("0=/a".parse::<NumberedFolder>().is_err() && "3".parse::<NumberedFolder>().is_err());
    }

    fn stores_of(context: &Context, args: &NodeArgs) -> Result<Vec<NumberedFolder>> {
        stores(context, args, &NodeArgs::default())
    }

    #[test]
    fn ports_follow_each_other_unless_any_will_do() {
        let port =
            |first: &str, nth| nth_port(Some(first.parse().unwrap()), nth).map(|address| address.port());
        assert_eq!((port("10.0.0.1:7000", 2).unwrap(), port("10.0.0.1:0", 2).unwrap()), (7002, 0));
        assert!(port("10.0.0.1:65535", 1).is_err());
    }
}
