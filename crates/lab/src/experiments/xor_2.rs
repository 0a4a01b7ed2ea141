//! XOR supplement, figure 2: symbols that recoveries of STAR read.

use super::symbols::{self, Case, REPLACE, SEARCH, SYMBOLS, ends, values};
use super::{Bench, Experiment};
use crate::error::Result;
use crate::report::{Comparison, Label, Results, sample};
use codes::Method;

pub const EXPERIMENT: Experiment = Experiment {
    id: "xor-2",
    title: "Symbols read for a lost data block of STAR",
    paper: "XOR supplement, figure 2 and theorem 3.1: at least (2/3)p² − p; replace recovery reads less than 0.69 p² for p < 1000, \
            and is very close to the bound for p < 40.",
    must_show: "less than 0.69 p² for all primes below 100 and ten up to 997; a search at p = 997 within 60 s.",
    run,
    compare,
};

/// All below 100, then some of those that the paper has.
const PRIMES: [usize; 35] = [
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 199,
    307, 401, 499, 599, 701, 797, 887, 953, 997,
];
/// Above, the first, the middle and the last block stand for all.
const ALL_BLOCKS_BELOW: usize = 100;
const FEW: usize = 6;

const BOUND: &str = "bound, (2/3)p² − p";

fn primes(results: &Results) -> impl Iterator<Item = (usize, usize)> {
    let count = if results.quick { FEW } else { PRIMES.len() };
    PRIMES[..count].iter().copied().enumerate()
}

fn run(bench: &Bench<'_>) -> Result<Results> {
    let primes = &PRIMES[..bench.sized(PRIMES.len(), FEW)];
    let case = |&p: &usize| Case {
        code: format!("star-{p}"),
        lost: (p >= ALL_BLOCKS_BELOW).then(|| vec![0, p / 2, p - 1]),
        methods: &[Method::Conventional, Method::Replace],
    };
    let cases: Vec<Case> = primes.iter().map(case).collect();
    let mut results = symbols::run(bench, &EXPERIMENT, "code", &cases)?;
    results.notes.push(format!("From p = {ALL_BLOCKS_BELOW} on blocks 0, p/2 and p−1 stand for all."));
    for (x, &p) in (0..).map(f64::from).zip(primes) {
        let (p, bound) = (p as f64, bound(p));
        let conventional = p * (p - 1.0);
        results.add(
            Label::rival(BOUND),
            x,
            sample([(symbols::SHARE, bound / conventional), (SYMBOLS, bound)]),
        );
    }
    Ok(results)
}

fn bound(p: usize) -> f64 {
    let p = p as f64;
    2.0 / 3.0 * p * p - p
}

fn compare(results: &Results) -> Vec<Comparison> {
    let read = values(results, REPLACE, SYMBOLS, PRIMES.len());
    let of_square = primes(results).zip(&read).map(|((_, p), read)| read / (p * p) as f64);
    let over_bound = |from: usize, to: usize| {
        let within = primes(results).zip(&read).filter(move |((_, p), _)| (from..to).contains(p));
        ends(within.map(|((_, p), read)| read / bound(p))).1
    };
    vec![
        Comparison::number("symbols read over p², the most of any p", ends(of_square).1)
            .paper(0.69)
            .at_most(0.69),
        Comparison::times("over the bound, the most of p = 11 … 37", over_bound(11, 40)),
        Comparison::times("… of p = 41 … 997", over_bound(41, 1000)),
        Comparison::number(
            "longest search for a block, seconds",
            ends(values(results, REPLACE, SEARCH, PRIMES.len())).1,
        )
        .at_most(60.0),
    ]
}
