//! Which blocks a repair reads, and codes that are given as matrices.

#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.

use codes::{Code, CodeError, Fewest, Recovery, SymbolId};
use gf::{Field, Matrix};

fn code(name: &str, n: usize, k: usize, alpha: usize, rows: &[&[u16]]) -> Result<Code, CodeError> {
    Code::from_generator(name, n, k, alpha, Matrix::from_rows(Field::Gf256, rows).unwrap())
}

/// Two groups of two data blocks with an XOR each (blocks 4, 5), and one global parity (block 6).
fn two_groups() -> Code {
    let rows: [&[u16]; 7] = [
        &[1, 0, 0, 0],
        &[0, 1, 0, 0],
        &[0, 0, 1, 0],
        &[0, 0, 0, 1],
        &[1, 1, 0, 0],
        &[0, 0, 1, 1],
        &[1, 2, 4, 8],
    ];
    code("two-groups", 7, 4, 1, &rows).unwrap()
}

#[test]
fn an_mds_repair_reads_the_k_preferred_blocks() {
    let code = Code::parse("rs-6+3").unwrap();
    assert_eq!(code.decode(&[2], &[8, 0, 7, 1, 3, 6, 5, 4]).unwrap().blocks(), [8, 0, 7, 1, 3, 6]);
    let replicas = Code::parse("rep-3").unwrap();
    assert_eq!(replicas.decode(&[0, 2], &[1]).unwrap().blocks(), [1]);
}

#[test]
fn a_local_group_is_found_whatever_the_preference() {
    let code = two_groups();
    assert_eq!((code.tolerance(), code.is_mds()), (2, false));
    for order in [[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1], [6, 3, 2, 1, 5, 4]] {
        let mut blocks = code.decode(&[0], &order).unwrap().blocks();
        blocks.sort_unstable();
        assert_eq!(blocks, [1, 4], "{order:?}");
    }
    let without_group = code.decode(&[0], &[2, 3, 5, 6, 1]).unwrap();
    assert_eq!(without_group.blocks(), [2, 3, 6, 1]);
}

/// Blocks of the group of each block of lrc-6+2+2, itself left out.
const GROUPS: [[u16; 3]; 8] =
    [[1, 2, 6], [0, 2, 6], [0, 1, 6], [4, 5, 7], [3, 5, 7], [3, 4, 7], [0, 1, 2], [3, 4, 5]];

#[test]
fn a_block_of_a_group_is_repaired_from_it() {
    let code = Code::parse("lrc-6+2+2").unwrap();
    for (lost, group) in GROUPS.iter().enumerate() {
        for backwards in [false, true] {
            let mut order: Vec<usize> = (0..10).filter(|&block| block != lost).collect();
            if backwards {
                order.reverse();
            }
            let wanted = code.symbols_of(&[lost]).unwrap();
            let Recovery { equation, fewest } = code.recovery(&wanted, &[], &order).unwrap();
            let mut blocks = equation.blocks();
            blocks.sort_unstable();
            assert_eq!((blocks.as_slice(), fewest), (&group[..], Fewest::Proved));
            assert!(equation.matrix.row(0).iter().all(|&c| c == 1), "a group is an XOR");
        }
    }
    // A global parity takes the k data blocks; or, by preference, as many others (7, 5 and 4 stand for 3).
    assert_eq!(code.decode(&[8], &[0, 1, 2, 3, 4, 5, 6, 7, 9]).unwrap().blocks(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(code.decode(&[8], &[9, 7, 6, 5, 4, 3, 2, 1, 0]).unwrap().blocks(), [9, 7, 6, 5, 4, 2]);
}

/// The fewest blocks, by trying every set of them.
fn fewest_by_trial(code: &Code, lost: usize, available: &[usize]) -> usize {
    let wanted = code.symbols_of(&[lost]).unwrap();
    let spans = |set: &u32| {
        let blocks = (0..available.len()).filter(|i| set >> i & 1 == 1).map(|i| available[i]);
        code.express(&wanted, &code.symbols_of(&blocks.collect::<Vec<_>>()).unwrap()).is_ok()
    };
    let spanning = (0u32..1 << available.len()).filter(spans);
    spanning.map(|set| set.count_ones() as usize).min().unwrap()
}

#[test]
fn a_broken_group_is_repaired_from_the_fewest_blocks_there_are() {
    let code = Code::parse("lrc-4+2+2").unwrap();
    for set in 1u32..1 << 8 {
        let gone: Vec<usize> = (0..8).filter(|block| set >> block & 1 == 1).collect();
        if !code.recoverable(&gone) {
            continue;
        }
        let available: Vec<usize> = (0..8).rev().filter(|block| !gone.contains(block)).collect();
        for &lost in &gone {
            let wanted = code.symbols_of(&[lost]).unwrap();
            let Recovery { equation, fewest } = code.recovery(&wanted, &[], &available).unwrap();
            assert_eq!(
                equation.blocks().len(),
                fewest_by_trial(&code, lost, &available),
                "{lost} of {gone:?}"
            );
            assert_eq!(fewest, Fewest::Proved);
            let product = equation.matrix.mul(&code.rows(&equation.inputs).unwrap()).unwrap();
            assert_eq!(product, code.rows(&wanted).unwrap());
        }
    }
}

#[test]
fn what_is_known_costs_nothing() {
    let code = Code::parse("lrc-6+2+2").unwrap();
    let wanted = code.symbols_of(&[0]).unwrap();
    // Of group 1 all is known to be zero: parity 8 then takes fewer blocks than the group, which lacks its parity.
    let Recovery { equation, .. } = code.recovery(&wanted, &[3, 4, 5, 7], &[9, 8, 2, 1]).unwrap();
    let read: Vec<u16> =
        equation.blocks().into_iter().filter(|block| ![3, 4, 5, 7].contains(block)).collect();
    assert_eq!(read.len(), 3, "{equation:?}");
    let Recovery { equation, .. } = code.recovery(&wanted, &[1, 2], &[3, 4, 5, 6, 7, 8, 9]).unwrap();
    assert_eq!(equation.blocks(), [1, 2, 6]);
}

#[test]
fn a_wide_code_still_repairs_from_its_group() {
    // More hyperplanes than are tried: the local equation is among the stored ones.
    let code = Code::parse("lrc-40+5+4").unwrap();
    let others: Vec<usize> = (1..49).rev().collect();
    let wanted = code.symbols_of(&[0]).unwrap();
    let Recovery { equation, fewest } = code.recovery(&wanted, &[], &others).unwrap();
    assert_eq!((equation.blocks(), fewest), (vec![40, 7, 6, 5, 4, 3, 2, 1], Fewest::OfStoredEquations));
}

fn others(code: &Code, lost: usize) -> Vec<usize> {
    (0..code.n()).filter(|&block| block != lost).collect()
}

/// Checks the equation, and returns how many symbols it reads.
fn symbols_read(code: &Code, lost: usize, available: &[usize]) -> (usize, Fewest) {
    let wanted = code.symbols_of(&[lost]).unwrap();
    let Recovery { equation, fewest } = code.recovery(&wanted, &[], available).unwrap();
    let product = equation.matrix.mul(&code.rows(&equation.inputs).unwrap()).unwrap();
    assert_eq!(product, code.rows(&wanted).unwrap(), "{code} {lost}");
    assert!(equation.inputs.iter().all(|symbol| available.contains(&symbol.block.into())));
    (equation.inputs.len(), fewest)
}

/// A data block of (16,12) takes 7.5 blocks' worth, a parity 12 (computed apart from this crate).
#[test]
fn rotated_rows_share_what_they_read() {
    for (name, worth) in [("rotated-12+4-r4", 7.5), ("rotated-12+4-r8", 7.5), ("rotated-6+3-r4", 4.0)] {
        let code = Code::parse(name).unwrap();
        for lost in 0..code.n() {
            let (read, fewest) = symbols_read(&code, lost, &others(&code, lost));
            let worth = if lost < code.k() { worth } else { code.k() as f64 };
            assert_eq!(
                (read as f64 / code.alpha() as f64, fewest),
                (worth, Fewest::OfStoredEquations),
                "{name} {lost}"
            );
        }
    }
    let code = Code::parse("rotated-10+4-r2").unwrap();
    let read: Vec<usize> = (0..14).map(|lost| symbols_read(&code, lost, &others(&code, lost)).0).collect();
    assert_eq!(read, [13, 13, 13, 12, 12, 13, 13, 13, 12, 12, 20, 20, 20, 20]);
}

/// Without some blocks there are fewer equations, and at last none: then any k blocks do.
#[test]
fn a_rotated_code_makes_do_with_what_is_there() {
    let code = Code::parse("rotated-6+3-r4").unwrap();
    let without = |gone: &[usize]| -> Vec<usize> { (0..9).filter(|block| !gone.contains(block)).collect() };
    assert_eq!(symbols_read(&code, 0, &without(&[0])).0, 16);
    assert_eq!(symbols_read(&code, 0, &without(&[0, 8])).0, 16);
    assert_eq!(symbols_read(&code, 0, &without(&[0, 7])).0, 20);
    assert_eq!(symbols_read(&code, 0, &without(&[0, 7, 8])).0, 24);
    assert_eq!(symbols_read(&code, 0, &without(&[0, 1])).0, 24);
    // A single symbol takes one equation.
    let symbol = SymbolId { block: 3, index: 2 };
    let equation = code.repair(&[symbol], &without(&[3])).unwrap();
    assert_eq!(equation.inputs.len(), 6);
}

/// In codes small enough to try every set of symbols, none is smaller than what the stored equations yield.
#[test]
fn stored_equations_are_as_good_as_any_in_small_rotated_codes() {
    for name in ["rotated-2+2-r2", "rotated-4+2-r2", "rotated-4+3-r2"] {
        let code = Code::parse(name).unwrap();
        for lost in 0..code.n() {
            let others = others(&code, lost);
            let (read, _) = symbols_read(&code, lost, &others);
            let (wanted, all) = (code.symbols_of(&[lost]).unwrap(), code.symbols_of(&others).unwrap());
            for set in (0u32..1 << all.len()).filter(|set| set.count_ones() as usize + 1 == read) {
                let from: Vec<SymbolId> =
                    (0..all.len()).filter(|i| set >> i & 1 == 1).map(|i| all[i]).collect();
                assert!(code.express(&wanted, &from).is_err(), "{name} {lost}: {from:?}");
            }
        }
    }
}

/// Both halves of k blocks give a block, and are needed; for a single half a few fewer may do.
#[test]
fn elements_of_two_halves_are_read_whole() {
    let code = Code::parse("rs16-6+3").unwrap();
    assert_eq!(code.decode(&[2], &[8, 0, 7, 1, 3, 6, 5, 4]).unwrap().blocks(), [8, 0, 7, 1, 3, 6]);
    for lost in 0..9 {
        assert_eq!(symbols_read(&code, lost, &others(&code, lost)).0, 12);
        let half = SymbolId { block: lost as u16, index: 1 };
        let read = code.repair(&[half], &others(&code, lost)).unwrap().inputs.len();
        assert!((7..=12).contains(&read), "{lost}: {read}");
    }
}

#[test]
fn a_repair_may_want_single_symbols() {
    let code = Code::parse("random-a2-4+2-s7").unwrap();
    let wanted = [SymbolId { block: 0, index: 1 }, SymbolId { block: 5, index: 0 }];
    let equation = code.repair(&wanted, &[4, 3, 2, 1]).unwrap();
    assert_eq!(equation.wanted, wanted);
    assert_eq!((equation.matrix.rows(), equation.matrix.cols()), (2, equation.inputs.len()));
    assert_eq!((equation.blocks(), equation.columns(3)), (vec![4, 3, 2, 1], 2..4));
    assert!(equation.columns(5).is_empty());
    let product = equation.matrix.mul(&code.rows(&equation.inputs).unwrap()).unwrap();
    assert_eq!(product, code.rows(&wanted).unwrap());
    assert_eq!(product.row(0), code.symbol_row(0, 1));
}

#[test]
fn what_cannot_be_recovered_is_named() {
    let code = Code::parse("rs-4+2").unwrap();
    let expected =
        CodeError::NotRecoverable { code: "rs-4+2".into(), lost: vec![0, 1], available: vec![2, 3, 5] };
    assert_eq!(code.decode(&[0, 1], &[2, 3, 5]), Err(expected.clone()));
    assert_eq!(expected.to_string(), "rs-4+2: blocks [0, 1] cannot be recovered from blocks [2, 3, 5]");
    assert!(matches!(code.decode(&[0], &[]), Err(CodeError::NotRecoverable { .. })));
}

#[test]
fn blocks_that_do_not_exist_are_errors() {
    let code = Code::parse("rs-4+2").unwrap();
    assert!(matches!(code.decode(&[6], &[0, 1, 2, 3]), Err(CodeError::NoSuchBlock { block: 6, n: 6, .. })));
    assert!(matches!(code.decode(&[0], &[1, 2, 3, 9]), Err(CodeError::NoSuchBlock { block: 9, .. })));
    assert!(matches!(code.decode(&[0], &[1, 2, 0, 3]), Err(CodeError::LostAndAvailable { block: 0, .. })));
    let symbol = SymbolId { block: 0, index: 1 };
    let found = code.repair(&[symbol], &[1, 2, 3, 4]);
    assert_eq!(found, Err(CodeError::NoSuchSymbol { code: "rs-4+2".into(), symbol }));
}

#[test]
fn a_code_need_not_store_its_data() {
    let code = code("mixed", 4, 2, 1, &[&[1, 1], &[1, 2], &[1, 3], &[1, 4]]).unwrap();
    assert_eq!((code.is_systematic(), code.tolerance()), (false, 2));
    assert_eq!(code.encode_equation(), Err(CodeError::DataNotStored { code: "mixed".into() }));
    assert_eq!(code.decode(&[0, 3], &[2, 1]).unwrap().blocks(), [2, 1]);
}

#[test]
fn data_may_be_spread_over_all_blocks() {
    // Three blocks of a data symbol and a parity of the two other blocks' data, α = 2: any block may be lost.
    let rows: [&[u16]; 6] = [&[1, 0], &[0, 3], &[0, 1], &[2, 0], &[1, 1], &[1, 2]];
    let code = code("spread", 3, 1, 2, &rows).unwrap();
    assert_eq!((code.is_systematic(), code.tolerance()), (false, 2));
    let encode = code.encode_equation().unwrap();
    assert_eq!(encode.inputs, [SymbolId { block: 0, index: 0 }, SymbolId { block: 1, index: 0 }]);
    assert_eq!(encode.wanted.len(), 4);
}

#[test]
fn generators_that_are_no_code_are_errors() {
    let deficient = code("x", 3, 2, 1, &[&[1, 2], &[2, 4], &[3, 6]]);
    assert_eq!(deficient, Err(CodeError::RankDeficient { code: "x".into(), rank: 1, needed: 2 }));
    let shape = code("x", 4, 2, 1, &[&[1, 0], &[0, 1], &[1, 1]]);
    assert!(matches!(shape, Err(CodeError::Shape { rows: 3, expected_rows: 4, .. })), "{shape:?}");
    for (n, k, alpha) in [(3, 0, 1), (1, 2, 1), (3, 2, 0), (usize::MAX, 2, 2), (4097, 1, 1)] {
        let size = code("x", n, k, alpha, &[&[1, 0], &[0, 1], &[1, 1]]);
        assert!(matches!(size, Err(CodeError::Size { .. })), "{size:?}");
    }
}

#[test]
fn a_tolerance_that_cannot_be_proved_is_an_error() {
    let wide = Code::parse("rs-40+20").unwrap();
    let unproven = Code::from_generator("wide", 60, 40, 1, wide.generator().clone());
    assert!(matches!(unproven, Err(CodeError::TooManyPatterns { losses: 5, .. })), "{unproven:?}");
}

#[test]
fn a_report_tells_what_repair_costs() {
    let report = two_groups().describe().unwrap();
    let reads: Vec<usize> = report.repairs.iter().map(|r| r.symbols_read).collect();
    assert_eq!(reads, [2, 2, 2, 2, 2, 2, 4]);
    assert_eq!((report.tolerance, report.mds, report.storage_overhead), (2, false, 1.75));

    let printed = Code::parse("rs-2+1").unwrap().describe().unwrap().to_string();
    let expected = "\
rs-2+1 (3,2)
  field              gf256
  symbols per block  1
  systematic         yes
  survives any       1 losses (MDS)
  storage overhead   1.50x
  generator          3 x 2
       0   1   0
       1   0   1
       2   3   2
  repair of one lost block
       0  reads 2.00 blocks' worth from 2: 1 2
       1  reads 2.00 blocks' worth from 2: 0 2
       2  reads 2.00 blocks' worth from 2: 0 1
";
    assert_eq!(printed, expected);
    let single = Code::parse("rep-1").unwrap().describe().unwrap();
    assert_eq!(single.repairs[0].reads, None);
}
