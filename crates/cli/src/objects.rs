//! `stripeline put`, `get`, `ls`, `stat`: what is done with objects.

use crate::amount::{Size, count};
use crate::bucket::GatherArgs;
use crate::context::Context;
use crate::output::{closed, fields, hex, table};
use crate::progress::{bytes_bar, following};
use crate::repair::{schemes, slice_bytes};
use crate::tree::{self, TreeArgs};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use client::{ByteRange, ClientError, GetOptions, GetReport, PutOptions};
use flow::limits;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use wire::proto::{BlockInfo, ObjectInfo, StripeStatus};

/// Options of `put`.
#[derive(Args, Debug)]
pub struct PutArgs {
    /// File to store; - for standard input. With --recursive: a folder
    file: PathBuf,
    /// Name of the object. With --recursive: what the names of all objects begin with
    name: String,
    #[command(flatten)]
    tree: TreeArgs,
    /// Size of its blocks [default: the cluster's]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<Size>,
    /// Replicas until it is archived [default: 3]; none are made with --code and without --policy
    #[arg(long, value_name = "N")]
    replicas: Option<u32>,
    #[command(flatten)]
    gather: GatherArgs,
    /// With --code and without --policy: whatever room it takes, even more than replicas would
    #[arg(long, requires = "code", conflicts_with = "policy")]
    short: bool,
}

/// Options of `get`.
#[derive(Args, Debug)]
pub struct GetArgs {
    /// Name of the object. With --recursive: what the names of all objects begin with
    name: String,
    /// Where to write it [default: standard output, as for -]. With --recursive: a folder
    #[arg(required_if_eq("recursive", "true"))]
    file: Option<PathBuf>,
    #[command(flatten)]
    tree: TreeArgs,
    /// Part of it: 0-4095 (both ends included), 4096- or -500 (the last 500 bytes)
    #[arg(long, value_name = "A-B", allow_hyphen_values = true, conflicts_with = "recursive")]
    range: Option<ByteRange>,
    #[arg(long, default_value = "auto", help = schemes())]
    scheme: String,
    /// Size of a slice [default: 32KiB]
    #[arg(long, value_name = "SIZE")]
    slice: Option<Size>,
    /// Wait for nodes that are slow, instead of going around them when a block takes three to six times as long as the last ones did,
    /// and instead of asking others too when less than 1 MiB takes longer than nearly all such reads did
    #[arg(long)]
    patient: bool,
}

pub fn put(context: &Context, args: PutArgs) -> Result<()> {
    if args.block_size == Some(Size(0)) || args.replicas == Some(0) {
        bail!("--block-size and --replicas must be at least 1");
    }
    if let Some(size) = args.block_size.filter(|size| size.0 < limits::MIN_BLOCK_BYTES) {
        bail!("--block-size {size}: blocks have {} bytes at least", limits::MIN_BLOCK_BYTES);
    }
    let options = PutOptions {
        block_bytes: args.block_size.map_or(0, |size| size.0),
        replicas: args.replicas.unwrap_or(0),
        gathers: args.gather.terms()?,
        short: args.short,
        ..PutOptions::default()
    };
    if args.tree.recursive {
        return tree::put(context, &args.file, &args.name, (&args.tree, &options));
    }
    let (input, input_bytes) = open_input(&args.file)?;
    let bar = bytes_bar(context.out, &format!("put {}", args.name));
    let options = PutOptions { progress: Some(following(&bar)), input_bytes, ..options };
    let object = context.with_client(async |client| Ok(client.put(&args.name, input, options).await?));
    bar.finish_and_clear();
    let object = object?;
    context.out.answer(&object_json(&object), || {
        let size = Size(object.object_bytes);
        format!("{}: {size} stored in {}", object.name, count(object.block_count, "block"))
    })
}

pub fn get(context: &Context, args: GetArgs) -> Result<()> {
    let options = GetOptions {
        range: args.range,
        scheme: args.scheme,
        slice_bytes: slice_bytes(args.slice)?,
        patient: args.patient,
        progress: None,
    };
    if let (true, Some(folder)) = (args.tree.recursive, &args.file) {
        return tree::get(context, &args.name, folder, (&args.tree, &options));
    }
    let to_stdout = args.file.as_deref().is_none_or(|file| file == Path::new("-"));
    let bar = bytes_bar(context.out, &format!("get {}", args.name));
    let options = GetOptions { progress: Some(following(&bar)), ..options };
    let report = context.with_client(async |client| match &args.file {
        Some(file) if !to_stdout => Ok(client.get_to_file(&args.name, file, options).await?),
        _ => client.get(&args.name, io::stdout(), options).await.map_err(of_stdout),
    });
    bar.finish_and_clear();
    let report = report?;
    if to_stdout {
        // The bytes are the answer; anything else would be taken for more of them.
        return Ok(());
    }
    context.out.answer(&report_json(&report), || report_text(&report))
}

pub fn ls(context: &Context, prefix: &str) -> Result<()> {
    let (objects, error) = context.with_client(async |client| Ok(client.list_readable(prefix).await?))?;
    let document: Vec<Value> = objects.iter().map(object_json).collect();
    context.out.answer(&document, || {
        let mut table = table(["SIZE", "BLOCKS", "CODE", "NAME"]);
        for o in &objects {
            let size = Size(o.object_bytes).to_string();
            table.add_row([size, o.block_count.to_string(), o.code.clone(), o.name.clone()]);
        }
        table.to_string()
    })?;
    error.map_or(Ok(()), |error| Err(error.into()))
}

pub fn stat(context: &Context, name: &str, node_of: Option<u64>) -> Result<()> {
    let object = context.with_client(async |client| Ok(client.lookup(name, true).await?))?;
    if let Some(index) = node_of {
        let Some(block) = object.blocks.iter().find(|block| block.index == index) else {
            bail!("'{name}' has {}; there is no block {index}", count(object.block_count, "block"));
        };
        let Some(node) = block.living_nodes.first() else {
            bail!("no living node holds block {index} of '{name}'");
        };
        return context.out.answer(&json!({"index": index, "node": node}), || node.to_string());
    }
    let mut document = object_json(&object);
    document["blocks"] = object.blocks.iter().map(block_json).collect();
    context.out.answer(&document, || stat_text(&object))
}

fn open_input(path: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>)> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let metadata = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    if metadata.is_dir() {
        bail!("{} is a folder; --recursive puts all files in it", path.display());
    }
    let length = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(file), length))
}

fn of_stdout(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::Output(cause) => closed(io::Error::new(cause.kind(), cause.to_string())),
        other => other.into(),
    }
}

fn object_json(object: &ObjectInfo) -> Value {
    fields!(object => name version object_bytes block_bytes block_count code created_unix_ms;
        "digest": hex(&object.digest))
}

fn block_json(block: &BlockInfo) -> Value {
    let stripe = block.stripe.as_ref().map(|stripe| {
        let members: Vec<Value> = stripe
            .members
            .iter()
            .map(|m| fields!(m => node living is_virtual stored_bytes; "block": hex(&m.block)))
            .collect();
        fields!(stripe => code index; "stripe": hex(&stripe.stripe), "members": members)
    });
    let waiting = block.waiting.as_ref().map(
        |waiting| fields!(waiting => code policy blocks sealed core_rack; "stripe": hex(&waiting.stripe)),
    );
    fields!(block => index offset stored_bytes nodes living_nodes wanted;
        "block": hex(&block.block), "digest": hex(&block.digest), "stripe": stripe, "waiting": waiting)
}

fn stat_text(object: &ObjectInfo) -> String {
    let mut table = table(["INDEX", "BLOCK", "SIZE", "COPIES", "NODES", "STRIPE"]);
    for block in &object.blocks {
        let node =
            |id: &u32| if block.living_nodes.contains(id) { format!("{id}") } else { format!("{id} (dead)") };
        let stripe = match (&block.stripe, &block.waiting) {
            (Some(stripe), _) => {
                let stored = || stripe.members.iter().filter(|m| !m.is_virtual);
                let living = stored().filter(|m| m.living || m.stored_bytes == 0).count();
                let is_virtual = stripe.members.get(stripe.index as usize).is_some_and(|m| m.is_virtual);
                let kind = if is_virtual { "virtual block" } else { "block" };
                format!("{} {kind} {} ({living} of {} there)", stripe.code, stripe.index, stored().count())
            }
            (None, Some(waiting)) => {
                let state = if waiting.sealed { "sealed" } else { "open" };
                format!("waits for {}: {state}, {}", waiting.code, count(u64::from(waiting.blocks), "block"))
            }
            (None, None) => "-".to_owned(),
        };
        table.add_row([
            block.index.to_string(),
            hex(&block.block),
            Size(block.stored_bytes).to_string(),
            format!("{} of {}", block.living_nodes.len(), block.wanted),
            block.nodes.iter().map(node).collect::<Vec<_>>().join(" "),
            stripe,
        ]);
    }
    format!(
        "name     {}\nversion  {}\nsize     {} ({} bytes)\ncode     {}\nblake3   {}\nblocks   {} of up to {}\n{table}",
        object.name,
        object.version,
        Size(object.object_bytes),
        object.object_bytes,
        object.code,
        hex(&object.digest),
        object.block_count,
        Size(object.block_bytes),
    ) + &parities_text(object)
}

/// The members of the object's stripes that are no data, with the nodes that hold them.
fn parities_text(object: &ObjectInfo) -> String {
    let mut table = table(["PARITY", "BLOCK", "SIZE", "NODE", "OF STRIPE"]);
    let mut seen = BTreeSet::new();
    for stripe in object.blocks.iter().filter_map(|block| block.stripe.as_ref()) {
        if seen.insert(&stripe.stripe) {
            parities(stripe).for_each(|row| _ = table.add_row(row));
        }
    }
    if table.is_empty() { String::new() } else { format!("\n{table}") }
}

fn parities(stripe: &StripeStatus) -> impl Iterator<Item = [String; 5]> {
    let k = codes::Code::parse(&stripe.code).map_or(0, |code| code.k());
    let made = stripe.members.iter().enumerate().skip(k).filter(|(_, member)| !member.block.is_empty());
    made.map(|(index, member)| {
        let dead = if member.living { "" } else { " (dead)" };
        [
            index.to_string(),
            hex(&member.block),
            Size(member.stored_bytes).to_string(),
            format!("{}{dead}", member.node),
            hex(&stripe.stripe),
        ]
    })
}

fn report_json(report: &GetReport) -> Value {
    let around: Vec<u32> = report.around.iter().map(|node| node.0).collect();
    let hedges = fields!(report.hedges => asked first bytes);
    fields!(
        report.object => name version,
        report => bytes degraded_blocks digest_checked;
        "around": around, "hedges": hedges
    )
}

fn report_text(report: &GetReport) -> String {
    let checked = if report.digest_checked { "; the digest is right" } else { "" };
    let degraded = match report.degraded_blocks {
        0 => String::new(),
        blocks => format!(", {} decoded from others", count(blocks, "block")),
    };
    let around: Vec<String> = report.around.iter().map(ToString::to_string).collect();
    let around = match around.is_empty() {
        true => String::new(),
        false => format!(", around {}: slow", around.join(", ")),
    };
    let hedges = match report.hedges.asked {
        0 => String::new(),
        asked => format!(", {} for what was late ({} first)", count(asked, "hedge"), report.hedges.first),
    };
    format!("{}: {} read{degraded}{around}{hedges}{checked}", report.object.name, Size(report.bytes))
}
