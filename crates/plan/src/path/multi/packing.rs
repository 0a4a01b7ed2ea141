//! Packing programs: maximise Σ x_c over x ≥ 0 where each column c uses some rows and each row has a limit. The
//! revised simplex method, for columns that come to light one after another.
//!
//! Own code, for three reasons: solvers from the registry read clocks and may panic or cycle, and their prices,
//! which columns are generated from, are not always to be had. Starting from x = 0, this needs a fraction
//! of a general one.

/// Reduced costs and pivots below this are rounding: limits are about 1, coefficients 0 and 1.
const ROUNDING: f64 = 1e-9;

/// Limits are lowered by up to this part, each by another one, lest ties make the method cycle.
const PERTURBATION: f64 = 1e-7;

pub(super) struct Packing {
    rows: usize,
    /// Rows that each column uses.
    columns: Vec<Vec<usize>>,
    /// What is basic: the slack of a row, by its number, or a column, by its number plus that of rows.
    basis: Vec<usize>,
    values: Vec<f64>,
    /// The inverse of the basis, column by column.
    inverse: Vec<Vec<f64>>,
    prices: Vec<f64>,
}

impl Packing {
    /// Without columns. All limits are positive.
    pub(super) fn new(limits: &[f64]) -> Self {
        let rows = limits.len();
        let lowered =
            |(row, limit): (usize, &f64)| limit * (1.0 - PERTURBATION * (row + 1) as f64 / rows as f64);
        let mut inverse = vec![vec![0.0; rows]; rows];
        (0..rows).for_each(|row| inverse[row][row] = 1.0);
        Packing {
            rows,
            columns: Vec::new(),
            basis: (0..rows).collect(),
            values: limits.iter().enumerate().map(lowered).collect(),
            inverse,
            prices: vec![0.0; rows],
        }
    }

    pub(super) fn add(&mut self, column: Vec<usize>) {
        self.columns.push(column);
    }

    /// What each row costs, at least 0 once the columns are [used as well as possible](Self::maximise).
    pub(super) fn prices(&self) -> &[f64] {
        &self.prices
    }

    /// What each column gets.
    pub(super) fn amounts(&self) -> Vec<f64> {
        let mut amounts = vec![0.0; self.columns.len()];
        for (&basic, &value) in self.basis.iter().zip(&self.values) {
            if basic >= self.rows {
                amounts[basic - self.rows] = value.max(0.0);
            }
        }
        amounts
    }

    /// Uses the columns as well as possible, in at most `pivots` steps; tells whether they sufficed.
    pub(super) fn maximise(&mut self, pivots: &mut usize) -> bool {
        while let Some((entering, gain)) = self.entering() {
            if *pivots == 0 {
                return false;
            }
            *pivots -= 1;
            let direction = self.direction(entering);
            // Each column uses a row, so something always limits it, unless rounding hides it.
            let Some(leaving) = self.leaving(&direction) else { return false };
            self.pivot(entering, leaving, &direction, gain);
        }
        true
    }

    /// The slack or column that gains most.
    fn entering(&self) -> Option<(usize, f64)> {
        let slacks = self.prices.iter().map(|price| -price);
        let gain = |column: &Vec<usize>| 1.0 - column.iter().map(|&row| self.prices[row]).sum::<f64>();
        let gains = slacks.chain(self.columns.iter().map(gain)).enumerate();
        gains.filter(|&(_, gain)| gain > ROUNDING).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// How much less of each basic variable there is per unit of `entering`.
    fn direction(&self, entering: usize) -> Vec<f64> {
        if entering < self.rows {
            return self.inverse[entering].clone();
        }
        let mut direction = vec![0.0; self.rows];
        for &row in &self.columns[entering - self.rows] {
            direction.iter_mut().zip(&self.inverse[row]).for_each(|(sum, part)| *sum += part);
        }
        direction
    }

    /// The place in the basis that is used up first.
    fn leaving(&self, direction: &[f64]) -> Option<usize> {
        let falling = (0..self.rows).filter(|&place| direction[place] > ROUNDING);
        falling.min_by(|&a, &b| {
            let [a, b] = [a, b].map(|place| self.values[place] / direction[place]);
            a.total_cmp(&b)
        })
    }

    fn pivot(&mut self, entering: usize, leaving: usize, direction: &[f64], gain: f64) {
        let pivot = direction[leaving];
        for (row, column) in self.inverse.iter_mut().enumerate() {
            let new = column[leaving] / pivot;
            if new != 0.0 {
                column.iter_mut().zip(direction).for_each(|(entry, part)| *entry -= new * part);
                column[leaving] = new;
                self.prices[row] += gain * new;
            }
        }
        let amount = (self.values[leaving] / pivot).max(0.0);
        self.values.iter_mut().zip(direction).for_each(|(value, part)| *value -= amount * part);
        self.values[leaving] = amount;
        self.basis[leaving] = entering;
    }
}
