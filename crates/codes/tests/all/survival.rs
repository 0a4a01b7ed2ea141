//! Every loss that a code promises to survive gives back the bytes; every other is refused.

#![allow(clippy::unwrap_used, clippy::panic)] // A test fails by panicking.

use codes::{Code, CodeError, Equation, Reach, SymbolId, ToleranceCount};
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

/// Any code of groups survives one loss more than it has global parities, and a pattern that no code of them could survive is
/// refused; so is nothing else, where the rows are good enough.
#[test]
fn local_groups_survive_all_that_groups_can() {
    for (name, k, l, g) in
        [("lrc-4+2+1", 4, 2, 1), ("lrc-4+2+2", 4, 2, 2), ("lrc-7+3+2", 7, 3, 2), ("lrc-6+2+3", 6, 2, 3)]
    {
        let stripe = Stripe::new(Code::parse(name).unwrap());
        assert_eq!(
            (stripe.code.k(), stripe.code.n(), stripe.code.tolerance()),
            (k, k + l + g, g + 1),
            "{name}"
        );
        // Groups as the family lays them out: the first ones are larger by one where l does not divide k.
        let group_of = |block: usize| {
            let starts = (0..=l).map(|i| i * (k / l) + i.min(k % l)).collect::<Vec<_>>();
            if block < k {
                (0..l).find(|&i| block < starts[i + 1])
            } else {
                (block < k + l).then(|| block - k)
            }
        };
        for set in 1u32..1 << (k + l + g) {
            let lost: Vec<usize> = (0..k + l + g).filter(|block| set >> block & 1 == 1).collect();
            if lost.len() > l + g + 1 {
                continue;
            }
            let of = |group| lost.iter().filter(|&&block| group_of(block) == group).count();
            let unknown = of(None) + (0..l).map(|group| of(Some(group)).saturating_sub(1)).sum::<usize>();
            assert_eq!(stripe.check_loss(&lost), unknown <= g, "{name} {lost:?}");
        }
    }
}

#[test]
fn the_codes_of_the_papers_survive_any_three_losses() {
    for name in ["lrc-12+2+2", "lrc-10+2+2"] {
        let stripe = Stripe::new(Code::parse(name).unwrap());
        let n = stripe.code.n();
        let all = n + n * (n - 1) / 2 + n * (n - 1) * (n - 2) / 6;
        assert_eq!((stripe.code.tolerance(), stripe.check_all_losses(3)), (3, all), "{name}");
        // Counted apart from this crate, with another program.
        let expected = if n == 16 { 1568 } else { 861 };
        let reach = Reach::Tried(ToleranceCount { patterns: expected, recoverable: expected });
        assert_eq!(stripe.code.reach(), Some(reach), "{name}");
    }
}

/// Losses beyond what trying all allows, drawn: whatever `recoverable` promises comes back.
#[test]
fn a_wide_local_code_keeps_its_promises() {
    let stripe = Stripe::new(Code::parse("lrc-40+5+2").unwrap());
    let mut state = 7u64;
    for _ in 0..300 {
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % 47
        };
        let mut lost = vec![draw(), draw(), draw(), draw(), draw()];
        lost.sort_unstable();
        lost.dedup();
        let promised = stripe.code.recoverable(&lost);
        assert_eq!(stripe.check_loss(&lost), promised, "{lost:?}");
        assert!(promised || lost.len() > 3);
    }
    assert!(matches!(stripe.code.reach(), Some(Reach::Untried { .. })));
}

/// GF(2^8) is too small for three global parities over twelve blocks with these rows, and the code says so.
#[test]
fn what_the_rows_do_not_reach_is_counted() {
    let reach = Code::parse("lrc-12+2+3").unwrap().reach();
    assert_eq!(reach, Some(Reach::Tried(ToleranceCount { patterns: 5684, recoverable: 5670 })));
    let shown = reach.unwrap().to_string();
    assert_eq!(shown, "5670 of 5684 largest patterns that some coefficients recover; 14 are fatal here");
    assert_eq!(Code::parse("rs-10+4").unwrap().reach(), None);
}

#[test]
fn rotated_codes_survive_every_loss_they_should() {
    for name in ["rotated-2+1-r2", "rotated-4+2-r4", "rotated-6+3-r4", "rotated-5+3-r3"] {
        let code = Code::parse(name).unwrap();
        assert!(code.is_mds() && code.is_systematic(), "{name}");
        let m = code.tolerance();
        Stripe::new(code).check_all_losses(m + 1);
    }
    // Every pattern is tried by rank when the code is made; decoded are all of up to two, and every 17th of the rest.
    let stripe = Stripe::new(Code::parse("rotated-12+4-r4").unwrap());
    assert_eq!((stripe.code.tolerance(), stripe.check_all_losses(2)), (4, 16 + 120));
    for set in (1u32..1 << 16).filter(|set| (3..=5).contains(&set.count_ones())).step_by(17) {
        let lost: Vec<usize> = (0..16).filter(|block| set >> block & 1 == 1).collect();
        assert_eq!(stripe.check_loss(&lost), lost.len() <= 4, "{lost:?}");
    }
}

#[test]
fn codes_over_gf65536_survive_every_loss_they_should() {
    for (k, m) in [(1, 1), (2, 1), (2, 2), (4, 3), (5, 4)] {
        let code = Code::parse(&format!("rs16-{k}+{m}")).unwrap();
        assert_eq!((code.alpha(), code.tolerance(), code.is_systematic(), code.is_mds()), (2, m, true, true));
        Stripe::new(code).check_all_losses(m + 1);
    }
    // More blocks than GF(2^8) has elements: losses of all kinds of blocks.
    let stripe = Stripe::new(Code::parse("rs16-290+10").unwrap());
    for lost in
        [vec![0], vec![299], (0..10).collect(), (290..300).collect(), (0..10).map(|i| 29 * i + 20).collect()]
    {
        assert!(stripe.check_loss(&lost), "{lost:?}");
    }
    assert!(!stripe.check_loss(&(0..11).collect::<Vec<_>>()));
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
    for name in [
        "rs-10+4",
        "rs-cauchy-6+3",
        "lrc-7+2+2",
        "rotated-6+3-r4",
        "rs16-4+2",
        "rep-3",
        "rep-1",
        "random-a2-4+2-s1",
    ] {
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
