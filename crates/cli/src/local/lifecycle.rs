//! Starting and ending the daemons of a local cluster.

use super::home::{DaemonDir, Home, Ready};
use super::process::{self, ProcessRecord};
use super::state::{Cluster, Member};
use crate::amount::{Rate, Size};
use crate::context::run;
use anyhow::{Context, Result, bail};
use clap::Args;
use client::{Client, ClientError, Patience};
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::proto::NodeInfo;

/// A daemon listens within a fraction of a second, unless it finds many blocks or a busy disk.
const READY_PATIENCE: Duration = Duration::from_secs(60);

/// All nodes together send their inventories within this time.
const REGISTER_PATIENCE: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(20);

/// Longest wait for the port of a coordinator that ended: a connection to it may hold the port for a moment.
const PORT_PATIENCE: Duration = Duration::from_secs(5);

/// The ports that the kernel gives to outgoing connections, first and last, and the first one where that cannot be read (ip-sysctl(7)).
const PORTS_OF_CONNECTIONS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const FIRST_OF_CONNECTIONS: u16 = 32_768;

/// Ports below this one are for processes with privileges.
const FIRST_UNPRIVILEGED: u16 = 1_024;

/// Ports that are tried before any is taken. Few of them are in use.
const PORTS_TRIED: u32 = 50;

/// What a cluster is brought up with.
#[derive(Args, Clone, Debug, Default)]
pub struct UpArgs {
    /// Nodes in all; more than there are now adds some [default: 16, or as many as there are]
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// Racks that the nodes are dealt out to [default: 1]
    #[arg(long, value_name = "N")]
    pub racks: Option<u32>,
    /// Limit of each node's network, in each direction, such as 400mbit; none for no limit
    #[arg(long, value_name = "RATE")]
    pub throttle: Option<Rate>,
    /// Block size of puts that name none [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    pub block_size: Option<Size>,
    /// Room of each node's disk that is never given to blocks, by nodes that this starts [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub reserve: Option<Size>,
    /// Port of the coordinator [default: the last one if it is free, else any]
    #[arg(long)]
    pub port: Option<u16>,
}

/// A cluster that runs.
pub struct Running {
    pub cluster: Cluster,
    /// Where its coordinator listens.
    pub coordinator: String,
    /// Daemons that were not running before.
    pub started: usize,
}

/// Starts every daemon that does not run, and waits until all nodes are registered.
pub fn bring_up(home: &Home, args: &UpArgs) -> Result<Running> {
    let _lock = home.lock()?;
    let mut cluster = home.cluster()?.unwrap_or_else(Cluster::new);
    let block_bytes_before = cluster.block_bytes;
    cluster.reshape(args.nodes, args.racks, args.block_size, args.throttle)?;
    cluster.reserve_bytes = args.reserve.map(|Size(bytes)| bytes).or(cluster.reserve_bytes);
    let coordinator_runs = running_coordinator(home)?;
    if coordinator_runs.is_some() && cluster.block_bytes != block_bytes_before {
        bail!("the block size of a running coordinator stays; run 'stripeline cluster down' first");
    }
    home.record(&cluster)?;

    let ran = coordinator_runs.is_some();
    let (coordinator, mut started) = match coordinator_runs {
        Some(ready) => (ready.control, 0),
        None => (start_coordinator(home, &cluster, args.port)?, 1),
    };
    let port = coordinator.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    if args.port.is_some() && args.port != port {
        bail!(
            "the coordinator runs already, at {coordinator}; leave --port out, or run 'stripeline cluster down' first"
        );
    }
    cluster.coordinator_port = port;
    home.record(&cluster)?;

    let mut starting = Vec::new();
    for member in &cluster.nodes {
        if let Some(child) = start_unless_running(home, &cluster, member, &coordinator)? {
            starting.push((home.node(member.id), child));
        }
    }
    started += starting.len();
    for (dir, child) in &mut starting {
        wait_ready(dir, child)?;
    }
    if let Err(error) = wait_registered(home, &coordinator, &cluster.nodes) {
        // One that ran was killed meanwhile.
        if !ran
            || home.coordinator().running()?.is_some()
            || start_coordinator(home, &cluster, None)? != coordinator
        {
            return Err(error);
        }
        started += 1;
        wait_registered(home, &coordinator, &cluster.nodes)?;
    }
    if !cluster.founded {
        cluster.founded = true;
        home.record(&cluster)?;
    }
    if args.throttle.is_some() {
        let rate = cluster.throttle_bytes_per_s;
        run(async { Ok(Client::connect(&coordinator).await?.throttle(rate, rate).await?) })?;
    }
    Ok(Running { cluster, coordinator, started })
}

/// Starts one node of a cluster whose coordinator runs; false if it ran already.
pub fn start_node(home: &Home, id: u32) -> Result<bool> {
    let _lock = home.lock()?;
    let Some(cluster) = home.cluster()? else { bail!("there is no cluster in {}", home.path().display()) };
    let Some(member) = cluster.nodes.iter().find(|member| member.id == id) else {
        bail!("the cluster has no node {id}; its nodes are 1 to {}", cluster.nodes.len());
    };
    let Some(coordinator) = home.coordinator().running()? else {
        bail!("the cluster is down; start it with 'stripeline cluster up'");
    };
    let Some(mut child) = start_unless_running(home, &cluster, member, &coordinator.control)? else {
        return Ok(false);
    };
    wait_ready(&home.node(id), &mut child)?;
    wait_registered(home, &coordinator.control, std::slice::from_ref(member))?;
    Ok(true)
}

/// Ends daemons, those that were recorded and no others; how many ran.
pub fn stop_all(dirs: &[DaemonDir], kill: bool) -> Result<usize> {
    let mut records = Vec::new();
    for dir in dirs {
        records.extend(dir.process()?.filter(ProcessRecord::is_running));
    }
    process::stop(&records, kill)?;
    for dir in dirs {
        dir.forget_process()?;
    }
    Ok(records.len())
}

/// The coordinator that runs. One that was just killed has a process for a moment, and a port no more.
fn running_coordinator(home: &Home) -> Result<Option<Ready>> {
    let deadline = Instant::now() + PORT_PATIENCE;
    loop {
        let Some(ready) = home.coordinator().running()? else { return Ok(None) };
        if TcpStream::connect(&ready.control).is_ok() || Instant::now() > deadline {
            return Ok(Some(ready));
        }
        std::thread::sleep(POLL);
    }
}

fn start_coordinator(home: &Home, cluster: &Cluster, port: Option<u16>) -> Result<String> {
    if let Some(port) = port
        && let Err(error) = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
    {
        bail!("port {port} is in use or not allowed ({error}); give another --port");
    }
    let dir = home.coordinator();
    // A coordinator may still run that was killed while it was being started, or whose ready file was lost. What it announced stays, so that
    // clients wait for it where it was.
    if let Some(record) = dir.process()?.filter(ProcessRecord::is_running) {
        process::stop(&[record], false)?;
    }
    let usual = cluster.coordinator_port.filter(|&port| becomes_free(port));
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port.or(usual).unwrap_or_else(quiet_port)));
    let mut arguments = vec!["coordinator".to_owned(), "--listen".to_owned(), listen.to_string()];
    arguments.extend(["--dir".to_owned(), text_of(&dir)?]);
    if let Some(bytes) = cluster.block_bytes {
        arguments.extend(["--block-size".to_owned(), bytes.to_string()]);
    }
    if !cluster.founded {
        arguments.push("--found".to_owned());
    }
    let mut child = process::spawn(&dir, &arguments, None)?;
    Ok(wait_ready(&dir, &mut child)?.control)
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Whether a port can be listened at, at once or a little later.
fn becomes_free(port: u16) -> bool {
    let deadline = Instant::now() + PORT_PATIENCE;
    while !is_free(port) {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
}

/// A free port that the kernel gives to no outgoing connection, so that a coordinator that is started again finds it free. 0, for any, if
/// there is none.
fn quiet_port() -> u16 {
    let given = std::fs::read_to_string(PORTS_OF_CONNECTIONS).ok();
    let first =
        given.and_then(|given| given.split_whitespace().next()?.parse().ok()).unwrap_or(FIRST_OF_CONNECTIONS);
    let drawn = |_| (RandomState::new().hash_one(first) % u64::from((first / 2).max(1))) as u16;
    let ports = (0..PORTS_TRIED).map(drawn).map(|drawn| first - 1 - drawn);
    ports.filter(|&port| port > FIRST_UNPRIVILEGED).find(|&port| is_free(port)).unwrap_or(0)
}

fn start_unless_running(
    home: &Home,
    cluster: &Cluster,
    member: &Member,
    coordinator: &str,
) -> Result<Option<Child>> {
    let dir = home.node(member.id);
    let knows_coordinator =
        dir.process()?.is_some_and(|record| record.coordinator.as_deref() == Some(coordinator));
    if knows_coordinator && dir.running()?.is_some() {
        return Ok(None);
    }
    // A node may still run that looks for the coordinator where it no longer is, or does not get ready.
    stop_all(std::slice::from_ref(&dir), false)?;
    let rate = Rate(cluster.throttle_bytes_per_s).argument();
    let options = [
        ("--id", member.id.to_string()),
        ("--rack", member.rack.clone()),
        ("--dir", text_of(&dir)?),
        ("--coordinator", coordinator.to_owned()),
        ("--throttle-up", rate.clone()),
        ("--throttle-down", rate),
    ];
    let mut arguments = vec!["node".to_owned()];
    arguments.extend(options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
    if let Some(bytes) = cluster.reserve_bytes {
        arguments.extend(["--reserve".to_owned(), bytes.to_string()]);
    }
    process::spawn(&dir, &arguments, Some(coordinator.to_owned())).map(Some)
}

fn text_of(dir: &DaemonDir) -> Result<String> {
    let path = dir.path().to_str();
    Ok(path.with_context(|| format!("{} is not UTF-8; give another --dir", dir.path().display()))?.to_owned())
}

fn wait_ready(dir: &DaemonDir, child: &mut Child) -> Result<Ready> {
    let deadline = Instant::now() + READY_PATIENCE;
    loop {
        if let Some(ready) = dir.running()? {
            return Ok(ready);
        }
        let name = dir.path().file_name().unwrap_or_default().display();
        if child.try_wait()?.is_some() {
            dir.forget_process()?;
            bail!("{name} did not start: {}", dir.last_words());
        }
        if Instant::now() > deadline {
            bail!("{name} is not ready after {} s; see {}", READY_PATIENCE.as_secs(), dir.log().display());
        }
        std::thread::sleep(POLL);
    }
}

/// Waits until the coordinator knows each node where it is now: it may still know an earlier life of one that was
/// just started again.
fn wait_registered(home: &Home, coordinator: &str, members: &[Member]) -> Result<()> {
    run(async {
        let client = Client::connect_with(coordinator, Arc::default(), Patience::of(Duration::ZERO)).await?;
        let deadline = Instant::now() + REGISTER_PATIENCE;
        loop {
            // None while it compares its catalog with what nodes keep of it; then another server takes the port over, and
            // calls to this one may break.
            let status = client.status().await;
            let known = match &status {
                Ok(status) => status.nodes.as_slice(),
                Err(ClientError::NotNow(_) | ClientError::Unreachable { .. })
                    if Instant::now() < deadline && home.coordinator().running()?.is_some() =>
                {
                    &[]
                }
                Err(error) => return Err(error.clone().into()),
            };
            let mut missing = None;
            for member in members {
                let dir = home.node(member.id);
                let Some(ready) = dir.running()? else {
                    bail!("node-{} ended: {}", member.id, dir.last_words());
                };
                let is_it = |n: &NodeInfo| n.living && n.node == member.id && n.control_addr == ready.control;
                if !known.iter().any(is_it) {
                    missing = Some((member.id, dir));
                }
            }
            let Some((id, dir)) = missing else { return Ok(()) };
            if Instant::now() > deadline {
                let (patience, said) = (REGISTER_PATIENCE.as_secs(), dir.last_words());
                bail!("node-{id} did not register within {patience} s: {said}");
            }
            tokio::time::sleep(POLL).await;
        }
    })
}
