//! `stripeline compact`: the room of deleted objects that stripes keep comes back.

use crate::amount::Size;
use crate::context::Context;
use crate::job;
use crate::repair::slice_bytes;
use anyhow::Result;
use clap::Args;
use client::Compaction;

/// Options of `compact`.
#[derive(Args, Debug)]
pub struct CompactArgs {
    /// New stripes at once [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    parallel: Option<u32>,
    /// How parities are made, as 'stripeline archive' does [default: star]
    #[arg(long)]
    scheme: Option<String>,
    /// Size of a slice [default: 32KiB]
    #[arg(long, value_name = "SIZE")]
    slice: Option<Size>,
}

pub fn run(context: &Context, args: CompactArgs) -> Result<()> {
    let request = Compaction {
        scheme: args.scheme.unwrap_or_default(),
        slice_bytes: slice_bytes(args.slice)?,
        parallel: args.parallel.unwrap_or(0),
    };
    let events = context.with_client(async |client| {
        job::watch(context.out, "compact", client.compact(request).await?).await
    })?;
    context.out.say(events.last().map_or_else(String::new, |event| event.message.clone()))
}
