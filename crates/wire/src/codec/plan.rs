//! Whole plans as messages.

use super::stage::{self, Named};
use super::{header, invalid, narrow};
use crate::proto;
use flow::bound::{Binding, BoundEdge, Participant};
use flow::{Edge, Flow, FlowPlan, Lane, Site, StageId};
use model::{Fault, Peer, Token};
use std::time::Duration;

/// The message that carries a plan to its driver. Only a plan with its proof becomes one.
pub fn encode(plan: &FlowPlan) -> proto::FlowPlan {
    let FlowPlan { flow, binding, edges, .. } = plan;
    let mut stages = Vec::with_capacity(flow.lanes.iter().map(|lane| lane.stages.len()).sum());
    stages.extend(flow.stages().map(|(key, stage)| stage::encode(key, stage, binding)));
    let mut messages = Vec::with_capacity(edges.iter().map(Vec::len).sum());
    for (number, (lane, bound)) in (0..).zip(flow.lanes.iter().zip(edges)) {
        for (index, (edge, bound)) in (0..).zip(lane.edges.iter().zip(bound)) {
            messages.push(proto::Edge {
                lane: number,
                edge: index,
                from: u32::from(edge.from.0),
                to: u32::from(edge.to.0),
                rows: u32::from(edge.rows),
                token: bound.token.to_vec(),
                extents: bound.extents.clone(),
            });
        }
    }
    proto::FlowPlan {
        header: Some(header::encode(&binding.header)),
        participants: participants(&binding.participants),
        stages,
        edges: messages,
        scheme: binding.scheme.clone(),
        first_slice: binding.slices.start,
        slice_count: binding.slices.end - binding.slices.start,
        predicted: links(plan.predicted.iter().copied()),
        shares: flow.shares.clone(),
        expected_us: plan.expected.map_or(0, |expected| expected.as_micros() as u64),
        symbol_bytes_per_s: plan.symbol_bytes_per_s,
    }
}

/// The order to drive a flow or, to rehearse, only to have all who take part prepare.
pub fn order(plan: &FlowPlan, rehearse: bool) -> proto::DriveRequest {
    proto::DriveRequest { plan: Some(encode(plan)), rehearse }
}

/// Who takes part, as messages.
pub fn participants(participants: &[Participant]) -> Vec<proto::Participant> {
    let message = |p: &Participant| proto::Participant {
        site: p.site.0,
        node: p.peer.number(),
        control_addr: p.control_addr.clone(),
        data_addr: p.data_addr.clone(),
        rack: p.rack,
    };
    participants.iter().map(message).collect()
}

/// Bytes of links, as messages.
pub fn links(links: impl Iterator<Item = ((Site, Site), u64)>) -> Vec<proto::LinkBytes> {
    links.map(|((from, to), bytes)| proto::LinkBytes { from: from.0, to: to.0, bytes }).collect()
}

/// Reads and checks a plan.
///
/// # Errors
/// A fault that says what is wrong.
pub fn decode(plan: &proto::FlowPlan) -> Result<FlowPlan<Flow>, Fault> {
    let header = header::decode(plan.header.as_ref())?;
    let mut named = Named::default();
    let mut lanes: Vec<Lane> = Vec::new();
    for message in &plan.stages {
        let ((lane, index), stage) = named.stage(message, header.field)?;
        if lane as usize == lanes.len() && lanes.len() <= flow::validate::MAX_LANES {
            lanes.push(Lane { stages: Vec::new(), edges: Vec::new() });
        }
        let stages = lanes.get_mut(lane as usize).map(|lane| &mut lane.stages);
        let stages = stages.filter(|stages| stages.len() == index as usize);
        stages.ok_or_else(|| invalid("stages out of order, or of too many lanes"))?.push(stage);
    }
    let mut edges: Vec<Vec<BoundEdge>> = vec![Vec::new(); lanes.len()];
    for message in &plan.edges {
        let (edge, bound) = decode_edge(message)?;
        let lane = lanes.get_mut(message.lane as usize).filter(|l| l.edges.len() == message.edge as usize);
        lane.ok_or_else(|| invalid("edges out of order, or of no lane"))?.edges.push(edge);
        edges[message.lane as usize].push(bound);
    }
    let shares = match plan.shares[..] {
        [] if lanes.len() == 1 => vec![1],
        _ => plan.shares.clone(),
    };
    let end = plan.first_slice.checked_add(plan.slice_count);
    let end = end.ok_or_else(|| invalid("slices beyond the block's"))?;
    let flow = Flow { field: header.field, geometry: header.geometry, lanes, shares };
    let participant = |p: &proto::Participant| Participant {
        site: Site(p.site),
        peer: Peer::from_number(p.node),
        control_addr: p.control_addr.clone(),
        data_addr: p.data_addr.clone(),
        rack: p.rack,
    };
    let binding = Binding {
        header,
        participants: plan.participants.iter().map(participant).collect(),
        blocks: named.blocks,
        writes: named.writes,
        scheme: plan.scheme.clone(),
        slices: plan.first_slice..end,
    };
    // A driver has no use for what was predicted.
    let predicted = Vec::new();
    let expected = (plan.expected_us > 0).then(|| Duration::from_micros(plan.expected_us));
    let symbol_bytes_per_s = plan.symbol_bytes_per_s;
    FlowPlan { flow, binding, edges, predicted, expected, symbol_bytes_per_s }.arrived()
}

fn decode_edge(message: &proto::Edge) -> Result<(Edge, BoundEdge), Fault> {
    let (from, to) = (StageId(narrow(message.from)?), StageId(narrow(message.to)?));
    let token = Token::from_slice(&message.token).map_err(|_| invalid("token of an edge"))?;
    let edge = Edge { from, to, rows: narrow(message.rows)? };
    Ok((edge, BoundEdge { token, extents: message.extents.clone() }))
}
