//! `stripeline repair` and `stripeline explain`: rebuilding what was lost, and what that would take.

use crate::amount::{Size, seconds};
use crate::context::Context;
use crate::explain;
use crate::job;
use crate::output::{Output, hex, lines, table};
use crate::traffic::Traffic;
use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use client::{ByteRange, Client, GetOptions};
use model::BlockId;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wire::proto::{ExplainReply, JobEvent, RepairRequest};

/// What to repair.
#[derive(Subcommand, Debug)]
pub enum RepairCommand {
    /// Rebuild one block
    Block {
        #[command(flatten)]
        target: BlockTarget,
        #[command(flatten)]
        told: Told,
    },
    /// Rebuild all lost blocks of a stripe in one pass, each on a node of its own
    Stripe {
        #[command(flatten)]
        target: BlockTarget,
        /// To measure, with --discard: rebuild these members of the stripe, such as 0,3, lost or not
        #[arg(long, value_name = "MEMBERS", value_delimiter = ',', requires = "discard")]
        members: Vec<u16>,
        #[command(flatten)]
        told: Told,
    },
    /// Rebuild all lost blocks of an object, stripe by stripe
    Object {
        /// Name of the object
        name: String,
        #[command(flatten)]
        told: Told,
    },
    /// Rebuild every block that dead nodes held
    Node {
        /// Numbers of the nodes
        #[arg(required = true, value_name = "ID")]
        ids: Vec<u32>,
        #[command(flatten)]
        spread: Spread,
        /// Plan every block and have all nodes that would take part prepare, but move nothing; the node may be alive
        #[arg(long, conflicts_with = "discard")]
        dry_run: bool,
        #[command(flatten)]
        told: Told,
    },
}

/// How helpers and requestors may be assigned.
pub const ASSIGNMENTS: [&str; 4] = ["balanced", "least-recent", "m-ppr", "lowest-index"];

/// How the blocks of a node are shared out.
#[derive(Args, Clone, Debug, Default)]
pub struct Spread {
    /// Stripes repaired at once [default: the coordinator's]
    #[arg(long, value_name = "N")]
    parallel: Option<u32>,
    /// How helpers and requestors are found: for many stripes at once, so that the busiest link carries little; stripe by
    /// stripe, the least recently selected helpers; for many by load and cached blocks; or, to compare with, those on the
    /// nodes of the lowest numbers [default: the coordinator's]
    #[arg(long, alias = "plan", value_parser = ASSIGNMENTS)]
    assign: Option<String>,
    /// Nodes that may receive, such as 3,5 [default: all, as stripes and racks allow]
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    requestors: Vec<u32>,
}

impl Spread {
    /// The request about the nodes `ids`, the first of which stands in the field for one.
    fn request(self, ids: &[u32], rest: RepairRequest) -> Result<RepairRequest> {
        let [first, more @ ..] = ids else { bail!("say which nodes") };
        if ids.contains(&0) {
            bail!("nodes are numbered from 1");
        }
        let (node, more_nodes) = (*first, more.to_vec());
        let Spread { parallel, assign, requestors } = self;
        let (parallel, assign) = (parallel.unwrap_or(0), assign.unwrap_or_default());
        Ok(RepairRequest { node, more_nodes, parallel, assign, requestors, ..rest })
    }
}

/// What to explain.
#[derive(Subcommand, Debug)]
pub enum ExplainCommand {
    /// Show what reading an object, or a part of it, would take now: where each block comes from, and bytes by link
    Read {
        /// The object
        name: String,
        /// Bytes A to B, from A on, or the last N: A-B, A-, -N
        #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
        range: Option<ByteRange>,
        /// As a stream, such as to the standard output, which takes bytes in order; else as a file
        #[arg(long)]
        stream: bool,
        #[arg(long, default_value = "auto", help = schemes())]
        scheme: String,
    },
    /// Show the flow that would rebuild a block, or all that is lost of its stripe: stages, bytes on each link, the bottleneck
    Repair {
        #[command(flatten)]
        target: BlockTarget,
        /// All lost blocks of the block's stripe in one pass
        #[arg(long)]
        stripe: bool,
        /// As if these members of the stripe were lost, such as 0,3, and no others
        #[arg(long, value_name = "MEMBERS", value_delimiter = ',', requires = "stripe")]
        members: Vec<u16>,
        #[command(flatten)]
        how: How,
        /// Print Graphviz DOT
        #[arg(long, conflicts_with = "json")]
        dot: bool,
    },
}

/// One block: by its id, or by its place in an object.
#[derive(Args, Clone, Debug)]
pub struct BlockTarget {
    /// Block id (32 hexadecimal digits), or the name of an object
    #[arg(value_name = "BLOCK|OBJECT")]
    block: String,
    /// Which block of the object, from 0
    #[arg(long, value_name = "I")]
    index: Option<u64>,
}

/// How to repair.
#[derive(Args, Clone, Debug)]
pub struct How {
    #[arg(long, default_value = "auto", help = schemes())]
    scheme: String,
    /// Size of a slice, for schemes that do not forward whole blocks [default: 32KiB, of several lanes 8KiB]
    #[arg(long, value_name = "SIZE")]
    slice: Option<Size>,
    /// Rebuild, verify, make durable, then throw away: to measure
    #[arg(long)]
    discard: bool,
    /// Send slices without fingerprints; the whole block is still checked at the end
    #[arg(long)]
    no_verify: bool,
    /// Node that rebuilds [default: the coordinator chooses]
    #[arg(long, value_name = "N")]
    requestor: Option<u32>,
    /// Of blocks: nodes whose blocks are preferred, such as 3,5, in the order of a chain; schemes that find their own path
    /// choose among all [default: the least recently selected]
    #[arg(long, value_name = "NODES", value_delimiter = ',')]
    helpers: Vec<u32>,
    /// Of blocks: wait for helpers that are slow, instead of going around them when a repair takes three times as long as
    /// the last ones did
    #[arg(long)]
    patient: bool,
}

/// How to repair, and what is told of it.
#[derive(Args, Clone, Debug)]
pub struct Told {
    #[command(flatten)]
    how: How,
    /// Show the bytes of every link
    #[arg(short, long)]
    verbose: bool,
}

/// The schemes there are, for the help of `--scheme`.
pub fn schemes() -> String {
    let names: Vec<&str> = flow::Scheme::all().map(flow::Scheme::name).collect();
    format!(
        "How lost blocks are rebuilt: {}, or auto, which takes the fastest by prediction",
        names.join(", ")
    )
}

/// Bytes of a slice for a request; 0 for the default.
pub fn slice_bytes(slice: Option<Size>) -> Result<u32> {
    let Some(Size(bytes)) = slice else { return Ok(0) };
    u32::try_from(bytes)
        .ok()
        .filter(|&bytes| flow::limits::slice_bytes_ok(bytes))
        .ok_or_else(|| anyhow!("--slice must divide 32KiB or be a multiple of it, from 1KiB to 256MiB"))
}

pub fn run(context: &Context, command: RepairCommand) -> Result<()> {
    match command {
        RepairCommand::Block { target, told } => {
            let request = target.request(told.how.request()?)?;
            context
                .with_client(async |client| repair_block(context.out, &client, request, told.verbose).await)
        }
        RepairCommand::Stripe { target, members, told } => {
            let members = members.into_iter().map(u32::from).collect();
            let request = RepairRequest { stripe: true, members, ..target.request(told.how.request()?)? };
            repair_several(context, request, "repair", told.verbose)
        }
        RepairCommand::Object { name, told } => {
            let request = RepairRequest { object: name, whole_object: true, ..told.how.request()? };
            repair_several(context, request, "repair", told.verbose)
        }
        RepairCommand::Node { ids, spread, dry_run, told } => {
            let request = RepairRequest { dry_run, ..spread.request(&ids, told.how.request()?)? };
            repair_several(context, request, &format!("repair node-{}", ids[0]), told.verbose)
        }
    }
}

/// Moves a living node's blocks elsewhere.
pub fn decommission(context: &Context, id: u32, spread: Spread, verbose: bool) -> Result<()> {
    let request = spread.request(&[id], RepairRequest { decommission: true, ..RepairRequest::default() })?;
    repair_several(context, request, &format!("decommission node-{id}"), verbose)
}

pub fn explain(context: &Context, command: ExplainCommand) -> Result<()> {
    let (target, stripe, members, how, dot) = match command {
        ExplainCommand::Read { name, range, stream, scheme } => {
            let options = GetOptions { range, scheme, ..GetOptions::default() };
            return explain::read(context, &name, stream, options);
        }
        ExplainCommand::Repair { target, stripe, members, how, dot } => (target, stripe, members, how, dot),
    };
    let members = members.into_iter().map(u32::from).collect();
    let request = RepairRequest { stripe, members, ..target.request(how.request()?)? };
    let reply = context.with_client(async |client| Ok(client.explain(request).await?))?;
    let document: Value = serde_json::from_str(&reply.json)?;
    context.out.answer(&document, || if dot { reply.dot } else { reply.text })
}

impl BlockTarget {
    fn request(&self, how: RepairRequest) -> Result<RepairRequest> {
        match (self.index, self.block.parse::<BlockId>()) {
            (Some(index), _) => Ok(RepairRequest { object: self.block.clone(), index, ..how }),
            (None, Ok(block)) => Ok(RepairRequest { block: block.to_vec(), ..how }),
            (None, Err(_)) => bail!("'{}' is no block id; for a block of an object give --index", self.block),
        }
    }
}

impl How {
    fn request(&self) -> Result<RepairRequest> {
        if self.scheme != "auto" {
            // Refused here, with the list of schemes, before anything is asked of the cluster.
            self.scheme.parse::<flow::Scheme>()?;
        }
        Ok(RepairRequest {
            scheme: self.scheme.clone(),
            slice_bytes: slice_bytes(self.slice)?,
            discard: self.discard,
            no_verify: self.no_verify,
            requestor: self.requestor.unwrap_or(0),
            helpers: self.helpers.clone(),
            patient: self.patient,
            ..RepairRequest::default()
        })
    }
}

/// What one flow of a repair did.
#[derive(Clone, Debug)]
pub struct Repaired {
    pub scheme: String,
    /// From the driver's first message to the last verified byte.
    pub verified: Duration,
    /// … to the block durable under its final name.
    pub durable: Duration,
    pub traffic: Traffic,
}

impl Repaired {
    pub fn of(event: &JobEvent) -> Option<Repaired> {
        let flow = event.flow.as_ref()?;
        Some(Repaired {
            scheme: event.scheme.clone(),
            verified: Duration::from_micros(flow.verified_us),
            durable: Duration::from_micros(flow.durable_us),
            traffic: Traffic::of(&flow.links, &event.participants),
        })
    }
}

async fn repair_block(out: Output, client: &Client, request: RepairRequest, verbose: bool) -> Result<()> {
    // Asked before, for afterwards the block is no longer lost. A prediction is a courtesy: without it, none is shown.
    let predicted = client.explain(request.clone()).await.ok().and_then(|reply| Predicted::of(&reply));
    let events = job::watch(out, "repair", client.repair(request.clone()).await?).await?;
    let Some((event, repaired)) = events.iter().rev().find_map(|event| Some((event, Repaired::of(event)?)))
    else {
        let message = events.last().map_or("nothing was rebuilt", |event| event.message.as_str());
        return out.say(message);
    };
    let kept = if request.discard { " (discarded, as asked)" } else { "" };
    out.say(format!("block {} rebuilt{kept}", hex(&event.block)))?;
    out.say(format!("  scheme                 {}", repaired.scheme))?;
    out.say(format!("  last verified byte     {}", seconds(repaired.verified)))?;
    out.say(format!("  durable                {}", seconds(repaired.durable)))?;
    let predicted = predicted.and_then(|mut predicted| predicted.0.remove(&repaired.scheme));
    say_traffic(out, &repaired.traffic, predicted.as_ref(), verbose)
}

fn repair_several(context: &Context, request: RepairRequest, what: &str, verbose: bool) -> Result<()> {
    let out = context.out;
    let (events, elapsed) = context.with_client(async |client| {
        let started = Instant::now();
        let events = job::watch(out, what, client.repair(request).await?).await?;
        Ok((events, started.elapsed()))
    })?;
    let mut traffic = Traffic::default();
    for repaired in events.iter().filter_map(Repaired::of) {
        traffic.add(&repaired.traffic);
    }
    let Some(end) = events.last() else { return Ok(()) };
    if end.failed > 0 {
        bail!(
            "{}; {} blocks failed, and 'stripeline cluster status' shows what is missing",
            end.message,
            end.failed
        );
    }
    out.say(format!("{} in {}", end.message, seconds(elapsed)))?;
    if traffic.total() == 0 {
        return Ok(());
    }
    say_traffic(out, &traffic, None, verbose)
}

fn say_traffic(out: Output, traffic: &Traffic, predicted: Option<&Traffic>, verbose: bool) -> Result<()> {
    let beside =
        |bytes: Option<u64>| bytes.map_or(String::new(), |bytes| format!(" (predicted {})", Size(bytes)));
    if let Some(port) = traffic.busiest() {
        let wanted = beside(predicted.and_then(Traffic::busiest).map(|port| port.bytes));
        out.say(format!("  busiest link           {}{wanted}, {port}", Size(port.bytes)))?;
    }
    let wanted = beside(predicted.map(Traffic::total));
    out.say(format!("  network in all         {}{wanted}", Size(traffic.total())))?;
    if !verbose {
        return Ok(());
    }
    let mut table = table(["FROM", "TO", "BYTES"]);
    for (from, to, bytes) in traffic.links() {
        table.add_row([from.to_string(), to.to_string(), format!("{bytes} ({})", Size(bytes))]);
    }
    out.say(lines(&table))
}

/// What the plans of every scheme say that the repair would move.
struct Predicted(BTreeMap<String, Traffic>);

impl Predicted {
    fn of(reply: &ExplainReply) -> Option<Predicted> {
        let document: Value = serde_json::from_str(&reply.json).ok()?;
        let plan =
            |plan: &Value| Some((plan["scheme"].as_str()?.to_owned(), Traffic::predicted(&plan["links"])?));
        Some(Predicted(document["plans"].as_array()?.iter().filter_map(plan).collect()))
    }
}
