//! The rate at which lanes begin.

use super::FlowPlan;
use crate::graph::{Edge, Flow, Input};
use crate::limits;

/// How much an edge may send a second: if it begins a lane, the lane's share of what links carry; what follows in the lane
/// keeps that rate. 0: as fast as it goes.
pub(super) fn of_edge(plan: &FlowPlan<Flow>, lane: u32, edge: &Edge) -> u64 {
    let lane = lane as usize;
    let stages = plan.flow.lanes.get(lane).map(|lane| &lane.stages[..]).unwrap_or_default();
    let sender = stages.get(usize::from(edge.from.0));
    let begins = sender.is_some_and(|s| !s.inputs.iter().any(|input| matches!(input, Input::Edge(_))));
    let share = plan.flow.shares.get(lane).copied().map_or(0, u128::from);
    if plan.symbol_bytes_per_s == 0 || share == 0 || !begins {
        return 0;
    }
    let shares: u128 = plan.flow.shares.iter().map(|&share| u128::from(share)).sum();
    let all = u128::from(plan.symbol_bytes_per_s) * u128::from(edge.rows);
    u64::try_from(all * share / shares).unwrap_or(u64::MAX).max(limits::MIN_LANE_BYTES_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::{Binding, BoundEdge, FlowHeader, Participant};
    use crate::graph::{EdgeId, Geometry, Lane, Member, Output, Site, Stage, StageId, Symbol};
    use crate::limits::MIN_LANE_BYTES_PER_S;
    use gf::{Field, Matrix};
    use model::{BlockId, FlowId, Peer, StoredCopy, Token};
    use std::collections::BTreeMap;

    /// Chains of two rows, 1 → 2 → 3, with these shares.
    fn chains(shares: &[u32], symbol_bytes_per_s: u64) -> FlowPlan<Flow> {
        let geometry = Geometry { block_bytes: 100, alpha: 2, slice_bytes: 1024 };
        let stage = |index: u16| Stage {
            site: Site(u32::from(index) + 1),
            inputs: vec![match index {
                0 => Input::Local { member: Member(0), symbols: vec![0, 1] },
                hop => Input::Edge(EdgeId(hop - 1)),
            }],
            outputs: vec![match index {
                2 => {
                    Output::Read { symbols: [0, 1].map(|index| Symbol { member: Member(0), index }).to_vec() }
                }
                edge => Output::Edge(EdgeId(edge)),
            }],
            matrix: Matrix::identity(Field::Gf256, 2),
        };
        let edge = |index: u16| Edge { from: StageId(index), to: StageId(index + 1), rows: 2 };
        let lane = Lane { stages: (0..3).map(stage).collect(), edges: (0..2).map(edge).collect() };
        let participant = |site: u32| Participant {
            site: Site(site),
            peer: Peer::from_number(site),
            control_addr: String::new(),
            data_addr: "127.0.0.1:1".to_owned(),
            rack: 0,
        };
        let copy = StoredCopy { block: BlockId(1), generation: 1, stored_bytes: 100 };
        let lanes = vec![lane; shares.len()];
        let bound = |token: u128| BoundEdge { token: Token(token), extents: vec![100; 2] };
        FlowPlan {
            flow: Flow { field: Field::Gf256, geometry, lanes, shares: shares.to_vec() },
            binding: Binding {
                header: FlowHeader::new(FlowId(1), Field::Gf256, geometry),
                participants: (1..4).map(participant).collect(),
                blocks: BTreeMap::from([(Member(0), copy.into())]),
                writes: BTreeMap::new(),
                scheme: "test".to_owned(),
                slices: 0..1,
            },
            edges: vec![vec![bound(1), bound(2)]; shares.len()],
            predicted: Vec::new(),
            expected: None,
            symbol_bytes_per_s,
        }
    }

    /// What each end of an edge may send, by site, lane and edge.
    fn rates(plan: &FlowPlan<Flow>) -> Vec<(u32, u32, u32, u64)> {
        let mut rates = Vec::new();
        for (participant, ends) in plan.standing().unwrap() {
            let rate = |(&(lane, edge, _), end): (&(u32, u32, bool), &crate::bound::EdgeEnd)| {
                (participant.site.0, lane, edge, end.bytes_per_s)
            };
            rates.extend(ends.iter().map(rate));
        }
        rates.retain(|rate| rate.3 > 0);
        rates
    }

    #[test]
    fn each_lane_begins_with_its_share_of_what_links_carry() {
        let plan = chains(&[3, 1], 8_000_000);
        // Two rows of each slice.
        assert_eq!(rates(&plan), [(1, 0, 0, 12_000_000), (1, 1, 0, 4_000_000)]);
        assert!(rates(&chains(&[3, 1], 0)).is_empty(), "nobody knows how fast");
        let slow = [(1, 0, 0, 1_998_001), (1, 1, 0, MIN_LANE_BYTES_PER_S)];
        assert_eq!(rates(&chains(&[1000, 1], 1_000_000)), slow);
        assert_eq!(rates(&chains(&[u32::MAX], u64::MAX)), [(1, 0, 0, u64::MAX)]);
    }

    #[test]
    fn no_node_is_made_to_send_as_good_as_nothing() {
        let plan = chains(&[1], 8_000_000);
        for (rate, refused) in [(1, true), (MIN_LANE_BYTES_PER_S - 1, true), (MIN_LANE_BYTES_PER_S, false)] {
            let (_, mut ends) = plan.standing().unwrap().next().unwrap();
            ends.values_mut().for_each(|end| end.bytes_per_s = rate);
            let fault = plan.part(Site(1), ends).err().map(|fault| fault.to_string());
            assert_eq!(fault.is_some_and(|fault| fault.contains("pace")), refused, "{rate}");
        }
        assert!(plan.part(Site(2), crate::bound::Ends::new()).is_err(), "an edge without its end");
    }
}
