//! What a repair would do, without doing it: the same plans, as text, as a graph, as JSON.

use crate::attempt::{Attempts, lost, scheme, token};
use crate::error::{CoordinatorError, Result};
use flow::multi_block::repairs_several;
use flow::{FlowPlan, Scheme, Site, Time};
use model::{BlockId, FlowId, NodeId, Placement};
use plan::decide::{
    DecideError, Part, Planned, RepairPlan, RepairSpec, SeveralPlan, Target, World, requestor, requestors,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use wire::proto;

/// Plans the repair of a block, or of all that is lost of a stripe, by the scheme asked for, or by each in turn. Of a node's
/// blocks the first one stands for all.
pub(crate) async fn explain(with: &Attempts, request: proto::RepairRequest) -> Result<proto::ExplainReply> {
    let block = target(with, &request).await?;
    let placement = with.records.run(move |catalog| catalog.placement(block)).await?;
    let view = with.cluster.view();
    if !request.stripe {
        return explain_block(with, &view, &placement, &request);
    }
    if placement.stripe.is_none() {
        return Err(CoordinatorError::Invalid(format!("block {block} is replicated: it has no stripe")));
    }
    let members: Vec<u16> = request.members.iter().map(|&m| u16::try_from(m).unwrap_or(u16::MAX)).collect();
    match &lost(&placement, &view, &members)?[..] {
        [] => Err(CoordinatorError::Conflict(
            "no block of this stripe is lost; say which are to be thought lost with --members".to_owned(),
        )),
        [one] => explain_block(with, &view, one, &request),
        lost => explain_stripe(with, &view, lost, &request),
    }
}

fn explain_block(
    with: &Attempts,
    view: &World,
    placement: &Placement,
    request: &proto::RepairRequest,
) -> Result<proto::ExplainReply> {
    let nobody = BTreeSet::new();
    let asked = (request.requestor != 0).then_some(NodeId(request.requestor));
    let requestor = requestor(view, placement, asked, &nobody, |n| with.cluster.load.of(n))?;
    let spec = spec(with, request, placement, requestor)?;
    let plan = |spec: &RepairSpec| with.planner.repair(view, &(placement, spec.clone()), &nobody, &mut token);
    let chosen = plan(&spec)?;
    let mut plans = Vec::new();
    if chosen.why.is_some() {
        for scheme in Scheme::all() {
            match plan(&RepairSpec { scheme: Some(scheme), ..spec.clone() }) {
                // Not for this block, and nobody asked for it.
                Err(DecideError::BlockTooLong { .. }) => {}
                plan => plans.push(plan?),
            }
        }
    } else {
        plans.push(chosen.clone());
    }
    let code = code_of(placement);
    let verdict = chosen.why.as_ref().map(|why| format!("auto takes {}, {why}", chosen.scheme));
    let about = json!({
        "block": placement.block.to_string(),
        "code": code,
        "requestor": requestor.0,
        "chosen": { "scheme": chosen.scheme, "why": chosen.why },
    });
    let heading = match placement.facts.is_virtual() {
        false => format!("block {} ({code}), rebuilt at {requestor}", placement.block),
        true => format!(
            "block {} ({code}) is virtual, and never rebuilt; what {requestor} would take to decode it",
            placement.block
        ),
    };
    Ok(render(view, &heading, about, verdict, &plans))
}

/// Several blocks of a stripe, in one pass.
fn explain_stripe(
    with: &Attempts,
    view: &World,
    lost: &[Placement],
    request: &proto::RepairRequest,
) -> Result<proto::ExplainReply> {
    let nobody = BTreeSet::new();
    let asked = (request.requestor != 0).then_some(NodeId(request.requestor));
    let load = |node| with.cluster.load.of(node);
    let requestors = requestors(view, lost.iter(), asked, &nobody, load)?;
    let mut targets: Vec<Target<'_>> = Vec::new();
    for (placement, &requestor) in lost.iter().zip(&requestors) {
        targets.push((placement, spec(with, request, placement, requestor)?));
    }
    let chosen = with.planner.repair_several(view, &targets, &nobody, &mut token)?;
    let by = |scheme: Scheme| {
        let targets: Vec<Target<'_>> = targets
            .iter()
            .map(|(placement, spec)| (*placement, RepairSpec { scheme: Some(scheme), ..spec.clone() }))
            .collect();
        with.planner.repair_several(view, &targets, &nobody, &mut token)
    };
    let plans = match (&chosen, scheme(&request.scheme)?) {
        (SeveralPlan::OnePass(plan), Some(_)) => vec![(**plan).clone()],
        _ => {
            let plans = Scheme::all().filter(|&s| repairs_several(s)).map(by);
            let one_pass = plans.filter_map(|plan| match plan {
                Ok(SeveralPlan::OnePass(plan)) => Some(Ok(*plan)),
                Ok(SeveralPlan::EachAlone { .. }) => None,
                Err(error) => Some(Err(error)),
            });
            one_pass.collect::<std::result::Result<Vec<RepairPlan>, DecideError>>()?
        }
    };
    let (taken, why) = match &chosen {
        SeveralPlan::OnePass(plan) => (Some(plan.scheme.as_str()), plan.why.as_deref()),
        SeveralPlan::EachAlone { why } => (None, Some(why.as_str())),
    };
    let verdict = why.map(|why| match taken {
        Some(scheme) => format!("auto takes {scheme}, {why}"),
        None => format!("each block would be repaired alone: {why}"),
    });
    let code = lost.first().map_or("", code_of);
    let mut heading = format!("{} blocks of a stripe ({code}), in one pass", lost.len());
    let mut blocks = Vec::new();
    for (placement, requestor) in lost.iter().zip(&requestors) {
        let member = placement.stripe.as_ref().map(|stripe| stripe.index);
        heading += &format!("\nb{} {} rebuilt at {requestor}", member.unwrap_or_default(), placement.block);
        blocks.push(json!({
            "block": placement.block.to_string(), "member": member, "requestor": requestor.0,
        }));
    }
    let about = json!({ "code": code, "blocks": blocks, "chosen": { "scheme": taken, "why": why } });
    Ok(render(view, &heading, about, verdict, &plans))
}

fn spec(
    with: &Attempts,
    request: &proto::RepairRequest,
    placement: &Placement,
    requestor: NodeId,
) -> Result<RepairSpec> {
    Ok(RepairSpec {
        scheme: scheme(&request.scheme)?,
        slices: with.planner.slice_length(request.slice_bytes)?,
        verify: !request.no_verify,
        requestor,
        scheduled: request.node != 0,
        generation: placement.facts.last_generation + 1,
        birth: model::Stamp::default(),
        flow: FlowId(rand::random()),
        attempt: 1,
        moves: false,
        helpers: request.helpers.iter().copied().map(NodeId).collect(),
        explained: true,
    })
}

fn code_of(placement: &Placement) -> &str {
    placement.stripe.as_ref().map_or("replicated", |s| s.code.as_str())
}

/// The block that a request names.
pub(crate) async fn target(with: &Attempts, request: &proto::RepairRequest) -> Result<BlockId> {
    if !request.block.is_empty() {
        return Ok(BlockId::from_slice(&request.block)?);
    }
    if !request.object.is_empty() {
        let (object, index) = (request.object.clone(), request.index);
        return with.records.run(move |catalog| catalog.object_block(&object, index)).await;
    }
    let node = NodeId(request.node);
    if request.node == 0 {
        return Err(CoordinatorError::Invalid(
            "say what to repair: a block, or an object and the index of a block, or a node".to_owned(),
        ));
    }
    with.cluster.view().node(node)?;
    let blocks = with.records.run(move |catalog| catalog.blocks_on(node)).await?;
    let none = || CoordinatorError::Conflict(format!("{node} holds no blocks: nothing to repair"));
    blocks.first().copied().ok_or_else(none)
}

fn render(
    view: &World,
    heading: &str,
    mut about: Value,
    verdict: Option<String>,
    plans: &[RepairPlan],
) -> proto::ExplainReply {
    let name = |at: Site| if at.0 == 0 { "client".to_owned() } else { format!("node-{}", at.0) };
    let rack = |at: Site| view.node(NodeId(at.0)).ok().map(|n| n.rack);
    let mut text = format!("{heading}\n");
    let mut dot = String::new();
    let mut list = Vec::new();
    for plan in plans {
        let Planned { plan: FlowPlan { flow, .. }, cost } = &plan.planned;
        text += &format!("\n== {}\n{}", plan.scheme, flow::render::explain(flow, cost, name));
        text += &format!("{} B between racks\n", cost.cross_rack_bytes(rack));
        if let Some(time) = plan.price.and_then(|price| price.time) {
            text += &time_text(time);
        }
        text += &parts_text(&plan.parts);
        dot += &flow::render::dot(flow, name);
        list.push(as_json(plan, cost.cross_rack_bytes(rack)));
    }
    if let Some(verdict) = verdict {
        text += &format!("\n{verdict}\n");
    }
    about["plans"] = list.into();
    proto::ExplainReply { text, dot, json: about.to_string() }
}

/// How long it takes, and what decides.
fn time_text(time: Time) -> String {
    let Time { links, disks } = time;
    match disks > 0.0 {
        false => format!("{links:.3} s on the links as they are known\n"),
        true => {
            let slower = if disks > links { "the disks decide" } else { "the links decide" };
            let whole = time.whole();
            format!(
                "{whole:.3} s on the links and disks as they are known: links {links:.3} s, disks {disks:.3} s; {slower}\n"
            )
        }
    }
}

/// Who helps and who does not, each with the reason.
fn parts_text(parts: &[Part]) -> String {
    let line = |part: &Part| {
        let node = part.node.map_or_else(String::new, |node| format!(" on {node}"));
        let verb = if part.helps { "helps" } else { "is passed over" };
        format!("  b{}{node} {verb}: {}\n", part.member, part.why)
    };
    let lines: String = parts.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\nhelpers\n{lines}") }
}

fn as_json(plan: &RepairPlan, cross_rack_bytes: u64) -> Value {
    let Planned { plan: FlowPlan { flow, .. }, cost } = &plan.planned;
    let parts = plan.parts.iter().map(
        |part| json!({ "member": part.member, "node": part.node.map(|node| node.0), "helps": part.helps, "why": part.why }),
    );
    let links: Vec<Value> = cost
        .links
        .iter()
        .map(|(&(from, to), bytes)| json!({ "from": from.0, "to": to.0, "bytes": bytes }))
        .collect();
    let per_site = |map: &std::collections::BTreeMap<Site, u64>| -> Vec<Value> {
        map.iter().map(|(at, bytes)| json!({ "node": at.0, "bytes": bytes })).collect()
    };
    json!({
        "scheme": plan.scheme,
        "seconds": plan.price.and_then(|price| price.seconds()),
        "link_seconds": plan.price.and_then(|price| price.time).map(|time| time.links),
        "disk_seconds": plan.price.and_then(|price| price.time).map(|time| time.disks),
        "helpers": parts.collect::<Vec<_>>(),
        "slices": flow.geometry.slices(),
        "slice_bytes": flow.geometry.slice_bytes,
        "block_bytes": flow.geometry.block_bytes,
        "timeslots": cost.timeslots,
        "network_bytes": cost.network_bytes(),
        "cross_rack_bytes": cross_rack_bytes,
        "links": links,
        "disk_read": per_site(&cost.disk_read),
        "disk_written": per_site(&cost.disk_written),
    })
}
