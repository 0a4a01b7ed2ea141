//! How fast each link is, each side of a node's interface, and each disk: what is known of an uneven cluster.

use std::collections::BTreeMap;

use crate::error::PlanError;
use model::NodeId;

/// Nodes of one table: a million links, eight megabytes.
pub const MAX_RATED_NODES: usize = 1024;

/// Bandwidths by node, in any one unit; what is not listed is not limited.
///
/// Links are rated each for itself; what a node sends and receives in all is limited by its interface. An interface
/// of which nothing is said is as fast as its fastest link, for nobody saw it do more: so a star of equal links takes
/// as long as RP §2.2 has it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinkRates {
    links: BTreeMap<(NodeId, NodeId), f64>,
    up: BTreeMap<NodeId, f64>,
    down: BTreeMap<NodeId, f64>,
    disks: BTreeMap<NodeId, f64>,
}

impl LinkRates {
    /// `links[i][j]` is the bandwidth from `nodes[i]` to `nodes[j]`, `up[i]` and `down[i]` what `nodes[i]` sends and
    /// receives in all; `None` is no limit, 0 no link. What stands at (i, i) means nothing.
    ///
    /// # Errors
    /// [`PlanError::TooManyNodes`], [`PlanError::RepeatedNode`], [`PlanError::NotSquare`],
    /// [`PlanError::WrongNodeCount`]; [`PlanError::BadLink`] and [`PlanError::BadNode`], with numbers of nodes, for a
    /// bandwidth below 0 or none at all.
    pub fn new(
        nodes: &[NodeId],
        links: Option<&[Vec<Option<f64>>]>,
        up: Option<&[Option<f64>]>,
        down: Option<&[Option<f64>]>,
    ) -> Result<Self, PlanError> {
        if nodes.len() > MAX_RATED_NODES {
            return Err(PlanError::TooManyNodes { nodes: nodes.len(), most: MAX_RATED_NODES });
        }
        if let Some(i) = (1..nodes.len()).find(|&i| nodes[..i].contains(&nodes[i])) {
            return Err(PlanError::RepeatedNode { node: nodes[i].0 as usize });
        }
        let mut rates = LinkRates::default();
        for (row, (&from, values)) in nodes.iter().zip(links.unwrap_or_default()).enumerate() {
            if values.len() != nodes.len() {
                return Err(PlanError::NotSquare { row, columns: values.len(), rows: nodes.len() });
            }
            for (&to, &value) in nodes.iter().zip(values).filter(|&(&to, _)| to != from) {
                let Some(value) = value else { continue };
                // Not `< 0`, which holds of no NaN.
                if !matches!(value, 0.0..) {
                    return Err(PlanError::BadLink { from: from.0 as usize, to: to.0 as usize });
                }
                rates.links.insert((from, to), value);
            }
        }
        if let Some(given) = links.map(<[_]>::len).filter(|&rows| rows != nodes.len()) {
            return Err(PlanError::WrongNodeCount { given, nodes: nodes.len() });
        }
        rates.up = sides(nodes, up, |node, fastest| fastest.out_of(node), &rates)?;
        rates.down = sides(nodes, down, |node, fastest| fastest.into(node), &rates)?;
        Ok(rates)
    }

    /// The same, and `disks[i]` is what the disk of `nodes[i]` reads.
    ///
    /// # Errors
    /// [`PlanError::WrongNodeCount`]; [`PlanError::BadNode`] for a rate below 0 or none at all.
    pub fn with_disks(mut self, nodes: &[NodeId], disks: &[Option<f64>]) -> Result<Self, PlanError> {
        self.disks = of_nodes(nodes, disks)?;
        Ok(self)
    }

    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        [&self.up, &self.down, &self.disks].into_iter().all(BTreeMap::is_empty) && self.links.is_empty()
    }

    /// What one stream between two nodes can have; infinity is no limit.
    pub fn link(&self, from: NodeId, to: NodeId) -> f64 {
        let link = self.links.get(&(from, to)).copied().unwrap_or(f64::INFINITY);
        link.min(self.up(from)).min(self.down(to))
    }

    /// What a node can send in all.
    pub fn up(&self, node: NodeId) -> f64 {
        self.up.get(&node).copied().unwrap_or(f64::INFINITY)
    }

    /// What a node can receive in all.
    pub fn down(&self, node: NodeId) -> f64 {
        self.down.get(&node).copied().unwrap_or(f64::INFINITY)
    }

    /// What a node's disk reads.
    pub fn disk(&self, node: NodeId) -> f64 {
        self.disks.get(&node).copied().unwrap_or(f64::INFINITY)
    }

    /// What a node can send of a block that it stores: it is read, and then sent while more is read.
    pub fn supply(&self, node: NodeId) -> f64 {
        self.up(node).min(self.disk(node))
    }

    fn out_of(&self, node: NodeId) -> impl Iterator<Item = f64> {
        self.links.range((node, NodeId(0))..=(node, NodeId(u32::MAX))).map(|(_, &rate)| rate)
    }

    fn into(&self, node: NodeId) -> impl Iterator<Item = f64> {
        self.links.iter().filter(move |((_, to), _)| *to == node).map(|(_, &rate)| rate)
    }
}

/// One side of all interfaces: as given, else as fast as the fastest of `links`, if all of them are limited.
fn sides<'a, I: Iterator<Item = f64>>(
    nodes: &[NodeId],
    given: Option<&[Option<f64>]>,
    links: impl Fn(NodeId, &'a LinkRates) -> I,
    rates: &'a LinkRates,
) -> Result<BTreeMap<NodeId, f64>, PlanError> {
    let Some(given) = given else {
        let mut sides = BTreeMap::new();
        for &node in nodes {
            let (count, fastest) =
                links(node, rates).fold((0, 0.0_f64), |(count, most), rate| (count + 1, most.max(rate)));
            if count > 0 && count + 1 == nodes.len() {
                sides.insert(node, fastest);
            }
        }
        return Ok(sides);
    };
    of_nodes(nodes, given)
}

/// What is limited of these, a number for each node.
fn of_nodes(nodes: &[NodeId], given: &[Option<f64>]) -> Result<BTreeMap<NodeId, f64>, PlanError> {
    if given.len() != nodes.len() {
        return Err(PlanError::WrongNodeCount { given: given.len(), nodes: nodes.len() });
    }
    let mut limited = BTreeMap::new();
    for (&node, &rate) in nodes.iter().zip(given) {
        match rate {
            Some(rate @ 0.0..) => {
                limited.insert(node, rate);
            }
            Some(_) => return Err(PlanError::BadNode { node: node.0 as usize }),
            None => {}
        }
    }
    Ok(limited)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<NodeId> {
        [1, 2, 5].map(NodeId).to_vec()
    }

    #[test]
    fn a_link_is_as_fast_as_itself_and_both_its_ends_allow() {
        let links = vec![
            vec![None, Some(100.0), None],
            vec![Some(50.0), None, Some(20.0)],
            vec![Some(0.0), Some(80.0), None],
        ];
        let down = [None, Some(90.0), None];
        let rates = LinkRates::new(&nodes(), Some(&links), None, Some(&down)).unwrap();
        let link = |from, to| rates.link(NodeId(from), NodeId(to));
        assert_eq!([link(1, 2), link(2, 1), link(2, 5), link(5, 2)], [90.0, 50.0, 20.0, 80.0]);
        // A node that is not listed is not limited; nothing is known of an interface that may send without limit.
        assert_eq!([link(1, 5), link(1, 7), link(7, 1)], [f64::INFINITY; 3]);
        assert_eq!((rates.up(NodeId(1)), rates.up(NodeId(2))), (f64::INFINITY, 50.0));
        assert_eq!(link(5, 1), 0.0, "no link");
    }

    #[test]
    fn bad_tables_are_refused() {
        let new = |links: Vec<Vec<Option<f64>>>| LinkRates::new(&nodes(), Some(&links), None, None);
        let even = || vec![vec![Some(1.0); 3]; 3];
        assert!(new(even()).is_ok());
        assert_eq!(new(even()[..2].to_vec()), Err(PlanError::WrongNodeCount { given: 2, nodes: 3 }));
        let mut short = even();
        short[1].pop();
        assert_eq!(new(short), Err(PlanError::NotSquare { row: 1, columns: 2, rows: 3 }));
        for bad in [-1.0, f64::NAN] {
            let mut links = even();
            links[1][2] = Some(bad);
            assert_eq!(new(links), Err(PlanError::BadLink { from: 2, to: 5 }));
            let up = [Some(1.0), None, Some(bad)];
            let bad_node = LinkRates::new(&nodes(), None, Some(&up), None);
            assert_eq!(bad_node, Err(PlanError::BadNode { node: 5 }));
            assert_eq!(LinkRates::default().with_disks(&nodes(), &up), Err(PlanError::BadNode { node: 5 }));
        }
        let twice = LinkRates::new(&[NodeId(1), NodeId(1)], None, None, None);
        assert_eq!(twice, Err(PlanError::RepeatedNode { node: 1 }));
        let none = LinkRates::new(&nodes(), None, None, None).unwrap();
        assert!(none.is_empty());
        let few = PlanError::WrongNodeCount { given: 1, nodes: 3 };
        assert_eq!(none.clone().with_disks(&nodes(), &[None]), Err(few));
        let disks = none.with_disks(&nodes(), &[None, Some(800.0), None]).unwrap();
        assert!(!disks.is_empty());
        assert_eq!((disks.disk(NodeId(2)), disks.disk(NodeId(1))), (800.0, f64::INFINITY));
        let up = [None, Some(900.0), Some(100.0)];
        let both = LinkRates::new(&nodes(), None, Some(&up), None)
            .unwrap()
            .with_disks(&nodes(), &[Some(7.0), Some(800.0), None]);
        let both = both.unwrap();
        assert_eq!([1, 2, 5].map(|node| both.supply(NodeId(node))), [7.0, 800.0, 100.0]);
    }
}
