//! Requests and frames of the gateway. All numbers are big-endian, as Java writes them; a text is its length (2 bytes) and its
//! UTF-8.
//!
//! ```text
//!   request   "SLGR"  version 2: 2 or 1  0 2  length 4  CRC-32C of the body 4   body
//!   body      kind 1: 1 read, 2 encode, 3 rebuild   pool text   group 8   stamp 8   codec text   k 2   m 2   cell bytes 4   data bytes 8
//!             offset 8   length 8   scheme text   wanted: count 2, members 2 each
//!             living: count 2, each: member 2, uuid 16, rack text; of kind 2 also block 8, stamp 8;
//!             of version 2 also its block token: length 2, identifier, length 2, password; empty: none
//!   frame     kind 1  0 1  version 2: 1  length 4  CRC-32C of the payload 4   payload
//!   data      kind 1   offset 8   bytes of each 4   those of the first wanted member, of the second, …
//!   end       kind 2   bytes of each in all 8   note text
//!   error     kind 3   code 2   sentence text
//!   corrupt   kind 4   members: count 2, members 2 each; to requests of version 2, before an end or an error
//! ```
//!
//! To encode is to read members that are parities from replicas of a file that is not erasure-coded yet: these are blocks of any
//! id, each with a stamp of its own. To rebuild is to read what will be written again: kinds differ in whose budget the bytes are
//! charged to. Gateways from before a kind refuse it.
//!
//! A connection carries one request, and the frames that answer it: data in rising order without a gap, then an end; or an error,
//! before or after some data.

use model::hdfs::{BlockGroup, BlockToken, Datanode, Held, Layout, PoolMark, Replica};
use model::{StoreId, Traffic};
use std::collections::BTreeMap;
use std::ops::Range;
use wire::frame::crc32c;

/// Of requests. Those of version 1, without block tokens, are taken too.
pub const VERSION: u16 = 2;

const WITHOUT_TOKENS: u16 = 1;

/// Of frames.
const FRAME_VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"SLGR";

/// Before a request's body.
pub const REQUEST_HEAD_BYTES: usize = 16;

/// Before a frame's payload.
pub const FRAME_HEAD_BYTES: usize = 12;

/// A request names a DataNode, its rack and a token for each member. HDFS's tokens of a block group name the storages of all of its
/// members, so that those of 32 members have 45 KiB; of wider groups HDFS has none yet.
pub const MAX_REQUEST_BYTES: usize = 256 * 1024;

/// A sentence for a person is cut there.
const MAX_SENTENCE_BYTES: usize = 4_096;

/// Bytes of members in a data frame, together: whoever reads keeps one, whatever the slices of a scheme.
pub const DATA_BYTES: usize = 1 << 20;

const READ: u8 = 1;
const ENCODE: u8 = 2;
const REBUILD: u8 = 3;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Bytes.
    Data = 1,
    /// All came.
    End = 2,
    /// No more comes.
    Error = 3,
    /// Living members whose helpers have met bytes that differ from their checksums.
    Corrupt = 4,
}

/// Why no more comes. The numbers are the protocol's: never reuse one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Code {
    /// A request that makes no sense.
    Invalid = 1,
    /// Another version, or a codec that is not known.
    NotSupported = 2,
    /// There is no plan: too few helpers live, say.
    NoPlan = 3,
    /// The coordinator does not answer.
    NoCoordinator = 4,
    /// The flow failed, and could not be mended.
    Flow = 5,
    /// Too many ask at once.
    Busy = 6,
    /// A defect of ours.
    Bug = 7,
    /// A helper was not shown a block token that its DataNode takes.
    Denied = 8,
}

/// Why a request is not answered with bytes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct Refusal {
    /// Why.
    pub code: Code,
    /// A sentence for a person.
    pub what: String,
}

impl Refusal {
    /// With a sentence.
    pub fn new(code: Code, what: impl Into<String>) -> Refusal {
        Refusal { code, what: what.into() }
    }
}

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The group.
    pub group: BlockGroup,
    /// Members that are wanted, in this order.
    pub wanted: Vec<u16>,
    /// Bytes of each.
    pub range: Range<u64>,
    /// By which scheme; empty: the best one.
    pub scheme: String,
    /// Whose budget it is charged to.
    pub traffic: Traffic,
    /// Block tokens of living members.
    pub tokens: BTreeMap<u16, BlockToken>,
    /// Whoever asks wants to know which members are corrupt.
    pub hears_of_corrupt: bool,
}

/// What stands before a request's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The request's.
    pub version: u16,
    /// Bytes of the body.
    pub length: usize,
    /// CRC-32C of the body.
    pub sum: u32,
}

/// What a request's head says.
///
/// # Errors
/// Another protocol, or version, or a body that is too long.
pub fn request_head(head: &[u8; REQUEST_HEAD_BYTES]) -> Result<Head, Refusal> {
    let mut fields = Fields(head);
    let (magic, version) = (fields.array::<4>()?, fields.u16()?);
    let _ = fields.u16()?;
    let (length, sum) = (fields.u32()? as usize, fields.u32()?);
    if magic != MAGIC {
        return Err(invalid("this is no request of the gateway's protocol"));
    }
    if !(WITHOUT_TOKENS..=VERSION).contains(&version) {
        let what = format!("a request of version {version}; this gateway speaks versions up to {VERSION}");
        return Err(Refusal::new(Code::NotSupported, what));
    }
    if length > MAX_REQUEST_BYTES {
        return Err(invalid("a request that is too long"));
    }
    Ok(Head { version, length, sum })
}

/// What a request's body says.
///
/// # Errors
/// What is wrong with it.
pub fn request(body: &[u8], head: Head) -> Result<Request, Refusal> {
    if crc32c(body) != head.sum {
        return Err(invalid("a request that differs from its checksum"));
    }
    let mut fields = Fields(body);
    let traffic = match fields.u8()? {
        READ => Traffic::Client,
        ENCODE => Traffic::Archival,
        REBUILD => Traffic::Healing,
        kind => return Err(Refusal::new(Code::NotSupported, format!("a request of kind {kind}"))),
    };
    let (pool, id, generation) = (fields.text()?, fields.u64()?.cast_signed(), fields.u64()?);
    let codec = fields.text()?;
    let (k, m) = (fields.u16()?, fields.u16()?);
    let layout = Layout { k, cell_bytes: u64::from(fields.u32()?), data_bytes: fields.u64()? };
    let (offset, length, scheme) = (fields.u64()?, fields.u64()?, fields.text()?);
    let count = fields.u16()?;
    let wanted: Vec<u16> = (0..count).map(|_| fields.u16()).collect::<Result<_, _>>()?;
    let is_new = head.version > WITHOUT_TOKENS;
    let (living, tokens) = living(&mut fields, traffic == Traffic::Archival, is_new)?;
    if !fields.0.is_empty() {
        return Err(invalid("a request with more behind its end"));
    }
    if layout.k == 0 || layout.cell_bytes == 0 || layout.data_bytes == 0 {
        return Err(invalid("a block group without data blocks, cells or bytes"));
    }
    let end = offset.checked_add(length).filter(|end| *end <= layout.block_bytes() && length > 0);
    let end = end.ok_or_else(|| invalid("bytes that the members do not have"))?;
    if wanted.is_empty() || wanted.iter().any(|member| u32::from(*member) >= u32::from(k) + u32::from(m)) {
        return Err(invalid("members that the group does not have"));
    }
    let (pool, code) = (PoolMark::of(&pool), code_of(&codec, k, m)?);
    let group = BlockGroup { pool, id, generation, code, layout, living };
    Ok(Request { group, wanted, range: offset..end, scheme, traffic, tokens, hears_of_corrupt: is_new })
}

/// Members that DataNodes have, and the block tokens that came with them.
type Living = (BTreeMap<u16, Held>, BTreeMap<u16, BlockToken>);

/// Who has which member, and in which block.
fn living(fields: &mut Fields<'_>, encodes: bool, has_tokens: bool) -> Result<Living, Refusal> {
    let (mut living, mut tokens) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..fields.u16()? {
        let member = fields.u16()?;
        let (datanode, rack) = (Datanode(StoreId(u128::from_be_bytes(fields.array()?))), fields.text()?);
        let replica = match encodes {
            true => Some(Replica { block: fields.u64()?.cast_signed(), generation: fields.u64()? }),
            false => None,
        };
        if replica.is_some_and(|replica| replica.generation == 0) {
            return Err(invalid("a replica without a generation stamp"));
        }
        living.insert(member, Held { datanode, rack, replica });
        if has_tokens {
            let token =
                BlockToken { identifier: fields.counted()?.to_vec(), password: fields.counted()?.to_vec() };
            if !token.identifier.is_empty() {
                tokens.insert(member, token);
            }
        }
    }
    Ok((living, tokens))
}

/// Our code with the generator of a codec of HDFS.
fn code_of(codec: &str, k: u16, m: u16) -> Result<String, Refusal> {
    match codec {
        "rs" => Ok(format!("rs-cauchy-{k}+{m}")),
        "rs-legacy" => Ok(format!("rs-legacy-{k}+{m}")),
        "xor" => Ok(format!("xor-{k}+{m}")),
        other => Err(Refusal::new(Code::NotSupported, format!("the codec {other:?} is not known here"))),
    }
}

/// A frame for bytes of each of `members` members, from `offset` on: `part` of what `piece` has of each, one member after another.
pub fn data(offset: u64, members: usize, piece: &[u8], part: Range<usize>) -> Vec<u8> {
    let of_each = piece.len() / members.max(1);
    let (offset, each) = (offset.to_be_bytes(), (part.len() as u32).to_be_bytes());
    let of = |member: usize| &piece[member * of_each..][part.clone()];
    let parts: Vec<&[u8]> = [&offset[..], &each[..]].into_iter().chain((0..members).map(of)).collect();
    frame(Kind::Data, &parts)
}

/// All came.
pub fn end(bytes_of_each: u64, note: &str) -> Vec<u8> {
    frame(Kind::End, &[&bytes_of_each.to_be_bytes(), &text(note)])
}

/// Members that are corrupt.
pub fn corrupt(members: &[u16]) -> Vec<u8> {
    let numbers: Vec<u8> = members.iter().flat_map(|member| member.to_be_bytes()).collect();
    frame(Kind::Corrupt, &[&(members.len() as u16).to_be_bytes(), &numbers])
}

/// No more comes.
pub fn error(refusal: &Refusal) -> Vec<u8> {
    frame(Kind::Error, &[&(refusal.code as u16).to_be_bytes(), &text(&refusal.what)])
}

fn frame(kind: Kind, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = Vec::with_capacity(FRAME_HEAD_BYTES + length);
    frame.extend([kind as u8, 0]);
    frame.extend(FRAME_VERSION.to_be_bytes());
    frame.extend((length as u32).to_be_bytes());
    frame.extend([0; 4]);
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    let sum = crc32c(&frame[FRAME_HEAD_BYTES..]);
    frame[FRAME_HEAD_BYTES - 4..FRAME_HEAD_BYTES].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn text(sentence: &str) -> Vec<u8> {
    let mut cut = sentence.len().min(MAX_SENTENCE_BYTES);
    while !sentence.is_char_boundary(cut) {
        cut -= 1;
    }
    [&(cut as u16).to_be_bytes(), &sentence.as_bytes()[..cut]].concat()
}

fn invalid(what: &str) -> Refusal {
    Refusal::new(Code::Invalid, what)
}

/// What is left of a body.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Refusal> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or_else(|| invalid("a request that breaks off"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        self.bytes(N)?.try_into().map_err(|_| invalid("a request that breaks off"))
    }

    fn u8(&mut self) -> Result<u8, Refusal> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16, Refusal> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, Refusal> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Refusal> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn counted(&mut self) -> Result<&'a [u8], Refusal> {
        let length = usize::from(self.u16()?);
        self.bytes(length)
    }

    fn text(&mut self) -> Result<String, Refusal> {
        let text = std::str::from_utf8(self.counted()?);
        text.map(str::to_owned).map_err(|_| invalid("a text that is no UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// As `RequestTest` of integrations/hdfs writes it, byte for byte.
    const REQUEST: &str = include_str!("../tests/request.hex");
    const REQUEST_1: &str = include_str!("../tests/request-v1.hex");
    const ENCODE_REQUEST: &str = include_str!("../tests/encode.hex");

    fn bytes_of(sample: &str) -> Vec<u8> {
        let digits: Vec<u8> = sample.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    fn parsed(bytes: &[u8]) -> Result<Request, Refusal> {
        let head = request_head(bytes[..REQUEST_HEAD_BYTES].try_into().unwrap())?;
        request(&bytes[REQUEST_HEAD_BYTES..][..head.length], head)
    }

    #[test]
    fn a_request_is_what_java_wrote() {
        let bytes = bytes_of(REQUEST);
        let Request { group, wanted, range, scheme, traffic, tokens, .. } = parsed(&bytes).unwrap();
        assert_eq!(traffic, Traffic::Client);
        assert_eq!((wanted.as_slice(), range, scheme.as_str()), (&[2, 7][..], 64..1_000, "pipeline"));
        assert_eq!(
            (group.id, group.generation, group.code.as_str()),
            (-9_223_372_036_854_775_776, 1_001, "rs-cauchy-6+3")
        );
        assert_eq!(group.pool, PoolMark::of("BP-1-127.0.0.1-2"));
        assert_eq!(group.layout, Layout { k: 6, cell_bytes: 1 << 20, data_bytes: 700_001 });
        let of_8 = &group.living[&8];
        assert_eq!(of_8.datanode, Datanode::parse("01234567-89ab-cdef-0123-456789abcdef").unwrap());
        assert_eq!((of_8.rack.as_str(), group.living.len()), ("/rack-a", 2));
        assert_eq!(group.stored(8), (group.pool.block(group.id + 8), 1_001));
        let token = BlockToken { identifier: vec![1, 2, 3], password: vec![0xaa, 0xbb] };
        assert_eq!(tokens, BTreeMap::from([(8, token)]), "one has none");
    }

    #[test]
    fn a_request_from_before_block_tokens_is_taken() {
        let now = parsed(&bytes_of(REQUEST)).unwrap();
        let before = parsed(&bytes_of(REQUEST_1)).unwrap();
        assert_eq!(before, Request { tokens: BTreeMap::new(), hears_of_corrupt: false, ..now });
    }

    #[test]
    fn a_request_to_encode_names_the_replica_of_each_member() {
        let Request { group, wanted, range, traffic, tokens, .. } =
            parsed(&bytes_of(ENCODE_REQUEST)).unwrap();
        assert_eq!(tokens.keys().collect::<Vec<_>>(), [&0]);
        assert_eq!(traffic, Traffic::Archival);
        assert_eq!((wanted.as_slice(), range), (&[6, 7, 8][..], 0..1 << 20));
        assert_eq!(group.layout.stored_bytes(2), 1);
        let stored = [0, 1, 2, 6].map(|member| group.stored(member));
        let replica = |number: i64| (group.pool.block(1_073_741_825 + number), 1_001 + number as u64);
        assert_eq!(stored, [replica(0), replica(1), replica(2), (group.pool.block(group.id + 6), 1_003)]);
    }

    #[test]
    fn whatever_else_comes_is_refused_and_panics_nobody() {
        for sample in [REQUEST, REQUEST_1, ENCODE_REQUEST] {
            nothing_but_it_is_taken(&bytes_of(sample));
        }
        assert_eq!(code_of("rs", 10, 4).unwrap(), "rs-cauchy-10+4");
        assert_eq!(code_of("lrc", 10, 4).unwrap_err().code, Code::NotSupported);
    }

    fn nothing_but_it_is_taken(bytes: &[u8]) {
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut other = bytes.to_vec();
                other[at] ^= flip;
                // The two unused bytes of the head may be anything; of a length that is longer less is there.
                let length = u32::from_be_bytes(other[8..12].try_into().unwrap()) as usize;
                if (6..8).contains(&at) || REQUEST_HEAD_BYTES + length > other.len() {
                    continue;
                }
                assert!(parsed(&other).is_err(), "byte {at}");
            }
        }
        // Fields out of their bounds, with the right checksum.
        let body = &bytes[REQUEST_HEAD_BYTES..];
        let version = u16::from_be_bytes(bytes[4..6].try_into().unwrap());
        let head = |body: &[u8]| Head { version, length: body.len(), sum: crc32c(body) };
        for cut in 0..body.len() {
            assert!(request(&body[..cut], head(&body[..cut])).is_err(), "{cut} bytes");
            let mut other = body.to_vec();
            other[cut] = 0xff;
            let _ = request(&other, head(&other));
        }
    }

    /// As `FrameTest` of integrations/hdfs reads them.
    #[test]
    fn frames_are_as_java_reads_them() {
        assert_eq!(
            hex(&data(64, 2, b"abCD", 0..2)),
            "01000001000000106609501500000000000000400000000261624344"
        );
        assert_eq!(
            hex(&end(936, "by pipeline")),
            "020000010000001523724f2400000000000003a8000b627920706970656c696e65"
        );
        let (whole, part) = (data(7, 2, b"bD", 0..1), data(7, 2, b"abcDEF", 1..2));
        assert_eq!(
            (whole[FRAME_HEAD_BYTES + 12..].to_vec(), &part[FRAME_HEAD_BYTES + 12..]),
            (b"bD".to_vec(), &b"bE"[..])
        );
        assert_eq!(hex(&corrupt(&[1, 8])), "040000010000000608906963000200010008");
        let refusal = Refusal::new(Code::NoPlan, "too few");
        assert_eq!(hex(&error(&refusal)), "030000010000000b02cdf4b000030007746f6f20666577");
        assert_eq!(text(&"ä".repeat(4_000)).len(), 2 + MAX_SENTENCE_BYTES);
    }
}
