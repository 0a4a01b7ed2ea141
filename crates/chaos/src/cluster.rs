//! The daemons of one schedule: the program's own `coordinator` and `node`, in folders as `cluster up` lays them out.

use crate::command::{self, Ran};
use crate::network::Network;
use crate::plan::Shape;
use crate::shim::Shim;
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A daemon listens within a fraction of a second, or says why it does not.
const READY_PATIENCE: Duration = Duration::from_secs(20);

/// A daemon that is asked to end has ended after this time.
const END_PATIENCE: Duration = Duration::from_secs(15);

/// Seconds for which a command waits for the coordinator: schedules leave it away for longer, and go on meanwhile.
const WAIT_S: &str = "1";

const POLL: Duration = Duration::from_millis(5);

/// Each node is compared with the catalog this often: several times in the time in which a cluster becomes quiet.
pub const COMPARE_EVERY_MS: u64 = 2_000;

/// A coordinator that starts waits so long for nodes that keep its catalog: those that run answer at once.
const CATCH_UP_MS: u64 = 3_000;

/// Where disks fail, nodes try theirs this often: two failures, and a node leaves until its disk is well again.
const TRY_DISK_MS: u64 = 500;

/// Ports where daemons have an address each; further nodes of one process take those after them. A second process of the same
/// number takes those of its own.
const PORTS: [u16; 2] = [7401, 7405];
const PORTS_BESIDE: [u16; 2] = [7411, 7415];

/// In a daemon's folder while it listens.
const READY: &str = "ready.json";

/// Bytes of a small disk: a schedule's blocks fit, and it is quickly filled.
pub const SMALL_DISK_BYTES: u64 = 24 << 20;

/// A daemon's folder and process.
#[derive(Debug)]
pub struct Daemon {
    /// 0 is the coordinator.
    pub number: u32,
    /// Its folder, with `data`, `log` and `ready.json`.
    pub folder: PathBuf,
    /// Its number, or address, is another's too.
    is_beside: bool,
    /// The nodes of its process, the first of which has its log and its address.
    host: Vec<u32>,
    /// Shared by those of one process.
    child: Arc<Mutex<Option<Child>>>,
}

/// What came of a start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Started {
    /// It listens.
    Ready,
    /// It ended; its last words.
    Ended(String),
    /// It neither listens nor ends.
    Silent,
}

/// A cluster in a folder.
pub struct Cluster {
    /// What it is like.
    pub shape: Shape,
    /// Where everything is.
    pub folder: PathBuf,
    /// Its network, if it has one of its own.
    pub network: Option<Network>,
    /// What daemons are started with, if the plan needs it and this machine can make it.
    pub shim: Option<Shim>,
    program: PathBuf,
    /// Where the coordinator listens, and a second one.
    coordinators: [String; 2],
    daemons: Vec<Daemon>,
    lives: AtomicU64,
    /// A coordinator has founded it: from then on an empty folder is a lost one.
    is_founded: AtomicBool,
    /// Mounted small disks.
    mounts: Vec<PathBuf>,
}

impl Daemon {
    fn new(number: u32, folder: PathBuf, is_beside: bool) -> Daemon {
        Daemon { number, folder, is_beside, host: vec![number], child: Arc::default() }
    }

    /// Whose process it is.
    pub fn leader(&self) -> u32 {
        self.host.first().copied().unwrap_or(self.number)
    }

    /// What it stores.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What it keeps of the catalog.
    pub fn records(&self) -> PathBuf {
        self.data().join("records")
    }

    /// Whether its process has no other node.
    pub fn is_alone(&self) -> bool {
        self.host.len() == 1
    }

    /// How its process ended, unless it runs or a signal ended it.
    pub fn exit_code(&self) -> Option<i32> {
        self.child().as_mut().and_then(|child| child.try_wait().ok().flatten()?.code())
    }

    /// All that it said.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.join("log")).unwrap_or_default()).into_owned()
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its process runs.
    pub fn runs(&self) -> bool {
        self.child().as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// The number of its process.
    pub fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// Sends its process a signal, if there is one.
    pub fn signal(&self, signal: Signal) {
        if let Some(child) = self.child().as_ref() {
            command::signal(child, signal);
        }
    }
}

impl Cluster {
    /// Lays it out; nothing runs yet.
    pub fn lay_out(name: &str, shape: &Shape, folder: &Path, program: &Path, alone: bool) -> Result<Cluster> {
        let network = if alone { Network::make(name, shape.nodes) } else { None };
        // Without a network: free ones, which nobody else is given while they were just in use.
        let address = |port: u16| match &network {
            Some(network) => Ok(format!("{}:{port}", network.host(0))),
            None => TcpListener::bind("127.0.0.1:0")?.local_addr().map(|address| address.to_string()),
        };
        let coordinators = [address(7400)?, address(7450)?];
        let folders = (0..=shape.nodes).map(|number| folder.join(name_of(number)));
        let mut daemons: Vec<Daemon> =
            (0..).zip(folders).map(|(number, folder)| Daemon::new(number, folder, false)).collect();
        let child = Arc::default();
        for &node in &shape.host {
            let daemon = &mut daemons[node as usize];
            (daemon.host, daemon.child) = (shape.host.clone(), Arc::clone(&child));
        }
        let mut cluster = Cluster {
            shape: shape.clone(),
            folder: folder.to_owned(),
            network,
            shim: None,
            program: program.to_owned(),
            coordinators,
            daemons,
            lives: AtomicU64::new(1),
            is_founded: AtomicBool::new(false),
            mounts: Vec::new(),
        };
        for number in 0..=shape.nodes {
            let data = cluster.daemon(number).data();
            fs::create_dir_all(&data)?;
            if shape.small_disks.contains(&number) && mount_small(&data) {
                cluster.mounts.push(data);
            }
        }
        Ok(cluster)
    }

    /// A daemon by its number.
    pub fn daemon(&self, number: u32) -> &Daemon {
        &self.daemons[number as usize]
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Daemon] {
        &self.daemons[1..]
    }

    /// All daemons, the coordinator first.
    pub fn daemons(&self) -> &[Daemon] {
        &self.daemons
    }

    /// A further process of a daemon's number, with a folder of its own.
    pub fn beside(&self, number: u32) -> Daemon {
        Daemon::new(number, self.folder.join(format!("{}-beside", name_of(number))), true)
    }

    /// Whether this node's disk can be filled.
    pub fn has_small_disk(&self, node: u32) -> bool {
        self.mounts.contains(&self.daemon(node).data())
    }

    /// Whether its daemons can be steered.
    pub fn has_shim(&self) -> bool {
        self.shim.is_some()
    }

    /// Which life of the coordinator it is.
    pub fn life(&self) -> u64 {
        self.lives.load(Ordering::SeqCst)
    }

    /// Where the coordinator answers, or the second one.
    pub fn address(&self, second: bool) -> &str {
        &self.coordinators[usize::from(second)]
    }

    /// Starts a daemon that does not run, under the coordinator or the second one, and waits until it listens.
    pub fn start(&self, daemon: &Daemon, second: bool) -> Result<Started> {
        let arguments = if daemon.number == 0 {
            self.coordinator_arguments(daemon)
        } else {
            self.node_arguments(daemon, second)
        };
        if daemon.host.len() > 1 && daemon.runs() {
            // Another node of its process was started.
            return Ok(self.listens(daemon));
        }
        let process = self.process_folder(daemon);
        fs::create_dir_all(&process)?;
        // What it left behind says that it listens.
        for folder in self.folders(daemon) {
            let _ = fs::remove_file(folder.join(READY));
        }
        let log = File::options().create(true).append(true).open(process.join("log"))?;
        let mut command = Command::new(&self.program);
        command.args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        command.env_remove("RUST_LOG").env_remove("STRIPELINE_COORDINATOR").env_remove("STRIPELINE_HOME");
        if let Some(shim) = &self.shim {
            shim.steer(&mut command, &process)?;
        }
        let spawned = match &self.network {
            Some(network) => network.inside(Some(daemon.leader()), || command.spawn())?,
            None => command.spawn(),
        };
        let child = spawned.with_context(|| format!("cannot start {}", self.program.display()))?;
        self.record(&child)?;
        *daemon.child() = Some(child);
        Ok(self.listens(daemon))
    }

    /// Waits until it listens, or says why not: its process ends then, unless it has other nodes.
    fn listens(&self, daemon: &Daemon) -> Started {
        let (ready, process) = (daemon.folder.join(READY), self.process_folder(daemon));
        let failed = format!("node-{} in {}: ", daemon.number, daemon.folder.display());
        let log = || String::from_utf8_lossy(&fs::read(process.join("log")).unwrap_or_default()).into_owned();
        let before = log().matches(&failed).count();
        let deadline = Instant::now() + READY_PATIENCE;
        while Instant::now() < deadline {
            if ready.exists() {
                return Started::Ready;
            }
            if !daemon.runs() {
                return Started::Ended(last_words(&log()));
            }
            if daemon.host.len() > 1 && log().matches(&failed).count() > before {
                let why = log().lines().rev().find(|line| line.contains(&failed)).map(str::to_owned);
                return Started::Ended(why.unwrap_or(failed));
            }
            std::thread::sleep(POLL);
        }
        Started::Silent
    }

    /// Where its process has its log, and what steers it.
    pub fn process_folder(&self, daemon: &Daemon) -> PathBuf {
        match daemon.host.len() {
            0 | 1 => daemon.folder.clone(),
            _ => self.daemon(daemon.leader()).folder.clone(),
        }
    }

    /// The folders of all nodes of its process.
    fn folders(&self, daemon: &Daemon) -> Vec<PathBuf> {
        match daemon.host.len() {
            0 | 1 => vec![daemon.folder.clone()],
            _ => daemon.host.iter().map(|node| self.daemon(*node).folder.clone()).collect(),
        }
    }

    fn coordinator_arguments(&self, daemon: &Daemon) -> Vec<String> {
        let shape = &self.shape;
        let options = [
            ("--listen", self.address(daemon.is_beside).to_owned()),
            ("--block-size", shape.block_bytes.to_string()),
            ("--recovery-grace", shape.recovery_grace_s.to_string()),
            ("--heartbeat-ms", shape.heartbeat_ms.to_string()),
            ("--dead-after-ms", shape.dead_after_ms.to_string()),
            ("--garbage-grace-ms", shape.garbage_grace_ms.to_string()),
            ("--put-lease-ms", shape.put_lease_ms.to_string()),
            ("--compare-every-ms", COMPARE_EVERY_MS.to_string()),
            ("--catch-up-ms", CATCH_UP_MS.to_string()),
            // So that the loss of the coordinator's disk is no excuse.
            ("--catalog-sync", "holders".to_owned()),
        ];
        let mut arguments = arguments("coordinator", options);
        arguments.extend(["--dir".to_owned(), daemon.folder.display().to_string()]);
        if !self.is_founded.swap(true, Ordering::Relaxed) {
            arguments.push("--found".to_owned());
        }
        arguments
    }

    fn node_arguments(&self, daemon: &Daemon, second: bool) -> Vec<String> {
        let number = daemon.leader();
        let listen = |port: usize| match &self.network {
            Some(network) => {
                let ports = if daemon.is_beside { PORTS_BESIDE } else { PORTS };
                format!("{}:{}", network.host(number), ports[port])
            }
            None => "127.0.0.1:0".to_owned(),
        };
        let options = [
            ("--rack", format!("rack-{}", (number - 1) % self.shape.racks + 1)),
            ("--coordinator", self.address(second).to_owned()),
            ("--listen-control", listen(0)),
            ("--listen-data", listen(1)),
            // Disks of a few MiB.
            ("--reserve", "64KiB".to_owned()),
        ];
        let mut arguments = arguments("node", options);
        if let [_] = daemon.host[..] {
            let folder = daemon.folder.display().to_string();
            arguments.extend(["--id", &number.to_string(), "--dir", &folder].map(str::to_owned));
        } else {
            arguments.extend(["--host".to_owned(), format!("host-{number}")]);
            for (node, folder) in daemon.host.iter().zip(self.folders(daemon)) {
                arguments.extend(["--store".to_owned(), format!("{node}={}", folder.display())]);
            }
        }
        if self.has_shim() {
            // Disks fail for seconds here: a node finds out.
            arguments.extend(["--try-disk-ms".to_owned(), TRY_DISK_MS.to_string()]);
        }
        arguments
    }

    /// Notes a process, so that one that outlives this program can be told and ended by the next.
    fn record(&self, child: &Child) -> Result<()> {
        let (pid, start) = (child.id(), command::start_of(child.id()).unwrap_or_default());
        let mut file = File::options().create(true).append(true).open(self.folder.join("processes"))?;
        use std::io::Write;
        Ok(writeln!(file, "{pid} {start}")?)
    }

    /// kill −9, and waits until it is gone.
    pub fn kill(&self, daemon: &Daemon) -> Result<()> {
        let Some(mut child) = daemon.child().take() else { return Ok(()) };
        self.coordinator_ends(daemon);
        child.kill()?;
        child.wait()?;
        self.coordinator_ends(daemon);
        Ok(())
    }

    /// SIGTERM. False if it did not end within its time, and was killed.
    pub fn end(&self, daemon: &Daemon) -> Result<bool> {
        let Some(mut child) = daemon.child().take() else { return Ok(true) };
        self.coordinator_ends(daemon);
        command::signal(&child, Signal::TERM);
        let ended = command::ended(&mut child, END_PATIENCE)?.is_some();
        if !ended {
            child.kill()?;
            child.wait()?;
        }
        self.coordinator_ends(daemon);
        Ok(ended)
    }

    fn coordinator_ends(&self, daemon: &Daemon) {
        if daemon.number == 0 && !daemon.is_beside {
            self.lives.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A command of the program, as a client gives it.
    pub fn ask(&self, arguments: &[&str], patience: Duration) -> Result<Ran> {
        let mut command = Command::new(&self.program);
        command.args(arguments).args(["--json", "--wait", WAIT_S, "--coordinator", self.address(false)]);
        command.env_remove("RUST_LOG").env("STRIPELINE_HOME", self.folder.join("home"));
        match &self.network {
            Some(network) => network.inside(None, || command::run(command, patience))?,
            None => command::run(command, patience),
        }
    }

    /// Ends everything, by force.
    pub fn kill_all(&self) -> Result<()> {
        self.daemons.iter().try_for_each(|daemon| self.kill(daemon))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.kill_all() {
            eprintln!("a daemon stays: {error:#}");
        }
        for mount in &self.mounts {
            let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// Snapshots and records of the catalog that a node keeps, and their lengths. What vanishes meanwhile is not found.
pub fn records_of(daemon: &Daemon) -> Result<Vec<(PathBuf, u64)>> {
    let Ok(entries) = fs::read_dir(daemon.records()) else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_one = path.extension().is_some_and(|suffix| suffix == "snapshot" || suffix == "records");
        if let Ok(metadata) = fs::symlink_metadata(&path)
            && is_one
        {
            files.push((path, metadata.len()));
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn arguments<const N: usize>(what: &str, options: [(&str, String); N]) -> Vec<String> {
    let mut arguments = vec![what.to_owned()];
    arguments.extend(options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
    arguments
}

fn last_words(log: &str) -> String {
    log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
}

fn name_of(number: u32) -> String {
    if number == 0 { "coordinator".to_owned() } else { format!("node-{number}") }
}

/// Mounts a small disk; false where that is not allowed.
fn mount_small(at: &Path) -> bool {
    let options = format!("size={SMALL_DISK_BYTES}\0");
    let Ok(options) = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()) else { return false };
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("stripeline-chaos", at, "tmpfs", flags, options).is_ok()
}

/// Ends processes and removes folders that an earlier run of this program left in `place` when it was killed.
pub fn sweep(place: &Path, prefix: &str) -> Result<()> {
    let Ok(entries) = fs::read_dir(place) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(pid) = name.strip_prefix(prefix).and_then(|rest| rest.split('-').next()) else { continue };
        if pid.parse::<u32>().is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            sweep_folder(&path)?;
        }
    }
    Ok(())
}

fn sweep_folder(path: &Path) -> Result<()> {
    for line in fs::read_to_string(path.join("processes")).unwrap_or_default().lines() {
        let mut words = line.split(' ').filter_map(|word| word.parse::<u64>().ok());
        let (Some(pid), Some(start)) = (words.next(), words.next()) else { continue };
        let pid = u32::try_from(pid)?;
        if command::start_of(pid) == Some(start)
            && let Some(pid) = rustix::process::Pid::from_raw(i32::try_from(pid)?)
        {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    for entry in fs::read_dir(path)? {
        let _ = rustix::mount::unmount(entry?.path().join("data"), rustix::mount::UnmountFlags::DETACH);
    }
    if let Err(error) = fs::remove_dir_all(path) {
        bail!("cannot remove {}: {error}", path.display());
    }
    Ok(())
}
