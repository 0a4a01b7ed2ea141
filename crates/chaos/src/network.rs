//! A network of its own for each schedule: every daemon in a namespace, all of them on one bridge, which clients stand on.
//!
//! ```text
//!   clients' namespace: bridge 10.77.0.254 ── v0 ─┬─ eth0 10.77.0.200  coordinator's
//!                                          ── v1 ─┴─ eth0 10.77.0.1    node 1's      …
//! ```
//!
//! It needs root and `ip`. Where there is none, daemons share the loopback, and what would cut them off stops them instead.

use anyhow::{Context, Result, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `ip netns` keeps a name for each namespace.
const NAMES: &str = "/run/netns";

/// Namespaces of this program begin so; the number of the process that made them follows.
const PREFIX: &str = "stripeline-chaos-";

/// The coordinator's place in the network; nodes have their number.
const COORDINATOR_HOST: u32 = 200;

/// Nobody has this address: frames to it are lost in silence.
const NOWHERE: &str = "02:00:00:00:66:66";

/// The namespaces of one schedule. Dropping it removes them.
#[derive(Debug)]
pub struct Network {
    prefix: String,
    nodes: u32,
}

impl Network {
    /// Makes it, for so many nodes; `None` where that is not possible.
    pub fn make(name: &str, nodes: u32) -> Option<Network> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let network = Network { prefix: format!("{PREFIX}{}-{name}", std::process::id()), nodes };
        match network.build() {
            Ok(()) => Some(network),
            Err(error) => {
                eprintln!("no namespaces, so partitions only stop processes: {error:#}");
                None
            }
        }
    }

    fn build(&self) -> Result<()> {
        let (clients, mut made) = (self.namespace(None), String::new());
        let mut bridge = "link set lo up\nlink add bridge type bridge\n".to_owned();
        bridge += "addr add 10.77.0.254/24 dev bridge\nlink set bridge up\n";
        writeln!(made, "netns add {clients}")?;
        for daemon in 0..=self.nodes {
            let namespace = self.namespace(Some(daemon));
            writeln!(made, "netns add {namespace}")?;
            writeln!(made, "link add v{daemon} netns {clients} type veth peer name eth0 netns {namespace}")?;
            writeln!(bridge, "link set v{daemon} master bridge up")?;
        }
        ip(None, &made)?;
        for daemon in 0..=self.nodes {
            let address = self.host(daemon);
            let up = format!("link set lo up\naddr add {address}/24 dev eth0\nlink set eth0 up\n");
            ip(Some(&self.namespace(Some(daemon))), &up)?;
        }
        ip(Some(&clients), &bridge)
    }

    /// The address of a daemon, 0 being the coordinator.
    pub fn host(&self, daemon: u32) -> String {
        format!("10.77.0.{}", if daemon == 0 { COORDINATOR_HOST } else { daemon })
    }

    fn namespace(&self, daemon: Option<u32>) -> String {
        match daemon {
            Some(daemon) => format!("{}-{daemon}", self.prefix),
            None => format!("{}-c", self.prefix),
        }
    }

    /// Runs `work` in a thread in a daemon's namespace, or the clients'. Processes that it starts are there too.
    pub fn inside<T: Send>(&self, daemon: Option<u32>, work: impl FnOnce() -> T + Send) -> Result<T> {
        let path = Path::new(NAMES).join(self.namespace(daemon));
        let file = File::open(&path).with_context(|| format!("cannot enter {}", path.display()))?;
        let in_thread = || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        };
        std::thread::scope(|scope| match scope.spawn(in_thread).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Nothing passes to or from a daemon, or everything does again.
    pub fn set_reachable(&self, daemon: u32, reachable: bool) -> Result<()> {
        let state = if reachable { "up" } else { "down" };
        ip(Some(&self.namespace(None)), &format!("link set v{daemon} {state}\n"))
    }

    /// Nothing passes between two daemons, or everything does again.
    pub fn set_pair_cut(&self, a: u32, b: u32, cut: bool) -> Result<()> {
        for (here, there) in [(a, b), (b, a)] {
            let to = self.host(there);
            let rule = match cut {
                true => format!("neigh replace {to} lladdr {NOWHERE} nud permanent dev eth0\n"),
                false => format!("neigh del {to} dev eth0\n"),
            };
            ip(Some(&self.namespace(Some(here))), &rule)?;
        }
        Ok(())
    }

    /// Resets every connection of a daemon.
    pub fn cut_connections(&self, daemon: u32) -> Result<()> {
        let host = self.host(daemon);
        self.inside(Some(daemon), || {
            for side in ["dst", "src"] {
                let mut ss = Command::new("ss");
                ss.args(["--kill", "--tcp", "state", "connected", side, &host]);
                let ended = ss.stdout(Stdio::null()).stderr(Stdio::null()).status();
                ended.context("cannot run ss")?;
            }
            Ok(())
        })?
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove(&format!("{}-", self.prefix));
    }
}

/// Removes namespaces of schedules whose process is gone.
pub fn sweep() {
    for name in names(PREFIX) {
        let pid = name[PREFIX.len()..].split('-').next().and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !PathBuf::from(format!("/proc/{pid}")).exists()) {
            remove(&name);
        }
    }
}

fn remove(prefix: &str) {
    let gone = names(prefix).iter().fold(String::new(), |batch, name| batch + "netns del " + name + "\n");
    if !gone.is_empty()
        && let Err(error) = ip(None, &gone)
    {
        eprintln!("namespaces stay: {error:#}");
    }
}

fn names(prefix: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(NAMES) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// Runs a batch of `ip` commands, in a namespace or in this process's.
fn ip(namespace: Option<&str>, batch: &str) -> Result<()> {
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run ip")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(batch.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("ip: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
