//! `stripeline links`: what the coordinator knows of the network's links, and of the disks behind them.

use crate::context::Context;
use crate::output::table;
use anyhow::{Context as _, Result};
use clap::Subcommand;
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What to do with the table of links.
#[derive(Subcommand, Debug)]
pub enum LinksCommand {
    /// Replace the table; schemes that look at links, prices and `auto` use it from now on, and several lanes at once (cyclic,
    /// multi-path) go no faster than it says
    Set {
        /// JSON, in Mb/s, null for no limit: {"nodes": [1,2,…], "bandwidth": [[…]], "up": […], "down": […], "disk": […]};
        /// bandwidth[i][j] is that of the link from the i-th of the nodes to the j-th, up and down what each sends
        /// and receives in all [default for up and down: its fastest link], disk what its disk reads. Each part may be left out; without nodes
        /// they are 1, 2, 3, …; what is not listed is not limited. - for standard input
        file: PathBuf,
    },
    /// Show the table
    Show,
    /// Forget the table: all links are equal again
    Clear,
}

pub fn run(context: &Context, command: LinksCommand) -> Result<()> {
    let table = match command {
        LinksCommand::Set { file } => Some(read(&file)?),
        LinksCommand::Clear => Some("{}".to_owned()),
        LinksCommand::Show => None,
    };
    let json = context.with_client(async |client| match table {
        Some(table) => Ok(client.set_links(table).await?),
        None => Ok(client.links().await?),
    })?;
    let document: Value = serde_json::from_str(&json)?;
    context.out.answer(&document, || shown(&document))
}

fn read(file: &Path) -> Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read the table")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn shown(document: &Value) -> String {
    let list = |key: &str| document[key].as_array().cloned().unwrap_or_default();
    let (rows, up, down, disk) = (list("bandwidth"), list("up"), list("down"), list("disk"));
    let count = rows.len().max(up.len()).max(down.len()).max(disk.len());
    if count == 0 {
        return "no link is limited: all count as equal".to_owned();
    }
    let named = list("nodes");
    let node = |i: usize| named.get(i).and_then(Value::as_u64).unwrap_or(i as u64 + 1);
    let rate = |value: Option<&Value>| match value.and_then(Value::as_f64) {
        Some(rate) => rate.to_string(),
        None => "-".to_owned(),
    };
    let mut table = table(["FROM", "TO", "Mb/s"]);
    for (from, row) in rows.iter().enumerate() {
        for (to, value) in row.as_array().into_iter().flatten().enumerate().filter(|(to, _)| *to != from) {
            let ends = [from, to].map(|i| format!("node-{}", node(i)));
            table.add_row([ends[0].clone(), ends[1].clone(), rate(Some(value))]);
        }
    }
    for i in 0..count {
        if up.get(i).is_some_and(|v| !v.is_null()) {
            table.add_row([format!("node-{}", node(i)), "all".to_owned(), rate(up.get(i))]);
        }
        if down.get(i).is_some_and(|v| !v.is_null()) {
            table.add_row(["all".to_owned(), format!("node-{}", node(i)), rate(down.get(i))]);
        }
        if disk.get(i).is_some_and(|v| !v.is_null()) {
            table.add_row([format!("disk of node-{}", node(i)), String::new(), rate(disk.get(i))]);
        }
    }
    table.to_string()
}
