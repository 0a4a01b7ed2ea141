//! Assigning blocks to nodes: a maximum matching with a bound on blocks per rack (the flow graph block → node → rack of
//! EAR §3.2, capacities 1, 1 and c).

use crate::flow_graph::{EdgeId, FlowGraph, Vertex};

/// Gives as many blocks as possible a node of their own among `choices[block]`, at most `capacity` in a rack;
/// `rack[node]` is a node's rack. Nodes and racks are indexes from 0.
pub(crate) fn assign(choices: &[Vec<usize>], rack: &[usize], capacity: usize) -> Vec<Option<usize>> {
    let mut graph = FlowGraph::default();
    let sink = graph.vertex();
    let racks: Vec<Vertex> = (0..rack.iter().max().map_or(0, |&last| last + 1))
        .map(|_| {
            let rack = graph.vertex();
            graph.edge(rack, sink, capacity);
            rack
        })
        .collect();
    let mut nodes: Vec<Option<Vertex>> = vec![None; rack.len()];
    let mut chosen: Vec<Vec<(usize, EdgeId)>> = Vec::with_capacity(choices.len());
    for choices in choices {
        let block = graph.vertex();
        let mut edges = Vec::with_capacity(choices.len());
        for &node in choices {
            let vertex = *nodes[node].get_or_insert_with(|| {
                let vertex = graph.vertex();
                graph.edge(vertex, racks[rack[node]], 1);
                vertex
            });
            edges.push((node, graph.edge(block, vertex, 1)));
        }
        chosen.push(edges);
        graph.augment(block, sink);
    }
    let kept = |edges: &Vec<(usize, EdgeId)>| {
        edges.iter().find(|(_, edge)| graph.flow(*edge) > 0).map(|&(node, _)| node)
    };
    chosen.iter().map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::assign;
    use crate::draw::Draw;

    /// The most blocks that can be placed, by trying every choice.
    fn most(choices: &[Vec<usize>], rack: &[usize], capacity: usize, used: &mut Vec<usize>) -> usize {
        let Some((first, rest)) = choices.split_first() else { return 0 };
        let mut best = most(rest, rack, capacity, used);
        for &node in first {
            let in_rack = used.iter().filter(|&&other| rack[other] == rack[node]).count();
            if !used.contains(&node) && in_rack < capacity {
                used.push(node);
                best = best.max(1 + most(rest, rack, capacity, used));
                used.pop();
            }
        }
        best
    }

    #[test]
    fn assignments_are_as_large_as_any_within_the_bounds() {
        let mut draw = Draw::seeded(9);
        let mut scarce = 0;
        for _ in 0..5_000 {
            let (nodes, racks, capacity) = (2 + draw.below(7), 1 + draw.below(4), 1 + draw.below(3));
            let rack: Vec<usize> = (0..nodes).map(|_| draw.below(racks)).collect();
            let choices: Vec<Vec<usize>> = (0..1 + draw.below(6))
                .map(|_| (0..draw.below(4)).map(|_| draw.below(nodes)).collect())
                .collect();
            let placed = assign(&choices, &rack, capacity);
            let mut load = vec![0; racks];
            let mut taken = vec![false; nodes];
            for (block, node) in placed.iter().enumerate() {
                if let Some(node) = *node {
                    assert!(choices[block].contains(&node) && !std::mem::replace(&mut taken[node], true));
                    load[rack[node]] += 1;
                }
            }
            assert!(load.iter().all(|&blocks| blocks <= capacity));
            let size = placed.iter().flatten().count();
            assert_eq!(size, most(&choices, &rack, capacity, &mut Vec::new()));
            scarce += usize::from(size < choices.len());
        }
        assert!(scarce > 1_000, "the cases were too easy: {scarce} scarce ones");
    }
}
