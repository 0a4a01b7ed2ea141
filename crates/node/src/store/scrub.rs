//! Checking a stored block against everything its sidecar says.

use super::sidecar::chunks_of;
use super::writer::{fold, fold_block};
use super::{BlockReader, Damage, Result, Store, StoreError};
use gf::CHUNK_BYTES;
use model::BlockId;

/// Read at once: a sequential disk is at full speed, and a throttle can act often.
const STEP_CHUNKS: u64 = 32;

/// What a scrub found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every byte is as it was written.
    Whole,
    /// The first damage that was found.
    Damaged(Damage),
}

impl Store {
    /// Reads a whole copy of a block and checks it: checksums and fingerprints of its chunks, its digest, its fingerprint. The
    /// pages read do not stay in the cache. `before_step` is called with the number of bytes of each step (at most
    /// 1 MiB) before they are read, and may sleep.
    ///
    /// Errors: [`StoreError::NotFound`]; the disk's, except that what the medium cannot return is a damage.
    pub fn verify(&self, block: BlockId, generation: u64, before_step: impl FnMut(u64)) -> Result<Verdict> {
        let checked = self.reader(block, generation).and_then(|reader| check(&reader, before_step));
        match checked {
            Ok(()) => Ok(Verdict::Whole),
            Err(StoreError::Corrupt { damage, .. }) => Ok(Verdict::Damaged(damage)),
            Err(error) => Err(error),
        }
    }
}

fn check(reader: &BlockReader, mut before_step: impl FnMut(u64)) -> Result<()> {
    let meta = reader.meta();
    let corrupt = |damage| StoreError::Corrupt { block: meta.block, damage };
    let chunk_bytes = CHUNK_BYTES as u64;
    let chunks = chunks_of(meta.stored_bytes);
    let mut entries = Vec::new();
    let mut hasher = blake3::Hasher::new();
    let mut buffer = Vec::new();
    for first in (0..chunks).step_by(STEP_CHUNKS as usize) {
        let last = (first + STEP_CHUNKS).min(chunks);
        let (start, end) = (first * chunk_bytes, (last * chunk_bytes).min(meta.stored_bytes));
        before_step(end - start);
        buffer.resize((end - start) as usize, 0);
        let step = reader.read_with_entries(start, &mut buffer)?;
        reader.wont_need(start..end);
        hasher.update(&buffer);
        for ((index, entry), chunk) in (first..).zip(&step).zip(buffer.chunks(CHUNK_BYTES)) {
            if gf::kernels().fingerprint(chunk) != entry.fingerprint {
                return Err(corrupt(Damage::Fingerprint(index)));
            }
        }
        entries.extend(step);
    }
    let symbols = fold(entries.into_iter(), meta.alpha, meta.symbol_bytes);
    let fingerprint = fold_block(&symbols, meta.symbol_bytes);
    if *hasher.finalize().as_bytes() != meta.digest || fingerprint != meta.fingerprint {
        return Err(corrupt(Damage::Digest));
    }
    Ok(())
}
