//! Assigning blocks to nodes: maximum bipartite matching by augmenting paths, with a bound on blocks per rack
//! (the flow graph block → node → rack of EAR §3.2, capacities 1, 1 and c).

/// Gives as many blocks as possible a node of their own among `choices[block]`, at most `capacity` in a rack;
/// `rack[node]` is a node's rack. Nodes and racks are indexes from 0.
pub(crate) fn assign(choices: &[Vec<usize>], rack: &[usize], capacity: usize) -> Vec<Option<usize>> {
    let racks = rack.iter().max().map_or(0, |&last| last + 1);
    let mut search = Search {
        choices,
        rack,
        capacity,
        owner: vec![None; rack.len()],
        load: vec![0; racks],
        seen: vec![false; rack.len()],
        seen_rack: vec![false; racks],
    };
    for block in 0..choices.len() {
        search.seen.fill(false);
        search.seen_rack.fill(false);
        search.place(block);
    }
    let mut placed = vec![None; choices.len()];
    for (node, owner) in search.owner.iter().enumerate() {
        if let Some(block) = *owner {
            placed[block] = Some(node);
        }
    }
    placed
}

struct Search<'a> {
    choices: &'a [Vec<usize>],
    rack: &'a [usize],
    capacity: usize,
    /// The block on each node.
    owner: Vec<Option<usize>>,
    /// Blocks in each rack.
    load: Vec<usize>,
    /// Nodes and racks that this search has already tried in vain: it visits each once.
    seen: Vec<bool>,
    seen_rack: Vec<bool>,
}

impl Search<'_> {
    /// Finds `block` a node, moving others if need be. The place that a moved block leaves goes to whoever
    /// moved it.
    fn place(&mut self, block: usize) -> bool {
        for &node in &self.choices[block] {
            if std::mem::replace(&mut self.seen[node], true) {
                continue;
            }
            let placed = match self.owner[node] {
                Some(other) => self.place(other),
                None => self.admit(self.rack[node]),
            };
            if placed {
                self.owner[node] = Some(block);
                return true;
            }
        }
        false
    }

    /// Makes room for one more block in `rack`, by moving one of its blocks to another rack if it is full.
    fn admit(&mut self, rack: usize) -> bool {
        if self.load[rack] < self.capacity {
            self.load[rack] += 1;
            return true;
        }
        if std::mem::replace(&mut self.seen_rack[rack], true) {
            return false;
        }
        for node in (0..self.owner.len()).filter(|&node| self.rack[node] == rack).collect::<Vec<_>>() {
            if let Some(other) = self.owner[node]
                && !std::mem::replace(&mut self.seen[node], true)
                && self.place(other)
            {
                self.owner[node] = None;
                return true;
            }
        }
        false
    }
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
