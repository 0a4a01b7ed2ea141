//! Recoveries of XOR codes: sums of symbols, found by the searches of `xor/`. They are solved once: a cluster repairs the same
//! few losses again and again.

use super::{Fewest, Recovery};
use crate::xor::{Loss, Method, ParitySets, Reading, odd};
use crate::{Code, CodeError, Equation, SymbolId};
use gf::Matrix;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Nodes of an exact search that a plan waits for: some ten milliseconds. What is not settled by then is what replace recovery
/// found, and is not said to be proved.
const MAX_NODES: usize = 3_000;

/// The cost of a block that is not read where the others suffice.
pub const ONLY_IN_NEED: u32 = u32::MAX;

/// Losses that a code remembers: each block's, with any of its symbols wanted, many times over.
const MAX_SOLVED: usize = 4096;

/// Recoveries that were solved. Nobody can observe it: the same loss has always the same one.
#[derive(Default)]
pub(crate) struct Solved(Mutex<BTreeMap<Loss, Reading>>);

impl Solved {
    fn get(&self, sets: &ParitySets, loss: Loss) -> Result<Reading, CodeError> {
        if let Some(reading) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&loss) {
            return Ok(reading.clone());
        }
        let reading = sets.recover_within(&loss, Method::Exact, MAX_NODES)?;
        let mut solved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if solved.len() >= MAX_SOLVED {
            solved.clear();
        }
        solved.insert(loss, reading.clone());
        Ok(reading)
    }
}

/// Where the stored symbols can be had.
struct Sources {
    /// For each stored symbol the member to read it from, a data block that is virtual if the stored one is not there, and the
    /// member's place in the order of preference.
    from: Vec<Option<(SymbolId, usize)>>,
    is_known: Vec<bool>,
    /// Of symbols that follow from known data, the data whose sum they are.
    derived: BTreeMap<u32, Vec<u32>>,
    costs: Vec<u32>,
}

impl Sources {
    /// The same sum with the data in place of what follows from them.
    fn known_as_data(&self, sum: Vec<u32>) -> Vec<u32> {
        if self.derived.is_empty() {
            return sum;
        }
        let terms =
            sum.into_iter().flat_map(|cell| self.derived.get(&cell).cloned().unwrap_or_else(|| vec![cell]));
        odd(terms.collect())
    }
}

impl Code {
    /// [`by_sums`](Code::by_sums), from blocks that help only in need if the others do not suffice.
    pub(super) fn by_sums_of_others_first(
        &self,
        sets: &ParitySets,
        wanted: &[SymbolId],
        (known, available): (&[usize], &[usize]),
        costs: &[u32],
    ) -> Result<Recovery, CodeError> {
        let cost = |place: usize| costs.get(place).copied().unwrap_or(1);
        let (others, others_cost): (Vec<usize>, Vec<u32>) = (0..available.len())
            .filter(|&place| cost(place) != ONLY_IN_NEED)
            .map(|place| (available[place], cost(place)))
            .unzip();
        let first = self.by_sums(sets, wanted, (known, &others), (Method::Exact, &others_cost));
        if others.len() == available.len() || !matches!(first, Err(CodeError::NotRecoverable { .. })) {
            return first;
        }
        let dearest = 2 * others_cost.into_iter().max().unwrap_or(1);
        let costs: Vec<u32> = (0..available.len()).map(|place| cost(place).min(dearest)).collect();
        self.by_sums(sets, wanted, (known, available), (Method::Exact, &costs))
    }

    /// As [`Code::recovery_at`], of blocks that are known and those that are available.
    pub(super) fn by_sums(
        &self,
        sets: &ParitySets,
        wanted: &[SymbolId],
        blocks: (&[usize], &[usize]),
        (method, costs): (Method, &[u32]),
    ) -> Result<Recovery, CodeError> {
        self.rows(wanted)?;
        let sources = self.sources(sets, blocks, costs)?;
        let cells: Vec<u32> = wanted.iter().map(|&symbol| self.stored_symbol(sets, symbol)).collect();
        let (mut loss, mut costs) = (Loss::default(), sources.costs.clone());
        for (symbol, &cell) in wanted.iter().zip(&cells) {
            let at = cell as usize;
            match sources.from[at] {
                // Wanted of one member, readable from another.
                Some((source, _)) if source != *symbol => costs[at] = 0,
                _ if sources.is_known[at] || loss.wanted.contains(&cell) => {}
                _ => loss.wanted.push(cell),
            }
        }
        let cells_of = |is: &dyn Fn(usize) -> bool| {
            (0..sets.symbols()).filter(|&at| is(at)).map(|at| at as u32).collect()
        };
        let none = |at: usize| sources.from[at].is_none() && !sources.is_known[at];
        loss.missing = cells_of(&|at| none(at) && !loss.wanted.contains(&(at as u32)));
        loss.known = cells_of(&|at| sources.is_known[at]);
        loss.costs = if costs.iter().all(|&cost| cost == 1) { Vec::new() } else { costs };
        let reading = match loss.wanted.is_empty() {
            true => Reading { symbols: Vec::new(), cost: 0, sums: Vec::new(), proven: true },
            false if method == Method::Exact => self.solved().get(sets, loss.clone())?,
            false => sets.recover(&loss, method)?,
        };
        let sum = |cell: &u32| {
            sources.known_as_data(match loss.wanted.iter().position(|wanted| wanted == cell) {
                Some(place) => reading.sums[place].clone(),
                None => vec![*cell],
            })
        };
        let sums: Vec<Vec<u32>> = cells.iter().map(sum).collect();
        let fewest = if reading.proven { Fewest::Proved } else { Fewest::Unproved };
        Ok(Recovery { equation: self.equation_of(wanted, &sums, &sources)?, fewest })
    }

    /// `wanted` as sums of stored symbols, each rising, known ones among them.
    fn equation_of(
        &self,
        wanted: &[SymbolId],
        sums: &[Vec<u32>],
        sources: &Sources,
    ) -> Result<Equation, CodeError> {
        let mut used: Vec<u32> = sums.iter().flatten().copied().collect();
        used.sort_unstable();
        used.dedup();
        let mut inputs: Vec<(usize, SymbolId, u32)> = used
            .into_iter()
            .filter_map(|cell| sources.from[cell as usize].map(|(symbol, place)| (place, symbol, cell)))
            .collect();
        inputs.sort_unstable();
        let mut matrix = Matrix::zero(self.field(), wanted.len(), inputs.len());
        for (column, (_, _, cell)) in inputs.iter().enumerate() {
            let rows = (0..wanted.len()).filter(|&row| sums[row].binary_search(cell).is_ok());
            rows.for_each(|row| matrix.set(row, column, 1));
        }
        let inputs = inputs.into_iter().map(|(_, symbol, _)| symbol).collect();
        Ok(Equation { wanted: wanted.to_vec(), inputs, matrix })
    }

    /// The stored symbol that a member's symbol is: its own, or for a virtual one the one that has its data.
    fn stored_symbol(&self, sets: &ParitySets, symbol: SymbolId) -> u32 {
        let row = self.row_of(symbol);
        let data = self.virtuals() * self.alpha();
        if row < data { sets.data()[row] } else { (row - data) as u32 }
    }

    fn sources(
        &self,
        sets: &ParitySets,
        (known, available): (&[usize], &[usize]),
        costs: &[u32],
    ) -> Result<Sources, CodeError> {
        let mut sources = Sources {
            from: vec![None; sets.symbols()],
            is_known: vec![false; sets.symbols()],
            derived: BTreeMap::new(),
            costs: vec![1; sets.symbols()],
        };
        // Known members stand first in the order, as they do in other codes.
        for (place, &member) in known.iter().chain(available).enumerate() {
            for symbol in self.symbols_of(&[member])? {
                let cell = self.stored_symbol(sets, symbol) as usize;
                let is_virtual = |source: SymbolId| usize::from(source.block) < self.virtuals();
                let is_better = |source| is_virtual(source) && !is_virtual(symbol) && !sources.is_known[cell];
                if sources.from[cell].is_none_or(|(source, _)| is_better(source)) {
                    sources.from[cell] = Some((symbol, place));
                    sources.is_known[cell] = place < known.len();
                    let cost = place.checked_sub(known.len()).and_then(|place| costs.get(place));
                    sources.costs[cell] = cost.copied().unwrap_or(1);
                }
            }
        }
        if !known.is_empty() {
            self.derive(sets, &mut sources);
        }
        Ok(sources)
    }

    /// Symbols that are sums of known data are known too, and need not be read.
    fn derive(&self, sets: &ParitySets, sources: &mut Sources) {
        let first = self.virtuals() * self.alpha();
        let known: Vec<bool> = sets.data().iter().map(|&cell| sources.is_known[cell as usize]).collect();
        for cell in 0..sets.symbols() {
            let row = self.generator().row(first + cell);
            let data = || (0..row.len()).filter(|&column| row[column] != 0);
            if !sources.is_known[cell] && data().all(|column| known[column]) {
                sources.is_known[cell] = true;
                sources.derived.insert(cell as u32, data().map(|column| sets.data()[column]).collect());
            }
        }
    }
}
