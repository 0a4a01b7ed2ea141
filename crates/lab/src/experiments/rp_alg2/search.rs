//! The searches of RP §4.3 to compare with. Node 0 is the requestor, all others are helpers.

/// Row from, column to.
pub type Weights = Vec<Vec<f64>>;

/// What a search came to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Found {
    /// The largest weight of its path; infinite if it has none.
    pub max_weight: f64,
    /// Whether it was not cut off, and so no path is better.
    pub ended: bool,
}

/// Every path through k helpers.
pub fn brute_force(weights: &Weights, k: usize) -> Found {
    let mut search = Search { weights, best: f64::INFINITY, steps: u64::MAX };
    search.every_path(0, k, 1, 0.0);
    Found { max_weight: search.best, ended: true }
}

/// Algorithm 2 as printed: helpers in the order of their numbers, and only the new link is compared with the best path so
/// far. At most so many extensions of a path are tried.
pub fn printed(weights: &Weights, k: usize, steps: u64) -> Found {
    let mut search = Search { weights, best: f64::INFINITY, steps };
    search.extend_path(0, k, 1, 0.0);
    Found { max_weight: search.best, ended: search.steps > 0 }
}

struct Search<'a> {
    weights: &'a Weights,
    /// w*.
    best: f64,
    /// Left.
    steps: u64,
}

impl Search<'_> {
    /// `used` has a bit for each node on the path, which begins with `first`; `max_weight` is its largest.
    fn every_path(&mut self, first: usize, missing: usize, used: u64, max_weight: f64) {
        if missing == 0 {
            self.best = self.best.min(max_weight);
            return;
        }
        for node in (1..self.weights.len()).filter(|node| used >> node & 1 == 0) {
            self.every_path(node, missing - 1, used | 1 << node, max_weight.max(self.weights[node][first]));
        }
    }

    /// EXTENDPATH.
    fn extend_path(&mut self, first: usize, missing: usize, used: u64, max_weight: f64) {
        if missing == 0 {
            self.best = max_weight;
            return;
        }
        for node in (1..self.weights.len()).filter(|node| used >> node & 1 == 0) {
            if self.steps == 0 {
                return;
            }
            let weight = self.weights[node][first];
            if weight < self.best {
                self.steps -= 1;
                self.extend_path(node, missing - 1, used | 1 << node, max_weight.max(weight));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::Draw;

    #[test]
    fn both_find_the_same_and_it_is_a_path() {
        for seed in 0..50 {
            let mut draw = Draw::seeded(seed);
            let weights: Weights = (0..7).map(|_| (0..7).map(|_| draw.below(20) as f64).collect()).collect();
            for k in 1..=6 {
                let best = brute_force(&weights, k);
                assert_eq!(printed(&weights, k, u64::MAX), best, "{seed} {k}");
                assert!(!printed(&weights, k, 1).ended || k == 0);
            }
        }
        // 2 → 1 → 0 with weights 3 and 1; the other way 5 and 1.
        let weights = vec![vec![0.0; 3], vec![1.0, 0.0, 5.0], vec![1.0, 3.0, 0.0]];
        assert_eq!(brute_force(&weights, 2).max_weight, 3.0);
        assert_eq!(brute_force(&weights, 1).max_weight, 1.0);
    }
}
