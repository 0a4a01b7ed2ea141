//! What the network and plain sockets can do on a testbed: the bounds that repairs are compared with.
//!
//! ```text
//!   direct send     source ─────────────────────────────────▶ receiver
//!   relay chain     source ──▶ relay ──▶ … ──▶ relay ───────▶ receiver     read a slice, write it
//!   helper chain    pread ───▶ pread, xor ──▶ pread, xor ───▶ receiver     … with a local file XORed in
//! ```
//!
//! Each is a process of its own ([`cli::bare`]), on the host that it stands for. Nothing is checked but that all bytes
//! arrive.

use crate::error::{LabError, Result, bad};
use crate::scratch::Scratch;
use crate::testbed::Testbed;
use cli::bare::{Hop, Place, Timing, time};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// Written at once when a helper's file is made.
const PIECE_BYTES: usize = 1 << 20;

/// Runs a chain over hosts, with so many bytes, so many of them per write.
pub type Chain = fn(&Testbed, &[usize], u64, usize) -> Result<Timing>;

/// Hosts in a row: the first makes the bytes up, those between relay slice by slice, the last receives. With nobody between
/// it is the direct send.
///
/// # Errors
/// [`LabError::NoHost`], [`LabError::BadSpec`], [`LabError::Bare`].
pub fn relay_chain(testbed: &Testbed, hosts: &[usize], bytes: u64, slice_bytes: usize) -> Result<Timing> {
    let places = places(testbed, hosts)?;
    Ok(time(&places, |_| Hop { bytes, slice_bytes, ..Hop::default() })?)
}

/// Hosts in a row: each but the last reads a file of `bytes` in memory, XORs it into what comes, and sends the sum on.
///
/// # Errors
/// As [`relay_chain`]; [`LabError::Io`] if memory does not suffice for the files.
pub fn helper_chain(testbed: &Testbed, hosts: &[usize], bytes: u64, slice_bytes: usize) -> Result<Timing> {
    let places = places(testbed, hosts)?;
    let folder = Scratch::new(None)?;
    let file = |position: usize| folder.path().join(position.to_string());
    let last = places.len() - 1;
    for position in 0..last {
        fill(&file(position), bytes).map_err(LabError::io("write a helper's file"))?;
    }
    Ok(time(&places, |position| {
        let file = (position < last).then(|| file(position));
        Hop { file, bytes, slice_bytes, ..Hop::default() }
    })?)
}

fn places<'a>(testbed: &'a Testbed, hosts: &[usize]) -> Result<Vec<Place<'a>>> {
    if hosts.len() < 2 {
        return Err(bad("a chain needs a source and a receiver"));
    }
    let place = |&index: &usize| {
        let host = testbed.host(index)?;
        Ok(Place::new(host.addr, |command| match host.inside(|| command.spawn()) {
            Ok(spawned) => spawned.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }))
    };
    hosts.iter().map(place).collect()
}

fn fill(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(PIECE_BYTES, File::create(path)?);
    io::copy(&mut io::repeat(0xa5).take(bytes), &mut file)?;
    file.flush()
}
