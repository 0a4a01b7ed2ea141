//! Chains of bare processes: started from the receiver backwards, timed from the order to the last byte.

use super::BareError;
use super::hop::{Hop, nanoseconds};
use crate::processor::{NoTimes, ProcessorShare};
use rustix::time::ClockId;
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

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

/// Starts a command, or says why not.
type Start<'a> = Box<dyn Fn(&mut Command) -> Result<Child, String> + 'a>;

/// Where a process of a chain runs.
pub struct Place<'a> {
    addr: IpAddr,
    start: Start<'a>,
}

impl<'a> Place<'a> {
    /// At an address, by whatever starts a process there.
    pub fn new(addr: IpAddr, start: impl Fn(&mut Command) -> Result<Child, String> + 'a) -> Place<'a> {
        Place { addr, start: Box::new(start) }
    }

    /// At an address of wherever this process is.
    pub fn here(addr: IpAddr) -> Place<'a> {
        Place::new(addr, |command| command.spawn().map_err(|error| error.to_string()))
    }
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
///
/// # Errors
/// Whatever a process says.
pub fn time(places: &[Place<'_>], hop: impl Fn(usize) -> Hop) -> Result<Timing, BareError> {
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
    let unknown = |error: NoTimes| BareError { role: "receiver", message: error.to_string() };
    let processors = ProcessorShare::start().map_err(unknown)?;
    let started = nanoseconds(ClockId::Monotonic);
    if let Some(source) = processes.last_mut() {
        source.order()?;
    }
    let mut timing = Timing { seconds: 0.0, cpu_seconds: 0.0, processor_share: 0.0 };
    for (backwards, mut process) in processes.into_iter().enumerate() {
        let (ended, cpu) = process.times()?;
        if backwards == 0 {
            timing.seconds = ended.saturating_sub(started) as f64 / 1e9;
            timing.processor_share = processors.so_far().map_err(unknown)?;
        }
        timing.cpu_seconds += cpu as f64 / 1e9;
    }
    Ok(timing)
}

fn start(place: &Place<'_>, hop: &Hop) -> Result<Process, BareError> {
    let role = hop.role();
    let failed = |message: String| BareError { role, message };
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(program);
    command.arg("bare").args(hop.arguments());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = (place.start)(&mut command).map_err(|error| failed(format!("cannot start: {error}")))?;
    match child.stdout.take() {
        Some(stdout) => Ok(Process { role, child, stdout: BufReader::new(stdout) }),
        None => Err(failed("it has no output".to_owned())),
    }
}

impl Process {
    fn line(&mut self) -> Result<String, BareError> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line) {
            Ok(1..) => Ok(line.trim().to_owned()),
            Ok(0) => Err(self.failure("it ended early".to_owned())),
            Err(error) => Err(self.failure(error.to_string())),
        }
    }

    fn order(&mut self) -> Result<(), BareError> {
        let told = self.child.stdin.as_mut().map(|stdin| stdin.write_all(b"go\n"));
        told.transpose().map(drop).map_err(|error| self.failure(error.to_string()))
    }

    /// When it ended, and its processor time, in nanoseconds.
    fn times(&mut self) -> Result<(u64, u64), BareError> {
        let line = self.line()?;
        let times =
            line.split_once(' ').and_then(|(ended, cpu)| Some((ended.parse().ok()?, cpu.parse().ok()?)));
        times.ok_or_else(|| self.failure(format!("no times: '{line}'")))
    }

    fn failure(&self, message: String) -> BareError {
        BareError { role: self.role, message }
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
