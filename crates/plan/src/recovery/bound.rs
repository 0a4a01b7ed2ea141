//! How small the busiest link of a recovery can be at best.
//!
//! Sending alone: each stripe asks k blocks of its survivors, at most one of each; it fits into loads of at most T if the
//! flow source → stripe → survivor → sink, with T − (what the node sends already) towards the sink, carries all. If it
//! does not, the minimum cut names nodes that are too few for what only they can give, and so the next T to try (Newton's
//! method on the cuts; the last T is that of the linear program). Receiving alone: each stripe asks k−1 of its survivors
//! and one of its requestors. No assignment is better than the larger of the two.

use super::balanced::{LostBlock, NodeLoad, receives, sends};
use super::index::Index;
use super::spread::Group;
use model::NodeId;
use std::collections::{BTreeMap, VecDeque};

/// Bytes that at least one node must send or receive to recover all of `blocks`, on top of `loads`. If all blocks
/// have one length and there are no loads, it is rounded up to whole blocks. Blocks that cannot be recovered do not
/// count.
pub fn busiest_bound(blocks: &[LostBlock], loads: &BTreeMap<NodeId, NodeLoad>) -> u64 {
    let blocks: Vec<&LostBlock> = blocks.iter().filter(|block| block.check().is_ok()).collect();
    let index = Index::of(&blocks, loads);
    let survivors: Vec<Group> = blocks.iter().map(|block| sends(block, &index)).collect();
    // Every survivor is a candidate to receive: helpers are not chosen yet.
    let received: Vec<Group> = blocks
        .iter()
        .zip(&survivors)
        .flat_map(|(block, group)| receives(block, &group.candidates, &index))
        .collect();
    let sent = least_largest(&survivors, &index.loads(loads, |load| load.sent));
    sent.max(least_largest(&received, &index.loads(loads, |load| load.received)))
}

/// The smallest largest load if groups could be split at will, rounded up; see [`busiest_bound`].
pub(super) fn least_largest(groups: &[Group], already: &[u64]) -> u64 {
    let total: u64 = groups.iter().map(|group| group.count as u64 * group.bytes).sum();
    let mut most = already.iter().copied().max().unwrap_or(0);
    if total == 0 {
        return most;
    }
    let same = groups.first().map(|first| first.bytes).filter(|&bytes| {
        groups.iter().all(|group| group.bytes == bytes) && already.iter().all(|&load| load == 0)
    });
    // Each turn is the last one or rises to the average of another set of nodes.
    while let Some(higher) = Network::new(groups, already, most).short_of(total) {
        most = same.map_or(higher, |bytes| higher.next_multiple_of(bytes.max(1)));
    }
    most
}

struct Arc {
    to: usize,
    room: u64,
}

/// A flow network: the source, the groups, the nodes, the sink. The arc back of arc i is i ^ 1.
struct Network<'a> {
    groups: &'a [Group],
    already: &'a [u64],
    arcs: Vec<Arc>,
    from: Vec<Vec<usize>>,
    level: Vec<usize>,
    next: Vec<usize>,
}

const SOURCE: usize = 0;
const UNSEEN: usize = usize::MAX;

impl<'a> Network<'a> {
    fn new(groups: &'a [Group], already: &'a [u64], most: u64) -> Self {
        let vertices = groups.len() + already.len() + 2;
        let mut network = Network {
            groups,
            already,
            arcs: Vec::new(),
            from: vec![Vec::new(); vertices],
            level: Vec::new(),
            next: Vec::new(),
        };
        for (index, group) in groups.iter().enumerate() {
            network.add(SOURCE, 1 + index, group.count as u64 * group.bytes);
            for &node in &group.candidates {
                network.add(1 + index, 1 + groups.len() + node as usize, group.bytes);
            }
        }
        for (node, load) in already.iter().enumerate() {
            network.add(1 + groups.len() + node, vertices - 1, most - load);
        }
        network
    }

    fn add(&mut self, from: usize, to: usize, room: u64) {
        self.from[from].push(self.arcs.len());
        self.arcs.push(Arc { to, room });
        self.from[to].push(self.arcs.len());
        self.arcs.push(Arc { to: from, room: 0 });
    }

    /// `None` if `total` flows; else a load that the nodes which are too few must come to.
    fn short_of(mut self, total: u64) -> Option<u64> {
        let sink = self.from.len() - 1;
        let mut flowed = 0;
        while self.levels(sink) {
            self.next = vec![0; self.from.len()];
            loop {
                let pushed = self.push(SOURCE, sink, u64::MAX);
                if pushed == 0 {
                    break;
                }
                flowed += pushed;
            }
        }
        (flowed < total).then(|| self.least_by_cut())
    }

    /// The nodes on the source's side of the cut must take all that the groups there cannot give to others.
    fn least_by_cut(&self) -> u64 {
        let first_node = 1 + self.groups.len();
        let inside = |vertex: usize| self.level[vertex] != UNSEEN;
        let nodes: Vec<usize> = (0..self.already.len()).filter(|node| inside(first_node + node)).collect();
        let mut wanted: u64 = nodes.iter().map(|&node| self.already[node]).sum();
        for (_, group) in self.groups.iter().enumerate().filter(|(index, _)| inside(1 + index)) {
            let outside =
                group.candidates.iter().filter(|node| !inside(first_node + **node as usize)).count();
            wanted += group.count.saturating_sub(outside) as u64 * group.bytes;
        }
        wanted.div_ceil(nodes.len().max(1) as u64)
    }

    fn levels(&mut self, sink: usize) -> bool {
        self.level = vec![UNSEEN; self.from.len()];
        self.level[SOURCE] = 0;
        let mut queue = VecDeque::from([SOURCE]);
        while let Some(vertex) = queue.pop_front() {
            for &arc in &self.from[vertex] {
                let Arc { to, room } = self.arcs[arc];
                if room > 0 && self.level[to] == UNSEEN {
                    self.level[to] = self.level[vertex] + 1;
                    queue.push_back(to);
                }
            }
        }
        self.level[sink] != UNSEEN
    }

    /// Pushes flow along one path of rising levels (Dinic). Paths can be long, so they are kept here and not on the
    /// stack of calls.
    fn push(&mut self, source: usize, sink: usize, most: u64) -> u64 {
        let mut path: Vec<usize> = Vec::new();
        let mut vertex = source;
        while vertex != sink {
            let found = self.from[vertex][self.next[vertex]..].iter().position(|&arc| {
                let Arc { to, room } = self.arcs[arc];
                room > 0 && self.level[to] == self.level[vertex] + 1
            });
            match found {
                Some(ahead) => {
                    self.next[vertex] += ahead;
                    let arc = self.from[vertex][self.next[vertex]];
                    path.push(arc);
                    vertex = self.arcs[arc].to;
                }
                None => {
                    self.next[vertex] = self.from[vertex].len();
                    let Some(arc) = path.pop() else { return 0 };
                    vertex = self.arcs[arc ^ 1].to;
                    self.next[vertex] += 1;
                }
            }
        }
        let pushed = path.iter().map(|&arc| self.arcs[arc].room).min().unwrap_or(0).min(most);
        for arc in path {
            self.arcs[arc].room -= pushed;
            self.arcs[arc ^ 1].room += pushed;
        }
        pushed
    }
}
