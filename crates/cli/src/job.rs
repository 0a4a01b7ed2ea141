//! Following a job of the coordinator: a bar for people, a line of JSON per event for programs.

use crate::output::{Output, fields, hex};
use crate::progress::{bytes_bar, count_bar};
use crate::traffic::Traffic;
use anyhow::Result;
use client::JobEvents;
use serde_json::Value;
use wire::proto::JobEvent;

/// Follows a job to its end; the events of it that report a flow, and the last one.
pub async fn watch(out: Output, what: &str, events: JobEvents) -> Result<Vec<JobEvent>> {
    follow(out, what, events, |event| out.event(&event_json(event))).await
}

/// The same for a command whose answer is something else: no event is printed.
pub async fn watch_silently(out: Output, what: &str, events: JobEvents) -> Result<Vec<JobEvent>> {
    follow(out, what, events, |_| Ok(())).await
}

async fn follow(
    out: Output,
    what: &str,
    mut events: JobEvents,
    tell: impl Fn(&JobEvent) -> Result<()>,
) -> Result<Vec<JobEvent>> {
    let mut bar = None;
    let mut flows = Vec::new();
    let mut last = None;
    while let Some(event) = events.next().await? {
        tell(&event)?;
        let bar = bar.get_or_insert_with(|| match event.unit.as_str() {
            "bytes" => bytes_bar(out, what),
            _ => count_bar(out, what),
        });
        bar.set_length(event.total);
        bar.set_position(event.done);
        if !event.message.is_empty() {
            bar.set_message(format!("{what}: {}", event.message));
        }
        if event.flow.is_some() {
            flows.push(event.clone());
        }
        last = Some(event);
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    // The last event may itself report a flow.
    flows.extend(last.filter(|event| event.flow.is_none()));
    Ok(flows)
}

fn event_json(event: &JobEvent) -> Value {
    let mut document = fields!(event => job state message done total unit failed);
    if event.total_bytes > 0 {
        document["done_bytes"] = event.done_bytes.into();
        document["total_bytes"] = event.total_bytes.into();
        document["left_ms"] = event.left_ms.into();
    }
    if let Some(flow) = &event.flow {
        let traffic = Traffic::of(&flow.links, &event.participants);
        document["block"] = hex(&event.block).into();
        document["scheme"] = event.scheme.clone().into();
        document["verified_us"] = flow.verified_us.into();
        document["durable_us"] = flow.durable_us.into();
        document["links"] = traffic.links_json();
        document["busiest"] = traffic.busiest_json();
        document["cpu_ns"] = flow.stages.iter().map(|s| s.cpu_ns).sum::<u64>().into();
    }
    document
}
