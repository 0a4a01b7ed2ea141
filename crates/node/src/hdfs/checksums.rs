//! The `.meta` file beside a block: a CRC for each few bytes of it.
//!
//! ```text
//!   offset  bytes  big-endian
//!   0       2      version, 1
//!   2       1      1: CRC-32, 2: CRC-32C (0: none, which is refused)
//!   3       4      bytes that a checksum is of, 512 unless an operator has set another number
//!   7       4 each the checksums; the last is of what is left
//! ```

use super::HdfsError;
use crc_fast::CrcAlgorithm;
use disk::DiskFile;
use std::ops::Range;

const VERSION: u16 = 1;

/// Bytes before the first checksum.
const HEAD_BYTES: u64 = 7;

const SUM_BYTES: u64 = 4;

/// A checksum of more bytes would be a block's; HDFS itself takes no more than a packet's.
const MAX_BYTES_PER_SUM: u32 = 1 << 20;

/// The checksums of an open block.
#[derive(Debug)]
pub struct Checksums {
    file: Box<dyn DiskFile>,
    algorithm: CrcAlgorithm,
    bytes_per_sum: u64,
}

impl Checksums {
    /// Of a block of `stored_bytes`.
    ///
    /// # Errors
    /// [`HdfsError::Meta`] for one that is none, or is too short for the block; the disk's.
    pub fn open(file: Box<dyn DiskFile>, stored_bytes: u64) -> Result<Checksums, HdfsError> {
        let length = file.len()?;
        if length < HEAD_BYTES {
            return Err(HdfsError::Meta(format!("has {length} bytes")));
        }
        let mut head = [0; HEAD_BYTES as usize];
        file.read_exact_at(0, &mut head)?;
        let [v0, v1, kind, b0, b1, b2, b3] = head;
        let (version, bytes_per_sum) = (u16::from_be_bytes([v0, v1]), u32::from_be_bytes([b0, b1, b2, b3]));
        if version != VERSION {
            return Err(HdfsError::Meta(format!("has version {version}; version {VERSION} can be read")));
        }
        let algorithm = match kind {
            1 => CrcAlgorithm::Crc32IsoHdlc,
            2 => CrcAlgorithm::Crc32Iscsi,
            other => {
                return Err(HdfsError::Meta(format!(
                    "has checksums of type {other}; CRC-32 is 1, CRC-32C 2"
                )));
            }
        };
        if !(1..=MAX_BYTES_PER_SUM).contains(&bytes_per_sum) {
            return Err(HdfsError::Meta(format!("says that checksums are of {bytes_per_sum} bytes")));
        }
        let bytes_per_sum = u64::from(bytes_per_sum);
        let needed = HEAD_BYTES + stored_bytes.div_ceil(bytes_per_sum) * SUM_BYTES;
        if length < needed {
            return Err(HdfsError::Meta(format!(
                "has {length} bytes, a block of {stored_bytes} needs {needed}"
            )));
        }
        Ok(Checksums { file, algorithm, bytes_per_sum })
    }

    /// `range`, extended to where checksums begin and end in a block of `stored_bytes`.
    pub fn around(&self, range: Range<u64>, stored_bytes: u64) -> Range<u64> {
        let start = range.start / self.bytes_per_sum * self.bytes_per_sum;
        start..range.end.next_multiple_of(self.bytes_per_sum).min(stored_bytes)
    }

    /// Checks bytes from `offset` on, as [`around`](Self::around) extends them.
    ///
    /// # Errors
    /// [`HdfsError::Checksum`]; the disk's.
    pub fn check(&self, offset: u64, bytes: &[u8]) -> Result<(), HdfsError> {
        let pieces = bytes.chunks(self.bytes_per_sum as usize);
        let mut sums = vec![0; pieces.len() * SUM_BYTES as usize];
        let first = offset / self.bytes_per_sum;
        self.file.read_exact_at(HEAD_BYTES + first * SUM_BYTES, &mut sums)?;
        for (place, (piece, sum)) in pieces.zip(sums.as_chunks::<{ SUM_BYTES as usize }>().0).enumerate() {
            if crc_fast::checksum(self.algorithm, piece) as u32 != u32::from_be_bytes(*sum) {
                return Err(HdfsError::Checksum { offset: (first + place as u64) * self.bytes_per_sum });
            }
        }
        Ok(())
    }
}
