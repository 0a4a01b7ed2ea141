//! Every kernel at every level that this processor has, against the field's own arithmetic.

use gf::{Field, Kernels, Level, Matrix, Product};
use proptest::prelude::*;

/// Lengths that meet every loop of a kernel: unrolled, single vectors, a part of one.
const MOST_BYTES: usize = 1500;

fn at_every_level(check: impl FnMut(&'static Kernels)) {
    Level::available().into_iter().filter_map(Kernels::at).for_each(check);
}

fn times(c: u8, x: u8) -> u8 {
    Field::Gf256.mul(c.into(), x.into()) as u8
}

/// Bytes in a buffer that starts at any offset to a cache line.
fn region(bytes: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), bytes)
}

#[test]
fn every_product_of_two_elements() {
    let all: Vec<u8> = (0..=255).collect();
    at_every_level(|kernels| {
        for c in 0..=255 {
            let expected: Vec<u8> = all.iter().map(|&x| times(c, x)).collect();
            let mut product = vec![0xa5; 256];
            kernels.mul(c, &all, &mut product);
            assert_eq!(product, expected, "{kernels:?}, {c}");
            let mut in_place = all.clone();
            kernels.mul_in_place(c, &mut in_place);
            assert_eq!(in_place, expected, "{kernels:?}, {c}");
        }
    });
}

proptest! {
    #[test]
    fn regions_of_any_length_and_alignment(
        c in any::<u8>(),
        (src, dst) in (0..MOST_BYTES).prop_flat_map(|n| (region(n), region(n))),
        skip in 0..70usize,
    ) {
        let skip = skip.min(src.len());
        at_every_level(|kernels| {
            let check = |run: &dyn Fn(&[u8], &mut [u8]), expected: &dyn Fn(u8, u8) -> u8| {
                let mut out = dst.clone();
                run(&src[skip..], &mut out[skip..]);
                for i in 0..out.len() {
                    let want = if i < skip { dst[i] } else { expected(src[i], dst[i]) };
                    assert_eq!(out[i], want, "{kernels:?}, byte {i} of {}", out.len());
                }
            };
            check(&|s, d| kernels.xor(s, d), &|s, d| s ^ d);
            check(&|s, d| kernels.mul(c, s, d), &|s, _| times(c, s));
            check(&|s, d| kernels.mul_add(c, s, d), &|s, d| d ^ times(c, s));
        });
    }

    /// Ragged inputs, more of them and of the outputs than a routine takes at once, zero coefficients.
    #[test]
    fn products_of_ragged_inputs(
        (coefficients, inputs) in (1..40usize, 0..10usize, prop_oneof![Just(2u16), Just(256)]).prop_flat_map(|(inputs, outputs, end)| {
            // Of zeros and ones alone, sums are scheduled.
            let coefficient = prop_oneof![Just(0), 0..end];
            let row = prop::collection::vec(coefficient, inputs);
            (prop::collection::vec(row, outputs), prop::collection::vec(region(0..MOST_BYTES), inputs))
        }),
        longer in 0..200usize,
    ) {
        let matrix = if coefficients.is_empty() {
            Matrix::zero(Field::Gf256, 0, inputs.len())
        } else {
            Matrix::from_rows(Field::Gf256, &coefficients).unwrap()
        };
        let bytes = inputs.iter().map(Vec::len).max().unwrap_or(0) + longer;
        let expected: Vec<Vec<u8>> = coefficients.iter().map(|row| (0..bytes).map(|at| {
            let terms = row.iter().zip(&inputs).map(|(&c, input)| times(c as u8, input.get(at).copied().unwrap_or(0)));
            terms.fold(0, |sum, term| sum ^ term)
        }).collect()).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        at_every_level(|kernels| {
            let product = Product::with_kernels(&matrix, kernels).unwrap();
            let mut outputs = vec![vec![0x5a; bytes]; product.outputs()];
            product.apply(&inputs, &mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
            assert_eq!(outputs, expected, "{kernels:?}");
        });
    }
}

/// The same of zeros and ones alone, in rows that share much, over several tiles.
#[test]
fn sums_of_long_inputs() {
    let bytes = 70_003;
    let inputs: Vec<Vec<u8>> = (0..40u64)
        .map(|i| (0..bytes as u64 - 97 * (i % 3)).map(|at| ((at * (2 * i + 1)) >> 3) as u8).collect())
        .collect();
    let rows: Vec<Vec<u16>> =
        (0..9).map(|g| (0..40).map(|i| u16::from(i < 20 || (i * 7 + g * 5) % 11 < 4)).collect()).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    at_every_level(|kernels| {
        let product =
            Product::with_kernels(&Matrix::from_rows(Field::Gf256, &rows).unwrap(), kernels).unwrap();
        assert!(product.sum_loads().unwrap() < rows.iter().flatten().filter(|bit| **bit == 1).count());
        let mut outputs = vec![vec![0x5a; bytes]; rows.len()];
        product.apply(&inputs, &mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        for (row, output) in rows.iter().zip(&outputs) {
            let terms = |at: usize| {
                row.iter()
                    .zip(&inputs)
                    .filter(|(c, _)| **c == 1)
                    .map(move |(_, input)| input.get(at).copied().unwrap_or(0))
            };
            let wrong = output
                .iter()
                .enumerate()
                .find(|&(at, byte)| *byte != terms(at).fold(0, |sum, term| sum ^ term));
            assert_eq!(wrong, None, "{kernels:?}");
        }
    });
}

/// Regions of several tiles: what encoding a whole slice is.
#[test]
fn products_of_long_inputs() {
    let bytes = 100_001;
    let inputs: Vec<Vec<u8>> =
        (0..3u64).map(|i| (0..bytes as u64).map(|at| ((at * (2 * i + 1)) >> 3) as u8).collect()).collect();
    let rows: Vec<[u16; 3]> = (0..6).map(|g| [g, 1, 255 - g]).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    at_every_level(|kernels| {
        let product =
            Product::with_kernels(&Matrix::from_rows(Field::Gf256, &rows).unwrap(), kernels).unwrap();
        let mut outputs = vec![vec![0; bytes]; 6];
        product.apply(&inputs, &mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        for (row, output) in rows.iter().zip(&outputs) {
            for (at, &byte) in output.iter().enumerate() {
                let terms = row.iter().zip(&inputs).map(|(&c, input)| times(c as u8, input[at]));
                assert_eq!(byte, terms.fold(0, |sum, term| sum ^ term), "{kernels:?}, byte {at}");
            }
        }
    });
}
