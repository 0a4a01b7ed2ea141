//! Cutting an input into blocks, each with what the catalog records of it.

use gf::{CHUNK_BYTES, Fingerprint, kernels};
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

/// Enough to see whether another byte follows a block; blocks themselves bypass it.
const LOOK_AHEAD_BYTES: usize = 64 * 1024;

/// One block of an object, in memory.
pub(crate) struct Block {
    pub index: u64,
    pub bytes: Arc<Vec<u8>>,
    pub digest: blake3::Hash,
    pub fingerprint: Fingerprint,
    /// Whether the object ends here.
    pub last: bool,
}

/// An input that is cut into blocks as they are asked for.
pub(crate) struct Blocks<R> {
    input: BufReader<R>,
    block_bytes: u64,
    next: u64,
    /// The digest of the whole object so far.
    object: blake3::Hasher,
    object_bytes: u64,
}

impl<R: Read> Blocks<R> {
    pub fn new(input: R, block_bytes: u64) -> Self {
        let input = BufReader::with_capacity(LOOK_AHEAD_BYTES, input);
        Blocks { input, block_bytes, next: 0, object: blake3::Hasher::new(), object_bytes: 0 }
    }

    /// The next block. An empty input has one block, which is empty. It must not be called after the last one.
    pub fn next(&mut self) -> io::Result<Block> {
        let mut bytes = Vec::new();
        // The bytes are reserved at once, for growing would copy; pages that a short input never touches cost
        // nothing.
        if let Ok(capacity) = usize::try_from(self.block_bytes) {
            bytes.try_reserve_exact(capacity)?;
        }
        self.input.by_ref().take(self.block_bytes).read_to_end(&mut bytes)?;
        let last = (bytes.len() as u64) < self.block_bytes || self.at_end()?;
        let digest = blake3::hash(&bytes);
        self.object.update(&bytes);
        self.object_bytes += bytes.len() as u64;
        let index = self.next;
        self.next += 1;
        Ok(Block { index, fingerprint: fingerprint(&bytes), bytes: Arc::new(bytes), digest, last })
    }

    /// Length and digest of all blocks so far.
    pub fn object(&self) -> (u64, blake3::Hash) {
        (self.object_bytes, self.object.finalize())
    }

    fn at_end(&mut self) -> io::Result<bool> {
        loop {
            match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(<[u8]>::is_empty),
            }
        }
    }
}

/// The linear fingerprint of a block, as its sidecar will record it.
pub(crate) fn fingerprint(bytes: &[u8]) -> Fingerprint {
    let mut block = Fingerprint::ZERO;
    for (index, chunk) in bytes.chunks(CHUNK_BYTES).enumerate() {
        block.fold(index as u64, &kernels().fingerprint(chunk));
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time and is interrupted in between, as pipes may.
    struct Trickle<'a>(&'a [u8], bool);

    impl Read for Trickle<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let n = self.0.len().min(out.len()).min(1);
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn cut(input: &[u8], block_bytes: u64) -> Vec<usize> {
        let mut blocks = Blocks::new(Trickle(input, false), block_bytes);
        let mut lengths = Vec::new();
        loop {
            let block = blocks.next().unwrap();
            assert_eq!(block.digest, blake3::hash(&block.bytes));
            lengths.push(block.bytes.len());
            if block.last {
                assert_eq!(blocks.object(), (input.len() as u64, blake3::hash(input)));
                return lengths;
            }
        }
    }

    #[test]
    fn the_last_block_is_known_to_be_the_last() {
        assert_eq!(cut(b"", 4), [0]);
        assert_eq!(cut(b"abc", 4), [3]);
        assert_eq!(cut(b"abcd", 4), [4]);
        assert_eq!(cut(b"abcde", 4), [4, 1]);
        assert_eq!(cut(b"abcdefgh", 4), [4, 4]);
    }
}
