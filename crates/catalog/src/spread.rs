//! How the copies of a block that is in no stripe lie: on a host each, and in two racks where there are two. What may go
//! (`letting_go.rs`) and what is moved though no copy lacks go by this one rule, so that nothing waits for what nobody makes.
//! Copies of a virtual block that were counted on again while its stripe did not give it are too many once all of the stripe lives.
//!
//! ```text
//!   misplaced: all in one rack, or two on a host ──another copy where none is──▶ crowded ──one becomes a candidate──▶ spread
//! ```
//! Rows do not tell it: nodes leave and come. So it is looked for in all of them, a piece at a time.

use crate::Catalog;
use crate::backend::Scan;
use crate::blocks::{is_readable, perhaps_unreadable, stripe};
use crate::error::Result;
use crate::rows::StripeRow;
use crate::table::{Key, Read};
use model::{BlockFacts, BlockId, Location, MemberState, NodeId, Reason, StripeId, Unread};
use std::collections::{BTreeMap, BTreeSet};

/// Racks that replicas are in, where the cluster has so many: the rule of HDFS and of every placement here.
const MIN_RACKS: usize = 2;

/// Rows that are looked at in a piece.
const ROWS_AT_ONCE: usize = 4_096;

/// Stripes that are looked at in a piece: some have dozens of members.
const STRIPES_AT_ONCE: usize = 256;

/// Where each node stands that blocks can be placed on or kept at: neither forgotten nor leaving, dead ones too.
pub type Sites = BTreeMap<NodeId, Site>;

/// Where a node stands. Numbers of no meaning but that they are the same or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// Its rack.
    pub rack: u32,
    /// Its host: nodes of one fail together.
    pub host: u32,
}

/// Blocks whose copies do not lie as they are to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IllSpread {
    /// See [`is_misplaced`].
    pub misplaced: Vec<BlockId>,
    /// They have more copies than are wanted: another one was made so that they lie better, or their stripe gives them.
    pub crowded: Vec<BlockId>,
    /// Where to go on; `None` at the end.
    pub next: Option<BlockId>,
}

/// Whether the block has all of its copies, on nodes that stay, and they lie worse than the cluster allows. Those on nodes that
/// leave are moved anyway.
pub fn is_misplaced(row: &BlockFacts, sites: &Sites) -> bool {
    let stay = || row.locations.iter().all(|l| sites.contains_key(&l.node));
    row.stripe.is_none() && row.lacks() == 0 && stay() && !are_spread(&nodes(row), row.wanted(), sites)
}

/// Whether the block's copies would lie better with another one on this node.
pub fn would_spread(row: &BlockFacts, node: NodeId, sites: &Sites) -> bool {
    let with = [nodes(row), vec![node]].concat();
    reach(&with, row.wanted(), sites) != reach(&nodes(row), row.wanted(), sites)
}

/// Whether copies on these nodes are as many as are wanted, or as there are hosts for, and lie on a host each and in two racks
/// where there are two.
pub(crate) fn are_spread(nodes: &[NodeId], wanted: usize, sites: &Sites) -> bool {
    let all: Vec<NodeId> = sites.keys().copied().collect();
    let (hosts, racks) = reach(nodes, wanted, sites);
    let (most_hosts, most_racks) = reach(&all, wanted, sites);
    hosts >= most_hosts && racks >= most_racks
}

/// Hosts that these nodes are on, as many as are wanted, and racks, two at most.
fn reach(nodes: &[NodeId], wanted: usize, sites: &Sites) -> (usize, usize) {
    // Nodes that are not known here share their hosts with nobody.
    let host = |node: &NodeId| sites.get(node).map(|site| site.host).ok_or(*node);
    let hosts = nodes.iter().map(host).collect::<BTreeSet<_>>().len();
    let racks = nodes.iter().filter_map(|node| sites.get(node)).map(|site| site.rack);
    let racks = racks.collect::<BTreeSet<_>>().len();
    (hosts.min(wanted), racks.min(wanted).min(MIN_RACKS))
}

/// A copy beyond those that are wanted, without which the others, all on nodes that live, lie as well; one on a dead node
/// rather.
fn one_too_many(row: &BlockFacts, sites: &Sites, living: &BTreeSet<NodeId>) -> Option<Location> {
    if row.stripe.is_some() || row.locations.len() <= row.wanted() {
        return None;
    }
    let before = reach(&nodes(row), row.wanted(), sites);
    let may_go = |gone: &Location| {
        let rest: Vec<NodeId> = nodes(row).into_iter().filter(|node| *node != gone.node).collect();
        let living = rest.iter().filter(|node| living.contains(node)).count();
        living >= row.wanted() && reach(&rest, row.wanted(), sites) == before
    };
    row.locations.iter().copied().filter(may_go).min_by_key(|l| living.contains(&l.node))
}

/// Whether the block is virtual and each stored member of its stripe has a copy that lives and can be read.
fn is_given_whole(
    txn: &impl Read,
    row: &BlockFacts,
    living: &BTreeSet<NodeId>,
    unread: &Unread,
) -> Result<bool> {
    let Some(place) = row.stripe.filter(|place| place.is_virtual) else { return Ok(false) };
    let stripe = stripe(txn, place.stripe)?;
    for member in stripe.members.iter().filter(|member| !member.is_virtual()) {
        let Some(&block) = member.block() else { continue };
        let facts = perhaps_unreadable(txn, block, stripe.block_bytes)?;
        let is_read = |l: &Location| is_readable(l.copy_of(block), living, unread);
        if !facts.locations.iter().any(is_read) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn nodes(row: &BlockFacts) -> Vec<NodeId> {
    row.locations.iter().map(|l| l.node).collect()
}

impl Catalog {
    /// Looks at some rows, by id, from a block on or from the first.
    pub fn ill_spread(&self, from: Option<BlockId>, sites: &Sites) -> Result<IllSpread> {
        let from = from.map(|block| Key::to_bytes(&block)).unwrap_or_default();
        self.view(|txn| {
            let (mut found, mut looked_at) = (IllSpread::default(), 0);
            txn.scan_from::<BlockFacts>(&from, |block, row| {
                if looked_at == ROWS_AT_ONCE {
                    found.next = Some(block);
                    return Ok(Scan::Stop);
                }
                looked_at += 1;
                if is_misplaced(&row, sites) {
                    found.misplaced.push(block);
                }
                if (row.stripe.is_none() || row.is_virtual()) && row.locations.len() > row.wanted() {
                    found.crowded.push(block);
                }
                Ok(Scan::Next)
            })?;
            Ok(found)
        })
    }

    /// A stored block of each of some stripes, by id, from a stripe on or from the first; and where to go on.
    pub fn blocks_of_stripes(&self, from: Option<StripeId>) -> Result<(Vec<BlockId>, Option<StripeId>)> {
        let from = from.map(|stripe| Key::to_bytes(&stripe)).unwrap_or_default();
        self.view(|txn| {
            let (mut blocks, mut looked_at, mut next) = (Vec::new(), 0, None);
            txn.scan_from::<StripeRow>(&from, |id, stripe| {
                if looked_at == STRIPES_AT_ONCE {
                    next = Some(id);
                    return Ok(Scan::Stop);
                }
                looked_at += 1;
                blocks.extend(stripe.members.iter().find_map(MemberState::stored));
                Ok(Scan::Next)
            })?;
            Ok((blocks, next))
        })
    }

    /// Makes surplus copies of these blocks candidates: copies beyond those wanted, if the others are spread as well without them, and all
    /// copies of a virtual block if each stored member of its stripe has a living, readable copy. Returns the number of copies.
    pub fn thin_out(
        &self,
        blocks: &[BlockId],
        sites: &Sites,
        living: &BTreeSet<NodeId>,
        now_ms: u64,
    ) -> Result<u64> {
        let unread = self.unread();
        self.change(|txn| {
            let mut count = 0;
            for &block in blocks {
                let Some(mut row) = txn.get::<BlockFacts>(&block)? else { continue };
                let is_given = is_given_whole(txn, &row, living, &unread)?;
                let given = |row: &BlockFacts| row.locations.first().copied().filter(|_| is_given);
                while let Some(surplus) = one_too_many(&row, sites, living).or_else(|| given(&row)) {
                    row.locations.retain(|l| *l != surplus);
                    txn.set_block(block, &row)?;
                    txn.to_candidate(surplus.copy_of(block), Reason::Surplus, row.stored_bytes, now_ms)?;
                    count += 1;
                }
            }
            Ok(count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Memory;
    use crate::letting_go::{Case, Sight, may_go};
    use model::{BlockCopy, ClusterId, StripePlace, Sums};

    const BLOCK: BlockId = BlockId(7);
    const NOW_MS: u64 = 10;

    /// Nodes 1, 3, 5, 7 in a rack and 2, 4, 6 in another, on a host each.
    fn sites() -> Sites {
        (1..=7).map(|node| (NodeId(node), Site { rack: node % 2, host: node })).collect()
    }

    fn row(on: &[u32], wanted: u32) -> BlockFacts {
        let locations = on.iter().map(|&node| Location { node: NodeId(node), generation: 1 }).collect();
        BlockFacts { replicas: wanted, ..BlockFacts::new(10, Sums::default(), locations) }
    }

    /// Whether a copy on a node may go when all others were seen.
    fn goes(node: u32, row: &BlockFacts, sites: &Sites) -> bool {
        let copy = BlockCopy { block: BLOCK, node: NodeId(node), generation: 1 };
        let case = Case {
            copy,
            candidate: Some((0, Reason::Surplus)),
            is_planned: false,
            block: Some(row),
            members: &[],
            is_given: true,
        };
        let sight = Sight {
            sites: sites.clone(),
            compared: sites.keys().copied().collect(),
            attested: row.locations.iter().map(|l| l.copy_of(BLOCK)).collect(),
            is_kept: true,
            is_sound: true,
            now_ms: NOW_MS,
            ..Sight::default()
        };
        may_go(&case, &sight).is_ok()
    }

    #[test]
    fn what_a_copy_too_many_waits_for_is_made() {
        let on_one_host = |node: u32| (NodeId(node), Site { rack: node % 2, host: node.max(3) });
        for sites in [sites(), (1..=7).map(on_one_host).collect()] {
            for on in [[1, 3, 7], [1, 2, 3], [1, 2, 4], [3, 5, 7], [2, 4, 6]] {
                let row = row(&on, 3);
                for surplus in (1..=7).filter(|node| !on.contains(node)) {
                    assert_eq!(goes(surplus, &row, &sites), !is_misplaced(&row, &sites), "{on:?} {sites:?}");
                }
            }
        }
    }

    #[test]
    fn copies_in_one_rack_or_on_one_host_are_misplaced_where_there_are_others() {
        assert!(is_misplaced(&row(&[1, 3, 7], 3), &sites()));
        assert!(!is_misplaced(&row(&[1, 3, 6], 3), &sites()));
        assert!(!is_misplaced(&row(&[1, 3], 3), &sites()), "it lacks one, which is made elsewhere");
        let left: Sites = sites().into_iter().filter(|(node, _)| node.0 % 2 == 1).collect();
        assert!(!is_misplaced(&row(&[1, 3, 7], 3), &left), "there is no other rack");
        assert!(!is_misplaced(&row(&[1, 3, 6], 3), &left), "node 6 leaves: its copy is moved");
        let on_one_host = |node: u32| (NodeId(node), Site { rack: node % 2, host: node.max(2) });
        let shared: Sites = (1..=7).map(on_one_host).collect();
        assert!(is_misplaced(&row(&[1, 2, 3], 3), &shared));
        assert!(!would_spread(&row(&[1, 3, 7], 3), NodeId(5), &sites()));
        assert!(would_spread(&row(&[1, 3, 7], 3), NodeId(6), &sites()));
        assert!(would_spread(&row(&[1, 2, 3], 3), NodeId(4), &shared));
    }

    #[test]
    fn of_copies_too_many_those_go_without_which_the_others_lie_as_well() {
        let catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
        catalog.begin_term(77, 0).unwrap();
        let set = |on: &[u32]| catalog.change(|txn| txn.set_block(BLOCK, &row(on, 3))).unwrap();
        let all: BTreeSet<NodeId> = sites().into_keys().collect();
        let thin_out =
            |living: &BTreeSet<NodeId>| catalog.thin_out(&[BLOCK], &sites(), living, NOW_MS).unwrap();
        let left = || nodes(&catalog.placement(BLOCK).unwrap().facts);
        let found = || catalog.ill_spread(None, &sites()).unwrap();

        set(&[1, 3, 7]);
        assert_eq!((found().misplaced, found().crowded, thin_out(&all)), (vec![BLOCK], vec![], 0));
        set(&[1, 3, 7, 6]);
        assert_eq!((found().misplaced, found().crowded), (vec![], vec![BLOCK]));
        let without_3: BTreeSet<NodeId> = all.iter().copied().filter(|node| node.0 != 3).collect();
        let without_two: BTreeSet<NodeId> = without_3.iter().copied().filter(|node| node.0 != 7).collect();
        assert_eq!(thin_out(&without_two), 0, "two live");
        assert_eq!((thin_out(&without_3), left()), (1, [1, 7, 6].map(NodeId).to_vec()));
        let dead = BlockCopy { block: BLOCK, node: NodeId(3), generation: 1 };
        assert_eq!(catalog.candidate(&dead).unwrap().unwrap().reason, Reason::Surplus);
        assert_eq!((found(), thin_out(&all)), (IllSpread::default(), 0));
        set(&[1, 6, 3, 5, 7]);
        assert_eq!(thin_out(&all), 2);
        assert!(left().contains(&NodeId(6)), "the one in the other rack stays");
    }

    #[test]
    fn copies_of_a_virtual_block_are_too_many_once_all_of_its_stripe_lives() {
        const STRIPE: StripeId = StripeId(1);
        let catalog = Catalog::over(Box::new(Memory::default()), ClusterId(1)).unwrap();
        catalog.begin_term(77, 0).unwrap();
        let (virtuals, stored) = ([BLOCK, BlockId(8)], [(BlockId(20), 1), (BlockId(21), 2)]);
        let put_stripe = |txn: &crate::table::Change<'_>| {
            let place = |index, is_virtual| Some(StripePlace { stripe: STRIPE, index, is_virtual });
            for (index, block) in (0..).zip(virtuals) {
                txn.set_block(block, &BlockFacts { stripe: place(index, true), ..row(&[3], 0) })?;
            }
            for (index, (block, node)) in (2..).zip(stored) {
                txn.set_block(block, &BlockFacts { stripe: place(index, false), ..row(&[node], 1) })?;
            }
            let members = virtuals.map(MemberState::Virtual).into_iter();
            let members = members.chain(stored.map(|(block, _)| MemberState::Stored(block))).collect();
            txn.put(&STRIPE, &StripeRow { code: "rapidraid-2+2".to_owned(), block_bytes: 10, members })
        };
        catalog.change(put_stripe).unwrap();
        let thin_out = |living: &[u32]| {
            let living = living.iter().copied().map(NodeId).collect();
            catalog.thin_out(&virtuals, &sites(), &living, NOW_MS).unwrap()
        };
        assert_eq!(catalog.ill_spread(None, &sites()).unwrap().crowded, virtuals);
        assert_eq!(thin_out(&[1, 3]), 0, "a stored member is on a dead node");
        assert_eq!(thin_out(&[1, 2, 3]), 2);
        let copy = BlockCopy { block: BLOCK, node: NodeId(3), generation: 1 };
        assert_eq!(catalog.candidate(&copy).unwrap().unwrap().reason, Reason::Surplus);
        assert!(catalog.ill_spread(None, &sites()).unwrap().crowded.is_empty());
    }
}
