//! RapidRAID table I: static resilience.

use super::on_paper::record;
use super::{Bench, Experiment};
use crate::error::{Result, bad};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Unit, sample};
use codes::Code;

pub const EXPERIMENT: Experiment = Experiment {
    id: "rr-t1",
    title: "Static resilience, in nines",
    paper: "RapidRAID, table I: nines of the data being there when each node is down with probability p = 0.2, 0.1, 0.01, 0.001. Three \
            replicas 2 3 6 9; a classical (16,11) code 1 2 8 14; RapidRAID (16,11) 0 2 6 11.",
    must_show: "the rows of three replicas and of the classical code, rounded down; RapidRAID's by exact count beside the printed one, \
                which does not follow from the paper's own counts of dependencies.",
    run,
    compare,
};

const NINES: &str = "nines";
const P: [f64; 4] = [0.2, 0.1, 0.01, 0.001];

/// Series, its code, and the paper's row.
const ROWS: [(&str, &str, Option<[f64; 4]>); 4] = [
    ("3 replicas", "rep-3", Some([2.0, 3.0, 6.0, 9.0])),
    ("classical (16,11)", "rs-11+5", Some([1.0, 2.0, 8.0, 14.0])),
    ("RapidRAID (16,11)", RAPIDRAID, Some([0.0, 2.0, 6.0, 11.0])),
    ("RapidRAID (16,11), GF(2^16)", "rapidraid16-11+5", None),
];
const RAPIDRAID: &str = "rapidraid-11+5";

fn run(bench: &Bench<'_>) -> Result<Results> {
    let x = Axis::named("p", P.map(|p| p.to_string()));
    let mut results = record(bench, &EXPERIMENT, 1, x, Measure::new(NINES, "nines", Unit::Nines));
    results.ratios = Ratio::columns(&[], &[]);
    results.notes.push("Exact: every pattern of losses is tried.".to_owned());
    for (name, code, _) in ROWS {
        let survival = Code::parse(code).and_then(|code| code.survival()).map_err(bad)?;
        for (x, p) in (0..).map(f64::from).zip(P) {
            let label = if code.starts_with("rapidraid") { Label::subject(name) } else { Label::rival(name) };
            results.add(label, x, sample([(NINES, survival.resilience(p).nines())]));
        }
    }
    Ok(results)
}

fn compare(results: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (name, code, paper) in ROWS {
        for ((x, p), at) in (0..).map(f64::from).zip(P).zip(0..) {
            let Some(paper) = paper.map(|row| row[at]) else { continue };
            let ours = results.median(name, x).map(f64::floor);
            let what = format!("{name}, p = {p}: nines, rounded down");
            let why = match code {
                RAPIDRAID => "the printed row does not follow from the paper's own counts of dependent sets",
                _ => "",
            };
            comparisons.push(Comparison::number(what, ours).paper(paper).at_least(paper).why(why));
        }
    }
    comparisons
}
