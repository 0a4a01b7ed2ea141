//! What the experiments about parallel recovery of XOR codes share: whole nodes of three codes, recovered by the symbols of the
//! first parity and by the fewest, with so many stripes at once at so many requestors.

use super::stand::{BUSIEST, DIRECT, PROCESSOR_SHARE, Stand};
use super::whole_node::{NodeSpec, Order, RATE, TOTAL};
use super::{Bench, Experiment};
use crate::error::{Result, bad};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Unit};
use codes::Code;

/// Conventional recovery.
pub(super) const FIRST_PARITY: &str = "first parity";
/// Replace recovery, or fewer symbols where the search finds such.
pub(super) const FEWEST: &str = "fewest symbols";

/// Series and scheme: stars both.
const CONTENDERS: [(Label, &str); 2] =
    [(Label::subject(FEWEST), "conventional"), (Label::rival(FIRST_PARITY), "first-parity")];

/// Bytes of a symbol: the paper's chunks.
const SYMBOL_BYTES: u64 = 512 << 10;
const QUICK_SYMBOL_BYTES: u64 = 32 << 10;

/// One of the paper's codes.
#[derive(Clone, Copy)]
pub(super) struct XorCode {
    /// As the paper has it.
    pub name: &'static str,
    /// As the product has it.
    pub code: &'static str,
}

/// Of all degrees of fault tolerance.
pub(super) const CODES: [XorCode; 3] = [
    XorCode { name: "RDP(13)", code: "rdp-13" },
    XorCode { name: "STAR(13)", code: "star-13" },
    XorCode { name: "CRS(12,4)", code: "crs-good-12+4-w6" },
];

/// Who recovers.
#[derive(Clone, Copy)]
pub(super) struct Workers {
    /// As it stands behind a code's name.
    pub name: &'static str,
    /// Requestors: the paper's servers.
    pub servers: usize,
    /// Stripes at once, of all servers: the paper's threads.
    pub stripes: u32,
}

/// An experiment of this kind.
pub(super) struct Parallel<'a> {
    pub experiment: &'a Experiment,
    pub workers: &'a [Workers],
    pub link_mbit: f64,
    pub stripes: usize,
}

impl Parallel<'_> {
    /// Every code on a stand of its own, with as many holders as a stripe has blocks.
    pub(super) fn run(&self, bench: &Bench<'_>) -> Result<Results> {
        let codes = bench.sized(&CODES[..], &CODES[..1]);
        let (mut measured, mut first_x): (Option<Results>, f64) = (None, 0.0);
        for XorCode { code, .. } in codes {
            let parsed = Code::parse(code).map_err(bad)?;
            let symbol_bytes = bench.sized(SYMBOL_BYTES, QUICK_SYMBOL_BYTES);
            let spec = NodeSpec {
                holders: parsed.n(),
                requestors: self.workers.iter().map(|workers| workers.servers).max().unwrap_or(1),
                rate: bench.rate_or(self.link_mbit),
                code,
                block_bytes: symbol_bytes * parsed.alpha() as u64,
                stripes: bench.sized(self.stripes, 3),
            };
            spec.stand(bench, |stand| {
                let mut results = measured.take().unwrap_or_else(|| self.record(stand, &spec, codes));
                self.measure(stand, &spec, first_x, &mut results)?;
                measured = Some(results);
                Ok(())
            })?;
            first_x += self.workers.len() as f64;
        }
        measured.ok_or_else(|| bad("no code"))
    }

    fn record(&self, stand: &Stand<'_>, spec: &NodeSpec, codes: &[XorCode]) -> Results {
        let places = codes.iter().flat_map(|code| {
            self.workers.iter().map(move |workers| format!("{}, {}", code.name, workers.name))
        });
        let axis = Axis::named("code, who recovers", places);
        let mut results = spec.results(stand, self.experiment, axis, stand.bench.rounds(3, 1));
        results.setup.hosts = None;
        results.setup.code = None;
        results.setup.block_bytes = None;
        results.y = Measure::new(TOTAL, "total time", Unit::Seconds);
        results.beside[0] = Measure::new(RATE, "recovery rate", Unit::MebibytesPerSecond);
        results.ratios = Ratio::columns(&[FIRST_PARITY], &[]);
        results.notes.push(format!(
            "{} stripes of each code on as many hosts as a stripe has blocks, symbols of {} KiB. The node that holds the most data blocks is \
             recovered, at requestors that hold nothing and stand on hosts of their own. Both are stars; a bound is the time that the busiest \
             port takes for its bytes at the rate of a direct send, which is one of 16 blocks.",
            spec.stripes,
            stand.bench.sized(SYMBOL_BYTES, QUICK_SYMBOL_BYTES) >> 10
        ));
        results
    }

    fn measure(&self, stand: &Stand<'_>, spec: &NodeSpec, first_x: f64, results: &mut Results) -> Result<()> {
        let (lost, data, all) = stand.most_data()?;
        results.notes.push(format!("{}: {all} blocks lost, {data} of them data.", spec.code));
        let order = |scheme, workers: &Workers| Order {
            nodes: vec![lost],
            requestors: stand.spares[..workers.servers].to_vec(),
            parallel: workers.stripes,
            ..Order::new(scheme, "balanced")
        };
        let places = || (0..).map(|place| first_x + f64::from(place)).zip(self.workers);
        let turns: Vec<(Label, f64, Order)> = places()
            .flat_map(|(x, workers)| CONTENDERS.map(|(label, scheme)| (label, x, order(scheme, workers))))
            .collect();
        let all_servers = self
            .workers
            .iter()
            .max_by_key(|workers| workers.servers)
            .ok_or_else(|| bad("nobody recovers"))?;
        let warm_up = order("first-parity", all_servers);
        stand.take_recoveries(&warm_up, (Label::bare(DIRECT), first_x), spec.block_bytes, &turns, results)?;
        let link = results.median_of(DIRECT, first_x, RATE);
        for (label, x, _) in turns {
            let bytes = results.median_of(label.name, x, BUSIEST);
            results.bound(label.name, x, bytes / link);
        }
        Ok(())
    }
}

/// A place of a code, by its workers' name.
pub(super) fn place(results: &Results, code: XorCode, workers: &str) -> Option<f64> {
    let name = format!("{}, {workers}", code.name);
    let crate::report::Scale::Categories(names) = &results.x.scale else { return None };
    names.iter().position(|known| *known == name).map(|place| place as f64)
}

/// What the fewest symbols save, beside the paper's figure, the part of the bytes that they save, and what must be saved.
pub(super) fn saving(results: &Results, x: f64, paper: Option<f64>, at_most: f64) -> Comparison {
    let what = format!("{}: fewest symbols against the first parity's", results.x.text(x));
    let bytes = |series: &str| results.median_of(series, x, BUSIEST);
    let why = format!(
        "the busiest port carries {:+.1} % bytes; {}; {}",
        (bytes(FEWEST) / bytes(FIRST_PARITY) - 1.0) * 100.0,
        beside_bound(results, FEWEST, x),
        beside_bound(results, FIRST_PARITY, x)
    );
    Comparison::saving(what, results.ratio(FEWEST, FIRST_PARITY, x)).paper(paper).at_most(at_most).why(why)
}

/// How much less time a series takes at a place than at another one of the same code.
pub(super) fn against_place(
    results: &Results,
    series: &str,
    x: f64,
    other: f64,
    paper: Option<f64>,
) -> Comparison {
    let what = format!("{series}: {} against {}", results.x.text(x), results.x.text(other));
    let ratio =
        results.median(series, x).zip(results.median(series, other)).map(|(here, there)| here / there);
    let why = format!(
        "{}; at {} {}",
        beside_bound(results, series, x),
        results.x.text(other),
        beside_bound(results, series, other)
    );
    Comparison::saving(what, ratio).paper(paper).why(why)
}

fn beside_bound(results: &Results, series: &str, x: f64) -> String {
    let of_bound = results.of_bound(series, x).unwrap_or(f64::NAN);
    let busy = results.median_of(series, x, PROCESSOR_SHARE) * 100.0;
    format!("{series} at {of_bound:.3} × what its busiest port takes, the processors {busy:.0} % busy")
}
