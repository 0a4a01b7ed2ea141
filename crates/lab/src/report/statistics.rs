//! Medians and spreads of small numbers of samples.

/// What a set of samples is shown as.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// Middle sample, or the mean of the two in the middle.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Not exceeded by 99 % of the samples (nearest rank).
    pub p99: f64,
    /// How many.
    pub count: usize,
}

impl Summary {
    /// `None` for no samples.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let (lower, upper) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        let median = f64::midpoint(lower, upper);
        Some(Summary { median, min, max, p99: percentile(&sorted, 0.99)?, count: sorted.len() })
    }
}

/// The smallest sample that at least `fraction` (0 to 1) of the samples do not exceed; `sorted` ascends.
pub fn percentile(sorted: &[f64], fraction: f64) -> Option<f64> {
    let rank = (fraction * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles_are_those_of_the_sorted_samples() {
        assert_eq!(Summary::of([]), None);
        let odd = Summary::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.min, odd.median, odd.max, odd.p99, odd.count), (1.0, 2.0, 3.0, 3.0, 3));
        assert_eq!(Summary::of([4.0, 1.0, 2.0, 3.0]).unwrap().median, 2.5);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.99), Some(99.0));
        assert_eq!(percentile(&hundred, 0.5), Some(50.0));
        assert_eq!(percentile(&hundred, 0.0), Some(1.0));
    }
}
