//! Maximum flow, one unit at a time: what flows stays, so that another unit costs one search of the graph and not a
//! calculation of everything anew. Graphs may grow between units, and units can be taken back.
//!
//! ```text
//!   block ──1──▶ node ──1──▶ rack ──c──▶ sink          an edge that carries flow can be walked backwards
//! ```
//!
//! There is no vertex for the source: a unit begins where its [`augment`](FlowGraph::augment) begins. Edges may have a price, which
//! only [`augment_cheapest`](FlowGraph::augment_cheapest) looks at.

use std::collections::VecDeque;

/// A vertex, in the order in which they were made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Vertex(u32);

/// An edge of the graph, forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EdgeId(u32);

/// Vertices, edges, and the units that flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowGraph {
    /// For each vertex the arcs that leave it.
    leaving: Vec<Vec<u32>>,
    /// Arc 2e is edge e forwards, arc 2e+1 the same backwards.
    arcs: Vec<Arc>,
}

#[derive(Clone, Copy, Debug)]
struct Arc {
    to: u32,
    /// Units that can still go this way: forwards what is left of the capacity, backwards what flows.
    room: u32,
    /// What a unit costs that goes this way: backwards it gets back what it cost.
    price: i32,
}

/// Vertices from which another unit would reach some vertex.
#[derive(Clone, Debug)]
pub(crate) struct Reaching(Vec<bool>);

impl Reaching {
    /// Whether a unit that begins at this vertex would get there; a vertex that was made later does not count.
    pub fn holds(&self, vertex: Vertex) -> bool {
        self.0.get(vertex.0 as usize).copied().unwrap_or(false)
    }
}

/// Where a search has not come yet.
const NOBODY: u32 = u32::MAX;

impl FlowGraph {
    /// Adds a vertex without edges.
    pub fn vertex(&mut self) -> Vertex {
        self.leaving.push(Vec::new());
        Vertex(self.leaving.len() as u32 - 1)
    }

    /// Adds an edge that carries up to `capacity` units.
    pub fn edge(&mut self, from: Vertex, to: Vertex, capacity: usize) -> EdgeId {
        self.priced_edge(from, to, capacity, 0)
    }

    /// Adds an edge that carries up to `capacity` units, each at that price.
    pub fn priced_edge(&mut self, from: Vertex, to: Vertex, capacity: usize, price: u16) -> EdgeId {
        let (price, room) = (i32::from(price), u32::try_from(capacity).unwrap_or(u32::MAX));
        let arc = self.arcs.len() as u32;
        self.leaving[from.0 as usize].push(arc);
        self.leaving[to.0 as usize].push(arc + 1);
        self.arcs.push(Arc { to: to.0, room, price });
        self.arcs.push(Arc { to: from.0, room: 0, price: -price });
        EdgeId(arc / 2)
    }

    /// Units on an edge.
    pub fn flow(&self, edge: EdgeId) -> usize {
        self.arcs[edge.0 as usize * 2 + 1].room as usize
    }

    /// Sends one unit more from `from` to `sink`, over other ways for other units if need be; false, and nothing
    /// changed, if no more can flow. Breadth first: O(edges).
    pub fn augment(&mut self, from: Vertex, sink: Vertex) -> bool {
        let mut came_by = vec![NOBODY; self.leaving.len()];
        let mut open = VecDeque::from([from.0]);
        while let Some(at) = open.pop_front() {
            for &arc in &self.leaving[at as usize] {
                let Arc { to, room, .. } = self.arcs[arc as usize];
                if room == 0 || to == from.0 || came_by[to as usize] != NOBODY {
                    continue;
                }
                came_by[to as usize] = arc;
                if to == sink.0 {
                    self.shift_back(&came_by, from, sink);
                    return true;
                }
                open.push_back(to);
            }
        }
        false
    }

    /// As [`augment`](FlowGraph::augment), by a cheapest way: all units together cost as little as so many from these vertices can, if
    /// none was sent otherwise (successive shortest paths, by Bellman and Ford with a queue). Of ways that cost the same it takes
    /// those whose edges came first.
    pub fn augment_cheapest(&mut self, from: Vertex, sink: Vertex) -> bool {
        let vertices = self.leaving.len();
        let (mut price, mut came_by) = (vec![i32::MAX; vertices], vec![NOBODY; vertices]);
        let (mut open, mut is_open) = (VecDeque::from([from.0]), vec![false; vertices]);
        price[from.0 as usize] = 0;
        while let Some(at) = open.pop_front() {
            is_open[at as usize] = false;
            for &arc in &self.leaving[at as usize] {
                let Arc { to, room, price: step } = self.arcs[arc as usize];
                let (next, there) = (price[at as usize] + step, to as usize);
                if room == 0 || next >= price[there] {
                    continue;
                }
                (price[there], came_by[there]) = (next, arc);
                if !std::mem::replace(&mut is_open[there], true) {
                    open.push_back(to);
                }
            }
        }
        let is_reached = came_by[sink.0 as usize] != NOBODY;
        if is_reached {
            self.shift_back(&came_by, from, sink);
        }
        is_reached
    }

    /// Moves a unit over the way that a search found, from its end to its beginning.
    fn shift_back(&mut self, came_by: &[u32], from: Vertex, sink: Vertex) {
        let mut at = sink.0;
        while at != from.0 {
            let arc = came_by[at as usize];
            self.arcs[arc as usize].room -= 1;
            self.arcs[arc as usize ^ 1].room += 1;
            at = self.arcs[arc as usize ^ 1].to;
        }
    }

    /// Takes back a unit that flows along these edges; each must carry one, and each begin where the one before ends.
    pub fn take_back(&mut self, way: &[EdgeId]) {
        debug_assert!(way.iter().all(|&edge| self.flow(edge) > 0), "no unit flows this way");
        for edge in way {
            self.arcs[edge.0 as usize * 2].room += 1;
            self.arcs[edge.0 as usize * 2 + 1].room -= 1;
        }
    }

    /// From which vertices one unit more could reach `sink`. O(edges).
    pub fn reaching(&self, sink: Vertex) -> Reaching {
        let mut reached = vec![false; self.leaving.len()];
        reached[sink.0 as usize] = true;
        let mut open = vec![sink.0];
        while let Some(at) = open.pop() {
            for &arc in &self.leaving[at as usize] {
                let from = self.arcs[arc as usize].to;
                if self.arcs[arc as usize ^ 1].room > 0 && !reached[from as usize] {
                    reached[from as usize] = true;
                    open.push(from);
                }
            }
        }
        Reaching(reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    /// The value of a maximum flow, by the smallest cut: every set of vertices is tried.
    fn smallest_cut(vertices: usize, edges: &[(usize, usize, usize)], from: usize, to: usize) -> usize {
        let sets = (0..1_usize << vertices).filter(|set| set >> from & 1 == 1 && set >> to & 1 == 0);
        let cut = |set: usize| {
            let crosses = |&&(a, b, _): &&(usize, usize, usize)| set >> a & 1 == 1 && set >> b & 1 == 0;
            edges.iter().filter(crosses).map(|edge| edge.2).sum()
        };
        sets.map(cut).min().unwrap()
    }

    #[test]
    fn a_flow_that_grew_with_its_graph_is_as_large_as_the_smallest_cut() {
        let mut draw = Draw::seeded(3);
        let mut rerouted = 0;
        for _ in 0..5_000 {
            let vertices = 4 + draw.below(3);
            let mut graph = FlowGraph::default();
            let all: Vec<Vertex> = (0..vertices).map(|_| graph.vertex()).collect();
            let (source, sink) = (0, vertices - 1);
            let (mut edges, mut value, mut ids) = (Vec::new(), 0, Vec::new());
            for _ in 0..8 + draw.below(8) {
                let (a, b) = (draw.below(vertices), draw.below(vertices));
                if a == b || a == sink || b == source {
                    continue;
                }
                let capacity = 1 + draw.below(2);
                ids.push(graph.edge(all[a], all[b], capacity));
                edges.push((a, b, capacity));
                let could = graph.reaching(all[sink]).holds(all[source]);
                let before: Vec<usize> = ids.iter().map(|&id| graph.flow(id)).collect();
                assert_eq!(graph.augment(all[source], all[sink]), could);
                value += usize::from(could);
                while graph.augment(all[source], all[sink]) {
                    value += 1;
                }
                assert_eq!(value, smallest_cut(vertices, &edges, source, sink), "{edges:?}");
                rerouted += usize::from(before.iter().zip(&ids).any(|(&was, &id)| graph.flow(id) < was));
            }
            for vertex in 1..vertices - 1 {
                let carried = |end: fn(&(usize, usize, usize)) -> usize| -> usize {
                    let at = edges.iter().zip(&ids).filter(|(edge, _)| end(edge) == vertex);
                    at.map(|(_, &id)| graph.flow(id)).sum()
                };
                assert_eq!(carried(|edge| edge.0), carried(|edge| edge.1));
            }
        }
        assert!(rerouted > 10, "the cases were too easy: {rerouted} with units that changed their way");
    }

    #[test]
    fn a_unit_makes_way_for_another() {
        let mut graph = FlowGraph::default();
        let [source, a, b, sink] = std::array::from_fn(|_| graph.vertex());
        graph.edge(source, a, 1);
        let across = graph.edge(a, b, 1);
        graph.edge(b, sink, 1);
        assert!(graph.augment(source, sink) && graph.flow(across) == 1);
        graph.edge(source, b, 1);
        assert!(!graph.augment(source, sink));
        graph.edge(a, sink, 1);
        assert!(graph.augment(source, sink) && graph.flow(across) == 0);
    }

    #[test]
    fn a_unit_makes_way_where_that_is_cheaper() {
        let mut graph = FlowGraph::default();
        let [a, b, near, far, sink] = std::array::from_fn(|_| graph.vertex());
        let ways = [(a, near, 0), (a, far, 1), (b, near, 0), (b, far, 3)]
            .map(|(from, to, price)| graph.priced_edge(from, to, 1, price));
        [near, far].into_iter().for_each(|node| _ = graph.edge(node, sink, 1));
        assert!(graph.augment_cheapest(a, sink) && graph.flow(ways[0]) == 1);
        assert!(graph.augment_cheapest(b, sink) && !graph.augment_cheapest(b, sink));
        assert_eq!(ways.map(|way| graph.flow(way)), [0, 1, 1, 0]);
    }

    #[test]
    fn a_unit_that_is_taken_back_leaves_its_room() {
        let mut graph = FlowGraph::default();
        let [a, b, rack, sink] = std::array::from_fn(|_| graph.vertex());
        let ways = [a, b].map(|block| graph.edge(block, rack, 1));
        let out = graph.edge(rack, sink, 1);
        assert!(graph.augment(a, sink) && !graph.augment(b, sink));
        graph.take_back(&[ways[0], out]);
        assert!(graph.augment(b, sink) && !graph.augment(a, sink));
        assert_eq!(ways.map(|way| graph.flow(way)), [0, 1]);
    }
}
