//! RapidRAID codes: what a pipeline of nodes makes as two replicas of the data pass (RapidRAID §IV, §V).
//!
//! Node i has data block i of the first replica if i < k, and block i−m of the second if i ≥ m, where m = n−k. It adds to
//! what comes from node i−1 each of its blocks, times a coefficient ψ, and sends the sum on; it stores what came and each of
//! its blocks times another coefficient, ξ.
//!
//! ```text
//!   rapidraid-4+2     node 0   node 1   node 2   node 3   node 4   node 5
//!   first replica       d0       d1       d2       d3
//!   second replica                        d0       d1       d2       d3
//!   stored              c0       c1       c2       c3       c4       c5
//! ```
//!
//! One coefficient for each block of a node, not one for each node as equations (3) and (4) have it: with those more losses
//! are fatal. No block is data as it is: the code is its systematic extension, members 0 … k−1 virtual.

mod coefficients;
mod search;
#[cfg(test)]
mod tests;

pub use search::{Found, search};

use crate::draw::SplitMix64;
use crate::registry::{Family, Parameters};
use crate::{Code, CodeError};
use gf::{Field, Matrix};

pub(crate) const FAMILY: Family = Family {
    pattern: "rapidraid-K+M",
    example: "rapidraid-11+5",
    description: "made by a pipeline over two replicas as the data pass, M ≤ K; stores no block of data as it is; mostly MDS if M ≤ 3",
    source: "Pamies-Juarez et al., RapidRAID, 2012, §V; coefficients over GF(2^8) found by hill climbing up to 16 blocks",
    prefix: "rapidraid-",
    build: |parameters| build(parameters, Field::Gf256),
    parity_sets: None,
    redraw: Some(redraw),
};

pub(crate) const FAMILY_16: Family = Family {
    pattern: "rapidraid16-K+M",
    example: "rapidraid16-11+5",
    description: "RapidRAID over GF(2^16): losses are fatal that the pipeline itself makes so, hardly any others; two symbols per block",
    source: "Pamies-Juarez et al., RapidRAID, 2012, §V; coefficients drawn over GF(2^16) = GF(2^8)[z]/(z²+z+34)",
    prefix: "rapidraid16-",
    build: |parameters| build(parameters, Field::Gf65536),
    parity_sets: None,
    redraw: Some(redraw),
};

/// The seed that gives the coefficients of a shape of which no better ones are kept. Names mean the same for ever.
const DRAWN_FROM: u64 = 0;

/// Most blocks of a stripe: a flow has a stage for each.
const MAX_BLOCKS: usize = 256;

/// The coefficients of a code over a pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    field: Field,
    k: usize,
    m: usize,
    /// ψ of each block of each node but the last, node after node, the first replica's block first: 2k−1.
    forwarded: Vec<u16>,
    /// ξ likewise, of all nodes: 2k.
    kept: Vec<u16>,
}

impl Chain {
    /// Coefficients drawn from `seed`, none of them 0. Needs 1 ≤ m ≤ k.
    pub fn draw(field: Field, k: usize, m: usize, seed: u64) -> Self {
        let mut draw = SplitMix64::seeded(seed);
        let mut units = |count| (0..count).map(|_| draw.unit(field.order())).collect();
        Self { field, k, m, forwarded: units(2 * k - 1), kept: units(2 * k) }
    }

    /// The coefficients of the code of that shape, `rapidraid-K+M` or `rapidraid16-K+M` by the field. Needs 1 ≤ m ≤ k.
    pub fn of(field: Field, k: usize, m: usize) -> Self {
        coefficients::of(field, k, m)
    }

    /// Nodes of the pipeline, each of which stores a block.
    pub fn nodes(&self) -> usize {
        self.k + self.m
    }

    /// Data blocks.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The field of its coefficients.
    pub fn field(&self) -> Field {
        self.field
    }

    /// Symbols of a block, over GF(2^8).
    pub fn alpha(&self) -> usize {
        if self.field == Field::Gf65536 { 2 } else { 1 }
    }

    /// The data blocks that a node of this pipeline has, the first replica's first.
    pub fn blocks_at(&self, node: usize) -> impl Iterator<Item = usize> {
        Self::blocks_of(self.k, self.m, node)
    }

    /// The data blocks that a node has, the first replica's first.
    pub fn blocks_of(k: usize, m: usize, node: usize) -> impl Iterator<Item = usize> {
        [Some(node).filter(|&block| block < k), node.checked_sub(m)].into_iter().flatten()
    }

    /// n × k: the stored blocks as combinations of the data.
    pub fn generator(&self) -> Matrix {
        let (field, k) = (self.field, self.k);
        let mut generator = Matrix::zero(field, k + self.m, k);
        let mut passing = vec![0; k];
        let mut at = 0;
        for node in 0..k + self.m {
            let mut stored = passing.clone();
            for block in Self::blocks_of(k, self.m, node) {
                stored[block] = field.add(stored[block], self.kept[at]);
                // The last node sends nothing on.
                let forwarded = self.forwarded.get(at).copied().unwrap_or(0);
                passing[block] = field.add(passing[block], forwarded);
                at += 1;
            }
            for (block, value) in stored.into_iter().enumerate() {
                generator.set(node, block, value);
            }
        }
        generator
    }

    /// What a node does: (what it sends on, what it stores) of (what came, its blocks).
    pub fn stage(&self, node: usize) -> Matrix {
        let blocks = |node| Self::blocks_of(self.k, self.m, node).count();
        let before: usize = (0..node).map(blocks).sum();
        let mut stage = Matrix::zero(self.field, 2, 1 + blocks(node));
        for row in 0..2 {
            stage.set(row, 0, 1);
        }
        for (column, at) in (1..).zip(before..before + blocks(node)) {
            stage.set(0, column, self.forwarded.get(at).copied().unwrap_or(0));
            stage.set(1, column, self.kept[at]);
        }
        stage
    }

    /// Where these coefficients differ from those that are drawn for the shape: (place, value), ψ before ξ.
    pub fn changes(&self) -> Vec<(usize, u16)> {
        let drawn = Self::draw(self.field, self.k, self.m, DRAWN_FROM);
        let pairs = self.coefficients().zip(drawn.coefficients()).enumerate();
        pairs.filter(|(_, (here, drawn))| here != drawn).map(|(at, (here, _))| (at, here)).collect()
    }

    fn coefficients(&self) -> impl Iterator<Item = u16> {
        self.forwarded.iter().chain(&self.kept).copied()
    }

    fn coefficient_mut(&mut self, at: usize) -> &mut u16 {
        match at.checked_sub(self.forwarded.len()) {
            None => &mut self.forwarded[at],
            Some(at) => &mut self.kept[at],
        }
    }
}

fn build(parameters: &Parameters, field: Field) -> Result<Code, CodeError> {
    let (k, m) = shape(parameters)?;
    Code::of_pipeline(parameters.name, Chain::of(field, k, m))
}

/// The generator of the stored blocks with other coefficients, over the larger field.
fn redraw(parameters: &Parameters, seed: u64) -> Result<Matrix, CodeError> {
    let (k, m) = shape(parameters)?;
    Ok(Chain::draw(Field::Gf65536, k, m, seed).generator())
}

fn shape(parameters: &Parameters) -> Result<(usize, usize), CodeError> {
    let (k, m) = parameters.k_plus_m_up_to(MAX_BLOCKS)?;
    if m > k {
        return Err(parameters.bad("M must be at most K: two replicas make no longer pipeline".to_owned()));
    }
    Ok((k, m))
}
