//! Encoding and decoding by XOR codes beside the bound that their sums set: `cargo bench -p codes [-- --rounds N]`.
//!
//! A schedule reads so many regions, each once for each sum that it is in; the bound is that many bytes at the rate of one bare sum
//! of 16 regions in the first-level cache. Regions are symbols of 4 KiB, whose stripes lie in the second-level cache or near it, and of a
//! chunk, which come from the third or from memory. Rounds of all cases are interleaved; medians are shown.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot run should stop; its output is its purpose"
)]

use codes::{Code, Equation};
use gf::{CHUNK_BYTES, Field, Matrix, Product};
use std::hint::black_box;
use std::time::Instant;

const CODES: [&str; 8] = [
    "rdp-13",
    "evenodd-13",
    "star-13",
    "xcode-13",
    "crs-12+4-w6",
    "crs-good-12+4-w6",
    "liber8tion-8+2",
    "liberation-11+2-w11",
];
const ROUNDS: usize = 25;
/// Bytes that a round reads at least.
const ROUND_BYTES: usize = 64 << 20;
/// Between regions, lest equal offsets alias.
const SKEW_BYTES: usize = 192;

struct Case {
    name: String,
    product: Product,
    /// Ones of the matrix: what would be read without a schedule.
    ones: usize,
    bytes: usize,
    memory: Vec<u8>,
    /// Bytes of regions read per second, of each round.
    rates: Vec<f64>,
}

impl Case {
    fn new(name: String, matrix: &Matrix, bytes: usize) -> Case {
        let product = Product::new(matrix).unwrap();
        let regions = product.inputs() + product.outputs();
        let ones = (0..matrix.rows()).flat_map(|row| matrix.row(row)).filter(|&&bit| bit == 1).count();
        Case {
            name,
            product,
            ones,
            bytes,
            memory: vec![7; regions * (bytes + SKEW_BYTES)],
            rates: Vec::new(),
        }
    }

    fn round(&mut self) {
        let loads = self.product.sum_loads().unwrap();
        let times = (ROUND_BYTES / (loads * self.bytes)).max(1);
        let stride = self.bytes + SKEW_BYTES;
        let (inputs, outputs) = self.memory.split_at_mut(self.product.inputs() * stride);
        let inputs: Vec<&[u8]> = inputs.chunks(stride).map(|region| &region[..self.bytes]).collect();
        let mut outputs: Vec<&mut [u8]> =
            outputs.chunks_mut(stride).map(|region| &mut region[..self.bytes]).collect();
        self.product.apply(&inputs, &mut outputs);
        let start = Instant::now();
        for _ in 0..times {
            self.product.apply(black_box(&inputs), black_box(&mut outputs));
        }
        self.rates.push((times * loads * self.bytes) as f64 / start.elapsed().as_secs_f64());
    }

    fn median(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rounds = arguments.iter().position(|argument| argument == "--rounds");
    let rounds = rounds.map_or(ROUNDS, |at| arguments[at + 1].parse().unwrap());
    let ones = Matrix::from_rows(Field::Gf256, &[[1; 16]]).unwrap();
    let mut cases = vec![Case::new("bare sum of 16 regions".to_owned(), &ones, 1024)];
    let mut definitions = vec![0];
    for name in CODES {
        let code = Code::parse(name).unwrap();
        let first = code.virtuals();
        let lost: Vec<usize> = (first..first + code.tolerance()).collect();
        let others: Vec<usize> = (first + code.tolerance()..code.n()).collect();
        let terms = code.parity_sets().unwrap().sets().iter().map(|set| set.len() - 1).sum();
        let encode: Equation = code.encode_equation().unwrap();
        let decode = code.decode(&lost, &others).unwrap();
        for (what, equation) in [("encode", &encode), ("decode", &decode)] {
            for bytes in [4096, CHUNK_BYTES] {
                cases.push(Case::new(format!("{name} {what} {bytes}"), &equation.matrix, bytes));
                definitions.push(terms);
            }
        }
    }
    for _ in 0..rounds {
        cases.iter_mut().for_each(Case::round);
    }
    let bound = cases[0].median();
    println!("{:<40} {:>8} {:>8} {:>10} {:>10} {:>8}", "", "loads", "ones", "sets'", "GB/s", "bound");
    for (case, definition) in cases.iter().zip(definitions) {
        let (loads, ones) = (case.product.sum_loads().unwrap(), case.ones);
        let rate = case.median();
        println!(
            "{:<40} {loads:>8} {ones:>8} {definition:>10} {:>10.1} {:>8.2}",
            case.name,
            rate / 1e9,
            rate / bound
        );
    }
}
