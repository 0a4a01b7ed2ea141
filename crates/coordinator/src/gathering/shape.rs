//! An open stripe as the catalog keeps it and as placement sees it. Racks have numbers only as long as a process, so rows name them.

use super::Key;
use crate::error::Result;
use catalog::rows::{GatherTerms, GatheredBlock, GatheringRow, SettledRow};
use model::{BlockId, NodeId, Placement};
use plan::Draw;
use plan::decide::{DecideError, Ground, Planner, World};
use plan::placement::{OpenStripe, Policy, Sealed, SettledGroup, Spread, StripeState, Terms};
use std::sync::Arc;

/// The policy of these terms.
pub(crate) fn policy(planner: &Planner, terms: &GatherTerms, replicas: u32) -> Result<Box<dyn Policy>> {
    let spread = Spread::named(&terms.spread).ok_or_else(|| {
        let known: Vec<&str> = Spread::ALL.into_iter().map(Spread::name).collect();
        DecideError::Invalid(format!("replicas lie in {}, not {:?}", known.join(" or "), terms.spread))
    })?;
    let asked = Terms {
        code: planner.codes.get(&terms.code).map_err(DecideError::from)?,
        rack_capacity: terms.rack_capacity as usize,
        target_racks: (terms.target_racks > 0).then_some(terms.target_racks as usize),
        replicas: replicas as usize,
        spread,
    };
    Ok(plan::placement::policy(&terms.policy, asked).map_err(DecideError::from)?)
}

/// Blocks in one stripe are longer than half of 2 to this, and no longer than that: what parities are too long for the shorter
/// ones is bounded.
pub(super) fn size_class(stored_bytes: u64) -> u8 {
    stored_bytes.max(1).next_power_of_two().trailing_zeros() as u8
}

/// The stripe of a row, with what was calculated of it before if it still is the same.
pub(super) fn resumed(
    policy: &dyn Policy,
    row: &GatheringRow,
    before: Option<OpenStripe>,
    view: &World,
    ground: &Ground,
) -> OpenStripe {
    let replicas = row.blocks.iter().map(|block| block.nodes.clone()).collect();
    let state = state_of(row, replicas, view, ground);
    match before.filter(|before| *before.state() == state) {
        Some(before) => before,
        None => OpenStripe::resume(policy.rules(), state),
    }
}

/// A row's stripe, whose blocks have replicas on these nodes. A rack in which no node is known any more is left out.
fn state_of(row: &GatheringRow, replicas: Vec<Vec<NodeId>>, view: &World, ground: &Ground) -> StripeState {
    let racks = |names: &[String]| names.iter().filter_map(|name| view.rack_named(name)).collect();
    let stand_in = |node: NodeId| ground.stand_in(view, node);
    let settled = |group: &SettledRow| SettledGroup {
        kept: group.kept.iter().map(|node| node.map(NodeId).map(stand_in)).collect(),
        parity: group.parity.as_deref().and_then(|name| view.rack_named(name)),
    };
    StripeState {
        core: row.core.as_deref().and_then(|name| view.rack_named(name)),
        targets: racks(&row.targets),
        globals: racks(&row.globals),
        replicas: replicas.into_iter().map(|nodes| nodes.into_iter().map(stand_in).collect()).collect(),
        settled: row.settled.iter().map(settled).collect(),
    }
}

/// The row of a stripe that a block has just joined as its last.
pub(super) fn row_of(
    stripe: &OpenStripe,
    key: &Key,
    before: Option<&GatheringRow>,
    block: BlockId,
    now_ms: u64,
    view: &World,
) -> GatheringRow {
    let state = stripe.state();
    let name = |&rack| view.rack_name(rack).to_owned();
    let mut blocks = before.map_or_else(Vec::new, |row| row.blocks.clone());
    let nodes = state.replicas.last().cloned().unwrap_or_default();
    blocks.push(GatheredBlock { block, nodes });
    let settled = |group: &SettledGroup| SettledRow {
        kept: group.kept.iter().map(|node| node.map(|node| node.0)).collect(),
        parity: group.parity.map(|rack| view.rack_name(rack).to_owned()),
    };
    GatheringRow {
        terms: key.terms.clone(),
        replicas: key.replicas,
        size_class: key.size_class,
        since_ms: before.map_or(now_ms, |row| row.since_ms),
        sealed_ms: stripe.is_full().then_some(now_ms),
        core: key.core.clone(),
        targets: state.targets.iter().map(name).collect(),
        globals: state.globals.iter().map(name).collect(),
        blocks,
        settled: state.settled.iter().map(settled).collect(),
    }
}

/// Where the blocks of a sealed stripe will lie, of which these are the data: as it was placed for, as far as the replicas that
/// live allow it. Nodes are those that hold the replicas, not those that stand for their hosts.
pub(crate) fn layout(
    planner: &Planner,
    row: &GatheringRow,
    data: &[Placement],
    view: &World,
    ground: &Ground,
    draw: &mut Draw,
) -> Result<Sealed> {
    let policy = policy(planner, &row.terms, row.replicas)?;
    let living = |placement: &Placement| -> Vec<NodeId> {
        let nodes = placement.facts.locations.iter().map(|location| location.node);
        nodes.filter(|&node| view.nodes.get(node).is_some_and(|node| node.is_living)).collect()
    };
    let replicas: Vec<Vec<NodeId>> = data.iter().map(living).collect();
    let mut state = state_of(row, replicas.clone(), view, ground);
    // What was to stay and has moved since is decided anew.
    let places = state.settled.iter_mut().flat_map(|group| &mut group.kept);
    for (kept, replicas) in places.zip(&state.replicas) {
        *kept = kept.filter(|node| replicas.contains(node));
    }
    let rules = Arc::clone(policy.rules());
    let mut sealed =
        OpenStripe::resume(&rules, state).seal(ground.racks(), draw).map_err(DecideError::from)?;
    for (block, replicas) in sealed.data.iter_mut().zip(&replicas) {
        let at = |host: NodeId| {
            replicas.iter().copied().find(|&node| ground.stand_in(view, node) == host).unwrap_or(host)
        };
        block.read_from = at(block.read_from);
        if !block.is_relocated {
            block.stored_at = at(block.stored_at);
        }
    }
    Ok(sealed)
}
