//! The matrices of the paper's examples, and the proof of what `coefficients.rs` keeps.

#![allow(clippy::unwrap_used)] // a test may

use super::*;
use crate::SymbolId;

fn code(name: &str) -> Code {
    Code::parse(name).unwrap()
}

/// RapidRAID §IV.B, the (8,4) matrix: ψ1 … ψ7 and ξ1 … ξ8.
#[test]
fn the_generator_is_the_papers() {
    let field = Field::Gf256;
    let psi: Vec<u16> = (1..8).collect();
    let xi: Vec<u16> = (11..19).collect();
    let chain = Chain { field, k: 4, m: 4, forwarded: psi.clone(), kept: xi.clone() };
    let (p, x) = (|i: usize| psi[i - 1], |i: usize| xi[i - 1]);
    let expected = Matrix::from_rows(
        field,
        &[
            [x(1), 0, 0, 0],
            [p(1), x(2), 0, 0],
            [p(1), p(2), x(3), 0],
            [p(1), p(2), p(3), x(4)],
            [p(1) ^ x(5), p(2), p(3), p(4)],
            [p(1) ^ p(5), p(2) ^ x(6), p(3), p(4)],
            [p(1) ^ p(5), p(2) ^ p(6), p(3) ^ x(7), p(4)],
            [p(1) ^ p(5), p(2) ^ p(6), p(3) ^ p(7), p(4) ^ x(8)],
        ],
    );
    assert_eq!(chain.generator(), expected.unwrap());
}

/// RapidRAID §IV.C, the (6,4) example, with one coefficient for each block: nodes 3 and 4 have two.
#[test]
fn where_replicas_overlap_a_node_adds_both_of_its_blocks() {
    let blocks = |node| Chain::blocks_of(4, 2, node).collect::<Vec<usize>>();
    assert_eq!(
        (0..6).map(blocks).collect::<Vec<_>>(),
        [vec![0], vec![1], vec![2, 0], vec![3, 1], vec![2], vec![3]]
    );
    let chain =
        Chain { field: Field::Gf256, k: 4, m: 2, forwarded: (1..8).collect(), kept: (11..19).collect() };
    let generator = chain.generator();
    assert_eq!(generator.row(2), [1 ^ 14, 2, 13, 0]);
    assert_eq!(generator.row(3), [1 ^ 4, 2 ^ 16, 3, 15]);
    assert_eq!(generator.row(4), [1 ^ 4, 2 ^ 6, 3 ^ 17, 5]);
    assert_eq!(generator.row(5), [1 ^ 4, 2 ^ 6, 3 ^ 7, 5 ^ 18]);
}

#[test]
fn stages_one_after_another_make_the_generator() {
    for (field, k, m) in [(Field::Gf256, 4, 4), (Field::Gf256, 11, 5), (Field::Gf65536, 6, 2)] {
        let chain = Chain::of(field, k, m);
        let mut passing = Matrix::zero(field, 1, k);
        for node in 0..k + m {
            let mut own = Matrix::zero(field, Chain::blocks_of(k, m, node).count(), k);
            Chain::blocks_of(k, m, node).enumerate().for_each(|(row, block)| own.set(row, block, 1));
            let made = chain.stage(node).mul(&passing.stack(&own).unwrap()).unwrap();
            assert_eq!(made.row(1), chain.generator().row(node), "node {node} of ({},{k})", k + m);
            passing = made.select_rows(&[0]).unwrap();
        }
    }
}

/// What the paper's §IV.B and conjecture 1 say: of (8,4) only {c1, c2, c5, c6} is dependent whatever the coefficients, and
/// codes with m ≤ 3 are MDS.
#[test]
fn natural_dependencies_are_the_papers() {
    let found = code("rapidraid-4+4").dependencies().unwrap();
    assert_eq!((found.subsets, found.natural, found.accidental()), (70, Some(1), Some(0)));
    assert_eq!(found.dependent, [[0, 1, 4, 5]]);
    for (k, m) in (1..=3).flat_map(|m| (m..=16 - m).map(move |k| (k, m))) {
        let code = code(&format!("rapidraid-{k}+{m}"));
        assert!(code.is_mds(), "{code}");
        assert_eq!(code.dependencies().unwrap().natural, Some(0), "{code}");
    }
}

/// Of all shapes of up to 16 blocks, over all subsets; what no search got rid of is told.
#[test]
fn kept_coefficients_leave_no_accidental_dependency() {
    const LEFT: &[(usize, usize, u64)] = &[(10, 6, 1), (9, 7, 1)];
    for n in 2..=16_usize {
        for k in n.div_ceil(2)..n {
            let m = n - k;
            let left = LEFT.iter().find(|left| (left.0, left.1) == (k, m)).map_or(0, |left| left.2);
            let small = code(&format!("rapidraid-{k}+{m}"));
            assert_eq!(small.dependencies().unwrap().accidental(), Some(left), "{small}");
            let large = code(&format!("rapidraid16-{k}+{m}"));
            assert_eq!(large.dependencies().unwrap().accidental(), Some(0), "{large}");
        }
    }
}

/// Stripes on disk depend on them.
#[test]
fn the_first_coefficients_do_not_change() {
    let row = |name: &str, row| code(name).generator().row(row).to_vec();
    assert_eq!(row("rapidraid-4+2", 7), [26, 233, 7, 195]);
    assert_eq!(row("rapidraid-4+2", 9), [26, 59, 42, 169]);
    assert_eq!(row("rapidraid-11+5", 26), [9, 80, 97, 126, 169, 41, 1, 198, 27, 201, 141]);
    assert_eq!(row("rapidraid16-4+2", 13), [135, 216, 110, 23, 243, 75, 0, 0]);
}

/// Every other shape's, as one number: they are many.
#[test]
fn no_coefficients_change() {
    let mut digest = 0_u64;
    for n in 2..=24_usize {
        for k in n.div_ceil(2)..n {
            for field in [Field::Gf256, Field::Gf65536] {
                for coefficient in coefficients::of(field, k, n - k).coefficients() {
                    digest = digest.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(coefficient);
                }
            }
        }
    }
    assert_eq!(digest, 12_259_364_255_789_148_554);
}

#[test]
fn a_code_is_its_systematic_extension() {
    let code = code("rapidraid-11+5");
    assert_eq!((code.n(), code.virtuals(), code.stored(), code.k()), (27, 11, 16, 11));
    assert_eq!(
        (code.is_systematic(), code.is_mds(), code.to_string()),
        (false, false, "rapidraid-11+5 (16,11)".into())
    );
    // The data are members, though none is stored: the stored ones are made of them.
    let encoding = code.encode_equation().unwrap();
    assert_eq!((encoding.wanted.len(), encoding.blocks()), (16, (0..11).collect()));
    // Block 0 is a multiple of data block 0, block 1 follows from both: reads of a range need no more.
    let stored: Vec<usize> = (11..27).collect();
    for block in 0..4 {
        let wanted = [SymbolId { block, index: 0 }];
        let read = code.recovery(&wanted, &[], &stored).unwrap();
        assert!(
            read.equation.inputs.len() <= usize::from(block) + 1,
            "{block}: {:?}",
            read.equation.blocks()
        );
    }
}

#[test]
fn over_the_larger_field_a_block_is_two_symbols() {
    let code = code("rapidraid16-4+4");
    assert_eq!((code.n(), code.alpha(), code.virtuals(), code.tolerance()), (12, 2, 4, 3));
    let found = code.dependencies().unwrap();
    assert_eq!((found.natural, found.accidental()), (Some(1), Some(0)));
}

#[test]
fn a_longer_pipeline_than_two_replicas_make_is_refused() {
    let refused = Code::parse("rapidraid-4+5").unwrap_err().to_string();
    assert!(refused.contains("M must be at most K"), "{refused}");
}
