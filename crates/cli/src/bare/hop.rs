//! One process of a bare chain.

use super::BareError;
use clap::Args;
use clap::builder::TypedValueParser;
use exec::Throttle;
use model::Traffic;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

/// A peer that says nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(120);

/// What one process of a chain does: without `listen` it is the source, without `to` the receiver, with a `file` a helper,
/// else a relay.
#[derive(Args, Clone, Debug, Default)]
pub struct Hop {
    /// Address to receive on, at a free port that is printed
    #[arg(long, value_name = "IP")]
    pub listen: Option<IpAddr>,
    /// Where to send
    #[arg(long, value_name = "ADDR")]
    pub to: Option<SocketAddr>,
    /// Read in slices of its own, and XORed into what is received; at least as long as what is carried
    #[arg(long)]
    pub file: Option<PathBuf>,
    /// Bytes in all
    #[arg(long)]
    pub bytes: u64,
    /// Bytes read and written at once
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..).map(|bytes| bytes as usize))]
    pub slice_bytes: usize,
    /// Token bucket for sending, bytes per second; 0: none
    #[arg(long, default_value_t = 0)]
    pub egress_bytes_per_s: u64,
    /// Token bucket for receiving, bytes per second; 0: none
    #[arg(long, default_value_t = 0)]
    pub ingress_bytes_per_s: u64,
}

impl Hop {
    /// Carries the bytes, and talks to whoever started this process:
    ///
    /// ```text
    ///   1  prints where it listens, or "ready" if it is the source, which then waits for a line
    ///   2  carries the bytes
    ///   3  prints CLOCK_MONOTONIC and the processor time since step 1, in nanoseconds
    /// ```
    ///
    /// # Errors
    /// Whatever a socket or file says.
    pub fn run(&self) -> Result<(), BareError> {
        self.relay().map_err(|error| BareError { role: self.role(), message: error.to_string() })
    }

    /// As people call it.
    pub fn role(&self) -> &'static str {
        match (&self.listen, &self.to, &self.file) {
            (None, _, _) => "source",
            (_, None, _) => "receiver",
            (_, _, Some(_)) => "helper",
            _ => "relay",
        }
    }

    fn relay(&self) -> io::Result<()> {
        let file = self.file.as_ref().map(File::open).transpose()?;
        let mut next = self.to.map(TcpStream::connect).transpose()?;
        if let Some(next) = &next {
            next.set_nodelay(true)?;
            next.set_write_timeout(Some(PATIENCE))?;
        }
        let mut previous = self.listen.map(accept_one).transpose()?;
        let cpu_before = nanoseconds(ClockId::ProcessCPUTime);
        if previous.is_none() {
            println!("ready");
            io::stdin().read_line(&mut String::new())?;
        }
        self.carry(previous.as_mut(), file.as_ref(), next.as_mut())?;
        // Each asked for before the next, so that no printing is in the times.
        let (ended, cpu) =
            (nanoseconds(ClockId::Monotonic), nanoseconds(ClockId::ProcessCPUTime) - cpu_before);
        println!("{ended} {cpu}");
        Ok(())
    }

    fn carry(
        &self,
        mut previous: Option<&mut TcpStream>,
        file: Option<&File>,
        mut next: Option<&mut TcpStream>,
    ) -> io::Result<()> {
        let throttle = Throttle::new(self.egress_bytes_per_s, self.ingress_bytes_per_s);
        // Never zero: a page that was never written is the same page for all, and costs no memory traffic.
        let mut slice = vec![0x5a; self.slice_bytes];
        let mut local = vec![0x5a; if file.is_some() { self.slice_bytes } else { 0 }];
        let mut at = 0;
        while at < self.bytes {
            let bytes = usize::try_from(self.bytes - at).unwrap_or(usize::MAX).min(self.slice_bytes);
            let slice = &mut slice[..bytes];
            if let Some(previous) = &mut previous {
                previous.read_exact(slice)?;
                throttle.receive(Traffic::Client, bytes);
            }
            match (file, &previous) {
                (Some(file), Some(_)) => {
                    file.read_exact_at(&mut local[..bytes], at)?;
                    gf::kernels().xor(&local[..bytes], slice);
                }
                (Some(file), None) => file.read_exact_at(slice, at)?,
                (None, _) => {}
            }
            if let Some(next) = &mut next {
                throttle.send(Traffic::Client, bytes);
                next.write_all(slice)?;
            }
            at += bytes as u64;
        }
        Ok(())
    }
}

fn accept_one(address: IpAddr) -> io::Result<TcpStream> {
    let listener = TcpListener::bind((address, 0))?;
    println!("{}", listener.local_addr()?);
    let (stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// What a clock says. The monotonic one is the same for all processes of a machine, whatever their namespace.
pub(super) fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
