//! `stripeline rm`: an object, or all of a prefix.

use super::{Done, Listed, Refused, Tally, listed};
use crate::amount::{Size, count};
use crate::context::Context;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use client::Client;
use serde_json::json;
use std::io::{self, BufRead, IsTerminal, Write};

/// Options of `rm`.
#[derive(Args, Debug)]
pub struct RmArgs {
    /// Name of the object
    #[arg(required_unless_present = "prefix", conflicts_with = "prefix")]
    name: Option<String>,
    /// Remove all objects whose names begin so; shows how many they are, and asks
    #[arg(long)]
    prefix: Option<String>,
    /// Only show what would be removed
    #[arg(long, requires = "prefix")]
    dry_run: bool,
    /// Remove without a question
    #[arg(long, requires = "prefix")]
    yes: bool,
}

/// Removes what is named.
pub fn rm(context: &Context, args: &RmArgs) -> Result<()> {
    match (&args.name, &args.prefix) {
        (Some(name), _) => {
            context.with_client(async |client| Ok(client.delete(name).await?))?;
            context.out.answer(&json!({"name": name, "removed": true}), || format!("{name} removed"))
        }
        (None, Some(prefix)) => rm_all(context, prefix, args),
        (None, None) => bail!("name an object, or give --prefix"),
    }
}

fn rm_all(context: &Context, prefix: &str, args: &RmArgs) -> Result<()> {
    if prefix.is_empty() {
        bail!("an empty prefix would remove everything: name what the objects have in common");
    }
    let objects = context.with_client(async |client| listed(&client, prefix).await)?;
    let bytes = objects.iter().map(|object| object.bytes).sum();
    let text = format!("{} of {}", count(objects.len() as u64, "object"), Size(bytes));
    if args.dry_run {
        let document = json!({"objects": objects.len(), "bytes": bytes, "removed": false});
        return context.out.answer(&document, || {
            let names = objects.iter().map(|object| format!("{}\n", object.name));
            format!("{}{text} would be removed", names.collect::<String>())
        });
    }
    if !objects.is_empty() && !args.yes && !confirmed(&objects, &text)? {
        bail!("nothing was removed");
    }
    let what = format!("rm {prefix}");
    let mut tally = Tally::new(context.out, (&what, "object"), objects.len() as u64, bytes);
    context.with_client(async |client| {
        let remove = |object: Listed| remove_one(client.clone(), object);
        tally.run(objects, super::AT_ONCE, remove).await;
        Ok(())
    })?;
    tally.answer(context.out, "removed")
}

async fn remove_one(client: Client, object: Listed) -> std::result::Result<Done, Refused> {
    match client.delete(&object.name).await {
        Ok(()) => Ok(Done::Moved(object.bytes)),
        Err(error) => Err(Refused::new(&object.name, error)),
    }
}

/// Asks whoever types here.
fn confirmed(objects: &[Listed], text: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("{text} would be removed, and nobody is there to ask: give --yes, or --dry-run to see them");
    }
    let mut terminal = io::stderr().lock();
    if let (Some(first), Some(last)) = (objects.first(), objects.last()) {
        writeln!(terminal, "{} … {}", first.name, last.name)?;
    }
    write!(terminal, "Remove {text}? [y/N] ")?;
    terminal.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}
