//! Time until a Markov chain is absorbed, by eliminating one state after another without a subtraction (Grassmann, Taksar,
//! Heyman 1985): rates of repair and of failure lie ten orders of magnitude apart, and what differences of them would lose
//! is the answer.

/// A chain in continuous time over states 0 …, and one that absorbs. Rates are per unit of time.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// From each state to each other.
    rates: Vec<Vec<f64>>,
    /// From each state to the end.
    ends: Vec<f64>,
}

impl Chain {
    pub fn new(states: usize) -> Self {
        Self { rates: vec![vec![0.0; states]; states], ends: vec![0.0; states] }
    }

    pub fn add(&mut self, from: usize, to: usize, rate: f64) {
        self.rates[from][to] += rate;
    }

    pub fn add_end(&mut self, from: usize, rate: f64) {
        self.ends[from] += rate;
    }

    /// Mean time from state 0 to the end; infinite if nothing leads there.
    pub fn time_to_end(mut self) -> f64 {
        // Time that passes in eliminated states for each unit of time in the others.
        let mut worth = vec![1.0; self.ends.len()];
        for state in (1..self.ends.len()).rev() {
            let leaving = std::mem::take(&mut self.rates[state]);
            let end = self.ends[state];
            let all: f64 = leaving[..state].iter().sum::<f64>() + end;
            if all == 0.0 {
                // It is never left.
                worth[state] = f64::INFINITY;
            }
            for from in 0..state {
                let entering = self.rates[from][state];
                if entering == 0.0 {
                    continue;
                }
                let share = if all == 0.0 { 0.0 } else { entering / all };
                worth[from] += if all == 0.0 { f64::INFINITY } else { share * worth[state] };
                for (to, rate) in leaving[..state].iter().enumerate().filter(|(to, _)| *to != from) {
                    self.rates[from][to] += share * rate;
                }
                self.ends[from] += share * end;
            }
        }
        worth[0] / self.ends[0]
    }
}
