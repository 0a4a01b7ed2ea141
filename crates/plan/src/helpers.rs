//! Helper selection: the least recently selected nodes (RP §3.3), so that a full-node recovery loads all
//! helpers alike.

use crate::by_node::ByNode;
use crate::error::PlanError;
use model::NodeId;

/// When each node was last selected, in selections made so far. Kept by whoever plans repairs (the
/// coordinator).
#[derive(Clone, Debug, Default)]
pub struct LeastRecent {
    selections: u64,
    last: ByNode<u64>,
}

impl LeastRecent {
    /// Selects the `count` least recently selected of `candidates` in time linear in their number (quick
    /// select), marks them, and returns their indexes in rising order. Among nodes of one age the earlier
    /// candidate is preferred.
    ///
    /// # Errors
    /// [`PlanError::NotEnoughHelpers`].
    pub fn select(&mut self, candidates: &[NodeId], count: usize) -> Result<Vec<usize>, PlanError> {
        if candidates.len() < count {
            return Err(PlanError::NotEnoughHelpers { needed: count, available: candidates.len() });
        }
        let mut ages = self.ages(candidates);
        if 0 < count && count < ages.len() {
            ages.select_nth_unstable(count - 1);
        }
        let mut chosen: Vec<usize> = ages[..count].iter().map(|&(_, index)| index).collect();
        chosen.sort_unstable();
        self.mark(chosen.iter().map(|&index| candidates[index]));
        Ok(chosen)
    }

    /// Indexes of all `candidates`, least recently selected first; marks none. An order of preference for
    /// codes that need not use the same number of helpers each time: then [`mark`](Self::mark) those that the
    /// plan uses.
    pub fn preference(&self, candidates: &[NodeId]) -> Vec<usize> {
        let mut ages = self.ages(candidates);
        ages.sort_unstable();
        ages.into_iter().map(|(_, index)| index).collect()
    }

    /// Notes that `nodes` help, all at the same time.
    pub fn mark(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        self.selections += 1;
        for node in nodes {
            self.last.insert(node, self.selections);
        }
    }

    /// Last selection and index of each candidate; never selected is 0.
    fn ages(&self, candidates: &[NodeId]) -> Vec<(u64, usize)> {
        let age = |node: &NodeId| self.last.get(*node).copied().unwrap_or(0);
        candidates.iter().enumerate().map(|(index, node)| (age(node), index)).collect()
    }
}
