//! Unmodified HDFS on a testbed: a program of the integration's tests runs it, daemons and all, and says in lines how it went.
//!
//! ```text
//!   experiment ──▶ RecoverySpec::start ──▶ java … Recovery on host 0 ──▶ NameNode, coordinator on host 0; DataNode and helper on each other
//!        ◀── "ready" ── all is written: now links are limited
//!        ◀── "end pipeline 11.2 32 134217728" ──
//!   experiment ──▶ EncodingsSpec::start ──▶ java … Encodings, on racks
//! ```

use crate::error::{LabError, Result, bad};
use crate::testbed::Testbed;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// Where `make hdfs-classes` puts what is needed, below the folder of a checkout.
const CLASSES: &str = "integrations/hdfs/target";

/// As `mvn dependency:build-classpath` writes it.
const CLASS_PATH: &str = "classpath";

const RECOVERY: &str = "stripeline.hdfs.cluster.Recovery";

const ENCODINGS: &str = "stripeline.hdfs.cluster.Encodings";

/// DataNodes that are lost and rebuilt.
pub struct RecoverySpec<'a> {
    /// The program `stripeline`.
    pub program: &'a Path,
    /// A folder for all daemons' data.
    pub folder: &'a Path,
    /// Data and parity units.
    pub code: (usize, usize),
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Groups that are written.
    pub groups: usize,
    /// Reads of a cell of each kind.
    pub reads: usize,
    /// Blocks that a DataNode is given to rebuild at once.
    pub streams: usize,
    /// The scheme of each loss.
    pub turns: &'a [&'a str],
}

/// Replicated files that become erasure-coded ones.
pub struct EncodingsSpec<'a> {
    /// The program `stripeline`.
    pub program: &'a Path,
    /// A folder for all daemons' data.
    pub folder: &'a Path,
    /// Data and parity units.
    pub code: (usize, usize),
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Stripes, each a file.
    pub stripes: usize,
    /// Files that are encoded at once.
    pub at_once: usize,
    /// How often it is done in each way.
    pub rounds: usize,
}

/// What it says.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    /// All is written.
    Ready,
    /// A positional read of a cell took so many seconds.
    Read { scheme: String, is_lost: bool, seconds: f64 },
    /// A recovery begins, or an encoding is about to.
    Begin,
    /// It has ended: so many lost blocks are there again, every byte compared, or so many stripes are encoded.
    End { scheme: String, seconds: f64, blocks: f64, bytes: f64 },
    /// That was all.
    Done,
}

/// A program as it runs. Its daemons end with it, or with the testbed.
pub struct HdfsProgram {
    child: Child,
    input: ChildStdin,
    lines: BufReader<ChildStdout>,
    log: PathBuf,
}

/// The class path, if what it takes was built.
///
/// # Errors
/// [`LabError::NoHadoop`].
pub fn class_path() -> Result<String> {
    let target = Path::new(CLASSES);
    let lacking = |what: &Path| LabError::NoHadoop { lacking: what.to_owned() };
    let file = target.join(CLASS_PATH);
    let hadoop = fs::read_to_string(&file).map_err(|_| lacking(&file))?;
    let mut folders = Vec::new();
    for folder in ["test-classes", "classes"] {
        let folder = target.join(folder);
        folders.push(folder.canonicalize().map_err(|_| lacking(&folder))?.display().to_string());
    }
    folders.push(hadoop.trim().to_owned());
    Ok(folders.join(":"))
}

impl RecoverySpec<'_> {
    /// Starts it on host 0 of a testbed that has a host for each member, and one for each turn.
    ///
    /// # Errors
    /// [`LabError::NoHadoop`], [`LabError::Io`].
    pub fn start(&self, testbed: &Testbed) -> Result<HdfsProgram> {
        let (k, m) = self.code;
        let numbers = [k, m, self.block_bytes as usize, self.groups, self.reads, self.streams];
        let arguments: Vec<String> = numbers
            .map(|number| number.to_string())
            .into_iter()
            .chain(self.turns.iter().map(ToString::to_string))
            .collect();
        HdfsProgram::start(testbed, RECOVERY, self.program, self.folder, &arguments)
    }
}

impl EncodingsSpec<'_> {
    /// Starts it on host 0 of a testbed of racks, with a DataNode on each other host.
    ///
    /// # Errors
    /// [`LabError::NoHadoop`], [`LabError::Io`]; [`LabError::BadSpec`] if the testbed has no racks.
    pub fn start(&self, testbed: &Testbed) -> Result<HdfsProgram> {
        let racks = testbed.spec().racks.ok_or_else(|| bad("encodings want racks"))?.count;
        let ((k, m), bytes) = (self.code, self.block_bytes as usize);
        let numbers = [racks, k, m, bytes, self.stripes, self.at_once, self.rounds];
        let arguments = numbers.map(|number| number.to_string());
        HdfsProgram::start(testbed, ENCODINGS, self.program, self.folder, &arguments)
    }
}

impl HdfsProgram {
    fn start(
        testbed: &Testbed,
        main: &str,
        program: &Path,
        folder: &Path,
        arguments: &[String],
    ) -> Result<HdfsProgram> {
        let host = testbed.host(0)?;
        let prefix = host.namespace.trim_end_matches('0');
        let log = folder.join("hdfs.log");
        let into = File::create(&log).map_err(LabError::io(format!("write {}", log.display())))?;
        let mut command = host.command("java");
        command.args(["-Xmx512m", "-XX:+UseSerialGC", "-cp", &class_path()?, main]);
        command.arg(program).arg(folder.join("hdfs")).arg(prefix).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(into);
        let mut child = command.spawn().map_err(LabError::io("start java"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(bad("java has no pipes"));
        };
        Ok(HdfsProgram { child, input, lines: BufReader::new(output), log })
    }

    /// Waits for what it says next.
    ///
    /// # Errors
    /// [`LabError::Daemon`] with its last words if it has ended before it was done, or says something strange.
    pub fn hear(&mut self) -> Result<Said> {
        loop {
            let mut line = String::new();
            let count = self.lines.read_line(&mut line).map_err(LabError::io("read from java"))?;
            if count == 0 {
                return Err(self.failed());
            }
            match said(line.trim()) {
                Some(said) => return Ok(said),
                // Hadoop's own classes talk too.
                None => continue,
            }
        }
    }

    /// It goes on, now that links are as they are to be.
    ///
    /// # Errors
    /// [`LabError::Io`].
    pub fn go_on(&mut self) -> Result<()> {
        let going = self.input.write_all(b"go\n").and_then(|()| self.input.flush());
        going.map_err(LabError::io("write to java"))
    }

    fn failed(&self) -> LabError {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let trouble = log.lines().find(|line| line.contains("Exception")).or(log.lines().last());
        LabError::Daemon {
            who: "HDFS".to_owned(),
            message: trouble.unwrap_or("it ended without a word").to_owned(),
        }
    }
}

impl Drop for HdfsProgram {
    fn drop(&mut self) {
        // Its end is that of its input, too; daemons that are left go with the testbed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(line: &str) -> Option<Said> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &str| word.parse::<f64>().ok();
    Some(match words.as_slice() {
        ["ready"] => Said::Ready,
        ["done"] => Said::Done,
        ["begin", _] => Said::Begin,
        ["read", scheme, kind @ ("healthy" | "lost"), seconds] => {
            Said::Read { scheme: (*scheme).to_owned(), is_lost: *kind == "lost", seconds: number(seconds)? }
        }
        ["end", scheme, seconds, blocks, bytes] => Said::End {
            scheme: (*scheme).to_owned(),
            seconds: number(seconds)?,
            blocks: number(blocks)?,
            bytes: number(bytes)?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_that_java_writes_and_others_are_passed_over() {
        let end = Said::End { scheme: "ppr".to_owned(), seconds: 1.5, blocks: 2.0, bytes: 8.0 };
        assert_eq!(said("end ppr 1.500 2 8"), Some(end));
        let read = Said::Read { scheme: "original".to_owned(), is_lost: true, seconds: 0.25 };
        assert_eq!(said("read original lost 0.250000"), Some(read));
        assert_eq!((said("ready"), said("done")), (Some(Said::Ready), Some(Said::Done)));
        for other in ["", "ready or not", "read original found 0.2", "end x y 1 2", "log4j:WARN"] {
            assert_eq!(said(other), None, "{other}");
        }
    }
}
