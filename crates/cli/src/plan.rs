//! `stripeline plan`: planners and placement policies as a calculator. Needs no cluster. Nodes are numbered from 0.

pub mod place;
mod recover;
mod recovery;

use crate::output::{Output, table};
use ::plan::path::{
    Bandwidth, LinkMatrix, MAX_LANES, SEARCH_STEPS, cyclic_lanes, cyclic_share, cyclic_timeslots, multi_path,
    rack_aware_path, weighted_path,
};
use ::plan::{RackId, Topology};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use model::NodeId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::path::{Path, PathBuf};

/// What to plan.
#[derive(Subcommand, Debug)]
pub enum PlanCommand {
    /// Find the path over k helpers whose largest link weight is smallest
    Path(PathArgs),
    /// Find the path over k helpers with the fewest streams between racks
    Rack(RackArgs),
    /// Find paths over k helpers each that together fill uneven links, and the bound on their rate
    Multipath(MultipathArgs),
    /// Show the lanes of the cyclic scheme, and what each carries
    Cyclic(CyclicArgs),
    /// Assign helpers and requestors to all blocks of a lost node, and show the busiest link beside its bound
    Recovery(recovery::RecoveryArgs),
    /// Find the symbols to read for lost nodes of a stripe of an XOR code
    Recover(recover::RecoverArgs),
    /// Place replicas of many blocks by a policy, and show how evenly they lie and what encoding would fetch and move
    Place(place::PlaceArgs),
}

#[derive(Args, Debug)]
pub struct PathArgs {
    /// Helpers on the path
    #[arg(long, value_name = "K")]
    k: usize,
    /// The node where the path ends
    #[arg(long, value_name = "NODE")]
    requestor: usize,
    /// JSON: {"weights": [[…]]}, weights[i][j] the cost of the link from node i to node j, null where there is
    /// none; {"nodes": […]} adds a cost of each node
    #[arg(long, value_name = "FILE")]
    weights: PathBuf,
    /// Nodes that may help, such as 1,2,5 [default: all but the requestor]
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    helpers: Option<Vec<usize>>,
}

#[derive(Args, Debug)]
pub struct RackArgs {
    /// Helpers on the path
    #[arg(long, value_name = "K")]
    k: usize,
    /// The node where the path ends
    #[arg(long, value_name = "NODE")]
    requestor: u32,
    /// The rack of each node, such as 0,0,0,1,1,2
    #[arg(long, value_name = "RACKS", value_delimiter = ',', required = true)]
    racks: Vec<u32>,
    /// Nodes that may help, such as 1,2,5, preferred ones first [default: all but the requestor]
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    helpers: Option<Vec<u32>>,
}

#[derive(Args, Debug)]
pub struct MultipathArgs {
    /// Helpers on each path
    #[arg(long, value_name = "K")]
    k: usize,
    /// The node where the paths end
    #[arg(long, value_name = "NODE")]
    requestor: usize,
    /// JSON: {"up": […], "down": […]}, what each node can send and receive, null for no limit; or
    /// {"bandwidth": [[…]]}, bandwidth[i][j] that of the link from node i to node j, null where there is none; or
    /// both
    #[arg(long, value_name = "FILE")]
    bandwidth: PathBuf,
    /// Nodes that may help, such as 1,2,5 [default: all but the requestor]
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    helpers: Option<Vec<usize>>,
    /// Paths at most
    #[arg(long, value_name = "N", default_value_t = MAX_LANES as u64, value_parser = clap::value_parser!(u64).range(1..))]
    lanes: u64,
}

#[derive(Args, Debug)]
pub struct CyclicArgs {
    /// The helpers in their order, such as 1,2,5,3
    #[arg(long, value_name = "NODES", value_delimiter = ',', required = true)]
    helpers: Vec<usize>,
    /// The node where the lanes end
    #[arg(long, value_name = "NODE")]
    requestor: usize,
    /// Slices of a block
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    slices: u64,
}

/// The file of `--weights`.
#[derive(Deserialize)]
struct Weights {
    weights: Vec<Vec<Option<f64>>>,
    nodes: Option<Vec<f64>>,
}

/// The file of `--bandwidth`.
#[derive(Deserialize)]
struct Bandwidths {
    up: Option<Vec<Option<f64>>>,
    down: Option<Vec<Option<f64>>>,
    bandwidth: Option<Vec<Vec<Option<f64>>>>,
}

pub fn run(command: PlanCommand, out: Output) -> Result<()> {
    match command {
        PlanCommand::Path(args) => path(&args, out),
        PlanCommand::Rack(args) => rack(&args, out),
        PlanCommand::Multipath(args) => multipath(&args, out),
        PlanCommand::Cyclic(args) => cyclic(&args, out),
        PlanCommand::Recovery(args) => recovery::run(&args, out),
        PlanCommand::Recover(args) => recover::run(&args, out),
        PlanCommand::Place(args) => place::run(&args, out),
    }
}

fn path(args: &PathArgs, out: Output) -> Result<()> {
    let file: Weights = read(&args.weights)?;
    let in_file = || args.weights.display().to_string();
    let mut links = link_matrix(&file.weights, f64::INFINITY).with_context(in_file)?;
    if let Some(costs) = &file.nodes {
        links = links.with_node_costs(costs).with_context(in_file)?;
    }
    let helpers = args.helpers.clone().unwrap_or_else(|| all_but(args.requestor, links.nodes()));
    let found = weighted_path(&links, &helpers, args.k, args.requestor, SEARCH_STEPS)?;
    let document = json!({"path": found.path, "max_weight": found.max_weight, "proven": found.proven});
    out.answer(&document, || {
        let mut table = table(["FROM", "TO", "WEIGHT"]);
        for link in found.path.windows(2) {
            let weight = links.get(link[0], link[1]);
            table.add_row([link[0].to_string(), link[1].to_string(), weight.to_string()]);
        }
        let proven =
            if found.proven { "no path has less" } else { "the search was cut off: there may be less" };
        format!("{table}\n\nlargest weight {}: {proven}", found.max_weight)
    })
}

fn rack(args: &RackArgs, out: Output) -> Result<()> {
    let topology: Topology =
        (0..).zip(&args.racks).map(|(node, &rack)| (NodeId(node), RackId(rack))).collect();
    let others = || topology.nodes().map(|node| node.0).filter(|&node| node != args.requestor).collect();
    let helpers: Vec<u32> = args.helpers.clone().unwrap_or_else(others);
    let helpers: Vec<NodeId> = helpers.into_iter().map(NodeId).collect();
    let found = rack_aware_path(&topology, &helpers, args.k, NodeId(args.requestor))?;
    let numbers: Vec<u32> = found.path.iter().map(|node| node.0).collect();
    out.answer(&json!({"path": numbers, "cross_rack": found.cross_rack}), || {
        let mut table = table(["NODE", "RACK"]);
        for &node in &numbers {
            table.add_row([node.to_string(), args.racks[node as usize].to_string()]);
        }
        format!("{table}\n\nstreams between racks: {}", found.cross_rack)
    })
}

fn multipath(args: &MultipathArgs, out: Output) -> Result<()> {
    let file: Bandwidths = read(&args.bandwidth)?;
    let bandwidth = limits(file).with_context(|| args.bandwidth.display().to_string())?;
    let helpers = args.helpers.clone().unwrap_or_else(|| all_but(args.requestor, bandwidth.nodes()));
    let most_lanes = usize::try_from(args.lanes).unwrap_or(usize::MAX);
    let found = multi_path(&bandwidth, &helpers, args.k, args.requestor, most_lanes)?;
    let lanes: Vec<_> =
        found.lanes.iter().map(|lane| json!({"path": lane.path, "rate": lane.rate})).collect();
    out.answer(&json!({"rate": found.rate, "bound": found.bound, "lanes": lanes}), || {
        let mut table = table(["LANE", "RATE", "PATH"]);
        for (number, lane) in found.lanes.iter().enumerate() {
            table.add_row([number.to_string(), figures(lane.rate), arrows(&lane.path)]);
        }
        let part = 100.0 * found.rate / found.bound;
        let (rate, bound) = (figures(found.rate), figures(found.bound));
        format!("{table}\n\nrate {rate}, {part:.2} % of the bound {bound}")
    })
}

fn limits(file: Bandwidths) -> Result<Bandwidth> {
    let unlimited = |limits: Vec<Option<f64>>| -> Vec<f64> {
        limits.into_iter().map(|limit| limit.unwrap_or(f64::INFINITY)).collect()
    };
    let links = file.bandwidth.map(|rows| link_matrix(&rows, 0.0)).transpose()?;
    Ok(match (file.up, file.down, links) {
        (Some(up), Some(down), None) => Bandwidth::of_nodes(unlimited(up), unlimited(down))?,
        (Some(up), Some(down), Some(links)) => {
            Bandwidth::of_nodes(unlimited(up), unlimited(down))?.and_links(links)?
        }
        (None, None, Some(links)) => Bandwidth::of_links(links),
        _ => bail!("it must give up and down, or bandwidth, or all three"),
    })
}

/// A number with six significant figures at least.
fn figures(value: f64) -> String {
    let decimals = (5.0 - value.log10().floor()).clamp(0.0, 15.0);
    format!("{value:.*}", decimals as usize)
}

fn cyclic(args: &CyclicArgs, out: Output) -> Result<()> {
    let mut nodes = args.helpers.clone();
    nodes.push(args.requestor);
    nodes.sort_unstable();
    if let Some(twice) = nodes.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!(::plan::PlanError::RepeatedNode { node: twice[0] });
    }
    let mut lanes = cyclic_lanes(&args.helpers);
    lanes.iter_mut().for_each(|lane| lane.push(args.requestor));
    let share = |lane| cyclic_share(args.slices, lane, lanes.len());
    let timeslots = cyclic_timeslots(args.helpers.len(), args.slices);
    let documents: Vec<_> =
        lanes.iter().enumerate().map(|(lane, path)| json!({"path": path, "slices": share(lane)})).collect();
    out.answer(&json!({"lanes": documents, "timeslots": timeslots}), || {
        let mut table = table(["LANE", "SLICES", "PATH"]);
        for (lane, path) in lanes.iter().enumerate() {
            table.add_row([lane.to_string(), share(lane).to_string(), arrows(path)]);
        }
        format!("{table}\n\n{timeslots:.3} timeslots over equal links")
    })
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| file.display().to_string())
}

/// The matrix of rows in which null stands for `missing`.
fn link_matrix(rows: &[Vec<Option<f64>>], missing: f64) -> Result<LinkMatrix> {
    let filled = |row: &Vec<Option<f64>>| row.iter().map(|value| value.unwrap_or(missing)).collect();
    let rows: Vec<Vec<f64>> = rows.iter().map(filled).collect();
    Ok(LinkMatrix::from_rows(&rows)?)
}

fn all_but(requestor: usize, nodes: usize) -> Vec<usize> {
    (0..nodes).filter(|&node| node != requestor).collect()
}

fn arrows(path: impl IntoIterator<Item = impl ToString>) -> String {
    let nodes: Vec<String> = path.into_iter().map(|node| node.to_string()).collect();
    nodes.join(" → ")
}
