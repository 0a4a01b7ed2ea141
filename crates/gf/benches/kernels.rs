//! Throughput of the kernels beside memcpy and XOR of the same regions: `cargo bench -p gf [-- --json] [--rounds N]`.
//!
//! Figures are GB/s (10⁹ bytes) of source bytes: of all inputs for a product, of `local` for a hop. Rounds of all cases
//! are interleaved, so that a disturbance of the machine meets them alike. Regions are one chunk each, skewed by a few
//! cache lines. "In cache" works on the same regions again and again; "from memory" walks an arena several times the
//! size of the last-level cache.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a measurement that cannot run should stop")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use gf::{CHUNK_BYTES, Field, Fingerprint, Kernels, Level, Matrix, Product};

/// Distance between regions: a chunk and three cache lines, lest equal offsets alias.
const STRIDE_BYTES: usize = CHUNK_BYTES + 192;
const ARENA_BYTES: usize = 256 << 20;
/// Source bytes of a round: half a millisecond or so in cache, a fresh part of the arena from memory.
const ROUND_BYTES: usize = 32 << 20;
const DEFAULT_ROUNDS: usize = 25;
/// A coefficient like any other.
const C: u8 = 0x8e;

/// What a case does with its regions.
type Run = Box<dyn FnMut(&mut [u8])>;

/// Something to measure, on regions that lie `STRIDE_BYTES` apart.
struct Case {
    level: Option<Level>,
    name: &'static str,
    /// Regions that it touches, and how many of them are sources.
    regions: usize,
    sources: usize,
    run: Run,
    in_cache: Vec<f64>,
    from_memory: Vec<f64>,
}

impl Case {
    fn new(
        level: Option<Level>,
        name: &'static str,
        [sources, outputs]: [usize; 2],
        run: impl FnMut(&mut [u8]) + 'static,
    ) -> Self {
        let regions = sources + outputs;
        Self { level, name, regions, sources, run: Box::new(run), in_cache: vec![], from_memory: vec![] }
    }

    /// One round each; throughput in GB/s.
    fn round(&mut self, arena: &mut [u8]) {
        let calls = (ROUND_BYTES / (self.sources * CHUNK_BYTES)).max(1);
        let bytes = (calls * self.sources * CHUNK_BYTES) as f64;
        let window = self.regions * STRIDE_BYTES;
        let giga_per_second = |time: Duration| bytes / time.as_secs_f64() / 1e9;

        (self.run)(&mut arena[..window]);
        let start = Instant::now();
        (0..calls).for_each(|_| (self.run)(black_box(&mut arena[..window])));
        self.in_cache.push(giga_per_second(start.elapsed()));

        let windows = arena.len() / window;
        // Each round goes on where the last one ended.
        let first = self.from_memory.len() * calls;
        let start = Instant::now();
        for call in first..first + calls {
            (self.run)(black_box(&mut arena[call % windows * window..][..window]));
        }
        self.from_memory.push(giga_per_second(start.elapsed()));
    }
}

/// The source and the destination of a window of two regions.
fn pair(window: &mut [u8]) -> (&[u8], &mut [u8]) {
    let (source, destination) = window.split_at_mut(STRIDE_BYTES);
    (&source[..CHUNK_BYTES], &mut destination[..CHUNK_BYTES])
}

/// Over GF(2^16) each block is two regions, its halves.
fn product(
    kernels: &'static Kernels,
    field: Field,
    [inputs, outputs]: [u64; 2],
    checked: bool,
) -> impl FnMut(&mut [u8]) {
    let coefficient = |g: u64, i: u64| field.pow(field.primitive(), (i + 1) * (g + 3));
    let rows: Vec<Vec<u16>> =
        (0..outputs).map(|g| (0..inputs).map(|i| coefficient(g, i)).collect()).collect();
    let matrix = Matrix::from_rows(field, &rows).unwrap().over_gf256();
    let product = Product::with_kernels(&matrix, kernels).unwrap();
    let mut fingerprints = vec![Fingerprint::ZERO; product.inputs()];
    move |window| {
        let (inputs, outputs) = window.split_at_mut(product.inputs() * STRIDE_BYTES);
        let inputs: Vec<&[u8]> = inputs.chunks(STRIDE_BYTES).map(|region| &region[..CHUNK_BYTES]).collect();
        let mut outputs: Vec<&mut [u8]> =
            outputs.chunks_mut(STRIDE_BYTES).map(|region| &mut region[..CHUNK_BYTES]).collect();
        if checked {
            product.apply_checked(&inputs, &mut outputs, &mut fingerprints);
            black_box(&fingerprints);
        } else {
            product.apply(&inputs, &mut outputs);
        }
    }
}

/// A block's halves times a constant of GF(2^16), added to another's.
fn mul_add_65536(kernels: &'static Kernels) -> impl FnMut(&mut [u8]) {
    let constant = Matrix::from_rows(Field::Gf65536, &[[0x8e4d]]).unwrap().over_gf256();
    move |window| {
        let (sources, sums) = window.split_at_mut(2 * STRIDE_BYTES);
        for (row, sum) in sums.chunks_mut(STRIDE_BYTES).enumerate() {
            for (column, source) in sources.chunks(STRIDE_BYTES).enumerate() {
                let coefficient = constant.get(row, column) as u8;
                kernels.mul_add(coefficient, &source[..CHUNK_BYTES], &mut sum[..CHUNK_BYTES]);
            }
        }
    }
}

fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new(None, "memcpy", [1, 1], |window| {
        let (source, destination) = pair(window);
        destination.copy_from_slice(source);
    })];
    for level in Level::available().into_iter().rev() {
        let kernels = Kernels::at(level).unwrap();
        let mut case = |name, shape, run: Run| cases.push(Case::new(Some(level), name, shape, run));
        let on_pair = |run: fn(&Kernels, &[u8], &mut [u8])| {
            Box::new(move |window: &mut [u8]| {
                let (source, destination) = pair(window);
                run(kernels, source, destination);
            })
        };
        case("xor", [1, 1], on_pair(|k, local, acc| k.xor(local, acc)));
        case("mul", [1, 1], on_pair(|k, local, acc| k.mul(C, local, acc)));
        case("mul_add", [1, 1], on_pair(|k, local, acc| k.mul_add(C, local, acc)));
        case(
            "fused hop",
            [1, 1],
            on_pair(|k, local, acc| {
                black_box(k.hop(C, local, acc));
            }),
        );
        case(
            "hop, unfused",
            [1, 1],
            on_pair(|k, local, acc| {
                black_box([k.fingerprint(local), k.fingerprint(acc)]);
                k.mul_add(C, local, acc);
            }),
        );
        case(
            "fingerprint",
            [1, 0],
            Box::new(move |window| {
                black_box(kernels.fingerprint(&window[..CHUNK_BYTES]));
            }),
        );
        let of = |field, shape, checked| Box::new(product(kernels, field, shape, checked));
        case("product 10 to 1", [10, 1], of(Field::Gf256, [10, 1], false));
        case("product 10 to 4", [10, 4], of(Field::Gf256, [10, 4], false));
        case("… checked", [10, 4], of(Field::Gf256, [10, 4], true));
        case("GF(2^16) mul_add", [2, 2], Box::new(mul_add_65536(kernels)));
        case("GF(2^16) 10 to 1", [20, 2], of(Field::Gf65536, [10, 1], false));
        case("GF(2^16) 10 to 4", [20, 8], of(Field::Gf65536, [10, 4], false));
    }
    cases
}

/// Median and best.
fn summary(rounds: &[f64]) -> [f64; 2] {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    [sorted[sorted.len() / 2], sorted[sorted.len() - 1]]
}

fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or("unknown processor", |(_, name)| name).to_owned()
}

fn print_table(cases: &[Case], rounds: usize) {
    println!(
        "{}, one core; {CHUNK_BYTES}-byte regions, {rounds} rounds; GB/s of source bytes, median (best)\n",
        processor()
    );
    println!("{:<9}{:<18}{:>20}{:>20}{:>24}", "", "", "in cache", "from memory", "of xor (best)");
    for case in cases {
        let [cache, memory] = [&case.in_cache, &case.from_memory].map(|rounds| summary(rounds));
        let xor = cases.iter().find(|other| other.name == "xor" && other.level == case.level);
        let ratio = xor.map_or(String::new(), |xor| {
            let [cache_ratio, memory_ratio] =
                [cache[1] / summary(&xor.in_cache)[1], memory[1] / summary(&xor.from_memory)[1]];
            format!("{cache_ratio:.2} / {memory_ratio:.2}")
        });
        let level = case.level.map_or(String::new(), |level| level.to_string());
        let show = |[median, best]: [f64; 2]| format!("{median:.1} ({best:.1})");
        println!("{level:<9}{:<18}{:>20}{:>20}{ratio:>24}", case.name, show(cache), show(memory));
    }
}

fn print_json(cases: &[Case], rounds: usize) {
    let case = |case: &Case| {
        let level = case.level.map_or("null".to_owned(), |level| format!("\"{level}\""));
        let [cache, memory] = [&case.in_cache, &case.from_memory].map(|rounds| summary(rounds));
        format!(
            "{{\"name\":\"{}\",\"level\":{level},\"in_cache_gb_s\":{{\"median\":{:.2},\"best\":{:.2}}},\
             \"from_memory_gb_s\":{{\"median\":{:.2},\"best\":{:.2}}}}}",
            case.name, cache[0], cache[1], memory[0], memory[1]
        )
    };
    let cases: Vec<String> = cases.iter().map(case).collect();
    println!(
        "{{\"processor\":\"{}\",\"region_bytes\":{CHUNK_BYTES},\"rounds\":{rounds},\"cases\":[\n{}\n]}}",
        processor(),
        cases.join(",\n")
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rounds = arguments.iter().skip_while(|argument| *argument != "--rounds").nth(1);
    let rounds = rounds.map_or(DEFAULT_ROUNDS, |count| count.parse().unwrap());
    // Bytes that are not all alike, and every page touched.
    let mut arena: Vec<u8> = (0..ARENA_BYTES).map(|i| (i ^ (i >> 9)) as u8).collect();
    let mut cases = cases();
    for _ in 0..rounds {
        cases.iter_mut().for_each(|case| case.round(&mut arena));
    }
    if arguments.iter().any(|argument| argument == "--json") {
        print_json(&cases, rounds);
    } else {
        print_table(&cases, rounds);
    }
}
