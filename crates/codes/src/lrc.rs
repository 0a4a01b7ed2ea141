//! Local reconstruction codes: each group of data blocks has an XOR of its own, so that one lost block is repaired from
//! its group; global parities cover what the groups cannot.
//!
//! ```text
//!   lrc-6+2+2      group 0: d0 d1 d2 → block 6        group 1: d3 d4 d5 → block 7        all → blocks 8, 9
//! ```

use crate::{
    Code, CodeError,
    registry::{Family, Parameters},
};
use gf::{Field, Matrix};
use std::iter;

pub(crate) const FAMILY: Family = Family {
    pattern: "lrc-K+L+G",
    example: "lrc-12+2+2",
    description: "local reconstruction code: K data blocks in L groups with an XOR each, G global parities; repairs from a group",
    source: "Huang et al., USENIX ATC 2012; global parity t = Σ (2^j)^(2^t)·d_j over GF(2^8)",
    prefix: "lrc-",
    build,
    parity_sets: None,
    redraw: None,
};

/// Blocks are the data, the L local parities, the G global ones. The first groups are larger by one if L does not
/// divide K.
///
/// Row t of the global parities holds the 2^t-th powers of (2^0, 2^1, …): with the first two rows, (g^j) and (g^2j),
/// every pattern that coefficients can make recoverable is; other elements, or a row of ones, do not get there. The
/// powers are those of squaring again and again, which is linear, as in Gabidulin's codes: losses of several groups
/// then add up to one element each. GF(2^8) may be too small from G = 3 on; [`Code::reach`] tells.
fn build(parameters: &Parameters) -> Result<Code, CodeError> {
    let (k, l, g) = parameters.k_plus_l_plus_g()?;
    let field = Field::Gf256;
    let group_of: Vec<usize> =
        (0..l).flat_map(|group| iter::repeat_n(group, group_size(k, l, group))).collect();
    let mut parity = Matrix::zero(field, l + g, k);
    for (j, &group) in group_of.iter().enumerate() {
        parity.set(group, j, 1);
        let mut power = field.pow(field.primitive(), j as u64);
        for t in 0..g {
            parity.set(l + t, j, power);
            power = field.mul(power, power);
        }
    }
    let generator = Matrix::identity(field, k).stack(&parity)?;
    let of_data = group_of.iter().map(|&group| Some(group));
    let groups: Vec<Option<usize>> = of_data.chain((0..l).map(Some)).chain(iter::repeat_n(None, g)).collect();
    Code::from_local_generator(parameters.name, k, generator, &groups)
}

/// Data blocks in a group.
fn group_size(k: usize, l: usize, group: usize) -> usize {
    k / l + usize::from(group < k % l)
}
