//! A flow as a person reads it: aligned text, and Graphviz DOT. The same flow always gives the same bytes.

use std::fmt::Write;

use crate::cost::{Cost, Direction, sites};
use crate::graph::{Flow, Input, Lane, Output, Site, Stage, Symbol};

/// Stages, paths, bytes and timeslots of `flow` in aligned columns. `name` names a site.
pub fn explain(flow: &Flow, cost: &Cost, name: impl Fn(Site) -> String) -> String {
    let mut text = String::new();
    let g = flow.geometry;
    line(
        &mut text,
        format_args!(
            "blocks of {} B, {} symbol{} each, {} slices of {} B, {}",
            g.block_bytes,
            g.alpha,
            if g.alpha == 1 { "" } else { "s" },
            g.slices(),
            g.slice_bytes,
            flow.field
        ),
    );
    for (index, lane) in flow.lanes.iter().enumerate() {
        line(&mut text, format_args!("\nlane {index}"));
        let rows = lane.stages.iter().map(|stage| stage_row(lane, stage, &name)).collect();
        table(&mut text, &["site", "takes", "makes"], rows);
    }
    line(&mut text, format_args!("\nnetwork"));
    let links = cost.links.iter();
    let rows = links.map(|(&(from, to), bytes)| vec![name(from), name(to), bytes.to_string()]).collect();
    table(&mut text, &["from", "to", "bytes"], rows);
    line(&mut text, format_args!("\ndisks"));
    table(&mut text, &["site", "read bytes", "written bytes"], disk_rows(cost, &name));
    let busiest = cost.bottleneck().map_or_else(String::new, |b| {
        let side = if b.direction == Direction::In { "into" } else { "out of" };
        format!(", most {side} {}: {} B", name(b.site), b.bytes)
    });
    line(&mut text, format_args!("\n{} B over the network{busiest}", cost.network_bytes()));
    line(&mut text, format_args!("{:.3} timeslots", cost.timeslots));
    text
}

/// Graphviz DOT of all lanes: stages as boxes, edges labelled with their rows. `name` names a site.
pub fn dot(flow: &Flow, name: impl Fn(Site) -> String) -> String {
    let mut text = String::from("digraph flow {\n  rankdir=LR;\n  node [shape=box];\n");
    for (index, lane) in flow.lanes.iter().enumerate() {
        line(&mut text, format_args!("  subgraph cluster_{index} {{\n    label=\"lane {index}\";"));
        for (id, stage) in lane.stages.iter().enumerate() {
            let own = [name(stage.site)].into_iter().chain(stage.inputs.iter().filter_map(local_text));
            let label: Vec<String> = own.chain(stage.outputs.iter().filter_map(sink_text)).collect();
            line(&mut text, format_args!("    l{index}s{id} [label=\"{}\"];", escape(&label.join("\n"))));
        }
        for edge in &lane.edges {
            let (from, to, rows) = (edge.from.0, edge.to.0, edge.rows);
            line(&mut text, format_args!("    l{index}s{from} -> l{index}s{to} [label=\"{rows}\"];"));
        }
        line(&mut text, format_args!("  }}"));
    }
    text.push_str("}\n");
    text
}

fn stage_row(lane: &Lane, stage: &Stage, name: &impl Fn(Site) -> String) -> Vec<String> {
    let site =
        |stage: u16| lane.stages.get(usize::from(stage)).map_or_else(String::new, |stage| name(stage.site));
    let edge = |edge: u16| lane.edges.get(usize::from(edge));
    let takes = stage.inputs.iter().map(|input| match input {
        Input::Edge(id) => {
            edge(id.0).map_or_else(String::new, |e| format!("{} from {}", rows(e.rows), site(e.from.0)))
        }
        own => local_text(own).unwrap_or_default(),
    });
    let makes = stage.outputs.iter().map(|output| match output {
        Output::Edge(id) => {
            edge(id.0).map_or_else(String::new, |e| format!("{} to {}", rows(e.rows), site(e.to.0)))
        }
        sink => sink_text(sink).unwrap_or_default(),
    });
    vec![name(stage.site), takes.collect::<Vec<_>>().join(" + "), makes.collect::<Vec<_>>().join(", ")]
}

fn rows(count: u16) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}

fn local_text(input: &Input) -> Option<String> {
    match input {
        Input::Local { member, symbols } => Some(format!("b{}{}", member.0, indexes(symbols))),
        Input::Source { member } => Some(format!("b{} from the client", member.0)),
        Input::Edge(_) => None,
    }
}

fn sink_text(output: &Output) -> Option<String> {
    match output {
        Output::Write { member } => Some(format!("write b{}", member.0)),
        Output::Read { symbols } => {
            let blocks = symbols.chunk_by(|a, b| a.member == b.member).map(|run: &[Symbol]| {
                let run_indexes: Vec<u16> = run.iter().map(|symbol| symbol.index).collect();
                format!("b{}{}", run[0].member.0, indexes(&run_indexes))
            });
            Some(format!("read {}", blocks.collect::<Vec<_>>().join(" ")))
        }
        Output::Edge(_) => None,
    }
}

/// Symbol indexes in brackets; a block of one symbol needs none.
fn indexes(symbols: &[u16]) -> String {
    if symbols == [0] {
        return String::new();
    }
    let list: Vec<String> = symbols.iter().map(u16::to_string).collect();
    format!("[{}]", list.join(","))
}

fn disk_rows(cost: &Cost, name: &impl Fn(Site) -> String) -> Vec<Vec<String>> {
    let bytes = |map: &std::collections::BTreeMap<Site, u64>, site| map.get(&site).copied();
    sites(cost)
        .into_iter()
        .map(|site| (site, bytes(&cost.disk_read, site), bytes(&cost.disk_written, site)))
        .filter(|&(_, read, written)| read.is_some() || written.is_some())
        .map(|(site, read, written)| {
            vec![name(site), read.unwrap_or(0).to_string(), written.unwrap_or(0).to_string()]
        })
        .collect()
}

/// Columns as wide as their widest cell; those headed "bytes" are aligned right.
fn table(text: &mut String, head: &[&str], rows: Vec<Vec<String>>) {
    let head: Vec<String> = head.iter().map(|&title| title.to_owned()).collect();
    let width =
        |column: usize| rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    for row in [&head].into_iter().chain(&rows) {
        let mut out = String::new();
        for ((cell, title), &width) in row.iter().zip(&head).zip(&widths) {
            // Writing to a String cannot fail.
            let _ = if title.ends_with("bytes") {
                write!(out, "  {cell:>width$}")
            } else {
                write!(out, "  {cell:<width$}")
            };
        }
        line(text, format_args!("{}", out.trim_end()));
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{arguments}");
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
