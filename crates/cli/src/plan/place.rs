//! `stripeline plan place`: replicas of many blocks placed on paper by one policy, and what comes of it.

use crate::output::{Output, table};
use ::plan::placement::ear::iterations_bound;
use ::plan::placement::ear_preliminary::violation_probability;
use ::plan::placement::{Rules, Spread, Terms, Totals, Trial, TrialReport};
use anyhow::Result;
use clap::{Args, ValueEnum};
use codes::Code;
use serde_json::{Value, json};

/// Nodes of a cluster on paper: a table of a million takes some tens of megabytes.
const MOST_NODES: u64 = 1_000_000;

#[derive(Args, Debug)]
pub struct PlaceArgs {
    /// Placement policy, such as random or ear; a name that is none lists them all
    #[arg(long, value_name = "POLICY")]
    policy: String,
    /// Racks
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=MOST_NODES as i64))]
    racks: u32,
    /// Nodes in each rack
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_NODES as i64))]
    nodes_per_rack: u32,
    /// Code of the stripes, such as rs-10+4 or lrc-10+2+2
    #[arg(long, value_name = "CODE")]
    code: String,
    /// Blocks of a stripe that a rack may hold after encoding (c)
    #[arg(long, value_name = "BLOCKS", default_value_t = 1)]
    rack_capacity: usize,
    /// Racks that hold all blocks of a stripe after encoding (R′), its core rack among them [default: all racks]
    #[arg(long, value_name = "RACKS")]
    target_racks: Option<usize>,
    /// Replicas of each block before encoding
    #[arg(long, value_name = "COPIES", default_value_t = 3)]
    replicas: usize,
    /// Where replicas are: the first in one rack and the others in another, or each in its own
    #[arg(long, value_name = "HOW", value_enum, default_value_t = SpreadName::TwoRacks)]
    spread: SpreadName,
    /// Blocks to place in each run
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u64).range(1..))]
    blocks: u64,
    /// Seed of the first run; each further run has the next one
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Runs to average over, each on an empty cluster
    #[arg(long, value_name = "RUNS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
}

/// The names of [`Spread`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SpreadName {
    /// The first in one rack, all others in one other rack, as HDFS does it
    TwoRacks,
    /// Each in a rack of its own
    EachOwn,
}

impl From<SpreadName> for Spread {
    fn from(name: SpreadName) -> Spread {
        match name {
            SpreadName::TwoRacks => Spread::TwoRacks,
            SpreadName::EachOwn => Spread::EachOwn,
        }
    }
}

pub fn run(args: &PlaceArgs, out: Output) -> Result<()> {
    let nodes = u64::from(args.racks) * u64::from(args.nodes_per_rack);
    anyhow::ensure!(nodes <= MOST_NODES, "{nodes} nodes are more than the {MOST_NODES} that fit on paper");
    let trial = Trial {
        policy: args.policy.clone(),
        terms: Terms {
            code: Code::parse(&args.code)?,
            rack_capacity: args.rack_capacity,
            target_racks: args.target_racks,
            replicas: args.replicas,
            spread: args.spread.into(),
        },
        racks: args.racks,
        nodes_per_rack: args.nodes_per_rack,
        blocks: usize::try_from(args.blocks)?,
        runs: args.runs,
        seed: args.seed,
    };
    let rules = trial.rules()?;
    let report = trial.run()?;
    let theory = Theory::of(&trial, &rules);
    out.answer(&document(&trial, &rules, &report, &theory), || text(&rules, &report, &theory))
}

/// What EAR's equations say of the same; `None` where they say nothing.
struct Theory {
    /// Layouts drawn on average at most, by position.
    iterations: Vec<Option<f64>>,
    /// Data blocks of a stripe that a random encoder reads from other racks.
    downloads: Option<f64>,
    /// The share of stripes that violate the rules.
    violating: Option<f64>,
}

impl Theory {
    fn of(trial: &Trial, rules: &Rules) -> Theory {
        let (terms, racks) = (&trial.terms, trial.racks as usize);
        let k = terms.code.k();
        let (is_ear, is_preliminary) = (trial.policy == "ear", trial.policy == "ear-preliminary");
        if terms.code.virtuals() > 0 {
            // No block stays; and along the pipeline none is fetched. The equations are of codes that store the data.
            let is_along = trial.policy == "rapidraid";
            let layouts = if is_along { None } else { Some(1.0) };
            let downloads = is_along.then_some(0.0);
            return Theory { iterations: vec![layouts; k], downloads, violating: Some(0.0) };
        }
        let bound = |position| if is_ear { iterations_bound(rules, racks, position) } else { Some(1.0) };
        let held = terms.spread.racks(terms.replicas).min(racks) as f64;
        // Equation 1 is of one block in a rack, any racks, and two racks for the replicas of a block.
        let is_equation_1 = is_preliminary
            && rules.per_rack() == 1
            && terms.target_racks.is_none_or(|targets| targets == racks)
            && terms.spread.racks(terms.replicas) == 2;
        Theory {
            iterations: (0..k).map(bound).collect(),
            downloads: Some(match is_ear || is_preliminary {
                true => 0.0,
                false => k as f64 * (1.0 - held / racks as f64),
            }),
            violating: match is_equation_1 {
                true => Some(violation_probability(racks, k)),
                false => is_ear.then_some(0.0),
            },
        }
    }
}

fn document(trial: &Trial, rules: &Rules, report: &TrialReport, theory: &Theory) -> Value {
    let TrialReport { stripes, short_stripes, .. } = report;
    json!({
        "policy": trial.policy,
        "code": trial.terms.code.name(),
        "racks": trial.racks,
        "nodes_per_rack": trial.nodes_per_rack,
        "rack_capacity": rules.per_rack(),
        "group_capacity": rules.per_group(),
        "rack_failures": rules.rack_failures(),
        "target_racks": trial.terms.target_racks.unwrap_or(trial.racks as usize),
        "replicas": trial.terms.replicas,
        "spread": trial.terms.spread.name(),
        "blocks": trial.blocks,
        "runs": trial.runs,
        "seed": trial.seed,
        "rack_share": report.rack_share,
        "hotness": report.hotness,
        "iterations_by_position": report.iterations_by_position,
        "iterations_bound_by_position": theory.iterations,
        "most_iterations": report.most_iterations,
        "stripes": stripes.stripes,
        "cross_rack_downloads_per_stripe": stripes.per_stripe(stripes.cross_rack_downloads),
        "cross_rack_downloads_expected": theory.downloads,
        "cross_rack_downloads_of_the_best_rack": stripes.per_stripe(stripes.best_rack_downloads),
        "cross_rack_uploads_per_stripe": stripes.per_stripe(stripes.cross_rack_uploads),
        "violating_stripes": stripes.violating,
        "violating_share_expected": theory.violating,
        "relocated_blocks": stripes.relocated,
        "short_stripes": short_stripes.stripes,
        "violating_short_stripes": short_stripes.violating,
    })
}

fn text(rules: &Rules, report: &TrialReport, theory: &Theory) -> String {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let mut positions = table(["BLOCK OF STRIPE", "LAYOUTS DRAWN", "AT MOST EXPECTED"]);
    for (position, (drawn, bound)) in report.iterations_by_position.iter().zip(&theory.iterations).enumerate()
    {
        positions.add_row([(position + 1).to_string(), number(*drawn), number(*bound)]);
    }
    let mut shares = table(["RACK BY SHARE", "% OF REPLICAS"]);
    for (rank, share) in report.rack_share.iter().enumerate() {
        shares.add_row([(rank + 1).to_string(), format!("{:.3}", 100.0 * share)]);
    }
    let mut stripes =
        table(["STRIPES", "NUMBER", "VIOLATING", "RELOCATED", "DOWNLOADS", "OF THE BEST RACK", "UPLOADS"]);
    for (name, totals) in [("full", &report.stripes), ("short", &report.short_stripes)] {
        let Totals { cross_rack_downloads, best_rack_downloads, cross_rack_uploads, .. } = *totals;
        let sums = [cross_rack_downloads, best_rack_downloads, cross_rack_uploads];
        let [downloads, best, uploads] = sums.map(|sum| format!("{:.3}", totals.per_stripe(sum)));
        let [number, violating, relocated] =
            [totals.stripes, totals.violating, totals.relocated].map(|count| count.to_string());
        stripes.add_row([name.to_owned(), number, violating, relocated, downloads, best, uploads]);
    }
    let of_a_group = match rules.groups() {
        1 => String::new(),
        _ => format!(", {} of a local group", rules.per_group()),
    };
    let mut lines = vec![
        format!(
            "blocks of a stripe in a rack, at most: {}{of_a_group}; rack failures survived: {}",
            rules.per_rack(),
            rules.rack_failures()
        ),
        format!("largest share of reads of a rack (H): {:.5}", report.hotness),
        format!("downloads from other racks for a full stripe, expected: {}", number(theory.downloads)),
    ];
    if let Some(expected) = theory.violating {
        let seen = report.stripes.per_stripe(report.stripes.violating);
        lines.push(format!(
            "full stripes that violate: {:.3} %, expected {:.3} %",
            100.0 * seen,
            100.0 * expected
        ));
    }
    format!("{shares}\n\n{positions}\n\n{stripes}\n\n{}", lines.join("\n"))
}
