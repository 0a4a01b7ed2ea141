//! `stripeline health`: how far everything is from being lost, with an exit code for monitors.

use crate::amount::{Size, about, count};
use crate::context::Context;
use crate::output::{fields, table};
use anyhow::Result;
use client::Health;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Something cannot be read now.
const UNREADABLE: u8 = 4;

/// Everything can be read, but not everything has all of its copies, or the catalog's history is in doubt.
const LACKING: u8 = 3;

/// Not all is well: the program ends with another exit code than for an error.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Verdict {
    text: String,
    /// What the program ends with.
    pub code: u8,
}

impl Verdict {
    /// Of another command that judges.
    pub fn new(text: String, code: u8) -> Verdict {
        Verdict { text, code }
    }
}

pub fn run(context: &Context) -> Result<()> {
    let health = context.with_client(async |client| Ok(client.health().await?))?;
    context.out.answer(&document(&health), || text(&health))?;
    verdict(&health).map_or(Ok(()), |verdict| Err(verdict.into()))
}

fn verdict(health: &Health) -> Option<Verdict> {
    let (code, text) = match health {
        _ if !health.is_readable() => {
            let (objects, stripes) = (health.unreadable_objects, health.broken_stripes);
            (
                UNREADABLE,
                format!("{objects} objects cannot be read now, and {stripes} stripes not made whole"),
            )
        }
        _ if !health.is_whole() => (LACKING, format!("{} on living nodes", lack(health.short_blocks))),
        _ if !health.safe_mode.is_empty() => {
            (LACKING, format!("nothing is deleted, and all may not be known: {}", health.safe_mode))
        }
        _ => return None,
    };
    Some(Verdict { text, code })
}

fn lack(blocks: u64) -> String {
    let verb = if blocks == 1 { "has not all of its copies" } else { "have not all of their copies" };
    format!("{} {verb}", count(blocks, "block"))
}

fn document(health: &Health) -> Value {
    let margins = |counts: &BTreeMap<u64, u64>| -> Vec<Value> {
        counts.iter().map(|(losses, count)| json!({"losses": shown(*losses), "count": count})).collect()
    };
    let hindrances = health.hindrances.iter();
    let hindrances: Vec<Value> = hindrances
        .map(|told| json!({"why": told.why, "blocks": told.blocks, "block": told.block.to_string()}))
        .collect();
    fields!(health => unreadable_objects unreadable_names broken_stripes short_blocks waiting_for_nodes missing_copies
        damaged_copies safe_mode short_bytes healed_bytes_per_s; "left_s": left(health).map(|left| left.as_secs()), "objects": margins(&health.objects), "stripes": margins(&health.stripes),
        "hindrances": hindrances, "whole": health.is_whole())
}

/// How long it takes until nothing is short any more.
fn left(health: &Health) -> Option<Duration> {
    health.left().filter(|_| health.short_blocks > 0)
}

fn healing(health: &Health) -> String {
    let bytes = Size(health.short_bytes);
    let rate = health.healed_bytes_per_s.unwrap_or_default();
    match left(health) {
        Some(left) => format!(
            "{bytes} of copies are to be made; as fast as in the last minute, {} a second, that takes about {}",
            Size(rate as u64),
            about(left)
        ),
        None => format!("{bytes} of copies are to be made; hardly any were in the last minute"),
    }
}

/// Of what has no blocks nothing can be lost.
fn shown(losses: u64) -> Option<u64> {
    (losses < u64::MAX).then_some(losses)
}

fn text(health: &Health) -> String {
    let mut table = table(["SURVIVES", "OBJECTS", "STRIPES"]);
    let at = |counts: &BTreeMap<u64, u64>, losses| counts.get(&losses).copied().unwrap_or(0).to_string();
    if !health.is_readable() {
        let (objects, stripes) = (health.unreadable_objects, health.broken_stripes);
        table.add_row(["not readable now".to_owned(), objects.to_string(), stripes.to_string()]);
    }
    let mut margins: Vec<u64> = health.objects.keys().chain(health.stripes.keys()).copied().collect();
    margins.sort_unstable();
    margins.dedup();
    for losses in margins {
        let survives =
            shown(losses).map_or("any: it is empty".to_owned(), |losses| format!("{losses} more losses"));
        table.add_row([survives, at(&health.objects, losses), at(&health.stripes, losses)]);
    }
    let mut lines = vec![table.to_string()];
    lines.extend(health.unreadable_names.iter().map(|name| format!("attention: {name} cannot be read now")));
    if health.short_blocks > 0 {
        let (short, waiting) = (health.short_blocks, health.waiting_for_nodes);
        let (missing, damaged) = (health.missing_copies, health.damaged_copies);
        lines.push(format!(
            "attention: {} on living nodes, {waiting} of them since nodes do not answer, which are \
             recovered after a grace; {missing} copies are missing, {damaged} damaged",
            lack(short)
        ));
        lines.push(healing(health));
    }
    for told in &health.hindrances {
        let blocks = count(told.blocks, "block");
        lines.push(format!("attention: {blocks}, {} for one: {}", told.block, told.why));
    }
    if !health.safe_mode.is_empty() {
        lines.push(format!("attention: nothing is deleted, and all may not be known: {}", health.safe_mode));
    }
    if health.is_whole() {
        lines.push("everything has all of its copies noted, on nodes that live".to_owned());
    }
    lines.join("\n")
}
