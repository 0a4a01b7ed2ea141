//! `stripeline put -r`, `get -r`, `rm --prefix`: trees of files and the objects below a prefix, many at once.
//!
//! Each file is an object of its own, named by the prefix and its path. What cannot be done is named on standard error and left out; the others
//! go on, and the command ends with 1.

mod get;
mod names;
mod put;
mod rm;

pub use get::get;
pub use put::put;
pub use rm::{RmArgs, rm};

use crate::amount::{Size, count};
use crate::output::Output;
use crate::progress::bytes_bar;
use anyhow::{Result, bail};
use clap::Args;
use client::Client;
use indicatif::ProgressBar;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use tokio::task::JoinSet;

/// Files under way at once. Small files wait for syncs of disks most of the time, and so many share each sync.
const AT_ONCE: usize = 64;

/// After this many failures in a row the command gives up: the cause is not a single file.
const MOST_IN_A_ROW: u64 = 64;

/// Names with reasons in the answer with `--json`; all of them are named on standard error.
const MOST_LISTED: usize = 1_000;

/// Read of a file at once, to compare it.
const PIECE_BYTES: usize = 1 << 20;

/// Options of commands that work on trees.
#[derive(Args, Debug, Clone)]
pub struct TreeArgs {
    /// A folder with all that is in it, or all objects below a prefix: each file is an object, named by the prefix and its path
    #[arg(short, long)]
    pub recursive: bool,
    /// Only these, one a line, as paths below the folder or names below the prefix; - for standard input
    #[arg(long, value_name = "FILE", requires = "recursive")]
    pub names_from: Option<PathBuf>,
    /// Leave out files whose object has the same content, so that a command that broke off can go on
    #[arg(long, requires = "recursive")]
    pub skip_same: bool,
    /// Files under way at once
    #[arg(long, value_name = "N", requires = "recursive", default_value_t = AT_ONCE, value_parser = at_once())]
    pub at_once: usize,
}

fn at_once() -> impl clap::builder::TypedValueParser<Value = usize> {
    use clap::builder::TypedValueParser;
    clap::value_parser!(u16).range(1..=1_024).map(usize::from)
}

/// Outcome for one file.
pub(super) enum Done {
    /// The file was copied; its number of bytes.
    Moved(u64),
    /// Both sides had the same content; its number of bytes.
    Same(u64),
}

/// A file or an object that was not done, and why.
pub(super) struct Refused {
    name: String,
    why: String,
}

impl Refused {
    pub fn new(name: impl Into<String>, why: impl ToString) -> Refused {
        Refused { name: name.into(), why: why.to_string() }
    }
}

/// Counts and progress of a command.
pub(super) struct Tally {
    bar: ProgressBar,
    what: String,
    /// The noun for what is counted: file or object.
    noun: &'static str,
    all: u64,
    files: u64,
    bytes: u64,
    same: u64,
    refused: u64,
    in_a_row: u64,
    listed: Vec<Refused>,
}

impl Tally {
    /// Creates a tally for this many files with this many bytes in all. `what` is the title of the progress bar.
    pub fn new(out: Output, (what, noun): (&str, &'static str), files: u64, bytes: u64) -> Tally {
        let bar = bytes_bar(out, what);
        bar.set_length(bytes);
        Tally {
            bar,
            what: what.to_owned(),
            noun,
            all: files,
            files: 0,
            bytes: 0,
            same: 0,
            refused: 0,
            in_a_row: 0,
            listed: Vec::new(),
        }
    }

    /// Notes what came of a file of so many bytes.
    pub fn note(&mut self, done: std::result::Result<Done, Refused>) {
        match done {
            Ok(Done::Moved(bytes)) => {
                (self.files, self.bytes, self.in_a_row) = (self.files + 1, self.bytes + bytes, 0);
                self.bar.inc(bytes);
            }
            Ok(Done::Same(bytes)) => {
                self.same += 1;
                self.bar.inc(bytes);
            }
            Err(refused) => self.refuse(refused),
        }
        let ended = self.files + self.same + self.refused;
        self.bar.set_message(format!("{}, {ended} of {}", self.what, count(self.all, self.noun)));
    }

    fn refuse(&mut self, refused: Refused) {
        (self.refused, self.in_a_row) = (self.refused + 1, self.in_a_row + 1);
        let Refused { name, why } = &refused;
        // Standard error may be a log on a full disk.
        self.bar.suspend(|| _ = writeln!(io::stderr(), "{name}: {why}"));
        if self.listed.len() < MOST_LISTED {
            self.listed.push(refused);
        }
    }

    /// Runs `act` for each item, so many at once, until all are done or too many failed in a row.
    pub async fn run<T: Send + 'static, F>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        at_once: usize,
        act: impl Fn(T) -> F,
    ) where
        F: Future<Output = std::result::Result<Done, Refused>> + Send + 'static,
    {
        let mut running = JoinSet::new();
        let mut items = items.into_iter();
        loop {
            while running.len() < at_once && self.in_a_row < MOST_IN_A_ROW {
                match items.next() {
                    Some(item) => _ = running.spawn(act(item)),
                    None => break,
                }
            }
            match running.join_next().await {
                Some(Ok(done)) => self.note(done),
                Some(Err(broken)) => self.note(Err(Refused::new("a file", broken))),
                None => return,
            }
        }
    }

    /// Answers with what was done. An error if something was not.
    pub fn answer(self, out: Output, did: &str) -> Result<()> {
        let Tally { bar, noun, files, bytes, same, refused, listed, all, .. } = self;
        bar.finish_and_clear();
        let listed: Vec<_> =
            listed.iter().map(|refused| json!({"name": refused.name, "why": refused.why})).collect();
        let document =
            json!({"files": files, "bytes": bytes, "same": same, "refused": refused, "reasons": listed});
        out.answer(&document, || {
            let same = match same {
                0 => String::new(),
                same => format!(", {} the same already", count(same, noun)),
            };
            format!("{}, {} {did}{same}", count(files, noun), Size(bytes))
        })?;
        match (refused, all.saturating_sub(files + same + refused)) {
            (0, 0) => Ok(()),
            (refused, 0) => bail!("{} not {did}; they are named above", count(refused, noun)),
            (refused, rest) => bail!(
                "{} not {did} ({} in a row), and {} not tried; --skip-same goes on where this ended",
                count(refused, noun),
                MOST_IN_A_ROW,
                count(rest, noun)
            ),
        }
    }
}

/// An object as it is listed.
pub(super) struct Listed {
    pub name: String,
    pub bytes: u64,
    pub digest: Vec<u8>,
}

/// Lists the objects whose names begin so, by name.
pub(super) async fn listed(client: &Client, prefix: &str) -> Result<Vec<Listed>> {
    let objects = client.list(prefix).await?.into_iter();
    let listed = objects.map(|o| Listed { name: o.name, bytes: o.object_bytes, digest: o.digest });
    Ok(listed.collect())
}

/// BLAKE3 of a file.
pub(super) fn digest_of(path: &Path) -> io::Result<blake3::Hash> {
    let mut file = File::open(path)?;
    let (mut hasher, mut piece) = (blake3::Hasher::new(), vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.finalize()),
            read => _ = hasher.update(&piece[..read]),
        }
    }
}

/// A prefix of objects that stand for a folder: it ends with a slash, or is empty.
pub(super) fn folder_prefix(prefix: &str) -> String {
    match prefix.is_empty() || prefix.ends_with('/') {
        true => prefix.to_owned(),
        false => format!("{prefix}/"),
    }
}
