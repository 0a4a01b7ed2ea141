//! What a node runs of a flow, as a message.

use super::stage::{self, Named};
use super::{header, invalid, narrow};
use crate::proto;
use flow::bound::{EdgeEnd, Ends, NodeStages};
use flow::{Flow, FlowPlan, Site};
use model::{Fault, Peer, Token};

/// The message for the site at which these `ends` of edges are; without grants.
pub fn encode(plan: &FlowPlan<Flow>, site: Site, ends: &Ends) -> proto::Prepare {
    let stages = plan.flow.stages().filter(|(_, stage)| stage.site == site);
    let end = |(&(lane, edge, sender), end): (&(u32, u32, bool), &EdgeEnd)| proto::EdgeEnd {
        lane,
        edge,
        rows: u32::from(end.rows),
        token: end.token.to_vec(),
        sender,
        dial: end.dial.map(|addr| addr.to_string()).unwrap_or_default(),
        peer_node: end.peer.number(),
        extents: end.extents.clone(),
        bytes_per_s: end.bytes_per_s,
    };
    proto::Prepare {
        header: Some(header::encode(&plan.binding.header)),
        stages: stages.map(|(key, stage)| stage::encode(key, stage, &plan.binding)).collect(),
        ends: ends.iter().map(end).collect(),
        ..Default::default()
    }
}

/// Reads and checks what a node is to run.
///
/// # Errors
/// A fault that says what is wrong.
pub fn decode(prepare: &proto::Prepare) -> Result<NodeStages, Fault> {
    let header = header::decode(prepare.header.as_ref())?;
    let mut named = Named::default();
    let stages = prepare.stages.iter().map(|stage| named.stage(stage, header.field));
    let stages = stages.collect::<Result<_, Fault>>()?;
    let mut ends = Ends::new();
    for end in &prepare.ends {
        if ends.insert((end.lane, end.edge, end.sender), decode_end(end)?).is_some() {
            return Err(invalid("an edge end is given twice"));
        }
    }
    NodeStages::new(header, stages, ends, &named.blocks, &named.writes)
}

fn decode_end(end: &proto::EdgeEnd) -> Result<EdgeEnd, Fault> {
    let dial = match end.dial.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| invalid("data address of a neighbour"))?),
    };
    Ok(EdgeEnd {
        lane: narrow(end.lane)?,
        edge: narrow(end.edge)?,
        rows: narrow(end.rows)?,
        extents: end.extents.clone(),
        token: Token::from_slice(&end.token).map_err(|_| invalid("token of an edge"))?,
        dial,
        peer: Peer::from_number(end.peer_node),
        bytes_per_s: end.bytes_per_s,
    })
}
