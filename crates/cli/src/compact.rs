//! `stripeline compact`: the room of deleted objects that stripes keep comes back.

use crate::archive::EncodingArgs;
use crate::context::Context;
use crate::job;
use crate::repair::slice_bytes;
use anyhow::Result;
use client::Compaction;

pub fn run(context: &Context, encodings: EncodingArgs) -> Result<()> {
    let EncodingArgs { parallel, scheme, slice } = encodings;
    let request = Compaction {
        scheme: scheme.unwrap_or_default(),
        slice_bytes: slice_bytes(slice)?,
        parallel: parallel.unwrap_or(0),
    };
    let events = context.with_client(async |client| {
        job::watch(context.out, "compact", client.compact(request).await?).await
    })?;
    context.out.say(events.last().map_or_else(String::new, |event| event.message.clone()))
}
