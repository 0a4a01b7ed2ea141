//! RapidRAID table II: what encoding costs the processor.

use super::on_paper::record;
use super::whole_node::stop_watch;
use super::{Bench, Experiment};
use crate::error::{Result, bad};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Unit, sample};
use codes::Code;
use codes::rapidraid::Chain;
use gf::{Field, Kernels, Level, Matrix, Product};

pub const EXPERIMENT: Experiment = Experiment {
    id: "rr-t2",
    title: "Processor time of encoding 11 blocks of 64 MB as (16,11)",
    paper: "RapidRAID, table II: 704 MB in one process, nothing sent or stored. Cauchy RS, RapidRAID over GF(2^8), over GF(2^16): 17.81, 5.06, 27.33 s \
            on an Atom, 5.20, 3.50, 4.31 s on a Xeon, 4.13, 1.47, 1.95 s on a Core2.",
    must_show: "all three by the kernels that the daemons use, beside a copy of the same bytes; the classical code is plain RS until the one over \
                bit matrices exists.",
    run,
    compare,
};

const K: usize = 11;
const M: usize = 5;

const CLASSICAL: &str = "rs-11+5";
const SMALL: &str = "rapidraid-11+5";
const LARGE: &str = "rapidraid16-11+5";
const COPY: &str = "copy of blocks in, blocks out";

const SECONDS: &str = "processor_s";

const BLOCK_BYTES: usize = 64_000_000;

/// Levels of kernels, on any processor.
const MOST_LEVELS: u32 = 16;

/// What a stage works on at once: it stays in the second-level cache.
const SLICE_BYTES: usize = 32 * 1024;

/// A pipeline of products in one process, or one product. Regions are symbols.
struct Encoding {
    /// Symbols of a block.
    alpha: usize,
    stages: Vec<Stage>,
}

struct Stage {
    product: Product,
    /// Data blocks that it reads, after what came from the stage before.
    blocks: Vec<usize>,
    /// Whether something came, and something goes on.
    is_fed: bool,
    feeds: bool,
    /// Blocks that it makes.
    makes: usize,
}

impl Encoding {
    fn classical(kernels: &'static Kernels) -> Result<Encoding> {
        let equation = Code::parse(CLASSICAL).and_then(|code| code.encode_equation()).map_err(bad)?;
        let product = Product::with_kernels(&equation.matrix, kernels).map_err(bad)?;
        let blocks = (0..K).collect();
        Ok(Encoding {
            alpha: 1,
            stages: vec![Stage { product, blocks, is_fed: false, feeds: false, makes: M }],
        })
    }

    fn pipelined(field: Field, kernels: &'static Kernels) -> Result<Encoding> {
        let chain = Chain::of(field, K, M);
        let alpha = if field == Field::Gf65536 { 2 } else { 1 };
        let stage = |node: usize| {
            let blocks: Vec<usize> = Chain::blocks_of(K, M, node).collect();
            let (is_fed, feeds) = (node > 0, node + 1 < K + M);
            let whole: Matrix = chain.stage(node);
            let columns: Vec<usize> = (usize::from(!is_fed)..=blocks.len()).collect();
            let rows: Vec<usize> = (usize::from(!feeds)..2).collect();
            let matrix = whole.select_cols(&columns).and_then(|part| part.select_rows(&rows)).map_err(bad)?;
            let product = Product::with_kernels(&matrix.over_gf256(), kernels).map_err(bad)?;
            Ok(Stage { product, blocks, is_fed, feeds, makes: 1 })
        };
        Ok(Encoding { alpha, stages: (0..K + M).map(stage).collect::<Result<_>>()? })
    }

    /// Makes `out`, block after block, of `data`.
    fn run(&self, data: &[Vec<u8>], out: &mut [Vec<u8>]) {
        let symbol = data[0].len() / self.alpha;
        let mut passing = vec![vec![0; SLICE_BYTES]; self.alpha];
        let mut next = passing.clone();
        for from in (0..symbol).step_by(SLICE_BYTES) {
            let slice = from..symbol.min(from + SLICE_BYTES);
            let bytes = slice.len();
            let part = |index: usize| index * symbol + slice.start..index * symbol + slice.end;
            let mut made = out.iter_mut();
            for stage in &self.stages {
                let came = passing.iter().filter(|_| stage.is_fed).map(|symbol| &symbol[..bytes]);
                let own = stage
                    .blocks
                    .iter()
                    .flat_map(|&block| (0..self.alpha).map(move |index| &data[block][part(index)]));
                let inputs: Vec<&[u8]> = came.chain(own).collect();
                let mut outputs: Vec<&mut [u8]> = Vec::with_capacity(stage.product.outputs());
                outputs.extend(next.iter_mut().filter(|_| stage.feeds).map(|symbol| &mut symbol[..bytes]));
                for block in made.by_ref().take(stage.makes) {
                    let mut rest = block.as_mut_slice();
                    let mut at = 0;
                    for index in 0..self.alpha {
                        let (_, after) = rest.split_at_mut(part(index).start - at);
                        let (symbol, after) = after.split_at_mut(bytes);
                        outputs.push(symbol);
                        (rest, at) = (after, part(index).end);
                    }
                }
                stage.product.apply(&inputs, &mut outputs);
                std::mem::swap(&mut passing, &mut next);
            }
        }
    }
}

fn run(bench: &Bench<'_>) -> Result<Results> {
    let bytes = bench.sized(BLOCK_BYTES, BLOCK_BYTES / 64);
    let rounds = bench.rounds(5, 2);
    let axis = Axis::named("kernels", levels().map(|(_, kernels)| kernels.level()));
    let y = Measure::new(SECONDS, "processor time", Unit::Seconds);
    let mut results = record(bench, &EXPERIMENT, rounds, axis, y);
    results.ratios = Ratio::columns(&[CLASSICAL], &[COPY]);
    results.notes.push(format!(
        "{K} blocks of {bytes} bytes in memory, slices of {SLICE_BYTES}; one thread, so that time is processor time. RapidRAID writes {} blocks, \
         the classical code {M}. Each result is compared with the generator's. Each level of kernels stands for a processor that has no better one.",
        K + M
    ));
    let data: Vec<Vec<u8>> = (0..K).map(|block| noise(block as u64, bytes)).collect();
    let mut out = vec![vec![0; bytes]; K + M];
    for round in 1..=rounds {
        for (x, kernels) in levels() {
            (bench.say)(&format!("round {round} of {rounds}: {}", kernels.level()));
            let contenders = [
                (Label::subject(SMALL), Encoding::pipelined(Field::Gf256, kernels)?),
                (Label::subject(LARGE), Encoding::pipelined(Field::Gf65536, kernels)?),
                (Label::rival(CLASSICAL), Encoding::classical(kernels)?),
            ];
            copy(&data, &mut out);
            for (label, encoding) in contenders {
                let watch = stop_watch();
                encoding.run(&data, &mut out);
                results.add(label, x, sample([(SECONDS, watch().as_secs_f64())]));
                check(label.name, encoding.alpha, &data, &out)?;
            }
            let watch = stop_watch();
            copy(&data, &mut out);
            results.add(Label::bare(COPY), x, sample([(SECONDS, watch().as_secs_f64())]));
        }
    }
    Ok(results)
}

/// Every level that this processor has, the slowest first.
fn levels() -> impl Iterator<Item = (f64, &'static Kernels)> {
    (0..).map(f64::from).zip(Level::available().into_iter().filter_map(Kernels::at))
}

fn copy(data: &[Vec<u8>], out: &mut [Vec<u8>]) {
    for (block, made) in out.iter_mut().enumerate() {
        made.copy_from_slice(&data[block % K]);
    }
}

/// Some bytes of all blocks, by the generator of the code.
fn check(name: &str, alpha: usize, data: &[Vec<u8>], out: &[Vec<u8>]) -> Result<()> {
    let code = Code::parse(name).map_err(bad)?;
    let symbol = data[0].len() / alpha;
    for at in (0..symbol).step_by((symbol / 97).max(1)) {
        for member in K..code.n() {
            for index in 0..alpha {
                let row = code.symbol_row(member as u16, index as u16);
                let sum = row.iter().enumerate().fold(0, |sum, (column, &coefficient)| {
                    let value = data[column / alpha][column % alpha * symbol + at];
                    sum ^ code.field().mul(coefficient, value.into())
                });
                if sum != u16::from(out[member - K][index * symbol + at]) {
                    return Err(bad(format!(
                        "{name}: byte {at} of block {member} is not what its generator makes"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Bytes without a pattern.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    let measured = (0..MOST_LEVELS).map(f64::from).filter(|x| results.median(SMALL, *x).is_some());
    for x in measured {
        let level = results.x.text(x);
        let over = |name: &str, against: &str| results.ratio(name, against, x);
        let why = match (over(SMALL, COPY), over(CLASSICAL, COPY)) {
            (Some(ours), Some(classical)) => format!(
                "{ours:.2} and {classical:.2} times a copy of the bytes: RapidRAID multiplies {} times for each byte of a block, the classical code {}, and \
                 writes {} blocks, it {M}",
                2 * 2 * K - 1,
                K * M,
                K + M
            ),
            _ => String::new(),
        };
        let small = Comparison::times(
            format!("{level}: RapidRAID over GF(2^8) against the classical code"),
            over(SMALL, CLASSICAL),
        );
        let large =
            Comparison::times(format!("{level}: RapidRAID over GF(2^16) against it"), over(LARGE, CLASSICAL));
        comparisons.extend([small.paper(3.50 / 5.20).why(why), large.paper(4.31 / 5.20)]);
    }
    comparisons
}
