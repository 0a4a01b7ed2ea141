//! Which bytes of a read are there, whatever the order in which they came.

use std::ops::Range;

/// Ranges that are there, rising and apart.
#[derive(Default)]
pub(crate) struct Covered(Vec<Range<u64>>);

impl Covered {
    /// A range is there from now on.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let first = self.0.partition_point(|known| known.end < range.start);
        let last = self.0.partition_point(|known| known.start <= range.end);
        let joined = self.0[first..last]
            .iter()
            .fold(range, |all, known| all.start.min(known.start)..all.end.max(known.end));
        self.0.splice(first..last, [joined]);
    }

    /// The first byte that is not there.
    pub fn first_gap(&self) -> u64 {
        self.0.first().filter(|first| first.start == 0).map_or(0, |first| first.end)
    }

    /// What is there after that byte.
    pub fn after(&self, byte: u64) -> Vec<Range<u64>> {
        self.0.iter().filter(|known| known.start > byte).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_where_they_touch() {
        let mut covered = Covered::default();
        for range in [5..7, 10..12, 0..2, 3..3, 7..9, 2..4] {
            covered.add(range);
        }
        assert_eq!((covered.0.as_slice(), covered.first_gap()), (&[0..4, 5..9, 10..12][..], 4));
        assert_eq!(covered.after(4), [5..9, 10..12]);
        covered.add(1..11);
        assert_eq!((covered.0.len(), covered.first_gap()), (1, 12));
        let mut late = Covered::default();
        late.add(3..4);
        assert_eq!(late.first_gap(), 0);
    }
}
