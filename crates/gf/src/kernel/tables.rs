//! Multiplication by each constant of GF(2^8), in the three forms that kernels use; made by the compiler.

use crate::Field;

/// Product of two elements, at compile time or where speed does not matter.
pub(crate) const fn constant_mul(a: u8, b: u8) -> u8 {
    Field::Gf256.mul(a as u16, b as u16) as u8
}

/// `MUL[c][x]` = c·x.
pub(crate) static MUL: [[u8; 256]; 256] = {
    let mut table = [[0; 256]; 256];
    let mut c = 0;
    while c < 256 {
        let halves = halves(c as u8);
        let mut x = 0;
        while x < 256 {
            table[c][x] = halves[x & 15] ^ halves[16 + (x >> 4)];
            x += 1;
        }
        c += 1;
    }
    table
};

/// `HALVES[c]`: c·x for the sixteen x below 16, then for their multiples by 16.
#[cfg(target_arch = "x86_64")]
pub(super) static HALVES: [[u8; 32]; 256] = {
    let mut table = [[0; 32]; 256];
    let mut c = 0;
    while c < 256 {
        table[c] = halves(c as u8);
        c += 1;
    }
    table
};

/// `BITS[c]`: multiplication by c as the 8×8 bit matrix that `gf2p8affineqb` takes. (`gf2p8mulb` will not do: its
/// field has another polynomial.)
#[cfg(target_arch = "x86_64")]
pub(super) static BITS: [u64; 256] = {
    let mut table = [0; 256];
    let mut c = 0;
    while c < 256 {
        table[c] = bit_matrix(c as u8);
        c += 1;
    }
    table
};

const fn halves(c: u8) -> [u8; 32] {
    let mut table = [0; 32];
    let mut x = 0;
    while x < 16 {
        table[x] = constant_mul(c, x as u8);
        table[16 + x] = constant_mul(c, (x << 4) as u8);
        x += 1;
    }
    table
}

/// Byte 7−i of the matrix selects the input bits whose sum is output bit i; input bit j contributes c·2^j.
#[cfg(target_arch = "x86_64")]
pub(super) const fn bit_matrix(c: u8) -> u64 {
    let mut rows = [0u8; 8];
    let mut j = 0;
    while j < 8 {
        let column = constant_mul(c, 1 << j);
        let mut i = 0;
        while i < 8 {
            rows[7 - i] |= (column >> i & 1) << j;
            i += 1;
        }
        j += 1;
    }
    u64::from_le_bytes(rows)
}
