//! The checksum file beside a block's data. All numbers are little-endian; CRC is CRC-32C.
//!
//! ```text
//!  0   magic "SLsidecr" (8) | version (2) | version of the fingerprint's definition (2) | bytes of meta, m (4)
//! 16   meta: postcard of meta::Form, in version 2 of meta::FormV2 (m)
//!      crc of all the above (4)
//!      for each chunk of the block, 136 bytes:
//!          crc of the chunk's bytes (4) | fingerprint of the chunk (128) | crc of these 132 bytes (4)
//! ```
//!
//! Entries have their own checksums, so that a range of them can be read alone.

use super::error::reading;
use super::meta::{Form, FormV2};
use super::{BlockMeta, CopyId, Damage, Result, StoreError};
use disk::DiskFile;
use flow::limits;
use gf::{CHUNK_BYTES, FINGERPRINT_BYTES, FINGERPRINT_VERSION, Fingerprint};
use model::BlockId;
use serde::de::DeserializeOwned;
use std::ops::Range;
use wire::frame::crc32c;

const MAGIC: [u8; 8] = *b"SLsidecr";
const VERSION: u16 = 3;
/// The version before, which is read and no more written: its meta lacks the birth.
const VERSION_2: u16 = 2;
const HEADER_BYTES: usize = 16;
const CRC_BYTES: usize = 4;

/// Bytes of one entry.
pub const ENTRY_BYTES: usize = CRC_BYTES + FINGERPRINT_BYTES + CRC_BYTES;

/// A parity lists its stripe's members; this is enough for 3000 of them with the longest names, and little enough that
/// a garbage length does no harm.
pub const MAX_META_BYTES: usize = 4 << 20;

/// Most sidecars' header and meta come with the first read.
const FIRST_READ_BYTES: u64 = 4096;

/// What a sidecar records of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkEntry {
    /// CRC-32C of the chunk's bytes.
    pub crc: u32,
    /// Fingerprint of the chunk's bytes.
    pub fingerprint: Fingerprint,
}

impl ChunkEntry {
    /// The entry of a chunk whose fingerprint is known or computed here.
    pub(super) fn of(bytes: &[u8], fingerprint: Option<Fingerprint>) -> Self {
        let fingerprint = fingerprint.unwrap_or_else(|| gf::kernels().fingerprint(bytes));
        Self { crc: crc32c(bytes), fingerprint }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.crc.to_le_bytes());
        out.extend_from_slice(self.fingerprint.as_bytes());
        let crc = crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }

    /// None if the entry's own checksum fails.
    pub(super) fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
        if crc32c(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (crc, print) = body.split_first_chunk::<CRC_BYTES>()?;
        let fingerprint = Fingerprint::from_bytes(*print.first_chunk()?);
        Some(Self { crc: u32::from_le_bytes(*crc), fingerprint })
    }
}

/// Number of chunks of a block.
pub fn chunks_of(stored_bytes: u64) -> u64 {
    stored_bytes.div_ceil(CHUNK_BYTES as u64)
}

/// A whole sidecar file.
pub(super) fn encode(meta: &BlockMeta, entries: impl Iterator<Item = ChunkEntry>) -> Result<Vec<u8>> {
    let block = meta.block;
    let body = postcard::to_stdvec(&Form::from(meta))
        .map_err(|_| StoreError::Corrupt { block, damage: Damage::Sidecar("its meta cannot be encoded") })?;
    if body.len() > MAX_META_BYTES {
        let (bytes, limit) = (body.len() as u64, MAX_META_BYTES as u64);
        return Err(StoreError::TooLarge { block, what: "meta", bytes, limit });
    }
    let entry_bytes = chunks_of(meta.stored_bytes) as usize * ENTRY_BYTES;
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len() + CRC_BYTES + entry_bytes);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&FINGERPRINT_VERSION.to_le_bytes());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&body);
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    entries.for_each(|entry| entry.encode(&mut out));
    Ok(out)
}

/// An open sidecar whose header holds.
#[derive(Debug)]
pub(super) struct Sidecar {
    file: Box<dyn DiskFile>,
    pub(super) meta: BlockMeta,
    entries_at: u64,
}

impl Sidecar {
    /// Reads and checks the header of a sidecar that stands under the name of `copy`; its length must be that which the
    /// header implies.
    pub(super) fn load(file: Box<dyn DiskFile>, copy: CopyId) -> Result<Self> {
        let sidecar = Self::load_of(file, copy.block)?;
        match sidecar.meta.generation == copy.generation {
            true => Ok(sidecar),
            false => Err(StoreError::Corrupt {
                block: copy.block,
                damage: Damage::Sidecar("it is that of another copy"),
            }),
        }
    }

    /// The same, of whichever copy of `block` it is.
    pub(super) fn load_of(file: Box<dyn DiskFile>, block: BlockId) -> Result<Self> {
        let corrupt = |why| StoreError::Corrupt { block, damage: Damage::Sidecar(why) };
        let file_bytes = file.len().map_err(reading(block))?;
        let mut head = vec![0; file_bytes.min(FIRST_READ_BYTES) as usize];
        file.read_exact_at(0, &mut head).map_err(reading(block))?;
        check_version(&head, block)?;
        let wanted = head_bytes(&head).map_err(corrupt)?;
        if wanted as u64 > file_bytes {
            return Err(corrupt("it is cut off"));
        }
        let had = head.len();
        head.resize(wanted, 0);
        if wanted > had {
            file.read_exact_at(had as u64, &mut head[had..]).map_err(reading(block))?;
        }
        let meta = parse_head(&head).map_err(corrupt)?;
        if meta.block != block {
            return Err(corrupt("it is that of another block"));
        }
        let entries_at = wanted as u64;
        if file_bytes != entries_at + chunks_of(meta.stored_bytes) * ENTRY_BYTES as u64 {
            return Err(corrupt("its length does not fit the block's"));
        }
        Ok(Self { file, meta, entries_at })
    }

    /// The entries of chunks `range`, which must lie within the block.
    pub(super) fn entries(&self, range: Range<u64>) -> Result<Vec<ChunkEntry>> {
        let block = self.meta.block;
        let stored_bytes = self.meta.stored_bytes;
        if range.start > range.end || range.end > chunks_of(stored_bytes) {
            let chunk = CHUNK_BYTES as u64;
            let offset = range.start.saturating_mul(chunk);
            let bytes = range.end.saturating_mul(chunk).saturating_sub(offset);
            return Err(StoreError::OutOfRange { block, stored_bytes, offset, bytes });
        }
        let mut raw = vec![0; (range.end - range.start) as usize * ENTRY_BYTES];
        let at = self.entries_at + range.start * ENTRY_BYTES as u64;
        self.file.read_exact_at(at, &mut raw).map_err(reading(block))?;
        let (raw, _) = raw.as_chunks::<ENTRY_BYTES>();
        range
            .zip(raw)
            .map(|(chunk, raw)| {
                ChunkEntry::decode(raw).ok_or(StoreError::Corrupt { block, damage: Damage::Entry(chunk) })
            })
            .collect()
    }
}

/// [`StoreError::UnknownVersion`] if a file that begins like a sidecar is of a version that is not known here.
fn check_version(start: &[u8], block: BlockId) -> Result<()> {
    // What is shorter or begins otherwise is damaged, and found to be when it is parsed.
    let Some([m @ .., v0, v1, f0, f1, _, _, _, _]) = start.first_chunk::<HEADER_BYTES>() else {
        return Ok(());
    };
    let found = (u16::from_le_bytes([*v0, *v1]), u16::from_le_bytes([*f0, *f1]));
    let is_known = matches!(found.0, VERSION_2 | VERSION) && found.1 == FINGERPRINT_VERSION;
    if *m != MAGIC || is_known {
        return Ok(());
    }
    let found = format!("{}.{}", found.0, found.1);
    let known = format!("{VERSION_2}.{FINGERPRINT_VERSION} and {VERSION}.{FINGERPRINT_VERSION}");
    Err(StoreError::UnknownVersion { block, found, known })
}

/// Bytes of header, meta and their checksum, from the first bytes of a file of a known version.
fn head_bytes(start: &[u8]) -> std::result::Result<usize, &'static str> {
    let [m @ .., _, _, _, _, b0, b1, b2, b3] = start.first_chunk::<HEADER_BYTES>().ok_or("it is cut off")?;
    if *m != MAGIC {
        return Err("it does not begin like one");
    }
    let meta_bytes = u32::from_le_bytes([*b0, *b1, *b2, *b3]) as usize;
    if meta_bytes > MAX_META_BYTES {
        return Err("its length exceeds the limit");
    }
    Ok(HEADER_BYTES + meta_bytes + CRC_BYTES)
}

/// The meta in `head`, which is exactly as long as [`head_bytes`] said.
fn parse_head(head: &[u8]) -> std::result::Result<BlockMeta, &'static str> {
    let (body, crc) = head.split_last_chunk::<CRC_BYTES>().ok_or("it is cut off")?;
    if crc32c(body) != u32::from_le_bytes(*crc) {
        return Err("its checksum does not hold");
    }
    let (header, form) = body.split_at(HEADER_BYTES);
    let meta = match u16::from_le_bytes([header[8], header[9]]) {
        VERSION_2 => parse_form::<FormV2>(form)?.into(),
        _ => BlockMeta::from(parse_form::<Form>(form)?),
    };
    check_geometry(meta.stored_bytes, meta.alpha, meta.symbol_bytes)?;
    Ok(meta)
}

fn parse_form<F: DeserializeOwned>(bytes: &[u8]) -> std::result::Result<F, &'static str> {
    match postcard::take_from_bytes(bytes) {
        Ok((form, [])) => Ok(form),
        Ok(_) => Err("bytes follow its meta"),
        Err(_) => Err("its meta cannot be read"),
    }
}

/// Whether a block of that length can consist of such symbols. Whatever passes can be folded without overflow.
pub(super) fn check_geometry(
    stored_bytes: u64,
    alpha: u16,
    symbol_bytes: u64,
) -> std::result::Result<(), &'static str> {
    let chunk = CHUNK_BYTES as u64;
    if stored_bytes > limits::MAX_BLOCK_BYTES || symbol_bytes > limits::MAX_BLOCK_BYTES {
        return Err("its block exceeds the limit");
    }
    if alpha == 0 || u32::from(alpha) > limits::MAX_ALPHA {
        return Err("its number of symbols is out of range");
    }
    if alpha > 1 && !symbol_bytes.is_multiple_of(chunk) {
        return Err("its symbols are not whole chunks");
    }
    if stored_bytes > u64::from(alpha) * symbol_bytes {
        return Err("its block is longer than its symbols");
    }
    Ok(())
}
