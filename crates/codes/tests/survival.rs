//! Every loss that a code promises to survive gives back the bytes; every other is refused.

#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.

use codes::{Code, CodeError, Equation, SymbolId};
use gf::Matrix;

/// A stripe with arbitrary data: a symbol is one element, a block α of them.
struct Stripe {
    code: Code,
    symbols: Matrix,
}

impl Stripe {
    fn new(code: Code) -> Self {
        let mut data = Matrix::zero(code.field(), code.k() * code.alpha(), 1);
        for row in 0..data.rows() {
            data.set(row, 0, (row * 89 + 41) as u16 % 256);
        }
        Self { symbols: code.generator().mul(&data).unwrap(), code }
    }

    fn read(&self, symbols: &[SymbolId]) -> Matrix {
        let row = |s: &SymbolId| usize::from(s.block) * self.code.alpha() + usize::from(s.index);
        self.symbols.select_rows(&symbols.iter().map(row).collect::<Vec<_>>()).unwrap()
    }

    /// The equation reads only available blocks, and gives what was stored.
    fn check(&self, equation: &Equation, available: &[usize]) {
        assert!(equation.inputs.iter().all(|s| available.contains(&s.block.into())), "{equation:?}");
        assert!((0..equation.inputs.len()).all(|col| !equation.matrix.is_zero_col(col)), "{equation:?}");
        let computed = equation.matrix.mul(&self.read(&equation.inputs)).unwrap();
        assert_eq!(computed, self.read(&equation.wanted), "{} from {available:?}", self.code);
    }

    fn check_loss(&self, lost: &[usize]) -> bool {
        let available: Vec<usize> = (0..self.code.n()).filter(|block| !lost.contains(block)).collect();
        let backwards: Vec<usize> = available.iter().rev().copied().collect();
        for order in [available, backwards] {
            match self.code.decode(lost, &order) {
                Ok(equation) => {
                    assert!(self.code.recoverable(lost), "{} {lost:?}", self.code);
                    self.check(&equation, &order);
                }
                Err(CodeError::NotRecoverable { code, lost: reported, available }) => {
                    assert!(!self.code.recoverable(lost), "{} {lost:?}", self.code);
                    assert_eq!(
                        (code.as_str(), reported.as_slice(), &available),
                        (self.code.name(), lost, &order)
                    );
                    return false;
                }
                Err(error) => panic!("{error}"),
            }
        }
        true
    }

    /// Tries every set of losses of at most `limit` blocks; how many it recovered.
    fn check_all_losses(&self, limit: usize) -> usize {
        let n = self.code.n();
        let patterns = (1u32..1 << n).filter(|set| set.count_ones() as usize <= limit);
        let survived = patterns.filter(|set| {
            let lost: Vec<usize> = (0..n).filter(|block| set >> block & 1 == 1).collect();
            let survives = self.check_loss(&lost);
            assert!(survives || lost.len() > self.code.tolerance(), "{} {lost:?}", self.code);
            survives
        });
        survived.count()
    }
}

#[test]
fn small_reed_solomon_codes_survive_every_loss_they_should_and_no_other() {
    for family in ["rs", "rs-cauchy"] {
        for (k, m) in (1..8).flat_map(|k| (1..=8 - k).map(move |m| (k, m))) {
            let code = Code::parse(&format!("{family}-{k}+{m}")).unwrap();
            assert!(code.is_mds() && code.is_systematic() && code.tolerance() == m, "{code}");
            Stripe::new(code).check_all_losses(8);
        }
    }
}

#[test]
fn all_1470_losses_of_up_to_four_blocks_of_14_10_are_recovered() {
    for name in ["rs-10+4", "rs-cauchy-10+4"] {
        let survived = Stripe::new(Code::parse(name).unwrap()).check_all_losses(5);
        assert_eq!(survived, 14 + 91 + 364 + 1001, "{name}");
    }
}

#[test]
fn random_codes_of_two_symbols_survive_every_loss_they_should() {
    for (k, m) in [(1, 1), (2, 2), (4, 2), (3, 3), (6, 3)] {
        for seed in 0..5 {
            let code = Code::parse(&format!("random-a2-{k}+{m}-s{seed}")).unwrap();
            assert_eq!((code.alpha(), code.tolerance(), code.is_systematic()), (2, m, true));
            Stripe::new(code).check_all_losses(m + 1);
        }
    }
}

#[test]
fn replicas_survive_until_the_last() {
    for n in 1..=6 {
        let code = Code::parse(&format!("rep-{n}")).unwrap();
        assert_eq!((code.k(), code.tolerance()), (1, n - 1));
        assert_eq!(Stripe::new(code).check_all_losses(n), (1 << n) - 2);
    }
}

#[test]
fn encoding_equations_give_the_parities() {
    for name in ["rs-10+4", "rs-cauchy-6+3", "rep-3", "rep-1", "random-a2-4+2-s1"] {
        let stripe = Stripe::new(Code::parse(name).unwrap());
        let equation = stripe.code.encode_equation().unwrap();
        let (n, k) = (stripe.code.n(), stripe.code.k());
        assert_eq!(equation.wanted, stripe.code.symbols_of(&(k..n).collect::<Vec<_>>()).unwrap());
        stripe.check(&equation, &(0..k).collect::<Vec<_>>());
    }
}

#[test]
fn the_largest_codes_decode() {
    for name in ["rs-200+56", "rs-cauchy-200+56", "rs-1+255", "rs-255+1"] {
        let stripe = Stripe::new(Code::parse(name).unwrap());
        let lost: Vec<usize> = (0..stripe.code.tolerance()).map(|i| i * 2 % 256 + i / 128).collect();
        assert!(stripe.check_loss(&lost), "{name}");
    }
}

#[test]
fn counts_are_those_of_all_patterns() {
    let code = Code::parse("rs-10+4").unwrap();
    let counts: Vec<_> = (0..=6).map(|f| code.count_recoverable(f).unwrap()).collect();
    let recoverable: Vec<u64> = counts.iter().map(|c| c.recoverable).collect();
    let patterns: Vec<u64> = counts.iter().map(|c| c.patterns).collect();
    assert_eq!(recoverable, [1, 14, 91, 364, 1001, 0, 0]);
    assert_eq!(patterns, [1, 14, 91, 364, 1001, 2002, 3003]);
    assert_eq!(code.count_recoverable(15).unwrap().patterns, 0);
    let large = Code::parse("rs-200+56").unwrap().count_recoverable(56);
    assert!(matches!(large, Err(CodeError::TooManyPatterns { losses: 56, .. })), "{large:?}");
}

#[test]
fn losing_a_block_twice_is_losing_it_once() {
    let code = Code::parse("rs-2+1").unwrap();
    assert!(code.recoverable(&[1, 1]) && code.recoverable(&[]));
    assert!(!code.recoverable(&[0, 1]) && !code.recoverable(&[3]));
}
