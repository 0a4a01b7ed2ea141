//! What codes are worth: static resilience, and the mean time to data loss over a cluster on paper.

use crate::output::{Output, fields, table};
use ::plan::reliability::{Hardware, Worth, worth};
use anyhow::{Context, Result, ensure};
use clap::Args;
use codes::Code;
use codes::reliability::Survival;
use flow::Scheme;
use serde_json::{Value, json};

/// Probabilities of a node being down, as in RapidRAID, table I.
const DOWN: [f64; 4] = [0.2, 0.1, 0.01, 0.001];

const HOURS_PER_YEAR: f64 = 24.0 * 365.25;

/// Bytes per hour of a Gb/s.
const GBPS: f64 = 1e9 / 8.0 * 3_600.0;

/// Codes and layouts in a table: each takes up to a second or two.
const MOST_ROWS: usize = 64;

#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Codes, such as rs-10+4 lrc-10+2+2 rapidraid-10+4 rep-3
    #[arg(value_name = "CODE", required = true)]
    codes: Vec<String>,
    /// Blocks of a stripe in a rack: 1 is flat placement; several numbers give a row each
    #[arg(long, value_name = "BLOCKS", value_delimiter = ',', default_value = "1")]
    per_rack: Vec<usize>,
    /// Scheme by which lost blocks are repaired
    #[arg(long, value_name = "SCHEME", default_value_t = Scheme::Pipeline)]
    scheme: Scheme,
    #[command(flatten)]
    hardware: HardwareArgs,
}

/// The cluster on paper that inspect takes, and compare unless it is told another.
const DEFAULT: HardwareArgs = HardwareArgs {
    racks: 20,
    nodes_per_rack: 20,
    node_tb: 8.0,
    node_gbps: 1.0,
    rack_gbps: 1.0,
    node_years: 4.0,
    rack_years: 10.0,
    lost_with_rack: 0.01,
};

/// The cluster on paper.
#[derive(Args, Clone, Copy, Debug)]
pub struct HardwareArgs {
    /// Racks of the cluster
    #[arg(long, value_name = "R", default_value_t = DEFAULT.racks)]
    racks: u32,
    /// Nodes in each rack
    #[arg(long, value_name = "N", default_value_t = DEFAULT.nodes_per_rack)]
    nodes_per_rack: u32,
    /// What a node keeps, in TB
    #[arg(long, value_name = "TB", default_value_t = DEFAULT.node_tb)]
    node_tb: f64,
    /// What repairs may take of a node's link, in Gb/s
    #[arg(long, value_name = "GBPS", default_value_t = DEFAULT.node_gbps)]
    node_gbps: f64,
    /// What repairs may take of the link of a rack to the others, in Gb/s
    #[arg(long, value_name = "GBPS", default_value_t = DEFAULT.rack_gbps)]
    rack_gbps: f64,
    /// Years until a node is lost for good, on average
    #[arg(long, value_name = "YEARS", default_value_t = DEFAULT.node_years)]
    node_years: f64,
    /// Years until a rack fails, on average
    #[arg(long, value_name = "YEARS", default_value_t = DEFAULT.rack_years)]
    rack_years: f64,
    /// Part of a rack's nodes that are lost for good when it fails, 0 to 1
    #[arg(long, value_name = "PART", default_value_t = DEFAULT.lost_with_rack)]
    lost_with_rack: f64,
}

impl HardwareArgs {
    fn hardware(&self) -> Result<Hardware> {
        let rates = [
            ("--node-tb", self.node_tb),
            ("--node-gbps", self.node_gbps),
            ("--rack-gbps", self.rack_gbps),
            ("--node-years", self.node_years),
            ("--rack-years", self.rack_years),
        ];
        for (name, value) in rates {
            ensure!(value.is_finite() && value > 0.0, "{name} must be more than 0, not {value}");
        }
        let part = self.lost_with_rack;
        ensure!((0.0..=1.0).contains(&part), "--lost-with-rack must be from 0 to 1, not {part}");
        Ok(Hardware {
            racks: self.racks,
            nodes_per_rack: self.nodes_per_rack,
            node_bytes: self.node_tb * 1e12,
            node_rate: self.node_gbps * GBPS,
            rack_rate: self.rack_gbps * GBPS,
            node_hours: self.node_years * HOURS_PER_YEAR,
            rack_hours: self.rack_years * HOURS_PER_YEAR,
            lost_with_rack: part,
        })
    }
}

/// What inspect adds of a code: (JSON, lines for people).
pub fn of(code: &Code) -> Result<(Value, String)> {
    let survival = code.survival()?;
    let hardware = DEFAULT.hardware()?;
    let mut lines = String::from("  static resilience, nines when nodes are down with probability p\n");
    for p in DOWN {
        lines += &format!("    p = {p:<6} {}\n", nines(&survival, p));
    }
    lines += "  mean time to data loss of a stripe (codes compare says over what)\n";
    let layouts = if code.tolerance() > 1 { vec![1, code.tolerance()] } else { vec![1] };
    let mut times = Vec::new();
    for per_rack in layouts {
        let what = format!("    {per_rack} in a rack");
        match worth((code, &survival), per_rack, Scheme::Pipeline, &hardware) {
            Ok(worth) => {
                lines += &format!("{what}  {} years\n", years(&survival, &worth));
                times.push(json_of(per_rack, &worth));
            }
            Err(error) => lines += &format!("{what}  unknown: {error}\n"),
        }
    }
    Ok((json!({"resilience": resilience(&survival), "mttdl": times}), lines))
}

pub fn compare(args: &CompareArgs, out: Output) -> Result<()> {
    let hardware = args.hardware.hardware()?;
    ensure!(args.per_rack.iter().all(|&blocks| blocks > 0), "--per-rack must be at least 1");
    let rows = args.codes.len() * args.per_rack.len();
    ensure!(rows <= MOST_ROWS, "{rows} rows; at most {MOST_ROWS} are compared at once");
    let mut document = Vec::new();
    let mut text = table([
        "CODE",
        "(N,K)",
        "OVERHEAD",
        "ANY",
        "P=0.2",
        "P=0.1",
        "P=0.01",
        "P=0.001",
        "IN A RACK",
        "MOVED",
        "BETWEEN RACKS",
        "REPAIR",
        "MTTDL",
    ]);
    for name in &args.codes {
        let code = Code::parse(name)?;
        let survival = code.survival()?;
        for &per_rack in &args.per_rack {
            let judged = worth((&code, &survival), per_rack, args.scheme, &hardware);
            let worth = judged.with_context(|| format!("{code} cannot be judged"))?;
            let shape = (code.stored(), code.k());
            let mut row = vec![
                code.name().to_owned(),
                format!("({},{})", shape.0, shape.1),
                format!("{:.2}x", shape.0 as f64 / shape.1 as f64),
                code.tolerance().to_string(),
            ];
            row.extend(DOWN.map(|p| nines(&survival, p)));
            row.extend([
                per_rack.to_string(),
                format!("{:.2}", worth.moved),
                format!("{:.2}", worth.cross_rack),
                format!("{:.2} h", worth.repair_hours),
                format!("{} y", years(&survival, &worth)),
            ]);
            text.add_row(row);
            let mut entry = json_of(per_rack, &worth);
            entry["code"] = json!(code.name());
            entry["n"] = json!(code.stored());
            entry["k"] = json!(code.k());
            entry["tolerance"] = json!(code.tolerance());
            entry["resilience"] = resilience(&survival);
            document.push(entry);
        }
    }
    out.answer(&document, || {
        let HardwareArgs { racks, nodes_per_rack, node_tb, node_gbps, rack_gbps, .. } = args.hardware;
        let HardwareArgs { node_years, rack_years, lost_with_rack, .. } = args.hardware;
        format!(
            "{text}\n\n\
             ANY: so many losses are always survived. P: nines of the data being there when each node is down with that probability.\n\
             MOVED, BETWEEN RACKS: blocks' worth that the repair of a block by {} moves. REPAIR: of a lost node of {node_tb} TB by all\n\
             {racks} racks of {nodes_per_rack} nodes, {node_gbps} Gb/s a node, {rack_gbps} Gb/s a rack. MTTDL: mean time until a stripe is lost; nodes last\n\
             {node_years} years, racks fail every {rack_years} and lose {lost_with_rack} of their nodes. ± and ~ come of samples, ± is the 95 % interval.",
            args.scheme
        )
    })
}

fn nines(survival: &Survival, p: f64) -> String {
    let resilience = survival.resilience(p);
    // By how much the error could move them, if it is not nothing.
    let within = resilience.error / resilience.loss / std::f64::consts::LN_10;
    if within < 0.005 {
        return format!("{:.2}", resilience.nines());
    }
    format!("{:.2} ±{within:.2}", resilience.nines())
}

fn resilience(survival: &Survival) -> Value {
    let at = |p: f64| {
        let resilience = survival.resilience(p);
        fields!(resilience => loss error; "p": p, "nines": resilience.nines())
    };
    DOWN.map(at).into()
}

fn json_of(per_rack: usize, worth: &Worth) -> Value {
    fields!(
        worth => moved cross_rack repair_hours;
        "per_rack": per_rack, "mttdl_years": worth.mttdl_hours / HOURS_PER_YEAR)
}

/// About so many, where what is survived is a sample's.
fn years(survival: &Survival, worth: &Worth) -> String {
    let about = if survival.is_exact() { "" } else { "~" };
    format!("{about}{:.2e}", worth.mttdl_hours / HOURS_PER_YEAR)
}
