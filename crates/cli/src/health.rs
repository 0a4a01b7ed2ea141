//! `stripeline health`: how far everything is from being lost, with an exit code for monitors.

use crate::amount::{Rate, Size, about};
use crate::context::Context;
use crate::output::{fields, table};
use anyhow::Result;
use client::Health;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

/// Something cannot be read now.
const UNREADABLE: u8 = 4;

/// Exit code: everything can be read, but copies are missing or unreadable, an order is stuck, or the catalog's history is in doubt.
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
    let code = match health.verdict() {
        client::Verdict::Well => return None,
        client::Verdict::Lacking => LACKING,
        client::Verdict::Unreadable => UNREADABLE,
    };
    let told = health.attention();
    let worst = told.iter().max_by_key(|told| (told.code.verdict(), std::cmp::Reverse(told.code)));
    let text = match code {
        UNREADABLE => format!(
            "{} objects cannot be read now, and {} stripes not made whole",
            health.unreadable_objects, health.broken_stripes
        ),
        _ => worst.map_or(String::new(), |worst| worst.text.clone()),
    };
    Some(Verdict { text, code })
}

fn document(health: &Health) -> Value {
    let margins = |counts: &BTreeMap<u64, u64>| -> Vec<Value> {
        counts.iter().map(|(losses, count)| json!({"losses": shown(*losses), "count": count})).collect()
    };
    let hindrances = health.hindrances.iter();
    let hindrances: Vec<Value> = hindrances
        .map(|told| json!({"why": told.why, "blocks": told.blocks, "block": told.block.to_string()}))
        .collect();
    let attention = health.attention().into_iter();
    let attention: Vec<Value> = attention
        .map(|told| json!({"code": told.code.name(), "count": told.count, "text": told.text}))
        .collect();
    fields!(health => unreadable_objects unreadable_names broken_stripes short_blocks waiting_for_nodes missing_copies
        damaged_copies safe_mode short_bytes healed_bytes_per_s healing_limit_bytes_per_s unread_copies at_unix_ms; "left_s": left(health).map(|left| left.as_secs()),
        "objects": margins(&health.objects), "stripes": margins(&health.stripes),
        "hindrances": hindrances, "attention": attention, "whole": health.is_whole())
}

/// How long it takes until nothing is short any more.
fn left(health: &Health) -> Option<Duration> {
    health.left().filter(|_| health.short_blocks > 0)
}

fn healing(health: &Health) -> String {
    let bytes = Size(health.short_bytes);
    let limit = health.healing_limit_bytes_per_s.filter(|_| health.limited_left.is_some()).map(|limit| {
        let rate = Rate(limit);
        format!("; nodes may carry {rate} each for that, which 'stripeline throttle --healing' changes")
    });
    let limit = limit.unwrap_or_default();
    match (left(health), health.healed_bytes_per_s) {
        (Some(left), Some(rate)) => format!(
            "{bytes} of copies are to be made, {} a second in the last minute: whole in about {}{limit}",
            Size(rate as u64),
            about(left)
        ),
        (Some(left), None) => {
            format!("{bytes} of copies are to be made: whole in about {} at best{limit}", about(left))
        }
        (None, _) => format!("{bytes} of copies are to be made; hardly any were in the last minute"),
    }
}

/// Formats a moment for people.
fn when(unix_ms: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(unix_ms))
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
    let mut lines = vec![format!("as of {}", when(health.at_unix_ms)), table.to_string()];
    lines.extend(health.attention().iter().map(|told| format!("attention: {}", told.text)));
    if health.short_blocks > 0 {
        lines.push(healing(health));
    }
    if health.is_whole() {
        lines.push("everything has all of its copies noted, on nodes that live and can read them".to_owned());
    }
    lines.join("\n")
}
