//! Bare chains on a testbed: started from the receiver backwards, timed from the order to the last byte.

use super::hop::{Hop, nanoseconds};
use crate::error::LabError;
use crate::processor::ProcessorShare;
use crate::scratch::Scratch;
use crate::testbed::{Host, Testbed};
use rustix::time::ClockId;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Written at once when a helper's file is made.
const PIECE_BYTES: usize = 1 << 20;

/// What a bare program took.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timing {
    /// From the order to start, given when all connections stand, to the last byte in the receiver's hands.
    pub seconds: f64,
    /// Processor time of all its processes meanwhile.
    pub cpu_seconds: f64,
    /// Fraction of all processors of the machine in use meanwhile.
    pub processor_share: f64,
}

/// One connection that carries `bytes` from one host to another, `slice_bytes` per write.
///
/// # Errors
/// [`LabError::NoHost`], [`LabError::Bare`].
pub fn direct_send(
    testbed: &Testbed,
    from: usize,
    to: usize,
    bytes: u64,
    slice_bytes: usize,
) -> Result<Timing, LabError> {
    relay_chain(testbed, &[from, to], bytes, slice_bytes)
}

/// Hosts in a row: the first makes the bytes up, those between relay slice by slice, the last receives.
///
/// # Errors
/// [`LabError::NoHost`], [`LabError::BadSpec`], [`LabError::Bare`].
pub fn relay_chain(
    testbed: &Testbed,
    hosts: &[usize],
    bytes: u64,
    slice_bytes: usize,
) -> Result<Timing, LabError> {
    let places = places(testbed, hosts)?;
    time(&places, |_| Hop { bytes, slice_bytes, ..Hop::default() })
}

/// Hosts in a row: each but the last reads a file of `bytes` in memory, XORs it into what comes, and sends the sum on.
///
/// # Errors
/// As [`relay_chain`]; [`LabError::Io`] if memory does not suffice for the files.
pub fn helper_chain(
    testbed: &Testbed,
    hosts: &[usize],
    bytes: u64,
    slice_bytes: usize,
) -> Result<Timing, LabError> {
    let places = places(testbed, hosts)?;
    let folder = Scratch::new(None)?;
    let file = |position: usize| folder.path().join(position.to_string());
    let last = places.len() - 1;
    for position in 0..last {
        fill(&file(position), bytes).map_err(LabError::io("write a helper's file"))?;
    }
    time(&places, |position| {
        let file = (position < last).then(|| file(position));
        Hop { file, bytes, slice_bytes, ..Hop::default() }
    })
}

/// One connection over the loopback, with a token bucket of `bytes_per_s` (0: none) at each end.
///
/// # Errors
/// [`LabError::Bare`].
pub fn loopback_send(bytes: u64, slice_bytes: usize, bytes_per_s: u64) -> Result<Timing, LabError> {
    let here = Place { host: None, addr: IpAddr::V4(Ipv4Addr::LOCALHOST) };
    let hop = Hop {
        bytes,
        slice_bytes,
        egress_bytes_per_s: bytes_per_s,
        ingress_bytes_per_s: bytes_per_s,
        ..Hop::default()
    };
    time(&[here, here], |_| hop.clone())
}

#[derive(Clone, Copy)]
struct Place<'a> {
    /// `None`: wherever this process is.
    host: Option<&'a Host>,
    addr: IpAddr,
}

fn places<'a>(testbed: &'a Testbed, hosts: &[usize]) -> Result<Vec<Place<'a>>, LabError> {
    if hosts.len() < 2 {
        return Err(LabError::BadSpec("a chain needs a source and a receiver".to_owned()));
    }
    let place = |&index: &usize| testbed.host(index).map(|host| Place { host: Some(host), addr: host.addr });
    hosts.iter().map(place).collect()
}

/// A process of the chain. Dropped before its end, it is killed.
struct Process {
    role: &'static str,
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended by itself has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a chain over `places`; `hop` says what is special about each position.
fn time(places: &[Place<'_>], hop: impl Fn(usize) -> Hop) -> Result<Timing, LabError> {
    let mut processes: Vec<Process> = Vec::new();
    let mut to = None;
    for (position, place) in places.iter().enumerate().rev() {
        let listen = (position > 0).then_some(place.addr);
        let mut process = start(place, &Hop { listen, to, ..hop(position) })?;
        let said = process.line()?;
        if position > 0 {
            to = Some(said.parse().map_err(|_| process.failure(format!("no address: '{said}'")))?);
        }
        processes.push(process);
    }
    let processors = ProcessorShare::start()?;
    let started = nanoseconds(ClockId::Monotonic);
    if let Some(source) = processes.last_mut() {
        source.order()?;
    }
    let mut timing = Timing { seconds: 0.0, cpu_seconds: 0.0, processor_share: 0.0 };
    for (backwards, mut process) in processes.into_iter().enumerate() {
        let (ended, cpu) = process.times()?;
        if backwards == 0 {
            timing.seconds = ended.saturating_sub(started) as f64 / 1e9;
            timing.processor_share = processors.so_far()?;
        }
        timing.cpu_seconds += cpu as f64 / 1e9;
    }
    Ok(timing)
}

fn start(place: &Place<'_>, hop: &Hop) -> Result<Process, LabError> {
    let role = hop.role();
    let program = std::env::current_exe().map_err(LabError::io("find this program's own file"))?;
    let mut command = Command::new(program);
    command.arg("bare").args(hop.arguments());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let spawned = match place.host {
        Some(host) => host.inside(|| command.spawn())?,
        None => command.spawn(),
    };
    let mut child = spawned.map_err(LabError::io(format!("start a bare {role}")))?;
    match child.stdout.take() {
        Some(stdout) => Ok(Process { role, child, stdout: BufReader::new(stdout) }),
        None => Err(LabError::Bare { role, message: "it has no output".to_owned() }),
    }
}

impl Process {
    fn line(&mut self) -> Result<String, LabError> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line) {
            Ok(1..) => Ok(line.trim().to_owned()),
            Ok(0) => Err(self.failure("it ended early".to_owned())),
            Err(error) => Err(self.failure(error.to_string())),
        }
    }

    fn order(&mut self) -> Result<(), LabError> {
        let told = self.child.stdin.as_mut().map(|stdin| stdin.write_all(b"go\n"));
        told.transpose().map(drop).map_err(|error| self.failure(error.to_string()))
    }

    /// When it ended, and its processor time, in nanoseconds.
    fn times(&mut self) -> Result<(u64, u64), LabError> {
        let line = self.line()?;
        let times =
            line.split_once(' ').and_then(|(ended, cpu)| Some((ended.parse().ok()?, cpu.parse().ok()?)));
        times.ok_or_else(|| self.failure(format!("no times: '{line}'")))
    }

    fn failure(&self, message: String) -> LabError {
        LabError::Bare { role: self.role, message }
    }
}

impl Hop {
    /// As `stripeline bare` reads it.
    fn arguments(&self) -> Vec<String> {
        let options = [
            ("--listen", self.listen.map(|listen| listen.to_string())),
            ("--to", self.to.map(|to| to.to_string())),
            ("--file", self.file.as_ref().map(|file| file.display().to_string())),
            ("--bytes", Some(self.bytes.to_string())),
            ("--slice-bytes", Some(self.slice_bytes.to_string())),
            ("--egress-bytes-per-s", Some(self.egress_bytes_per_s.to_string())),
            ("--ingress-bytes-per-s", Some(self.ingress_bytes_per_s.to_string())),
        ];
        options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).flatten().collect()
    }
}

fn fill(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let piece = vec![0xa5; PIECE_BYTES];
    let mut left = bytes;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
        file.write_all(&piece[..now])?;
        left -= now as u64;
    }
    Ok(())
}
