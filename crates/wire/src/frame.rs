//! The slice protocol: what travels on the data connections.
//!
//! ```text
//! dialer                                    acceptor
//!   │ Hello (64 bytes) ──────────────────────▶ │   which edge of which flow, and its token
//!   │ ◀────────────────────────── Reply (8 bytes) │   accepted, or why not
//!   │ frame, frame, … End  (in the direction that Hello says)
//!   │ acknowledgements     (against it; serial flows only, one byte a slice)
//!   │ ◀──────────────────────── release (1 byte)  │   an acceptor that received is ready for the next Hello
//! ```
//!
//! A frame is a header of 64 bytes, then, on verified flows, one fingerprint of 128 bytes for each chunk of
//! payload, then the payload. The header's checksum covers the header and the fingerprints; the payload is covered
//! by the fingerprints, or, unverified, by a CRC-32C in the header. All numbers are little-endian.
//!
//! Slices that follow each other can share a frame (`flow::bound`). It has one fingerprint for all of them, their
//! fingerprints [appended](gf::Fingerprint::append).

use gf::{CHUNK_BYTES, FINGERPRINT_BYTES};
use model::{FlowId, Token};

/// Bytes of a frame header.
pub const HEADER_BYTES: usize = 64;

/// Bytes of a Hello.
pub const HELLO_BYTES: usize = 64;

/// Bytes of the answer to a Hello.
pub const REPLY_BYTES: usize = 8;

/// What the receiver of a serial flow sends back when it has taken and combined a slice: ASCII ACK. No other flow sends
/// anything against the direction of its frames.
pub const ACKNOWLEDGEMENT: u8 = 0x06;

/// What an acceptor sends back when its stage has taken the stream's End and let go of the connection: ASCII EOT. Before, a Hello on
/// it would wait for that stage, which may wait for others.
pub const RELEASE: u8 = 0x04;

const FRAME_MAGIC: u16 = 0x5153;
const HELLO_MAGIC: u32 = 0x4c48_5153;
const REPLY_MAGIC: u32 = 0x5952_5153;
const VERSION: u8 = 1;
const FLAG_VERIFIED: u16 = 1;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One row of one slice.
    Slice,
    /// The stream is whole: no frame follows. `slice` is the number of slice frames that were sent.
    End,
}

/// A frame header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// The flow.
    pub flow: FlowId,
    /// Its attempt.
    pub attempt: u32,
    /// The lane.
    pub lane: u16,
    /// The edge of the lane.
    pub edge: u16,
    /// The row, 0 … rows−1.
    pub row: u16,
    /// Whether fingerprints follow.
    pub verified: bool,
    /// The slice, the first if it is several.
    pub slice: u64,
    /// Slices in the frame, at least 1.
    pub slices: u16,
    /// Bytes of payload; the rest of the slices is zero.
    pub payload_bytes: u32,
    /// CRC-32C of the payload when no fingerprints follow; else 0.
    pub payload_crc: u32,
}

/// Bytes on a data connection that are not what this protocol says.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// Not a frame (or Hello, or Reply) at all, or of another version.
    #[error("not a stripeline frame, or of another version")]
    Magic,
    /// The checksum of header and fingerprints does not hold.
    #[error("frame header checksum does not hold")]
    Checksum,
    /// A field is out of its bounds.
    #[error("frame field out of bounds: {0}")]
    Field(&'static str),
}

/// CRC-32C (Castagnoli).
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Number of chunks, and so of fingerprints, of a payload.
pub fn chunks(payload_bytes: usize) -> usize {
    payload_bytes.div_ceil(CHUNK_BYTES)
}

/// Bytes between the header of a frame and its payload.
pub fn fingerprint_bytes(verified: bool, slices: u16, payload_bytes: u32) -> usize {
    let fingerprints = chunks(payload_bytes as usize);
    match (verified, slices) {
        (false, _) => 0,
        (true, 0 | 1) => fingerprints * FINGERPRINT_BYTES,
        (true, _) => fingerprints.min(1) * FINGERPRINT_BYTES,
    }
}

impl Header {
    /// Bytes between the header and the payload.
    pub fn fingerprint_bytes(&self) -> usize {
        fingerprint_bytes(self.verified, self.slices, self.payload_bytes)
    }

    /// Bytes of the whole frame.
    pub fn frame_bytes(&self) -> usize {
        HEADER_BYTES + self.fingerprint_bytes() + self.payload_bytes as usize
    }

    /// Writes the header in front of fingerprints that already stand behind it.
    ///
    /// `frame` begins with the header's 64 bytes and holds at least the fingerprints after them.
    pub fn seal(&self, frame: &mut [u8]) {
        let end = HEADER_BYTES + self.fingerprint_bytes();
        let (h, _) = frame.split_at_mut(HEADER_BYTES);
        h[0..2].copy_from_slice(&FRAME_MAGIC.to_le_bytes());
        h[2] = VERSION;
        h[3] = match self.kind {
            Kind::Slice => 0,
            Kind::End => 1,
        };
        h[4..8].copy_from_slice(&self.attempt.to_le_bytes());
        h[8..24].copy_from_slice(&self.flow.0.to_le_bytes());
        h[24..26].copy_from_slice(&self.lane.to_le_bytes());
        h[26..28].copy_from_slice(&self.edge.to_le_bytes());
        h[28..30].copy_from_slice(&self.row.to_le_bytes());
        h[30..32].copy_from_slice(&(if self.verified { FLAG_VERIFIED } else { 0 }).to_le_bytes());
        h[32..40].copy_from_slice(&self.slice.to_le_bytes());
        h[40..44].copy_from_slice(&self.payload_bytes.to_le_bytes());
        h[44..48].copy_from_slice(&self.payload_crc.to_le_bytes());
        h[48..50].copy_from_slice(&self.slices.saturating_sub(1).to_le_bytes());
        h[50..64].fill(0);
        let crc = crc32c(&frame[..end]);
        frame[60..64].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a header; its checksum is checked by [`Header::check`], once the fingerprints are there too.
    pub fn parse(h: &[u8; HEADER_BYTES], max_payload_bytes: u32) -> Result<Header, FrameError> {
        if u16_at(h, 0) != FRAME_MAGIC || h[2] != VERSION {
            return Err(FrameError::Magic);
        }
        let kind = match h[3] {
            0 => Kind::Slice,
            1 => Kind::End,
            _ => return Err(FrameError::Field("kind")),
        };
        let flags = u16_at(h, 30);
        if flags & !FLAG_VERIFIED != 0 {
            return Err(FrameError::Field("flags"));
        }
        let payload_bytes = u32_at(h, 40);
        if payload_bytes > max_payload_bytes || (kind == Kind::End && payload_bytes != 0) {
            return Err(FrameError::Field("payload length"));
        }
        Ok(Header {
            kind,
            flow: FlowId(u128::from_le_bytes(array_at(h, 8))),
            attempt: u32_at(h, 4),
            lane: u16_at(h, 24),
            edge: u16_at(h, 26),
            row: u16_at(h, 28),
            verified: flags & FLAG_VERIFIED != 0,
            slice: u64::from_le_bytes(array_at(h, 32)),
            slices: u16_at(h, 48).saturating_add(1),
            payload_bytes,
            payload_crc: u32_at(h, 44),
        })
    }

    /// Checks the checksum over header and fingerprints. `frame` holds at least both.
    pub fn check(&self, frame: &[u8]) -> Result<(), FrameError> {
        let end = HEADER_BYTES + self.fingerprint_bytes();
        let Some(covered) = frame.get(..end) else { return Err(FrameError::Checksum) };
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        digest.update(&covered[..60]);
        digest.update(&[0; 4]);
        digest.update(&covered[HEADER_BYTES..]);
        let stored = u32::from_le_bytes(array_at(covered, 60));
        if digest.finalize() as u32 == stored { Ok(()) } else { Err(FrameError::Checksum) }
    }
}

/// The first message on a data connection (and after each End, when the connection is used again).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The flow.
    pub flow: FlowId,
    /// Its attempt.
    pub attempt: u32,
    /// The lane.
    pub lane: u16,
    /// The edge of the lane.
    pub edge: u16,
    /// The edge's secret.
    pub token: Token,
    /// Whether the dialer sends the rows (else it receives them).
    pub dialer_sends: bool,
}

impl Hello {
    /// To bytes.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut b = [0; HELLO_BYTES];
        b[0..4].copy_from_slice(&HELLO_MAGIC.to_le_bytes());
        b[4] = VERSION;
        b[5] = u8::from(self.dialer_sends);
        b[8..12].copy_from_slice(&self.attempt.to_le_bytes());
        b[12..14].copy_from_slice(&self.lane.to_le_bytes());
        b[14..16].copy_from_slice(&self.edge.to_le_bytes());
        b[16..32].copy_from_slice(&self.flow.0.to_le_bytes());
        b[32..48].copy_from_slice(&self.token.0.to_le_bytes());
        let crc = crc32c(&b[..60]);
        b[60..64].copy_from_slice(&crc.to_le_bytes());
        b
    }

    /// From bytes.
    pub fn decode(b: &[u8; HELLO_BYTES]) -> Result<Hello, FrameError> {
        if u32_at(b, 0) != HELLO_MAGIC || b[4] != VERSION {
            return Err(FrameError::Magic);
        }
        if u32_at(b, 60) != crc32c(&b[..60]) {
            return Err(FrameError::Checksum);
        }
        if b[5] > 1 {
            return Err(FrameError::Field("direction"));
        }
        Ok(Hello {
            flow: FlowId(u128::from_le_bytes(array_at(b, 16))),
            attempt: u32_at(b, 8),
            lane: u16_at(b, 12),
            edge: u16_at(b, 14),
            token: Token(u128::from_le_bytes(array_at(b, 32))),
            dialer_sends: b[5] == 1,
        })
    }
}

/// The acceptor's answer to a Hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// The edge is yours.
    Accepted,
    /// No such edge is expected here (wrong flow, attempt or token, or somebody else has it already).
    Refused,
}

impl Reply {
    /// To bytes.
    pub fn encode(self) -> [u8; REPLY_BYTES] {
        let mut b = [0; REPLY_BYTES];
        b[0..4].copy_from_slice(&REPLY_MAGIC.to_le_bytes());
        b[4] = VERSION;
        b[5] = u8::from(self == Reply::Refused);
        b
    }

    /// From bytes.
    pub fn decode(b: &[u8; REPLY_BYTES]) -> Result<Reply, FrameError> {
        match (u32_at(b, 0), b[4], b[5]) {
            (REPLY_MAGIC, VERSION, 0) => Ok(Reply::Accepted),
            (REPLY_MAGIC, VERSION, 1) => Ok(Reply::Refused),
            _ => Err(FrameError::Magic),
        }
    }
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: Kind::Slice,
            flow: FlowId(0x0123_4567_89ab_cdef_0011_2233_4455_6677),
            attempt: 2,
            lane: 3,
            edge: 4,
            row: 1,
            verified: true,
            slice: 99,
            slices: 1,
            payload_bytes: 40_000,
            payload_crc: 0,
        }
    }

    #[test]
    fn the_format_is_version_1() {
        let mut frame = vec![0x5a; header().frame_bytes()];
        header().seal(&mut frame);
        let hex: String = frame[..64].iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, include_str!("../golden/frame-v1.hex").trim());
        let hello = Hello {
            flow: header().flow,
            attempt: 2,
            lane: 3,
            edge: 4,
            token: Token(0xfeed),
            dialer_sends: true,
        };
        let hex: String = hello.encode().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, include_str!("../golden/hello-v1.hex").trim());
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }

    #[test]
    fn every_flipped_bit_of_header_and_fingerprints_is_noticed() {
        let mut frame = vec![0x5a; header().frame_bytes()];
        header().seal(&mut frame);
        let covered = HEADER_BYTES + header().fingerprint_bytes();
        for bit in 0..covered * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            let head: [u8; HEADER_BYTES] = array_at(&frame, 0);
            let noticed = match Header::parse(&head, 1 << 20) {
                Err(_) => true,
                Ok(parsed) => parsed.check(&frame).is_err(),
            };
            assert!(noticed, "bit {bit}");
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        let head: [u8; HEADER_BYTES] = array_at(&frame, 0);
        assert_eq!(Header::parse(&head, 1 << 20), Ok(header()));
        assert_eq!(header().check(&frame), Ok(()));
    }

    #[test]
    fn slices_that_share_a_frame_share_a_fingerprint() {
        let header = Header { slices: 4, ..header() };
        assert_eq!(header.frame_bytes(), HEADER_BYTES + FINGERPRINT_BYTES + 40_000);
        let mut frame = vec![0; header.frame_bytes()];
        header.seal(&mut frame);
        assert_eq!(Header::parse(&array_at(&frame, 0), 40_000), Ok(header));
        assert_eq!(Header { payload_bytes: 0, ..header }.frame_bytes(), HEADER_BYTES);
    }

    #[test]
    fn lengths_beyond_the_slice_are_refused() {
        let mut frame = vec![0; header().frame_bytes()];
        header().seal(&mut frame);
        let head: [u8; HEADER_BYTES] = array_at(&frame, 0);
        assert_eq!(Header::parse(&head, 39_999), Err(FrameError::Field("payload length")));
    }
}
