//! `stripeline archive`: replicas become stripes of a code.

use crate::amount::Age;
use crate::amount::Size;
use crate::context::Context;
use crate::job;
use crate::repair::slice_bytes;
use anyhow::{Result, bail};
use clap::{ArgGroup, Args};
use client::Archival;
use std::time::Duration;

/// Options of `archive`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").required(true))]
pub struct ArchiveArgs {
    /// Name of the object
    #[arg(group = "what")]
    name: Option<String>,
    /// All objects whose names begin so; '' for all there are
    #[arg(long, group = "what")]
    prefix: Option<String>,
    /// All objects of a bucket: those whose names begin with it and a slash
    #[arg(long, group = "what")]
    bucket: Option<String>,
    /// Only what was put so long ago, such as 90s, 12h or 30d
    #[arg(long, value_name = "AGE")]
    older_than: Option<Age>,
    /// Erasure code, such as rs-10+4; see 'stripeline codes list'. Without it only blocks are encoded that wait in stripes
    /// already, each with the code of its stripe
    #[arg(long)]
    code: Option<String>,
    /// Encode stripes too that lack blocks, whatever they cost; open ones take no more blocks then
    #[arg(long)]
    short: bool,
    /// What is archived with another code is encoded anew with --code, blocks of other objects in the same stripes with their own
    #[arg(long, requires = "code")]
    change: bool,
    #[command(flatten)]
    encodings: EncodingArgs,
}

/// How stripes are made.
#[derive(Args, Debug)]
pub struct EncodingArgs {
    /// Stripes at once [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub parallel: Option<u32>,
    /// How parities are made: star (one node reads the data and makes all), pipeline (along a chain of the nodes that have the data),
    /// pipeline-lanes, star-lanes [default: star]
    #[arg(long)]
    pub scheme: Option<String>,
    /// Size of a slice [default: 32KiB]
    #[arg(long, value_name = "SIZE")]
    pub slice: Option<Size>,
}

pub fn run(context: &Context, args: ArchiveArgs) -> Result<()> {
    // A bad name is refused here, with what there is instead, before anything is asked of the cluster.
    args.code.as_deref().map(codes::Code::parse).transpose()?;
    let (name, is_prefix) = match (args.name, args.prefix, args.bucket) {
        (Some(name), ..) => (name, false),
        (_, Some(prefix), _) => (prefix, true),
        (_, _, Some(bucket)) if bucket.is_empty() || bucket.contains('/') => {
            bail!("'{bucket}' is no bucket: that is what a name has before its first slash")
        }
        (_, _, Some(bucket)) => (format!("{bucket}/"), true),
        (None, None, None) => bail!("say what to archive: an object, --prefix or --bucket"),
    };
    let encodings = args.encodings;
    let request = Archival {
        name: name.clone(),
        code: args.code.unwrap_or_default(),
        slice_bytes: slice_bytes(encodings.slice)?,
        is_prefix,
        older_than: args.older_than.map_or(Duration::ZERO, |Age(age)| age),
        scheme: encodings.scheme.unwrap_or_default(),
        parallel: encodings.parallel.unwrap_or(0),
        short: args.short,
        change: args.change,
    };
    let events = context.with_client(async |client| {
        job::watch(context.out, "archive", client.archive(request).await?).await
    })?;
    // What was encoded, what that saves, and what is left.
    let told = events.last().map_or("", |event| event.message.as_str());
    context.out.say(if is_prefix { told.to_owned() } else { format!("{name}: {told}") })
}
