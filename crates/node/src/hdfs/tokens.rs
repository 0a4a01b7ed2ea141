//! Whether a block may be read for a flow. The DataNode says so: its plugin listens at a socket in one of the DataNode's data folders,
//! and is told which block, for which flow, and what came with the announcement. It has the keys of block tokens, and they stay there.
//!
//! ```text
//!   question  "SLTK"  version 2: 1  length 4   pool text   block 8   flow 16   identifier: length 2, bytes   proof: length 2, bytes
//!   answer    1 it may, 2 it may not: 1        sentence text
//! ```
//!
//! All numbers are big-endian; a text is its length (2 bytes) and its UTF-8. Where no DataNode can be asked nothing is read, whatever
//! the reason: the lack of an answer is no permission.

use crate::server::connect_local;
use model::FlowId;
use model::hdfs::Permit;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

/// In which of the DataNode's data folders it is, is for the plugin to say.
pub const SOCKET: &str = "stripeline.sock";

const MAGIC: [u8; 4] = *b"SLTK";

const VERSION: u16 = 1;

const PERMITTED: u8 = 1;

/// A DataNode answers from its memory; one that does not within this time reads no blocks for anybody.
const PATIENCE: Duration = Duration::from_secs(2);

/// A sentence is cut there.
const MAX_SENTENCE_BYTES: usize = 512;

/// Who is asked before a block is read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum BlockTokens {
    /// The DataNode, at a socket in one of its data folders.
    #[default]
    AskDatanode,
    /// The DataNode, at this socket.
    AskAt(PathBuf),
    /// Nobody: whoever announces a flow has blocks read.
    Off,
}

/// Why a block may not be read, for people.
#[derive(Debug, thiserror::Error)]
pub enum NotPermitted {
    /// The DataNode's plugin is not there, or is no plugin.
    #[error("nobody says whether it may be read: {0}")]
    Nobody(String),
    /// It says no.
    #[error("its DataNode says no: {0}")]
    Refused(String),
}

/// Asks the DataNode.
#[derive(Debug)]
pub struct Asking {
    sockets: Vec<PathBuf>,
    /// Whose the data folders are: whoever else listens there is not asked.
    owner: u32,
    /// Where an answer came from last.
    last: Mutex<usize>,
}

impl Asking {
    /// Of the DataNode with these data folders; `None` if nobody is to be asked.
    ///
    /// # Errors
    /// A folder that cannot be looked at.
    pub fn of(tokens: &BlockTokens, data_dirs: &[PathBuf]) -> std::io::Result<Option<Asking>> {
        let sockets = match tokens {
            BlockTokens::Off => return Ok(None),
            BlockTokens::AskAt(socket) => vec![socket.clone()],
            BlockTokens::AskDatanode => data_dirs.iter().map(|folder| folder.join(SOCKET)).collect(),
        };
        let owner = match data_dirs.first() {
            Some(folder) => std::fs::metadata(folder)?.uid(),
            None => rustix::process::geteuid().as_raw(),
        };
        Ok(Some(Asking { sockets, owner, last: Mutex::default() }))
    }

    /// The same, of a DataNode that this user runs.
    pub fn of_user(self, owner: u32) -> Asking {
        Asking { owner, ..self }
    }

    /// Whether a block may be read for a flow.
    ///
    /// # Errors
    /// [`NotPermitted`].
    pub fn may_read(
        &self,
        pool: &str,
        block: i64,
        flow: FlowId,
        permit: Option<&Permit>,
    ) -> Result<(), NotPermitted> {
        let question = question(pool, block, flow, permit);
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut why = "there is no data folder".to_owned();
        for at in (last..self.sockets.len()).chain(0..last) {
            match connect_local(&self.sockets[at], self.owner, PATIENCE) {
                Ok(stream) => {
                    *self.last.lock().unwrap_or_else(PoisonError::into_inner) = at;
                    return ask(stream, &question);
                }
                Err(away) => why = format!("{}: {away}", self.sockets[at].display()),
            }
        }
        Err(NotPermitted::Nobody(why))
    }
}

fn ask(mut stream: impl Read + Write, question: &[u8]) -> Result<(), NotPermitted> {
    let unanswered = |error: std::io::Error| NotPermitted::Nobody(format!("no answer: {error}"));
    stream.write_all(question).map_err(unanswered)?;
    let mut head = [0; 3];
    stream.read_exact(&mut head).map_err(unanswered)?;
    let [verdict, high, low] = head;
    let length = usize::from(u16::from_be_bytes([high, low])).min(MAX_SENTENCE_BYTES);
    let mut sentence = vec![0; length];
    stream.read_exact(&mut sentence).map_err(unanswered)?;
    if verdict == PERMITTED {
        return Ok(());
    }
    Err(NotPermitted::Refused(String::from_utf8_lossy(&sentence).into_owned()))
}

fn question(pool: &str, block: i64, flow: FlowId, permit: Option<&Permit>) -> Vec<u8> {
    let counted = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let (identifier, proof) = permit.map_or((&[][..], &[][..]), |permit| (&permit.identifier, &permit.proof));
    let mut body = counted(pool.as_bytes());
    body.extend(block.to_be_bytes());
    body.extend(flow.to_vec());
    body.extend(counted(identifier));
    body.extend(counted(proof));
    let mut question = MAGIC.to_vec();
    question.extend(VERSION.to_be_bytes());
    question.extend((body.len() as u32).to_be_bytes());
    question.extend(body);
    question
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `TokenChecksTest` of integrations/hdfs reads it, made apart from both programs.
    const QUESTION: &str = include_str!("../../tests/token-question.hex");

    #[test]
    fn a_question_is_what_java_reads() {
        let mut proof = [0; 32];
        proof.iter_mut().zip(0..).for_each(|(to, byte)| *to = byte);
        let permit = Permit { identifier: vec![1, 2, 3], proof };
        let made = question("BP-1-127.0.0.1-2", -9_223_372_036_854_775_784, FlowId(7), Some(&permit));
        let hex: String = made.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, QUESTION.replace('\n', ""));
    }
}
