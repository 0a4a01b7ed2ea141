//! Rotated Reed-Solomon codes: parity rows are shifted by a symbol for part of the data blocks, so that the equations
//! that repair a block share what they read.
//!
//! ```text
//!   rotated-6+3-r4, parity 1 (of 0, 1, 2)                                     row b of the stripe: symbol b of each block
//!   symbol b of it = Σ 2^i·(symbol b+1 of d_i), i < ⌈6·1/3⌉ = 2,  +  Σ 2^i·(symbol b of d_i), i ≥ 2       b+1 modulo 4
//! ```

use crate::{
    Code, CodeError,
    code::Evidence,
    registry::{Family, Parameters},
};
use gf::{Field, Matrix};

pub(crate) const FAMILY: Family = Family {
    pattern: "rotated-K+M-rR",
    example: "rotated-12+4-r4",
    description: "rotated Reed-Solomon: R symbols per block, any K blocks suffice; repairs of data blocks read fewer symbols",
    source: "Khan, Burns, Plank, Pierce, Huang, FAST 2012, §5; coefficients (2^j)^i over GF(2^8)",
    prefix: "rotated-",
    build,
    parity_sets: None,
    redraw: None,
};

/// Largest number of blocks, parities and symbols to a block: every pattern of losses is tried by rank, and (24,20) at
/// R = 8 takes 60 ms (measured). Beyond four parities rows of powers are hardly ever MDS. With more than eight symbols
/// the search for the fewest symbols would not end.
const MAX_BLOCKS: usize = 24;
const MAX_PARITIES: usize = 4;
const MAX_SYMBOLS: usize = 8;

/// Symbol b of parity j is Σ_i (2^j)^i · d_i, of symbol b+1 mod R of the first ⌈kj/m⌉ data blocks and of symbol b of the
/// others. No theorem says that this is MDS; codes that are not are refused. At R = 2, 4 and 8 all are that the limits
/// above admit; R = 5 with three parities, for one, is not from K = 6 on.
fn build(parameters: &Parameters) -> Result<Code, CodeError> {
    let (k, m, r) = parameters.k_plus_m_r()?;
    if k + m > MAX_BLOCKS || m > MAX_PARITIES || !(2..=MAX_SYMBOLS).contains(&r) {
        return Err(parameters.bad(format!(
            "in this family K+M is at most {MAX_BLOCKS}, M at most {MAX_PARITIES}, and R from 2 to {MAX_SYMBOLS}"
        )));
    }
    let field = Field::Gf256;
    let mut parity = Matrix::zero(field, m * r, k * r);
    for j in 0..m {
        let element = field.pow(field.primitive(), j as u64);
        let rotated = (k * j).div_ceil(m);
        for (b, i) in (0..r).flat_map(|b| (0..k).map(move |i| (b, i))) {
            let symbol = if i < rotated { (b + 1) % r } else { b };
            parity.set(j * r + b, i * r + symbol, field.pow(element, i as u64));
        }
    }
    let generator = Matrix::identity(field, k * r).stack(&parity)?;
    Code::from_mds_generator(parameters.name, k + m, k, r, generator, Evidence::Trial)
}
