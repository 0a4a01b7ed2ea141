//! A cluster of processes for one test: started, questioned and ended through the product's own commands, every wait
//! bounded.

use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// No command takes a tenth of this; one that takes all of it hangs.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Files here outlive processes as they do on a disk, and no test waits for a disk's syncs. What a power cut would do is
/// tested elsewhere, over a disk that forgets.
const MEMORY: &str = "/dev/shm";

/// Bytes that all tests together may need; containers often have less there.
const ROOM: u64 = 4 << 30;

const POLL: Duration = Duration::from_millis(10);

/// A temporary folder with a cluster in it. Dropping it ends whatever was started there, and looks for panics.
pub struct Rig {
    folder: TempDir,
}

/// What became of a command.
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// A daemon started by hand, in the foreground. Dropping it kills it.
pub struct Daemon(Child);

impl Rig {
    /// A folder without a cluster.
    pub fn new() -> Rig {
        let memory = Path::new(MEMORY);
        let room = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
        let folder = if room >= ROOM { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Rig { folder: folder.unwrap() }
    }

    /// So many nodes in two racks, with blocks of 64 KiB.
    pub fn up(nodes: u32) -> Rig {
        let rig = Rig::new();
        let nodes = nodes.to_string();
        rig.ok(&["cluster", "up", "--nodes", &nodes, "--racks", "2", "--block-size", "64KiB"]);
        rig
    }

    /// The folder of the cluster.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A file beside the cluster.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The same as an argument.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Makes a file of `bytes` bytes that depend on `seed`; what is in it.
    pub fn file(&self, name: &str, bytes: usize, seed: u64) -> Vec<u8> {
        let content = content(bytes, seed);
        fs::write(self.path(name), &content).unwrap();
        content
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stripeline"));
        command
            .args(arguments)
            .env("STRIPELINE_HOME", self.home())
            .env_remove("STRIPELINE_COORDINATOR")
            .env_remove("RUST_LOG");
        command
    }

    /// Runs a command to its end, which must come.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, Vec::new())
    }

    /// The same, with something on its standard input.
    pub fn run_with(&self, arguments: &[&str], input: Vec<u8>) -> Ran {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::spawn(move || {
            // A command that does not read its input closes it.
            let _ = stdin.write_all(&input);
        });
        let (stdout, stderr) = (collect(child.stdout.take().unwrap()), collect(child.stderr.take().unwrap()));
        let status = ended(&mut child, PATIENCE).unwrap_or_else(|| {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{arguments:?} hangs")
        });
        // The daemons that 'cluster up' starts write elsewhere, so both pipes end with the command.
        let stdout = stdout.recv_timeout(PATIENCE).expect("standard output ends with the command");
        let stderr = stderr.recv_timeout(PATIENCE).expect("standard error ends with the command");
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
        Ran { status, stdout, stderr }
    }

    /// What a command that must succeed answers.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let Ran { status, stdout, stderr } = self.run(arguments);
        assert!(status.success(), "{arguments:?}: {stderr}\n{}", self.last_words());
        String::from_utf8(stdout).unwrap()
    }

    /// The same with `--json`.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let answer = self.ok(&[arguments, &["--json"]].concat());
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {answer}"))
    }

    /// The same for commands that answer with one document per line.
    pub fn json_lines(&self, arguments: &[&str]) -> Vec<Value> {
        let answer = self.ok(&[arguments, &["--json"]].concat());
        answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The one sentence of a command that cannot be done: exit code 1, one line, nothing on standard output.
    pub fn error(&self, arguments: &[&str]) -> String {
        let Ran { status, stdout, stderr } = self.run(arguments);
        assert_eq!(status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stdout.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&stdout));
        one_sentence(&stderr)
    }

    /// An object, whole, as `get NAME -` gives it.
    pub fn get(&self, name: &str) -> Vec<u8> {
        let Ran { status, stdout, stderr } = self.run(&["get", name, "-"]);
        assert!(status.success(), "get {name}: {stderr}\n{}", self.last_words());
        stdout
    }

    pub fn put(&self, file: &str, name: &str) {
        self.ok(&["put", &self.arg(file), name]);
    }

    /// Where the coordinator answers.
    pub fn coordinator(&self) -> String {
        self.address("coordinator", "control").expect("the coordinator runs")
    }

    /// The `control` or `data` address of a daemon, as it said when it began to listen.
    pub fn address(&self, daemon: &str, port: &str) -> Option<String> {
        let ready = fs::read(self.home().join(daemon).join("ready.json")).ok()?;
        let ready: Value = serde_json::from_slice(&ready).unwrap();
        ready[port].as_str().map(str::to_owned)
    }

    /// Numbers of the nodes that the coordinator takes for living.
    pub fn living(&self) -> Vec<u64> {
        let status = self.json(&["cluster", "status"]);
        let nodes = status["nodes"].as_array().unwrap().iter();
        nodes.filter(|n| n["living"] == true).map(|n| n["node"].as_u64().unwrap()).collect()
    }

    /// Ends a node and waits until the coordinator knows.
    pub fn lose(&self, node: u64) {
        self.ok(&["node", "stop", &node.to_string()]);
        self.until("the coordinator misses the node", || !self.living().contains(&node));
    }

    /// Waits for something that must happen.
    pub fn until(&self, what: &str, mut happened: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !happened() {
            assert!(Instant::now() < deadline, "waited in vain: {what}\n{}", self.last_words());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The blocks of an object, as `stat` shows them.
    pub fn blocks(&self, name: &str) -> Vec<Value> {
        self.json(&["stat", name])["blocks"].as_array().unwrap().clone()
    }

    /// The data file of the newest copy of a block on one of its nodes; its sidecar has `.meta` appended.
    pub fn block_file(&self, block: &Value) -> PathBuf {
        let id = block["block"].as_str().unwrap();
        let node = block["nodes"][0].as_u64().unwrap();
        let folder = self.home().join(format!("node-{node}/data/blocks/{}", &id[..2]));
        let generation =
            |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix(id)?[1..].parse::<u64>().ok();
        let newest = fs::read_dir(&folder).unwrap().filter_map(|entry| generation(entry.unwrap())).max();
        folder.join(format!("{id}.{}", newest.expect("a copy of the block")))
    }

    /// Starts a daemon in the foreground.
    pub fn daemon(&self, arguments: &[&str], log: &str) -> Daemon {
        let log = fs::File::create(self.path(log)).unwrap();
        let mut command = self.command(arguments);
        Daemon(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    fn logs(&self) -> Vec<(String, String)> {
        let Ok(folders) = fs::read_dir(self.home()) else { return Vec::new() };
        let daemons = folders.filter_map(Result::ok).map(|entry| entry.path());
        let log = |folder: PathBuf| {
            let text = fs::read(folder.join("log")).ok()?;
            let name = folder.file_name()?.to_string_lossy().into_owned();
            Some((name, String::from_utf8_lossy(&text).into_owned()))
        };
        daemons.filter_map(log).collect()
    }

    /// The ends of the daemons' logs, for the message of a failed test.
    pub fn last_words(&self) -> String {
        let tail = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(5)..].join("\n")
        };
        self.logs().iter().map(|(name, text)| format!("-- {name}\n{}\n", tail(text))).collect()
    }

    /// The processes that were started here, whether they live or not.
    fn recorded(&self) -> Vec<Process> {
        let Ok(folders) = fs::read_dir(self.home()) else { return Vec::new() };
        folders.filter_map(|entry| Process::recorded_in(&entry.ok()?.path())).collect()
    }

    /// The process of a daemon.
    pub fn process(&self, daemon: &str) -> Process {
        Process::recorded_in(&self.home().join(daemon)).expect("a started daemon is recorded")
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let started = self.recorded();
        let down = self.command(&["cluster", "down"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        if let Ok(mut down) = down
            && ended(&mut down, PATIENCE).is_none()
        {
            let _ = down.kill();
            let _ = down.wait();
        }
        started.iter().for_each(Process::kill);
        if std::thread::panicking() {
            return;
        }
        for (name, text) in self.logs() {
            assert!(!text.contains("panicked"), "{name} panicked:\n{text}");
        }
    }
}

impl Daemon {
    /// Waits until it ends by itself.
    pub fn ended(&mut self) -> ExitStatus {
        ended(&mut self.0, PATIENCE).expect("the daemon ends by itself")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process, told by its start from another that gets its number later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    pid: i32,
    start_ticks: u64,
}

impl Process {
    fn recorded_in(folder: &Path) -> Option<Process> {
        let record: Value = serde_json::from_slice(&fs::read(folder.join("process.json")).ok()?).ok()?;
        let pid = i32::try_from(record["pid"].as_u64()?).ok()?;
        Some(Process { pid, start_ticks: record["start_ticks"].as_u64()? })
    }

    pub fn is_running(&self) -> bool {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.pid)) else { return false };
        // Fields are counted from the end of the second, which may hold anything (proc(5)).
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 1..].split_whitespace().collect();
        // Its first thread may be gone before the others.
        let is_gone = matches!(fields[0], "Z" | "X") && matches!(fields[17], "0" | "1");
        !is_gone && fields[19].parse() == Ok(self.start_ticks)
    }

    /// It stands still, and is there all the same.
    pub fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// It goes on.
    pub fn go_on(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid).expect("a process");
        rustix::process::kill_process(pid, signal).expect("it is there");
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.is_running() {
            if let Some(pid) = rustix::process::Pid::from_raw(self.pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            assert!(Instant::now() < deadline, "process {} survives SIGKILL", self.pid);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The text of `error: …`, if that is all there is.
pub fn one_sentence(stderr: &str) -> String {
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let sentence = stderr.strip_prefix("error: ").unwrap_or_else(|| panic!("{stderr}")).trim_end();
    let (before, cause) = sentence.rsplit_once(": ").unwrap_or(("", sentence));
    assert!(!before.contains(cause), "says it twice: {sentence}");
    sentence.to_owned()
}

/// Bytes without a pattern that a code could hide an error in.
pub fn content(bytes: usize, seed: u64) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut content);
    content
}

fn collect(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        let _ = sender.send(bytes);
    });
    receiver
}

fn ended(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if Instant::now() > deadline {
            return None;
        }
        std::thread::sleep(POLL);
    }
}
