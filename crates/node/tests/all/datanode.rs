//! Folders of DataNodes as HDFS leaves them, made by tests. The tests of `gateway` have this file too.

#![allow(dead_code)] // Each of the two has its own needs.

use codes::Code;
use crc_fast::CrcAlgorithm;
use model::hdfs::Layout;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub const POOL: &str = "BP-1093475-127.0.0.1-1690000000000";

/// A group's stamp.
pub const STAMP: u64 = 1_001;

/// As HDFS has it unless an operator wants another number.
pub const BYTES_PER_SUM: usize = 512;

/// A DataNode's data folder.
pub struct Datanode {
    pub folder: TempDir,
    pub uuid: String,
}

impl Datanode {
    /// Without blocks. DataNodes of equal numbers are the same one.
    pub fn new(number: u128) -> Datanode {
        // Spread, as those of real ones are.
        let digits = format!("{:032x}", (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        let part = |range: std::ops::Range<usize>| &digits[range];
        let uuid = [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-");
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("current").join(POOL).join("current/finalized")).unwrap();
        let version = format!(
            "#Fri Nov 27 08:00:00 UTC 2026\nstorageID=DS-{uuid}\nclusterID=CID-1\ncTime=0\ndatanodeUuid={uuid}\n\
             storageType=DATA_NODE\nlayoutVersion=-57\n"
        );
        fs::write(folder.path().join("current/VERSION"), version).unwrap();
        Datanode { folder, uuid }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    /// Where the data of a block are, whether they are there or not.
    pub fn block(&self, block: i64) -> PathBuf {
        let subfolder = format!("subdir{}/subdir{}", (block >> 16) & 31, (block >> 8) & 31);
        let finalized = self.folder.path().join("current").join(POOL).join("current/finalized");
        finalized.join(subfolder).join(format!("blk_{block}"))
    }

    pub fn meta(&self, block: i64, stamp: u64) -> PathBuf {
        self.block(block).with_file_name(format!("blk_{block}_{stamp}.meta"))
    }

    /// Writes a finalized block with CRC-32C of 512 bytes.
    pub fn put(&self, block: i64, bytes: &[u8]) {
        self.put_with(block, bytes, 2, BYTES_PER_SUM);
    }

    pub fn put_with(&self, block: i64, bytes: &[u8], kind: u8, bytes_per_sum: usize) {
        fs::create_dir_all(self.block(block).parent().unwrap()).unwrap();
        fs::write(self.block(block), bytes).unwrap();
        let algorithm = if kind == 1 { CrcAlgorithm::Crc32IsoHdlc } else { CrcAlgorithm::Crc32Iscsi };
        let mut meta = vec![0, 1, kind];
        meta.extend((bytes_per_sum as u32).to_be_bytes());
        for piece in bytes.chunks(bytes_per_sum) {
            meta.extend((crc_fast::checksum(algorithm, piece) as u32).to_be_bytes());
        }
        fs::write(self.meta(block, STAMP), meta).unwrap();
    }
}

/// Everything below a folder: names, lengths, when they were written.
pub fn listing(folder: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        all.push((entry.path(), meta.len(), meta.modified().unwrap()));
        if meta.is_dir() {
            all.extend(listing(&entry.path()));
        }
    }
    all.sort();
    all
}

/// The n internal blocks of a group, as HDFS would store them: cells dealt out in turn, parities by the plainest arithmetic
/// there is, over data that end in zeros.
pub fn internal_blocks(code: &Code, layout: Layout) -> Vec<Vec<u8>> {
    let byte = |at: u64| ((at * 7_919 + at / 251 * 104_729) >> 3) as u8 | 1;
    let mut blocks = vec![Vec::new(); code.n()];
    for at in 0..layout.data_bytes {
        blocks[(at / layout.cell_bytes % u64::from(layout.k)) as usize].push(byte(at));
    }
    let length = blocks[0].len();
    for row in code.k()..code.n() {
        let mut parity = vec![0; length];
        for (j, data) in blocks[..code.k()].iter().enumerate() {
            let factor = code.generator().get(row, j);
            for (sum, &byte) in parity.iter_mut().zip(data) {
                *sum ^= code.field().mul(factor, byte.into()) as u8;
            }
        }
        blocks[row] = parity;
    }
    for (member, block) in blocks.iter().enumerate() {
        assert_eq!(block.len() as u64, layout.stored_bytes(member as u16));
    }
    blocks
}
