//! `stripeline demo`: a cluster of processes, a real file, a lost node; repaired by a star and by a chain, beside what
//! one plain TCP connection takes for the same bytes.

mod report;
mod source;
mod stage;

use crate::amount::{Rate, Size, count, seconds};
use crate::bare;
use crate::context::{Context, run as block_on};
use crate::job;
use crate::local::{UpArgs, bring_up, cpu_seconds, stop_all};
use crate::output::Output;
use crate::progress::{bytes_bar, following};
use crate::repair::Repaired;
use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use client::{Client, GetOptions, PutOptions};
use codes::Code;
use model::BlockId;
use report::{Measured, Report};
use source::{Source, sha256};
use stage::{Stage, daemons};
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::proto::{ArchiveRequest, BlockInfo, RepairRequest};

/// Runs of the fast measurements, of which the median counts. The star is slow and steady: one is enough.
const RUNS: usize = 3;

/// Nodes beyond the code's n: one to repair to, and one so that there is a choice.
const SPARE_NODES: usize = 2;

/// Racks that the nodes are dealt out to: so many that no stripe needs many blocks in one.
const RACKS: u32 = 4;

/// Longest wait until a node that answers no call is noticed as dead.
const DEATH_PATIENCE: Duration = Duration::from_secs(30);

/// Smallest block that a small file is cut into: below, seconds are lost in milliseconds.
const MIN_BLOCK_BYTES: u64 = 1 << 20;

const OBJECT: &str = "demo";

/// Options of the demonstration.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// File to store [default: one packed from files of this machine]
    #[arg(long)]
    file: Option<PathBuf>,
    /// Limit of each node's network while repairs are measured
    #[arg(long, default_value = "400mbit")]
    rate: Rate,
    /// Erasure code
    #[arg(long, default_value = "rs-10+4")]
    code: String,
    /// Size of a block [default: 64MiB, less if the file does not fill a stripe then]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<Size>,
}

pub fn run(context: &Context, args: &DemoArgs) -> Result<()> {
    let started = Instant::now();
    let out = context.out;
    let code = Code::parse(&args.code)?;
    ensure!(code.tolerance() > 0, "{} survives no loss, so there is nothing to show", code.name());
    let given = args.file.as_deref().map(Source::given).transpose()?;
    let block_bytes = block_bytes(args.block_size, given.as_ref(), &code);
    let stripe_bytes = block_bytes * code.k() as u64;
    let bytes = given.as_ref().map_or(stripe_bytes, |source| source.bytes);
    // The file, three replicas beside n/k of it in parities and data, and the copy that is read back.
    let stage = Stage::new(context.dir.clone(), bytes.saturating_mul(6))?;
    let source = match given {
        Some(source) => source,
        None => Source::packed(stage.path("sample"), bytes)?,
    };
    let demo = Demo { out, stage, source, code, rate: args.rate, block_bytes };
    let mut report = demo.play()?;
    // The cluster ends before the table, so that the table is the last thing seen.
    drop(demo);
    report.total = started.elapsed();
    out.answer(&report.json(), || report.text())
}

/// The length of a block: as wished, else the usual one, or as much less as lets a small file fill a stripe.
fn block_bytes(wish: Option<Size>, given: Option<&Source>, code: &Code) -> u64 {
    let usual = flow::limits::DEFAULT_BLOCK_BYTES;
    let chunk = gf::CHUNK_BYTES as u64;
    match (wish, given) {
        (Some(Size(bytes)), _) => bytes.max(1),
        (None, None) => usual,
        (None, Some(source)) => {
            let share = source.bytes.div_ceil(code.k() as u64).next_multiple_of(chunk);
            share.clamp(MIN_BLOCK_BYTES, usual)
        }
    }
}

struct Demo {
    out: Output,
    stage: Stage,
    source: Source,
    code: Code,
    rate: Rate,
    block_bytes: u64,
}

impl Demo {
    fn play(&self) -> Result<Report> {
        let nodes = self.code.n() + SPARE_NODES;
        self.step(&format!("{nodes} nodes and a coordinator, a process each"))?;
        let up = UpArgs { nodes: Some(nodes as u32), racks: Some(RACKS), ..UpArgs::default() };
        let address = bring_up(&self.stage.home, &up)?.coordinator;
        let sha256_before = sha256(&self.source.path)?;
        block_on(async {
            let client = Client::connect(&address).await?;
            self.store(&client).await?;
            let lost = self.lose_a_node(&client).await?;
            let degraded_blocks = self.read_back(&client, &sha256_before).await?;
            let measured = self.measure(&client, &lost).await?;
            self.recover(&client, &lost).await?;
            self.read_back(&client, &sha256_before).await?;
            Ok(Report {
                description: self.source.description.clone(),
                object_bytes: self.source.bytes,
                block_bytes: lost.block.stored_bytes,
                code: self.code.clone(),
                nodes,
                rate: self.rate,
                sha256: sha256_before.clone(),
                degraded_blocks,
                measured,
                total: Duration::ZERO,
            })
        })
    }

    async fn store(&self, client: &Client) -> Result<()> {
        self.step(&format!("put: {}", self.source.description))?;
        let started = Instant::now();
        let bar = bytes_bar(self.out, "put");
        let options = PutOptions {
            block_bytes: self.block_bytes,
            progress: Some(following(&bar)),
            input_bytes: Some(self.source.bytes),
            ..PutOptions::default()
        };
        let input = File::open(&self.source.path).context("cannot read the file")?;
        let object = client.put(OBJECT, input, options).await?;
        bar.finish_and_clear();
        self.took(started, &format!("{}, three replicas each", count(object.block_count, "block")))?;

        self.step(&format!("archive as {}", self.code))?;
        let started = Instant::now();
        let request = ArchiveRequest {
            name: OBJECT.to_owned(),
            code: self.code.name().to_owned(),
            slice_bytes: 0,
            short: true,
            ..Default::default()
        };
        job::watch_silently(self.out, "archive", client.archive(request).await?).await?;
        self.took(started, "parities made, verified, surplus replicas gone")
    }

    /// Kills the node that holds the object's first block.
    async fn lose_a_node(&self, client: &Client) -> Result<Lost> {
        let object = client.lookup(OBJECT, true).await?;
        let block = object.blocks.into_iter().next().context("the object has no blocks")?;
        let node = *block.living_nodes.first().context("the first block is nowhere")?;
        self.step(&format!("kill node-{node}, which holds block 0"))?;
        stop_all(&[self.stage.home.node(node)], true)?;
        Ok(Lost { node, block })
    }

    /// Reads the object back and compares; how many blocks had to be decoded.
    async fn read_back(&self, client: &Client, expected: &str) -> Result<u64> {
        self.step("get the file back")?;
        let started = Instant::now();
        let path = self.stage.path("read-back");
        let bar = bytes_bar(self.out, "get");
        let options = GetOptions { progress: Some(following(&bar)), ..GetOptions::default() };
        let report = client.get_to_file(OBJECT, &path, options).await?;
        bar.finish_and_clear();
        let took = seconds(started.elapsed());
        let got = sha256(&path)?;
        fs::remove_file(&path)?;
        ensure!(got == expected, "SHA-256 of what came back is {got}, of what was put {expected}");
        self.note(&format!(
            "{took}, {} decoded from others; SHA-256 equal",
            count(report.degraded_blocks, "block")
        ))?;
        Ok(report.degraded_blocks)
    }

    async fn measure(&self, client: &Client, lost: &Lost) -> Result<Vec<Measured>> {
        self.wait_until_dead(client, lost.node).await?;
        self.step(&format!(
            "limit every node to {} in each direction (token buckets in the daemons)",
            self.rate
        ))?;
        client.throttle(self.rate.0, self.rate.0).await?;
        let requestor = self.spare_node(client, lost).await?;
        let mut measured = Vec::new();
        for (scheme, runs) in [("conventional", 1), ("pipeline", RUNS)] {
            self.step(&format!("repair block 0 to node-{requestor}, {scheme}, {runs} ×, and throw it away"))?;
            let request = RepairRequest {
                block: lost.block.block.clone(),
                scheme: scheme.to_owned(),
                discard: true,
                requestor,
                ..RepairRequest::default()
            };
            let mut repairs = Vec::new();
            for _ in 0..runs {
                repairs.push(self.repair_once(client, request.clone()).await?);
            }
            measured.push(Measured::median_of(repairs)?);
        }
        let bytes = Size(lost.block.stored_bytes);
        self.step(&format!("send {bytes} over one plain TCP connection through the same buckets, {RUNS} ×"))?;
        let mut sends = Vec::new();
        for _ in 0..RUNS {
            let sent = bare::measure(bytes, self.rate)?;
            self.note(&seconds(sent))?;
            sends.push(Measured::bare(sent, bytes.0));
        }
        measured.push(Measured::median_of(sends)?);
        client.throttle(0, 0).await?;
        Ok(measured)
    }

    async fn repair_once(&self, client: &Client, request: RepairRequest) -> Result<Measured> {
        let cpu_before = self.cpu_seconds()?;
        let events = job::watch_silently(self.out, "repair", client.repair(request).await?).await?;
        let cpu = self.cpu_seconds()? - cpu_before;
        let repaired = events.iter().rev().find_map(Repaired::of).context("the repair reported no flow")?;
        self.note(&format!("{}, durable after {}", seconds(repaired.verified), seconds(repaired.durable)))?;
        Ok(Measured::repair(repaired, cpu))
    }

    async fn recover(&self, client: &Client, lost: &Lost) -> Result<()> {
        self.step(&format!("lift the limit, recover all of node-{}", lost.node))?;
        let started = Instant::now();
        let request = RepairRequest { node: lost.node, ..RepairRequest::default() };
        let events = job::watch_silently(self.out, "recover", client.repair(request).await?).await?;
        let blocks = count(events.iter().filter_map(Repaired::of).count() as u64, "block");
        let missing = client.status().await?.missing_blocks;
        ensure!(missing == 0, "{missing} blocks are still missing after the recovery");
        self.took(started, &format!("{blocks} rebuilt, none missing"))
    }

    async fn wait_until_dead(&self, client: &Client, node: u32) -> Result<()> {
        let deadline = Instant::now() + DEATH_PATIENCE;
        while client.status().await?.nodes.iter().any(|n| n.node == node && n.living) {
            if Instant::now() > deadline {
                bail!("the coordinator does not notice that node-{node} is dead");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// A living node without a block of the lost one's stripe.
    async fn spare_node(&self, client: &Client, lost: &Lost) -> Result<u32> {
        let object = client.lookup(OBJECT, true).await?;
        let block = object.blocks.into_iter().find(|b| b.block == lost.block.block);
        let stripe = block.and_then(|b| b.stripe).context("block 0 is in no stripe")?;
        let holds = |node: u32| node == lost.node || stripe.members.iter().any(|member| member.node == node);
        let nodes = client.status().await?.nodes;
        let spare = nodes.iter().find(|n| n.living && !holds(n.node));
        Ok(spare
            .with_context(|| {
                format!(
                    "no node is free of {}",
                    BlockId::from_slice(&lost.block.block).map_or("the stripe".to_owned(), |b| b.to_string())
                )
            })?
            .node)
    }

    /// Processor time of all daemons so far.
    fn cpu_seconds(&self) -> Result<f64> {
        let mut sum = 0.0;
        for dir in daemons(&self.stage.home)? {
            sum += dir.process()?.filter(|process| process.is_running()).map_or(0.0, |p| cpu_seconds(p.pid));
        }
        Ok(sum)
    }

    fn step(&self, what: &str) -> Result<()> {
        self.out.say(format!("▸ {what}"))
    }

    fn note(&self, what: &str) -> Result<()> {
        self.out.say(format!("    {what}"))
    }

    fn took(&self, since: Instant, what: &str) -> Result<()> {
        self.note(&format!("{}; {what}", seconds(since.elapsed())))
    }
}

struct Lost {
    node: u32,
    block: BlockInfo,
}
