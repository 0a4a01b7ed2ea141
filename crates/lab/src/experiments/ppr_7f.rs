//! PPR Figure 7(f): computing on the critical path of a repair, against decoding in one place.
//!
//! The product's own flows, stage by stage, computed by its own kernels on one thread over blocks in memory; nothing is
//! sent. What a stage computes must wait for what it receives, so the critical path is the longest sum of stages.

use super::ppr::{CODES, Case, cases, limit, place};
use super::stand::{CONVENTIONAL, PPR};
use super::{Bench, Experiment};
use crate::error::{Result, bad};
use crate::report::{Comparison, Form, Label, Measure, Ratio, Results, Setup, Summary, Unit, sample};
use codes::Code;
use flow::{Geometry, Helper, Input, Lane, Member, Output, Proved, RepairRequest, Scheme, Sink, Site, Stage};
use gf::{CHUNK_BYTES, Matrix, Product};
use std::time::Instant;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ppr-7f",
    title: "Computing on the critical path: PPR against serial decoding",
    paper: "PPR, Figure 7(f); the critical path of PPR needs fewer multiplications and additions than decoding in one place \
            (Jerasure); the gain is the same for all chunk sizes and grows with k. Computing is not what limits a repair.",
    must_show: "less than serial decoding at every code and chunk size; the saving grows from (6,3) to (12,4).",
    run,
    compare,
};

/// Seconds of computing on the critical path.
const COMPUTING: &str = "computing_s";

/// One block multiplied and added to another.
const ONE: &str = "one multiplication";

const SIZES: &[u64] = &[8 << 20, 64 << 20];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let cases = cases(&CODES, bench.sized(SIZES, &[1 << 20, 4 << 20]));
    let y = Measure::new(COMPUTING, "computing on the critical path", Unit::Milliseconds);
    let setup = Setup::here("one thread", bench.rounds(15, 3));
    let mut results = bench.record(&EXPERIMENT, setup, Case::axis(&cases), y);
    results.log_y = true;
    results.ratios = Ratio::columns(&[CONVENTIONAL], &[]);
    results.notes.push(format!(
        "A data block is lost. Blocks are computed a chunk of {} KiB at a time, from memory, without fingerprints. The bound is \
         the number of blocks that are multiplied or added one after another, times {ONE}, timed in the same rounds.",
        CHUNK_BYTES >> 10
    ));
    let labels = [Label::subject(PPR), Label::rival(CONVENTIONAL)];
    for (x, case) in (0..).map(f64::from).zip(&cases) {
        (bench.say)(&case.text());
        let flows = [flow(Scheme::Ppr, case)?, flow(Scheme::Conventional, case)?];
        let mut blocks = Blocks::new(case);
        let one = Matrix::from_rows(gf::Field::Gf256, &[[1, 7]]).map_err(bad)?;
        let mut ones = Vec::new();
        for _ in 0..results.setup.runs {
            ones.push(blocks.time(&one)?);
            for (label, flow) in labels.iter().zip(&flows) {
                let seconds = critical(&flow.lanes[0], |stage| blocks.time(&stage.matrix))?;
                results.add(*label, x, sample([(COMPUTING, seconds)]));
            }
        }
        let one = Summary::of(ones).map_or(0.0, |summary| summary.median);
        for (label, flow) in labels.iter().zip(&flows) {
            let added = critical(&flow.lanes[0], |stage| Ok(additions(&stage.matrix)))?;
            results.bound(label.name, x, added * one);
        }
    }
    Ok(results)
}

/// The flow that repairs the first block of a stripe.
fn flow(scheme: Scheme, case: &Case) -> Result<Proved> {
    let code = Code::parse(case.code.name).map_err(bad)?;
    let block_bytes = case.block_bytes;
    let helper =
        |m: u16| Helper { member: Member(m), site: Site(u32::from(m)), stored_bytes: block_bytes, cost: 1 };
    let helpers: Vec<Helper> = (1..code.n() as u16).map(helper).collect();
    let request = RepairRequest {
        code: &code,
        geometry: Geometry { block_bytes, alpha: 1, slice_bytes: CHUNK_BYTES as u32 },
        wanted: RepairRequest::whole_blocks(&code, &[Member(0)]),
        helpers: &helpers,
        absent: &[],
        empty: &[],
        requestor: Site(0),
        sink: Sink::Write,
    };
    flow::build(scheme, &request).map_err(bad)
}

/// The largest sum of what stages take along a path of edges.
fn critical(lane: &Lane, mut takes: impl FnMut(&Stage) -> Result<f64>) -> Result<f64> {
    // Of each edge, when what it carries is computed. Stages stand in the order of their edges.
    let mut done = vec![0.0_f64; lane.edges.len()];
    let mut last = 0.0_f64;
    for stage in &lane.stages {
        let received = stage.inputs.iter().map(|input| match input {
            Input::Edge(edge) => done[usize::from(edge.0)],
            Input::Local { .. } | Input::Source { .. } => 0.0,
        });
        let end = received.fold(0.0, f64::max) + takes(stage)?;
        last = last.max(end);
        for output in &stage.outputs {
            if let Output::Edge(edge) = output {
                done[usize::from(edge.0)] = end;
            }
        }
    }
    Ok(last)
}

/// Inputs that a stage of one row multiplies or adds, the first included unless it stays as it is: one is half of
/// [`ONE`], which reads two.
fn additions(matrix: &Matrix) -> f64 {
    let used = matrix.row(0).iter().filter(|&&coefficient| coefficient != 0).count();
    if is_copy(matrix) { 0.0 } else { used as f64 / 2.0 }
}

/// Whether nothing is computed: every row is one input as it stands.
fn is_copy(matrix: &Matrix) -> bool {
    (0..matrix.rows()).all(|row| {
        let mut used = matrix.row(row).iter().filter(|&&coefficient| coefficient != 0);
        used.next() == Some(&1) && used.next().is_none()
    })
}

/// Blocks in memory, as many as a repair reads, and one for the result.
struct Blocks {
    read: Vec<Vec<u8>>,
    made: Vec<u8>,
}

impl Blocks {
    fn new(case: &Case) -> Blocks {
        let bytes = case.block_bytes as usize;
        let read =
            (0..case.code.k).map(|i| (0..bytes).map(|at| (at * 31 + i * 7 + at / 251) as u8).collect());
        Blocks { read: read.collect(), made: vec![0; bytes] }
    }

    /// Seconds in which a matrix of one row is applied to whole blocks, a chunk at a time; 0 where it is a copy.
    fn time(&mut self, matrix: &Matrix) -> Result<f64> {
        if is_copy(matrix) {
            return Ok(0.0);
        }
        let product = Product::new(matrix).map_err(bad)?;
        let started = Instant::now();
        for (at, made) in self.made.chunks_mut(CHUNK_BYTES).enumerate() {
            let from = at * CHUNK_BYTES;
            let read: Vec<&[u8]> =
                self.read[..matrix.cols()].iter().map(|block| &block[from..from + made.len()]).collect();
            product.apply(&read, &mut [made]);
        }
        Ok(started.elapsed().as_secs_f64())
    }
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    let mut saving = |code: usize, largest: bool| {
        let x = place(results, &CODES[code], largest)?;
        let ours = results.ratio(PPR, CONVENTIONAL, x);
        let what = format!("computing of ppr at {} against serial decoding", results.x.text(x));
        comparisons.push(Comparison::saving(what, ours).at_most(1.0).why(format!(
            "ppr is at {}, serial decoding at {} the time of as many separate additions; timeslots are {:.2} ×",
            Form::Times.text(results.of_bound(PPR, x)?),
            Form::Times.text(results.of_bound(CONVENTIONAL, x)?),
            limit(CODES[code].k)
        )));
        ours
    };
    for code in 0..CODES.len() {
        saving(code, false);
    }
    let ends: Vec<Option<f64>> = (0..CODES.len()).map(|code| saving(code, true)).collect();
    let grows = ends.first().copied().flatten().zip(ends.last().copied().flatten());
    let grows =
        Comparison::times("what is left at (12,4), against (6,3)", grows.map(|(small, large)| large / small));
    comparisons.push(grows.at_most(1.0));
    comparisons
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On the way to the root each timeslot adds a sum to one that waits, and a stage its own block to both.
    #[test]
    fn a_tree_adds_few_for_each_timeslot_and_a_star_all() {
        for code in CODES {
            let case = Case { code, block_bytes: 1 << 20 };
            let added = |scheme| {
                let flow = flow(scheme, &case).unwrap();
                critical(&flow.lanes[0], |stage| Ok(additions(&stage.matrix))).unwrap() * 2.0
            };
            assert!((added(Scheme::Conventional) - code.k as f64).abs() < 1e-9, "{}", code.paper);
            let rounds = f64::from(usize::BITS - code.k.leading_zeros());
            let (least, most) = (rounds, 3.0 * rounds);
            assert!((least..=most).contains(&added(Scheme::Ppr)), "{}: {}", code.paper, added(Scheme::Ppr));
            assert!((added(Scheme::Pipeline) - (2 * code.k - 1) as f64).abs() < 1e-9, "{}", code.paper);
        }
    }

    #[test]
    fn what_is_timed_is_computed() {
        let case = Case { code: CODES[0], block_bytes: 3 * CHUNK_BYTES as u64 };
        let mut blocks = Blocks::new(&case);
        let matrix = Matrix::from_rows(gf::Field::Gf256, &[[1, 1]]).unwrap();
        assert!(blocks.time(&matrix).unwrap() > 0.0);
        let sum: Vec<u8> = blocks.read[0].iter().zip(&blocks.read[1]).map(|(a, b)| a ^ b).collect();
        assert!(blocks.made == sum);
        let copy = Matrix::identity(gf::Field::Gf256, 1);
        assert!(blocks.time(&copy).unwrap() == 0.0 && is_copy(&copy));
    }
}
