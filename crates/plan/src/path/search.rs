//! Searches for any path of so many helpers, backwards from the requestor, and stops early where something shows that
//! there is none.

use super::node_set::NodeSet;

/// What a search came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// There is a path.
    Found,
    /// There is none.
    Refuted,
    /// The steps did not suffice to tell.
    Unknown,
}

/// A search over nodes 0 … of which `into[v]` are those with a usable link to v.
pub(super) struct Search<'a, const W: usize> {
    pub(super) into: &'a [NodeSet<W>],
    /// How many more nodes may be tried as part of the path.
    pub(super) steps: usize,
    /// The path that was found, its end first.
    pub(super) path: Vec<usize>,
}

impl<const W: usize> Search<'_, W> {
    /// Extends the path, which begins with `head`, by `wanted` of the `unused` nodes.
    pub(super) fn extend(&mut self, head: usize, unused: &NodeSet<W>, wanted: usize) -> Outcome {
        if wanted == 0 {
            return Outcome::Found;
        }
        let near = self.into[head].and(unused);
        if wanted == 1 {
            return match { near }.pop() {
                Some(node) => {
                    self.path.push(node);
                    Outcome::Found
                }
                None => Outcome::Refuted,
            };
        }
        let mut unused = self.reaching(&near, unused);
        if unused.len() < wanted || !self.links_suffice(head, &unused, wanted) {
            return Outcome::Refuted;
        }
        // Nodes with the fewest ways on come first (Warnsdorff's rule): later they would have none.
        let mut order: Vec<(usize, usize)> = near.map(|v| (self.into[v].and(&unused).len(), v)).collect();
        order.sort_unstable();
        for (_, node) in order {
            if self.steps == 0 {
                return Outcome::Unknown;
            }
            self.steps -= 1;
            self.path.push(node);
            unused.remove(node);
            match self.extend(node, &unused, wanted - 1) {
                Outcome::Refuted => {}
                told => return told,
            }
            unused.insert(node);
            self.path.pop();
        }
        Outcome::Refuted
    }

    /// The nodes of `unused` from which links lead through `unused` to one of `near`.
    fn reaching(&self, near: &NodeSet<W>, unused: &NodeSet<W>) -> NodeSet<W> {
        let (mut reaching, mut fresh) = (*near, *near);
        while let Some(node) = fresh.pop() {
            let more = self.into[node].and(unused).without(&reaching);
            reaching = reaching.or(&more);
            fresh = fresh.or(&more);
        }
        reaching
    }

    /// Whether `wanted` links can be chosen that leave different nodes of `unused` and enter different ones, or
    /// `head`: a matching of at least that size. The links of a path are such.
    fn links_suffice(&self, head: usize, unused: &NodeSet<W>, wanted: usize) -> bool {
        let mut matching = Matching { into: self.into, unused, seen: NodeSet::EMPTY, left_for: [NONE; 256] };
        if !matching.enter(head) {
            return false;
        }
        let mut spare = unused.len() + 1 - wanted;
        for node in *unused {
            matching.seen = NodeSet::EMPTY;
            if !matching.enter(node) {
                if spare == 0 {
                    return false;
                }
                spare -= 1;
            }
        }
        true
    }
}

const NONE: u8 = u8::MAX;

/// Which node each node's chosen link enters.
struct Matching<'a, const W: usize> {
    into: &'a [NodeSet<W>],
    unused: &'a NodeSet<W>,
    seen: NodeSet<W>,
    left_for: [u8; 256],
}

impl<const W: usize> Matching<'_, W> {
    /// Finds a link into `node`, moving others if need be.
    fn enter(&mut self, node: usize) -> bool {
        let mut candidates = self.into[node].and(self.unused).without(&self.seen);
        while let Some(from) = candidates.pop() {
            self.seen.insert(from);
            let other = self.left_for[from];
            if other == NONE || self.enter(usize::from(other)) {
                self.left_for[from] = node as u8;
                return true;
            }
            candidates = candidates.without(&self.seen);
        }
        false
    }
}
