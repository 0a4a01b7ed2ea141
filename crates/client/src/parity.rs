//! The parities of a stripe, made while its data blocks pass by: each block is added to all of them and need not be kept.
//!
//! ```text
//!   b0 ──▶ p0 += g00·b0, p1 += g10·b0     b1 ──▶ p0 += g01·b1, p1 += g11·b1     …     bk−1 ──▶ the parities are complete
//! ```
//!
//! Fingerprints are linear, so those of the parities are known from those of the data: a parity that has another one was
//! calculated wrongly, and is never sent.

use crate::block::{Block, fingerprint};
use crate::error::{ClientError, Result};
use codes::Code;
use flow::{Geometry, Member};
use gf::{Fingerprint, kernels};
use std::sync::Arc;

/// Parities of one put that are in memory at once, in bytes: those that are being written, and those of the next stripe. It is
/// four parities of 64 MiB twice, and twice that.
const MAX_PARITY_BYTES: u64 = 1 << 30;

/// Stripes whose parities are in memory: one is being written while the next is read.
const STRIPES_AT_ONCE: u64 = 2;

/// A stripe whose data blocks come one after another.
pub(crate) struct Encoder {
    code: Code,
    /// Of the object, from 0.
    stripe: u64,
    /// Of the data blocks so far.
    lengths: Vec<u64>,
    geometry: Geometry,
    parities: Vec<Vec<u8>>,
    /// Of each symbol of each parity.
    expected: Vec<Fingerprint>,
}

/// The parities of a stripe.
pub(crate) struct Parities {
    /// Of the object, from 0.
    pub stripe: u64,
    /// How many data blocks it has.
    pub data: usize,
    /// The members that are not all zero, with their bytes.
    pub made: Vec<(u16, Block)>,
}

impl Encoder {
    pub fn new(code: Code) -> Encoder {
        let geometry = Geometry {
            block_bytes: 0,
            alpha: code.alpha() as u16,
            slice_bytes: flow::limits::DEFAULT_SLICE_BYTES,
        };
        let (parities, expected) = (Vec::new(), Vec::new());
        Encoder { code, stripe: 0, lengths: Vec::new(), geometry, parities, expected }
    }

    /// Takes the next data block; the parities too if it was the last one of the stripe. The first block of a stripe is its
    /// longest.
    ///
    /// # Errors
    /// [`ClientError::ParitiesTooLong`], [`ClientError::WrongParity`].
    pub fn add(&mut self, block: &Block) -> Result<Option<Parities>> {
        if block.bytes.is_empty() {
            return Ok(None);
        }
        if self.lengths.is_empty() {
            self.begin(block.bytes.len() as u64)?;
        }
        self.multiply(block)?;
        self.lengths.push(block.bytes.len() as u64);
        match self.lengths.len() == self.code.k() || block.last {
            true => self.finish().map(Some),
            false => Ok(None),
        }
    }

    /// Stripes whose parities may be written while others are made.
    pub fn written_at_once(&self) -> usize {
        let of_a_stripe = self.parity_bytes().max(1);
        (MAX_PARITY_BYTES / of_a_stripe).clamp(1, STRIPES_AT_ONCE) as usize - 1
    }

    fn parity_bytes(&self) -> u64 {
        let parities = (self.code.n() - self.code.k()) as u64;
        parities * u64::from(self.geometry.alpha) * self.geometry.symbol_bytes()
    }

    fn begin(&mut self, block_bytes: u64) -> Result<()> {
        self.geometry.block_bytes = block_bytes;
        let bytes = self.parity_bytes();
        if bytes > MAX_PARITY_BYTES {
            return Err(ClientError::ParitiesTooLong { bytes, limit: MAX_PARITY_BYTES });
        }
        let (count, alpha) = (self.code.n() - self.code.k(), self.code.alpha());
        let each = self.geometry.symbol_bytes() as usize * alpha;
        self.parities = vec![vec![0; each]; count];
        self.expected = vec![Fingerprint::ZERO; count * alpha];
        Ok(())
    }

    fn multiply(&mut self, block: &Block) -> Result<()> {
        let places = self.code.data_symbols().ok_or_else(|| bug("a code that does not store its data"))?;
        let (member, alpha) = (self.lengths.len(), self.code.alpha());
        let symbol_bytes = self.geometry.symbol_bytes() as usize;
        for (column, place) in places.iter().enumerate().filter(|(_, at)| usize::from(at.block) == member) {
            let [from, to] = [0, symbol_bytes]
                .map(|at| (usize::from(place.index) * symbol_bytes + at).min(block.bytes.len()));
            let symbol = &block.bytes[from..to];
            let print = if alpha == 1 { block.fingerprint } else { fingerprint(symbol) };
            for (parity, bytes) in self.parities.iter_mut().enumerate() {
                for row in 0..alpha {
                    let index = (self.code.k() + parity) as u16;
                    let factor = self.code.symbol_row(index, row as u16)[column];
                    let factor = u8::try_from(factor).map_err(|_| bug("a code over another field"))?;
                    if factor != 0 {
                        let sum = &mut bytes[row * symbol_bytes..][..symbol.len()];
                        kernels().mul_add(factor, symbol, sum);
                        self.expected[parity * alpha + row].add_scaled(factor, &print);
                    }
                }
            }
        }
        Ok(())
    }

    /// The parities, each as long as it is stored; the next block begins a stripe.
    fn finish(&mut self) -> Result<Parities> {
        let (stripe, lengths) = (self.stripe, std::mem::take(&mut self.lengths));
        let (k, alpha) = (self.code.k(), self.code.alpha());
        let mut made = Vec::new();
        for (parity, mut bytes) in std::mem::take(&mut self.parities).into_iter().enumerate() {
            let member = (k + parity) as u16;
            if !self.is_made(member, lengths.len()) {
                continue;
            }
            let length = |data: Member| lengths.get(usize::from(data.0)).copied().unwrap_or(0);
            let stored = flow::stored_bytes(&self.code, self.geometry, Member(member), length)
                .map_err(|error| bug(&error.to_string()))?;
            bytes.truncate(stored as usize);
            let symbol_bytes = (self.geometry.symbol_bytes() as usize).max(1);
            let expected = &self.expected[parity * alpha..][..alpha];
            let mut symbols = bytes.chunks(symbol_bytes);
            if expected.iter().any(|expected| fingerprint(symbols.next().unwrap_or_default()) != *expected) {
                let code = self.code.name().to_owned();
                return Err(ClientError::WrongParity { stripe, member: member.into(), code });
            }
            made.push((member, Block::of(bytes)));
        }
        self.stripe += 1;
        Ok(Parities { stripe, data: lengths.len(), made })
    }

    /// Whether a parity is made of anything. In a short stripe that of an absent local group is all zero, and absent like it.
    fn is_made(&self, member: u16, data: usize) -> bool {
        let places = self.code.data_symbols().unwrap_or_default();
        (0..self.code.alpha() as u16).any(|row| {
            let row = self.code.symbol_row(member, row).iter().zip(&places);
            row.into_iter().any(|(&factor, place)| factor != 0 && usize::from(place.block) < data)
        })
    }
}

impl Block {
    /// Bytes that are no part of an object.
    fn of(bytes: Vec<u8>) -> Block {
        let (digest, fingerprint) = (blake3::hash(&bytes), fingerprint(&bytes));
        Block { index: 0, bytes: Arc::new(bytes), digest, fingerprint, last: false }
    }
}

fn bug(what: &str) -> ClientError {
    ClientError::Bug(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::interpret::combine;

    fn data(bytes: usize, seed: usize, last: bool) -> Block {
        let byte = |at: usize| ((at * 31 + seed * 17) % 251) as u8 ^ (at >> 8) as u8;
        Block { last, ..Block::of((0..bytes).map(byte).collect()) }
    }

    /// By the generator's rows, byte by byte.
    fn slowly(code: &Code, geometry: Geometry, blocks: &[Block], member: u16) -> Vec<u8> {
        let symbol_bytes = geometry.symbol_bytes() as usize;
        let places = code.data_symbols().unwrap();
        let symbol = |place: &codes::SymbolId| -> &[u8] {
            let Some(block) = blocks.get(usize::from(place.block)) else { return &[] };
            let from = (usize::from(place.index) * symbol_bytes).min(block.bytes.len());
            &block.bytes[from..(from + symbol_bytes).min(block.bytes.len())]
        };
        let inputs: Vec<&[u8]> = places.iter().map(symbol).collect();
        let row = |row| combine(code.field(), code.symbol_row(member, row), &inputs, symbol_bytes);
        (0..code.alpha() as u16).flat_map(row).collect()
    }

    #[test]
    fn parities_are_what_the_generator_makes_of_the_data() {
        for name in ["rs-4+2", "rs-cauchy-3+2", "lrc-4+2+2", "rotated-4+2-r4", "rs16-3+2"] {
            let code = Code::parse(name).unwrap();
            for (count, short) in [(code.k(), 0), (code.k(), 70_000), (2, 1), (1, 99_999)] {
                let mut encoder = Encoder::new(code.clone());
                let mut blocks: Vec<Block> = (0..count).map(|i| data(100_000, i, false)).collect();
                *blocks.last_mut().unwrap() = data(100_000 - short, 9, true);
                // As the second stripe, too.
                for stripe in 0..2 {
                    let mut made: Vec<Option<Parities>> =
                        blocks.iter().map(|block| encoder.add(block).unwrap()).collect();
                    let parities = made.pop().flatten().unwrap();
                    assert!(made.iter().all(Option::is_none));
                    assert_eq!((parities.stripe, parities.data), (stripe, count));
                    let geometry = Geometry { block_bytes: blocks[0].bytes.len() as u64, ..encoder.geometry };
                    let members: Vec<u16> = parities.made.iter().map(|(member, _)| *member).collect();
                    for member in code.k() as u16..code.n() as u16 {
                        let mut slow = slowly(&code, geometry, &blocks, member);
                        let Some(at) = members.iter().position(|&made| made == member) else {
                            assert!(slow.iter().all(|&byte| byte == 0), "{name} {member}");
                            continue;
                        };
                        let fast = &parities.made[at].1.bytes;
                        assert!(slow.split_off(fast.len()).iter().all(|&byte| byte == 0));
                        assert!(**fast == slow, "{name}: parity {member} of {count} blocks");
                    }
                }
            }
        }
    }

    #[test]
    fn a_parity_that_was_calculated_wrongly_is_not_sent() {
        let mut encoder = Encoder::new(Code::parse("rs-2+2").unwrap());
        assert!(encoder.add(&data(50_000, 1, false)).unwrap().is_none());
        encoder.parities[1][40_000] ^= 4;
        let wrong = encoder.add(&data(50_000, 2, true));
        assert!(matches!(wrong, Err(ClientError::WrongParity { stripe: 0, member: 3, .. })));
    }

    #[test]
    fn memory_is_bounded() {
        let mut encoder = Encoder::new(Code::parse("rs-10+4").unwrap());
        assert!(encoder.begin(64 << 20).is_ok());
        assert_eq!(encoder.written_at_once(), 1);
        encoder.geometry.block_bytes = 200 << 20;
        assert_eq!(encoder.written_at_once(), 0);
        let refused = encoder.begin(300 << 20).unwrap_err();
        assert!(refused.to_string().contains("--block-size"), "{refused}");
    }
}
