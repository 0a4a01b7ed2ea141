//! XOR supplement, figure 5: what the time of a recovery is made of, over the length of symbols.

use super::on_paper::timed;
use super::stand::{
    CONVENTIONAL, Contender, DURABLE, Ground, LEAST, PROCESSOR_SHARE, SLICE_BYTES, Stand, StandSpec, VERIFIED,
};
use super::{Bench, Experiment};
use crate::error::{Result, bad};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Sample, Unit};
use codes::Code;
use flow::{Geometry, Helper, Member, RepairRequest, Scheme, Sink, Site};
use gf::{CHUNK_BYTES, Matrix, Product};

pub const EXPERIMENT: Experiment = Experiment {
    id: "xor-5",
    title: "What the recovery of a block of XOR codes takes, over the length of symbols",
    paper: "XOR supplement, figure 5; RDP(7), STAR(7), CRS(7,2), chunks of 512 KB to 8 MB. Time per MB falls as chunks grow. In conventional \
            recovery of STAR reading takes more than 60 % of the time, reconstructing less than 10 %, the rest is writing.",
    must_show: "of conventional recovery of STAR the arithmetic is less than 10 %, reading more than 60 %, at every length; fewest symbols take \
                less time than the first parity's.",
    run,
    compare,
};

/// Conventional recovery.
const FIRST_PARITY: &str = "first parity";
/// Replace recovery, or fewer symbols where the search finds such.
const FEWEST: &str = "fewest symbols";

/// Series, and the scheme.
const CONTENDERS: [(Label, Scheme, &str); 2] = [
    (Label::subject(FEWEST), Scheme::Conventional, CONVENTIONAL),
    (Label::rival(FIRST_PARITY), Scheme::FirstParity, "first-parity"),
];

/// Seconds for each MiB that is rebuilt.
const PER_MIB: &str = "per_mib_s";
/// The least of them in which the links carry what was moved.
const LEAST_PER_MIB: &str = "least_per_mib_s";
/// Parts of the time until the block is durable: the arithmetic of the requestor, alone, on one thread over memory; …
const COMPUTING: &str = "computing_share";
/// … from the last byte that was verified on; …
const WRITING: &str = "writing_share";
/// … the rest.
const READING: &str = "reading_share";

const MIB: f64 = 1_048_576.0;

const CODES: [(&str, &str); 3] =
    [("RDP(7)", "rdp-7"), ("STAR(7)", "star-7"), ("CRS(7,2)", "crs-good-7+2-w4")];
const STAR: usize = 1;

const SYMBOLS: &[u64] = &[512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20];

/// A code, with symbols of one length.
struct Case {
    code: Code,
    symbol_bytes: u64,
}

impl Case {
    fn block_bytes(&self) -> u64 {
        self.symbol_bytes * self.code.alpha() as u64
    }
}

fn run(bench: &Bench<'_>) -> Result<Results> {
    let sizes = bench.sized(SYMBOLS, &[64 << 10]);
    let mut cases = Vec::new();
    for (_, code) in CODES {
        let code = Code::parse(code).map_err(bad)?;
        cases.extend(sizes.iter().map(|&symbol_bytes| Case { code: code.clone(), symbol_bytes }));
    }
    // Blocks are files: reading and making durable are what this is about.
    let folder = bench.folder.clone().unwrap_or_else(std::env::temp_dir);
    let program = bench.program.clone();
    let bench = &Bench { folder: Some(folder), program, ..*bench };
    let hosts = cases.iter().map(|case| case.code.n()).max().unwrap_or(0) + 1;
    let stripes = cases.iter().zip(CODES.iter().flat_map(|code| sizes.iter().map(move |_| code.1)));
    let stripes = stripes.map(|(case, name)| (name, case.block_bytes())).collect();
    let spec = StandSpec { hosts, rate: bench.rate_or(1000.0), stripes, ground: Ground::default() };
    Stand::with(bench, &spec, |stand| {
        let mut results = record(stand, sizes);
        stand.warm_up()?;
        for round in 1..=results.setup.runs {
            stand.say_round(round, &results, "");
            for (stripe, case) in cases.iter().enumerate() {
                for (label, scheme, name) in CONTENDERS {
                    stand.cluster.forget_files()?;
                    let sample = stand.measure(&Contender::repair(stripe, name, SLICE_BYTES))?;
                    results.add(
                        label,
                        stripe as f64,
                        parts(case, sample, seconds(&arithmetic(case, scheme)?, case.symbol_bytes as usize)?),
                    );
                }
            }
        }
        results.bounds_from(LEAST_PER_MIB);
        Ok(results)
    })
}

fn record(stand: &Stand<'_>, sizes: &[u64]) -> Results {
    let names = CODES
        .iter()
        .flat_map(|(name, _)| sizes.iter().map(move |size| format!("{name}, {} KiB", size >> 10)));
    let axis = Axis::named("code, symbol", names);
    let mut results = stand.results(&EXPERIMENT, axis, stand.bench.rounds(3, 1));
    results.y = Measure::new(PER_MIB, "time for each MiB", Unit::Milliseconds);
    results.ratios = Ratio::columns(&[FIRST_PARITY], &[]);
    results.beside = vec![
        Measure::new(DURABLE, "durable", Unit::Seconds),
        Measure::new(READING, "reading", Unit::Percent),
        Measure::new(COMPUTING, "computing", Unit::Percent),
        Measure::new(WRITING, "writing", Unit::Percent),
        Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent),
    ];
    results.notes.push(
        "Before each repair the operating system is told to forget all files of all nodes, which share one disk. A block is \
         received, computed and written a slice at a time, all at once: writing is what is left after the last byte was \
         verified, computing the arithmetic of the requestor alone, over the same symbols in memory on one thread, reading the \
         rest. A bound is the time in which the links carry what was moved, however fast the disk."
            .to_owned(),
    );
    results
}

/// What a repair took, taken apart.
fn parts(case: &Case, mut sample: Sample, computing_s: f64) -> Sample {
    let of = |sample: &Sample, metric: &str| sample.get(metric).copied().unwrap_or_default();
    let (durable, verified, least) = (of(&sample, DURABLE), of(&sample, VERIFIED), of(&sample, LEAST));
    let mib = case.block_bytes() as f64 / MIB;
    let (computing, writing) = (computing_s / durable, (durable - verified) / durable);
    for (metric, value) in [
        (PER_MIB, durable / mib),
        (LEAST_PER_MIB, least / mib),
        (COMPUTING, computing),
        (WRITING, writing),
        (READING, 1.0 - computing - writing),
    ] {
        sample.insert(metric.to_owned(), value);
    }
    sample
}

/// What the requestor makes the first block by, of the symbols that are read.
fn arithmetic(case: &Case, scheme: Scheme) -> Result<Matrix> {
    let (code, block_bytes) = (&case.code, case.block_bytes());
    let helper =
        |m: u16| Helper { member: Member(m), site: Site(u32::from(m)), stored_bytes: block_bytes, cost: 1 };
    let helpers: Vec<Helper> = (1..code.n() as u16).map(helper).collect();
    let request = RepairRequest {
        code,
        geometry: Geometry { block_bytes, alpha: code.alpha() as u16, slice_bytes: CHUNK_BYTES as u32 },
        wanted: RepairRequest::whole_blocks(code, &[Member(0)]),
        helpers: &helpers,
        absent: &[],
        empty: &[],
        requestor: Site(0),
        sink: Sink::Write,
    };
    let flow = flow::build(scheme, &request).map_err(bad)?;
    let stage = flow.lanes.iter().flat_map(|lane| &lane.stages).find(|stage| stage.site == Site(0));
    Ok(stage.ok_or_else(|| bad("a repair without a requestor"))?.matrix.clone())
}

/// Seconds in which a matrix is applied to whole symbols, a chunk at a time.
fn seconds(matrix: &Matrix, symbol_bytes: usize) -> Result<f64> {
    let product = Product::new(matrix).map_err(bad)?;
    let symbol = |i: usize| (0..symbol_bytes).map(move |at| (at * 31 + i * 7 + at / 251) as u8).collect();
    let read: Vec<Vec<u8>> = (0..matrix.cols()).map(symbol).collect();
    let mut made = vec![vec![0; symbol_bytes]; matrix.rows()];
    let (seconds, ()) = timed(|| {
        for from in (0..symbol_bytes).step_by(CHUNK_BYTES) {
            let to = symbol_bytes.min(from + CHUNK_BYTES);
            let inputs: Vec<&[u8]> = read.iter().map(|symbol| &symbol[from..to]).collect();
            let mut outputs: Vec<&mut [u8]> = made.iter_mut().map(|symbol| &mut symbol[from..to]).collect();
            product.apply(&inputs, &mut outputs);
        }
    });
    Ok(seconds)
}

fn compare(results: &Results) -> Vec<Comparison> {
    let count = results.series(FEWEST).map_or(0, |series| series.points.len());
    let sizes = count / CODES.len();
    let mut comparisons = Vec::new();
    for x in (STAR * sizes..(STAR + 1) * sizes).map(|place| place as f64) {
        let share = |metric: &str| results.summary(FIRST_PARITY, x, metric).map(|summary| summary.median);
        let at = results.x.text(x);
        let reading = Comparison::number(format!("part of reading, {at}, first parity"), share(READING));
        comparisons.push(reading.at_least(0.6));
        let computing =
            Comparison::number(format!("part of computing, {at}, first parity"), share(COMPUTING));
        comparisons.push(computing.at_most(0.1));
    }
    for x in (0..count).map(|place| place as f64) {
        let what = format!("{}: fewest symbols against the first parity's", results.x.text(x));
        let compared = Comparison::saving(what, results.ratio(FEWEST, FIRST_PARITY, x)).at_most(1.0);
        let bound = |series: &str| results.series(series)?.at(x)?.bound;
        let links = bound(FEWEST).zip(bound(FIRST_PARITY)).map_or(0.0, |(ours, theirs)| ours / theirs);
        comparisons.push(compared.why(format!("the links need {:+.1} %", (links - 1.0) * 100.0)));
    }
    if sizes > 1 {
        for (code, (name, _)) in CODES.iter().enumerate() {
            let (small, large) = ((code * sizes) as f64, ((code + 1) * sizes - 1) as f64);
            let ratio = results.median(FEWEST, large).zip(results.median(FEWEST, small)).map(|(l, s)| l / s);
            comparisons.push(Comparison::saving(
                format!("{name}: longest symbols against shortest, for each MiB"),
                ratio,
            ));
        }
    }
    comparisons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_timed_is_the_arithmetic_of_the_requestor() {
        let case = Case { code: Code::parse("star-7").unwrap(), symbol_bytes: 2 * CHUNK_BYTES as u64 };
        let [fewest, first] = CONTENDERS.map(|(_, scheme, _)| arithmetic(&case, scheme).unwrap());
        // Conventional recovery of six symbols: all that the first parity's sets have of the other seven blocks.
        assert_eq!((first.rows(), first.cols()), (6, 42));
        assert!(fewest.rows() == 6 && fewest.cols() < first.cols());
        assert!(seconds(&first, 2 * CHUNK_BYTES).unwrap() > 0.0);
    }
}
