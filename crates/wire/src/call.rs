//! A small read in one exchange on the data connection, with no control stream.
//!
//! ```text
//! reader                                         node
//!   │ Call (64 bytes), Prepare ─────────────────▶ │   all of a stage that only reads, and all its grants
//!   │ ◀── Answer (64 bytes), StageStats, frames, End │   or Answer, Fault
//! ```
//!
//! Both heads carry the length of the message behind them and one checksum over head and message. All numbers are
//! little-endian.

use crate::frame::{FrameError, crc32c};
use prost::Message;

/// Bytes of a Call's head, as long as a Hello, and of an Answer's.
pub const HEAD_BYTES: usize = 64;

/// A Prepare of one stage is far shorter.
pub const MAX_CALL_BYTES: usize = 64 * 1024;

/// Statistics of one stage, or a fault with its sentence.
pub const MAX_ANSWER_MESSAGE_BYTES: usize = 16 * 1024;

/// Frames that are answered in one piece, at most: a read that takes longer than this on the wire is no small one, and
/// answers are not throttled in parts.
pub const MAX_ANSWER_BYTES: u64 = 256 * 1024;

const CALL_MAGIC: u32 = 0x4c43_5153;
const ANSWER_MAGIC: u32 = 0x5241_5153;
const VERSION: u8 = 1;

/// Which of the two an exchange's message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    /// A Prepare follows.
    Call,
    /// The statistics of the stage follow, then its frames.
    Done,
    /// A Fault follows, and nothing else.
    Failed,
}

impl Head {
    /// Head and message.
    pub fn seal(self, message: &impl Message) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        message.encode(&mut bytes).unwrap_or_default();
        let length = (bytes.len() - HEAD_BYTES) as u32;
        let magic = if self == Head::Call { CALL_MAGIC } else { ANSWER_MAGIC };
        bytes[0..4].copy_from_slice(&magic.to_le_bytes());
        bytes[4] = VERSION;
        bytes[5] = u8::from(self == Head::Failed);
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        let crc = crc32c(&bytes);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// What a head says, and the length of its message. `None`: it is no head of this protocol, a Hello perhaps.
    pub fn parse(head: &[u8; HEAD_BYTES]) -> Option<Result<(Head, usize), FrameError>> {
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let kind = match (word(0), head[5]) {
            (CALL_MAGIC, _) => Head::Call,
            (ANSWER_MAGIC, 0) => Head::Done,
            (ANSWER_MAGIC, _) => Head::Failed,
            _ => return None,
        };
        let longest = if kind == Head::Call { MAX_CALL_BYTES } else { MAX_ANSWER_MESSAGE_BYTES };
        let length = word(8) as usize;
        Some(match head[4] {
            VERSION if length <= longest => Ok((kind, length)),
            VERSION => Err(FrameError::Field("message length")),
            _ => Err(FrameError::Magic),
        })
    }

    /// The message behind a parsed head.
    pub fn open<M: Message + Default>(head: &[u8; HEAD_BYTES], message: &[u8]) -> Result<M, FrameError> {
        let mut bytes = [head.as_slice(), message].concat();
        bytes[60..64].fill(0);
        if head[60..64] != crc32c(&bytes).to_le_bytes() {
            return Err(FrameError::Checksum);
        }
        M::decode(message).map_err(|_| FrameError::Field("message"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto;

    #[test]
    fn a_message_comes_back_and_no_flipped_bit_goes_unseen() {
        let fault = proto::Fault { cause: 3, detail: "a disk".to_owned(), ..Default::default() };
        for kind in [Head::Call, Head::Done, Head::Failed] {
            let sealed = kind.seal(&fault);
            let read = |bytes: &[u8]| -> Result<(Head, proto::Fault), FrameError> {
                let head: [u8; HEAD_BYTES] = bytes[..HEAD_BYTES].try_into().unwrap();
                let (kind, length) = Head::parse(&head).ok_or(FrameError::Magic)??;
                let message = bytes.get(HEAD_BYTES..HEAD_BYTES + length).ok_or(FrameError::Checksum)?;
                Ok((kind, Head::open(&head, message)?))
            };
            assert_eq!(read(&sealed), Ok((kind, fault.clone())));
            for bit in 0..sealed.len() * 8 {
                let mut wrong = sealed.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert!(read(&wrong).is_err(), "{kind:?} bit {bit}");
            }
        }
    }

    #[test]
    fn a_hello_is_no_head_and_lengths_are_bounded() {
        assert!(Head::parse(&[0x51; HEAD_BYTES]).is_none());
        let mut head = [0; HEAD_BYTES];
        head[0..4].copy_from_slice(&CALL_MAGIC.to_le_bytes());
        head[4] = VERSION;
        head[8..12].copy_from_slice(&(MAX_CALL_BYTES as u32 + 1).to_le_bytes());
        assert_eq!(Head::parse(&head), Some(Err(FrameError::Field("message length"))));
    }
}
