//! Helpers beside DataNodes of HDFS. What is known of them is in memory only, and what they lend is known to nobody here: a
//! request says which DataNode has which block. They are never given blocks, never in the catalog, and unknown after a restart
//! until they give their next sign of life.

use super::health::{Due, Health, Report, Word};
use catalog::rows::NodeRow;
use flow::Proved;
use model::hdfs::BlockGroup;
use model::{
    BlockFacts, Fault, Incarnation, Location, MemberState, NodeId, Peer, Placement, StoreId, StripePlacement,
    Sums,
};
use plan::LinkRates;
use plan::decide::{NodeFacts, World};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::codec::group::Lender;

/// Helpers that are known at once: DataNodes of the largest clusters.
const MAX_LENDERS: usize = 16 * 1024;

/// Who lends. Where several are known of one number, two DataNodes' uuids fold to the same one, which is refused.
#[derive(Debug)]
pub(crate) struct Lenders {
    health: Health,
}

impl Lenders {
    /// Nobody yet.
    pub fn new(dead_after: Duration) -> Lenders {
        Lenders { health: Health::new(dead_after, Vec::new(), &[], LinkRates::default()) }
    }

    /// As [`Health::look`].
    pub fn look(&self) {
        self.health.look();
    }

    /// Returns the helpers to call, as [`Health::due`] does for nodes.
    pub fn due(&self, every: Duration, turns: u32) -> Vec<Due> {
        self.health.due(every, turns)
    }

    /// Notes an answer, as [`Health::answered`] does for nodes.
    pub fn answered(&self, node: NodeId, incarnation: Incarnation) {
        self.health.answered(node, incarnation);
    }

    /// Takes the report of a living helper whose addresses and store are as known. Returns false for any other helper.
    pub fn reports(&self, lender: &Lender) -> bool {
        let known = self.health.row(lender.node());
        let is_as_known = known.is_some_and(|row| {
            (row.store, &row.control_addr, &row.data_addr)
                == (lender.datanode.0, &lender.control_addr, &lender.data_addr)
        });
        is_as_known && !lender.leaves && self.health.heartbeat(lender.status()).is_some()
    }

    /// Adds a helper that has just answered a call, or removes one that leaves. The error says why it is rejected.
    pub fn lends(&self, lender: &Lender) -> Result<(), String> {
        let node = lender.node();
        let known = self.health.row(node);
        if let Some(other) = known.as_ref().filter(|row| row.store != lender.datanode.0) {
            return Err(format!(
                "{node} is the number of the helper beside DataNode {}, and that of {} too: of one of them nothing is lent",
                other.store, lender.datanode.0
            ));
        }
        if lender.leaves {
            self.health.goodbye(node, &lender.control_addr, "");
            return Ok(());
        }
        if known.is_none() && self.health.reports().len() >= MAX_LENDERS {
            return Err(format!("{MAX_LENDERS} helpers are known already"));
        }
        self.health.registered(node, row_of(lender), false);
        self.health.heartbeat(lender.status());
        tracing::info!(%node, datanode = %lender.datanode.0, at = lender.control_addr, "lends blocks of HDFS");
        Ok(())
    }

    /// The helpers as they are now, in the racks where HDFS has them.
    pub fn view(&self, group: &BlockGroup) -> World {
        for held in group.living.values().filter(|held| !held.rack.is_empty()) {
            self.health.moved(held.datanode.number(), &held.rack);
        }
        self.health.view()
    }

    /// All that were heard: which DataNodes they are beside, how they are now, what they said of themselves.
    pub fn all(&self) -> Vec<(StoreId, NodeFacts, Report)> {
        let (mut reports, view) = (self.health.reports(), self.health.view());
        let one = |(node, facts): (NodeId, &NodeFacts)| {
            Some((self.health.row(node)?.store, facts.clone(), reports.remove(&node)?))
        };
        view.nodes.iter().filter_map(one).collect()
    }

    /// The helpers of a flow were selected.
    pub fn mark(&self, flow: &Proved) {
        self.health.mark(flow, Peer::Client);
    }

    /// Learns from a fault that a driver reports, if it is about a helper; says whether it is.
    pub fn learn(&self, fault: &Fault) -> bool {
        let ends = fault.suspect.map_or([None; 2], |(from, to)| [from.node(), to.node()]);
        let is_about_one = ends.into_iter().flatten().any(NodeId::is_foreign);
        if is_about_one {
            self.health.suspect(fault, Word::Client);
        }
        is_about_one
    }
}

/// Converts a helper's report to a node's row.
pub(crate) fn row_of(lender: &Lender) -> NodeRow {
    NodeRow {
        control_addr: lender.control_addr.clone(),
        data_addr: lender.data_addr.clone(),
        rack: lender.rack.clone(),
        store: lender.datanode.0,
        incarnation: lender.incarnation,
        host: String::new(),
    }
}

/// A block group as decisions see one: members are where a request says, if a helper stands there. The first one that is wanted
/// stands for all.
pub(crate) fn placement(group: &BlockGroup, n: usize, wanted: &[u16]) -> Placement {
    let facts = |member: u16| {
        let held = group.living.get(&member).filter(|_| !wanted.contains(&member));
        let (_, generation) = group.stored(member);
        let location = |held: &model::hdfs::Held| Location { node: held.datanode.number(), generation };
        BlockFacts {
            stored_bytes: group.layout.stored_bytes(member),
            sums: Sums::default(),
            last_generation: generation,
            locations: held.map(location).into_iter().collect(),
            flawed: Vec::new(),
            replicas: 1,
            part: None,
            stripe: None,
            dead: false,
        }
    };
    let block = |member: u16| group.stored(member).0;
    let state = |member: u16| match group.layout.stored_bytes(member) {
        0 => MemberState::Zero,
        _ => MemberState::Stored((block(member), facts(member))),
    };
    let first = wanted.first().copied().unwrap_or(0);
    let stripe = StripePlacement {
        id: group.pool.group(group.id),
        index: first,
        code: group.code.clone(),
        block_bytes: group.layout.block_bytes(),
        members: (0..n as u16).map(state).collect(),
        holders: BTreeSet::new(),
    };
    Placement { block: block(first), facts: facts(first), stripe: Some(stripe) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::hdfs::{Datanode, Held, Layout, PoolMark, Replica};
    use std::collections::BTreeMap;
    use wire::mac::Secret;

    fn lender(uuid: u128, port: u16) -> Lender {
        Lender {
            datanode: Datanode(StoreId(uuid)),
            control_addr: format!("127.0.0.1:{port}"),
            data_addr: format!("127.0.0.1:{}", port + 1),
            rack: "/default-rack".to_owned(),
            incarnation: Incarnation(u64::from(port)),
            running_stages: 0,
            leaves: false,
            secret: Secret::draw(),
        }
    }

    fn group(living: impl IntoIterator<Item = (u16, u128)>) -> BlockGroup {
        let held = |uuid| Held { datanode: Datanode(StoreId(uuid)), rack: "/r1".to_owned(), replica: None };
        BlockGroup {
            pool: PoolMark::of("BP-1"),
            id: -16,
            generation: 1_001,
            code: "rs-cauchy-3+2".to_owned(),
            layout: Layout { k: 3, cell_bytes: 10, data_bytes: 12 },
            living: living.into_iter().map(|(member, uuid)| (member, held(uuid))).collect::<BTreeMap<_, _>>(),
        }
    }

    #[test]
    fn helpers_live_by_their_word_and_are_where_hdfs_has_them() {
        let lenders = Lenders::new(Duration::from_secs(60));
        assert!(lenders.lends(&lender(1, 1_000)).is_ok() && lenders.lends(&lender(2, 2_000)).is_ok());
        let (one, world) = (Datanode(StoreId(1)).number(), lenders.view(&group([(0, 1)])));
        assert_eq!(world.living().len(), 2);
        let rack = world.node(one).unwrap().rack;
        assert_eq!(world.rack_names[rack as usize], "/r1");
        // Another start, elsewhere.
        lenders.lends(&lender(1, 3_000)).unwrap();
        assert_eq!(lenders.view(&group([])).node(one).unwrap().control_addr, "127.0.0.1:3000");
        lenders.lends(&Lender { leaves: true, ..lender(1, 3_000) }).unwrap();
        assert_eq!(lenders.view(&group([])).living().len(), 1);
        // Two DataNodes of one number.
        let folded = (1 << 32) | 3;
        assert!(lenders.lends(&lender(folded, 4_000)).unwrap_err().contains("number of the helper"));
    }

    #[test]
    fn members_that_are_wanted_are_not_read_and_those_without_bytes_are_zero() {
        let placement = placement(&group([(0, 1), (1, 2), (3, 3), (4, 4)]), 5, &[1, 4]);
        let stripe = placement.stripe.unwrap();
        let readable = |member: usize| stripe.members[member].block().map(|(_, facts)| facts.locations.len());
        assert_eq!([0, 1, 2, 3, 4].map(readable), [Some(1), Some(0), None, Some(1), Some(0)]);
        let stored = stripe.blocks().map(|(_, facts)| facts.stored_bytes).collect::<Vec<_>>();
        assert_eq!((stored, stripe.block_bytes), (vec![10, 2, 10, 10], 10));
        assert_eq!(placement.block, PoolMark::of("BP-1").block(-15));
    }

    #[test]
    fn replicas_that_are_to_be_encoded_are_read_where_they_are_and_by_their_own_names() {
        let mut group = group([(0, 1), (1, 2), (2, 3)]);
        let held = group.living.get_mut(&1).unwrap();
        held.replica = Some(Replica { block: 1_073_741_826, generation: 1_002 });
        let stripe = placement(&group, 5, &[3, 4]).stripe.unwrap();
        let (block, facts) = stripe.members[1].block().unwrap();
        assert_eq!(*block, group.pool.block(1_073_741_826));
        let node = Datanode(StoreId(2)).number();
        assert_eq!(facts.locations, [Location { node, generation: 1_002 }]);
        assert_eq!(facts.last_generation, 1_002);
        // The parities are nobody's yet.
        assert!(stripe.members[3].block().unwrap().1.locations.is_empty());
    }
}
