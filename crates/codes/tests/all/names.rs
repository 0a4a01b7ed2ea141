//! Names of codes, and the matrices they stand for: both are for ever, as stripes on disk depend on them.

#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.

use codes::{Code, CodeError, families};
use proptest::prelude::*;

fn parity_rows(name: &str) -> Vec<Vec<u16>> {
    let code = Code::parse(name).unwrap();
    let rows = code.k() * code.alpha()..code.n() * code.alpha();
    rows.map(|row| code.generator().row(row).to_vec()).collect()
}

/// Computed apart from this crate: Lagrange's interpolation at the points 0 … 9, evaluated at 10 … 13.
#[test]
fn rs_10_4_is_the_matrix_it_always_was() {
    let expected = [
        [129, 150, 175, 184, 210, 196, 254, 232, 3, 2],
        [150, 129, 184, 175, 196, 210, 232, 254, 2, 3],
        [191, 214, 98, 10, 6, 111, 223, 183, 5, 4],
        [214, 191, 10, 98, 111, 6, 183, 223, 4, 5],
    ];
    assert_eq!(parity_rows("rs-10+4"), expected);
}

/// Computed apart from this crate from the formula that HDFS 3 was seen to use.
#[test]
fn rs_cauchy_6_3_is_the_matrix_of_hdfs() {
    let expected =
        [[122, 186, 71, 167, 142, 244], [186, 122, 167, 71, 244, 142], [173, 157, 221, 152, 61, 170]];
    assert_eq!(parity_rows("rs-cauchy-6+3"), expected);
}

/// Computed apart from this crate: powers of 2 in GF(2^8), and their squares.
#[test]
fn local_groups_name_the_group_of_each_block_and_no_group_of_global_parities() {
    let [a, b, none] = [Some(0), Some(1), None];
    assert_eq!(Code::parse("lrc-5+2+1").unwrap().local_groups(), [a, a, a, b, b, a, b, none]);
    assert!(Code::parse("rs-4+2").unwrap().local_groups().is_empty());
}

#[test]
fn lrc_10_2_2_is_two_groups_and_two_rows_of_powers() {
    let expected = [
        [1, 1, 1, 1, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 1, 1, 1, 1],
        [1, 2, 4, 8, 16, 32, 64, 128, 29, 58],
        [1, 4, 16, 64, 29, 116, 205, 19, 76, 45],
    ];
    assert_eq!(parity_rows("lrc-10+2+2"), expected);
    assert_eq!(parity_rows("lrc-5+2+1"), [[1, 1, 1, 0, 0], [0, 0, 0, 1, 1], [1, 2, 4, 8, 16]]);
}

/// Computed apart from this crate, from the formula. Parity 1 takes symbol b+1 of blocks 0 and 1, parity 2 of 0 to 3.
#[test]
fn rotated_codes_do_not_change() {
    let expected = [
        [1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0],
        [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1],
        [0, 1, 0, 2, 4, 0, 8, 0, 16, 0, 32, 0],
        [1, 0, 2, 0, 0, 4, 0, 8, 0, 16, 0, 32],
        [0, 1, 0, 4, 0, 16, 0, 64, 29, 0, 116, 0],
        [1, 0, 4, 0, 16, 0, 64, 0, 0, 29, 0, 116],
    ];
    assert_eq!(parity_rows("rotated-6+3-r2"), expected);
}

/// Computed apart from this crate, inverting by the 65534th power: two rows for each parity, two columns for each block.
#[test]
fn rs16_codes_do_not_change() {
    let expected = [
        [0, 253, 64, 12, 220, 166],
        [251, 251, 49, 113, 52, 232],
        [64, 12, 0, 253, 147, 124],
        [49, 113, 251, 251, 19, 128],
    ];
    assert_eq!(parity_rows("rs16-3+2"), expected);
}

/// The first bytes of SplitMix64 from seed 1.
#[test]
fn random_codes_do_not_change() {
    let expected = [
        [145, 190, 248, 113, 113, 195, 224, 133],
        [73, 203, 103, 154, 116, 135, 111, 42],
        [165, 208, 174, 226, 16, 20, 126, 31],
        [73, 12, 131, 182, 11, 255, 153, 150],
    ];
    assert_eq!(parity_rows("random-a2-4+2-s1"), expected);
    assert_ne!(parity_rows("random-a2-4+2-s2"), expected);
}

#[test]
fn every_family_parses_its_own_example() {
    for family in families() {
        assert_eq!(Code::parse(family.example).unwrap().name(), family.example);
    }
}

proptest! {
    #[test]
    fn names_are_kept(k in 1usize..30, m in 1usize..8, cauchy: bool) {
        let name = format!("rs{}-{k}+{m}", if cauchy { "-cauchy" } else { "" });
        let code = Code::parse(&name).unwrap();
        prop_assert_eq!((code.name(), code.n(), code.k()), (name.as_str(), k + m, k));
        prop_assert_eq!(code.to_string(), format!("{name} ({},{k})", k + m));
    }

    #[test]
    fn any_text_is_a_code_or_an_error(name in "(rs|rs-cauchy|rs16|lrc|rotated|rep|random-a2)?-?[0-9+s -]{0,8}|\\PC{0,80}") {
        match Code::parse(&name) {
            Ok(code) => prop_assert_eq!(code.name(), name),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

const ROTATED_LIMITS: &str = "in this family K+M is at most 24, M at most 4, and R from 2 to 8";

#[test]
fn a_rotated_code_that_is_not_mds_is_refused() {
    let refused = Code::parse("rotated-6+3-r5");
    assert_eq!(refused, Err(CodeError::NotMds { code: "rotated-6+3-r5".into(), losses: 3 }));
}

#[test]
fn bad_parameters_are_told_apart() {
    for (name, reason) in [
        ("rs-0+4", "K and M must be at least 1"),
        ("rs-4+0", "K and M must be at least 1"),
        ("rs-300+4", "K+M must be at most 256"),
        ("rs-253+4", "K+M must be at most 256"),
        ("rs-18446744073709551615+2", "K+M must be at most 256"),
        ("rs-99999999999999999999+4", "99999999999999999999 is too large"),
        ("rs-10", "'10' has no '+'"),
        ("rs-", "'' has no '+'"),
        ("rs-10+4 ", "'4 ' is not a whole number"),
        ("rs-10++4", "'+4' is not a whole number"),
        ("rs--10+4", "'-10' is not a whole number"),
        ("rs-010+4", "'010' has a leading zero"),
        ("rs-10+４", "'４' is not a whole number"),
        ("rs-cauchy-10", "'10' has no '+'"),
        ("lrc-12+2", "needs K+L+G"),
        ("lrc-12", "'12' has no '+'"),
        ("lrc-12+0+2", "L and G must be at least 1, and L at most K"),
        ("lrc-12+2+0", "L and G must be at least 1, and L at most K"),
        ("lrc-2+3+1", "L and G must be at least 1, and L at most K"),
        ("lrc-250+5+2", "K+L+G must be at most 256"),
        ("lrc-12+2+2+2", "'2+2' is not a whole number"),
        ("rotated-12+4", "the number of symbols is missing"),
        ("rotated-12+4-r", "'' is not a whole number"),
        ("rotated-12+4-r1", ROTATED_LIMITS),
        ("rotated-12+4-r9", ROTATED_LIMITS),
        ("rotated-21+4-r4", ROTATED_LIMITS),
        ("rotated-6+5-r4", ROTATED_LIMITS),
        ("rs16-0+4", "K and M must be at least 1"),
        ("rs16-500+13", "K+M must be at most 512"),
        ("rep-0", "there must be at least one block"),
        ("rep-257", "257 blocks; at most 256 are possible"),
        ("rep-", "'' is not a whole number"),
        ("random-a2-4+2", "the seed is missing"),
        ("random-a2-14+3-s1", "K+M must be at most 16 in this family"),
        ("random-a2-4+2-sx", "'x' is not a whole number"),
    ] {
        match Code::parse(name) {
            Err(CodeError::BadParameters { reason: found, .. }) => assert_eq!(found, reason, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    let shown = Code::parse("rs-10").unwrap_err().to_string();
    assert_eq!(shown, "bad code name 'rs-10': '10' has no '+' (expected rs-K+M, such as rs-10+4)");
}

#[test]
fn unknown_names_get_the_nearest_family() {
    for (name, nearest) in [
        ("foo", None),
        ("", None),
        ("RS-10+4", Some("rs-K+M")),
        (" rs-10+4", Some("rs-K+M")),
        ("rs_10+4", Some("rs-K+M")),
        ("cauchy-6+3", Some("rs-cauchy-K+M")),
        ("rs3", Some("rs-K+M")),
        ("repl-3", Some("rep-N")),
        ("random-4+2-s1", Some("random-a2-K+M-sSEED")),
    ] {
        match Code::parse(name) {
            Err(CodeError::Unknown { suggestion, .. }) => assert_eq!(suggestion, nearest, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    let shown = Code::parse("RS-10+4").unwrap_err().to_string();
    assert!(shown.starts_with("unknown code 'RS-10+4'; known are rs-K+M, rs-cauchy-K+M, "), "{shown}");
    assert!(shown.ends_with("; did you mean rs-K+M?"), "{shown}");
}

#[test]
fn a_long_name_is_not_looked_at() {
    let long = Code::parse(&"9".repeat(1 << 20));
    assert_eq!(long, Err(CodeError::NameTooLong { bytes: 1 << 20, limit: 64 }));
}

#[test]
fn a_random_code_that_cannot_be_drawn_is_an_error() {
    let hopeless = Code::parse("random-a2-7+7-s1");
    assert!(matches!(hopeless, Err(CodeError::NoDraw { losses: 7, .. })), "{hopeless:?}");
}
