//! `stripeline cluster unknown`: copies that nodes have and the catalog knows nothing of, and their deletion by an operator's word.

use crate::amount::Size;
use crate::context::Context;
use crate::output::{fields, table};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use model::{BlockCopy, NodeId};
use serde_json::{Value, json};
use std::io::{self, BufRead, IsTerminal, Write};
use wire::codec::unknown::{LetGo, Unknown, UnknownCopy};

#[derive(Args, Debug)]
pub struct UnknownArgs {
    /// Only this node
    #[arg(long, value_name = "N", conflicts_with = "delete")]
    node: Option<u32>,
    /// Delete these copies for good, after a question; each is named as in the list
    #[arg(long, value_name = "NODE:BLOCK.GENERATION", num_args = 1.., value_parser = copy)]
    delete: Vec<BlockCopy>,
    /// Delete without a question
    #[arg(long, requires = "delete")]
    yes: bool,
}

pub fn run(context: &Context, args: &UnknownArgs) -> Result<()> {
    if !args.delete.is_empty() {
        return delete(context, &args.delete, args.yes);
    }
    let node = args.node.map(NodeId);
    let unknown = context.with_client(async |client| Ok(client.unknown_copies(node).await?))?;
    context.out.answer(&document(&unknown), || text(&unknown))
}

fn delete(context: &Context, copies: &[BlockCopy], is_sure: bool) -> Result<()> {
    if !is_sure && !confirmed(copies)? {
        bail!("nothing was deleted");
    }
    let gone = context.with_client(async |client| Ok(client.let_unknown_go(copies).await?))?;
    let LetGo { noted, refused, kept_because } = &gone;
    let named: Vec<String> = refused.iter().map(name).collect();
    context.out.answer(&json!({"noted": noted, "refused": named, "kept_because": kept_because}), || {
        gone_text(&gone)
    })?;
    if !refused.is_empty() {
        bail!(
            "{} of those named: not unknown, or not there any more; nothing was changed for {}",
            copies_text(named.len() as u64),
            named.join(", ")
        );
    }
    Ok(())
}

fn copies_text(copies: u64) -> String {
    format!("{copies} {}", if copies == 1 { "copy" } else { "copies" })
}

/// Asks whoever types here.
fn confirmed(copies: &[BlockCopy]) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("these copies would be deleted for good, and nobody is there to ask: give --yes");
    }
    let mut terminal = io::stderr().lock();
    for copy in copies {
        writeln!(terminal, "{}", name(copy))?;
    }
    write!(
        terminal,
        "Delete {} for good? Nothing brings them back. [y/N] ",
        copies_text(copies.len() as u64)
    )?;
    terminal.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}

/// As operators name a copy.
fn name(copy: &BlockCopy) -> String {
    format!("{}:{}.{}", copy.node.0, copy.block, copy.generation)
}

fn copy(text: &str) -> std::result::Result<BlockCopy, String> {
    let parsed = || {
        let (node, file) = text.split_once(':')?;
        let (block, generation) = file.split_once('.')?;
        let (node, block) = (NodeId(node.parse().ok()?), block.parse().ok()?);
        Some(BlockCopy { block, node, generation: generation.parse().ok()? })
    };
    parsed().ok_or_else(|| {
        "a copy is named as 'stripeline cluster unknown' lists it: NODE:BLOCK.GENERATION".to_owned()
    })
}

fn document(unknown: &Unknown) -> Value {
    let copy = |unknown: &UnknownCopy| {
        let UnknownCopy { copy, stored_bytes, part, unread } = unknown;
        json!({
            "copy": name(copy),
            "node": copy.node.0,
            "block": copy.block.to_string(),
            "generation": copy.generation,
            "stored_bytes": stored_bytes,
            "object": part.as_ref().map(|part| &part.name),
            "version": part.as_ref().map(|part| part.version),
            "unread": unread,
        })
    };
    let copies: Vec<Value> = unknown.copies.iter().map(copy).collect();
    let unasked = unknown.unasked.iter().map(|(node, why)| json!({"node": node.0, "why": why}));
    fields!(unknown => others kept_because; "copies": copies, "unasked": unasked.collect::<Vec<_>>())
}

fn text(unknown: &Unknown) -> String {
    let Unknown { copies, others, unasked, kept_because } = unknown;
    let mut lines = Vec::new();
    if copies.is_empty() {
        let asked = if unasked.is_empty() { "the nodes" } else { "the nodes that answered" };
        lines.push(format!("{asked} have no copy that the catalog does not know"));
    } else {
        let mut table = table(["COPY", "BYTES", "OBJECT", "VERSION", "NOTE"]);
        for UnknownCopy { copy, stored_bytes, part, unread } in copies {
            table.add_row([
                name(copy),
                stored_bytes.map_or_else(|| "?".to_owned(), |bytes| Size(bytes).to_string()),
                part.as_ref().map_or_else(String::new, |part| part.name.clone()),
                part.as_ref().map_or_else(String::new, |part| part.version.to_string()),
                unread.clone().unwrap_or_default(),
            ]);
        }
        lines.push(table.to_string());
    }
    if *others > 0 {
        lines.push(format!("{others} more are not listed; --node N lists those of one node"));
    }
    lines.extend(
        unasked
            .iter()
            .map(|(node, why)| format!("{node} was not asked: {why}; nothing is known of what it has")),
    );
    if !copies.is_empty() {
        lines.push("no row of the catalog names these copies; they are kept until you name them: 'stripeline cluster unknown --delete COPY'".to_owned());
    }
    lines.extend(kept(kept_because));
    lines.join("\n")
}

fn gone_text(gone: &LetGo) -> String {
    let told = match gone.noted {
        0 => "nothing is to be deleted".to_owned(),
        noted => {
            format!("{} will be deleted once the grace for superfluous copies is over", copies_text(noted))
        }
    };
    [Some(told), kept(&gone.kept_because)].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn kept(why: &str) -> Option<String> {
    (!why.is_empty()).then(|| format!("attention: nothing is deleted now: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_named_as_they_are_listed() {
        let copy_of_it = BlockCopy { block: model::BlockId(0xab), node: NodeId(3), generation: 17 };
        assert_eq!(name(&copy_of_it), "3:000000000000000000000000000000ab.17");
        assert_eq!(copy(&name(&copy_of_it)), Ok(copy_of_it));
        for bad in
            ["", "3", "3:ab.17", "000000000000000000000000000000ab.17", "3:000000000000000000000000000000ab"]
        {
            assert!(copy(bad).is_err(), "{bad}");
        }
    }
}
