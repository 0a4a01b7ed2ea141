//! `stripeline bare-send`: what one plain TCP connection takes for as many bytes through the same token buckets: the
//! bound that a repair is compared with. Not a line of the executor runs here, only its [`Throttle`].
//!
//! ```text
//!   sender process                                 receiver process
//!   egress bucket ── write ───────── TCP ───────── read ── ingress bucket
//!                 ◀────────── one byte, once all are there ───────────────
//! ```

use crate::amount::{Rate, Size};
use crate::context::Context;
use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use exec::Throttle;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Written and charged at once: as much as a slice.
const PIECE_BYTES: usize = 32 * 1024;

/// A peer that says nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(120);

/// What to measure.
#[derive(Args, Debug)]
pub struct BareArgs {
    #[command(subcommand)]
    role: Option<Role>,
    /// Bytes to send
    #[arg(long, default_value = "64MiB", global = true)]
    bytes: Size,
    /// Rate of the token buckets, one at each end
    #[arg(long, default_value = "none", global = true)]
    rate: Rate,
}

#[derive(Subcommand, Debug)]
enum Role {
    /// Receive once, on a free port that is printed
    Receive,
    /// Send once and print the microseconds until the receiver had it all
    Send { to: SocketAddr },
}

pub fn run(context: &Context, args: &BareArgs) -> Result<()> {
    match args.role {
        Some(Role::Receive) => receive(args.rate),
        Some(Role::Send { to }) => {
            println!("{}", send(to, args.bytes.0, args.rate)?.as_micros());
            Ok(())
        }
        None => {
            let took = measure(args.bytes, args.rate)?;
            context.out.answer(&json!({"bytes": args.bytes.0, "us": took.as_micros()}), || {
                format!("{} in {}", args.bytes, crate::amount::seconds(took))
            })
        }
    }
}

/// Runs a sender and a receiver, a process each; how long until the last byte was received.
pub fn measure(bytes: Size, rate: Rate) -> Result<Duration> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let role = |role: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("bare-send").args(role).args([
            "--bytes",
            &bytes.0.to_string(),
            "--rate",
            &rate.argument(),
        ]);
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        command
    };
    let mut receiver =
        role(&["receive"]).stdout(Stdio::piped()).spawn().context("cannot start the receiver")?;
    let mut address = String::new();
    if let Some(stdout) = receiver.stdout.take() {
        BufReader::new(stdout).read_line(&mut address)?;
    }
    let sent = role(&["send", address.trim()]).output().context("cannot start the sender");
    if !sent.as_ref().is_ok_and(|output| output.status.success()) {
        // It may still wait for a connection that nobody will make.
        let _ = receiver.kill();
    }
    let received = receiver.wait()?;
    let sent = sent?;
    if !received.success() || !sent.status.success() {
        bail!("the bare send failed");
    }
    let micros =
        String::from_utf8_lossy(&sent.stdout).trim().parse().context("the bare send printed no time")?;
    Ok(Duration::from_micros(micros))
}

fn receive(rate: Rate) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen")?;
    println!("{}", listener.local_addr()?);
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let throttle = Throttle::new(0, rate.0);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match stream.read(&mut piece)? {
            0 => break,
            bytes => throttle.receive(bytes),
        }
    }
    stream.write_all(&[1])?;
    Ok(())
}

fn send(to: SocketAddr, bytes: u64, rate: Rate) -> Result<Duration> {
    let throttle = Throttle::new(rate.0, 0);
    let piece = vec![0x5a; PIECE_BYTES];
    let started = Instant::now();
    let mut stream = TcpStream::connect(to).context("cannot connect")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut left = bytes;
    while left > 0 {
        let now = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        throttle.send(now);
        stream.write_all(&piece[..now])?;
        left -= now as u64;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.read_exact(&mut [0])?;
    Ok(started.elapsed())
}
