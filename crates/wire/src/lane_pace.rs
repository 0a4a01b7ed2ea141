//! The pace at which lanes begin.

use crate::proto;
use flow::limits;
use std::collections::BTreeSet;

/// How much an edge that begins a lane may send a second: the lane's share of what links carry. What follows in the lane
/// keeps that pace.
pub(crate) fn pace_of_lanes(plan: &proto::FlowPlan) -> impl Fn(&proto::Edge) -> u64 {
    let receives = |stage: &proto::Stage| {
        stage.inputs.iter().any(|input| matches!(input.kind, Some(proto::stage_input::Kind::Edge(_))))
    };
    let paced = plan.stages.iter().filter(|_| plan.symbol_bytes_per_s > 0);
    let first: BTreeSet<(u32, u32)> =
        paced.filter(|stage| !receives(stage)).map(|stage| (stage.lane, stage.stage)).collect();
    let shares: u64 = plan.shares.iter().map(|&share| u64::from(share)).sum();
    move |edge| {
        let share = plan.shares.get(edge.lane as usize).copied().map_or(0, u64::from);
        if share == 0 || !first.contains(&(edge.lane, edge.from)) {
            return 0;
        }
        let all = u128::from(plan.symbol_bytes_per_s) * u128::from(edge.rows);
        let pace = all * u128::from(share) / u128::from(shares);
        u64::try_from(pace).unwrap_or(u64::MAX).max(limits::MIN_LANE_BYTES_PER_S)
    }
}
