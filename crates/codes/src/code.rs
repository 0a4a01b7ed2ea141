//! A code: a generator matrix and what has been proved about it.

use crate::rapidraid::Chain;
use crate::recovery::Solved;
use crate::xor::Bits;
use crate::{CodeError, ParitySets, Reach, registry, tolerance};
use gf::{Field, Matrix};
use std::{fmt, sync::Arc};

/// Largest number of symbols in a stripe, nα. A dense square matrix over that many is 32 MiB; the largest array code
/// in the papers (STAR, p = 31) has about a thousand.
const MAX_STRIPE_SYMBOLS: usize = 4096;

/// One symbol (sub-block) of a stripe: symbol `index` (0 … α−1) of block `block` (0 … n−1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SymbolId {
    /// The block's index in its stripe.
    pub block: u16,
    /// The symbol within the block.
    pub index: u16,
}

/// A linear code for a stripe of n blocks, k blocks' worth of data, α symbols to a block. Cheap to clone.
///
/// A code that does not store its data as they are is taken with its *systematic extension*: members 0 … k−1 are the data
/// blocks, which are *virtual*, the stored ones follow. So whatever makes, reads or proves members needs to know nothing of
/// it; what counts losses, copies or bytes counts [stored](Code::stored) members.
#[derive(Clone)]
pub struct Code(Arc<Parts>);

struct Parts {
    name: String,
    n: usize,
    k: usize,
    alpha: usize,
    /// nα × kα: each symbol of the stripe as a combination of the data symbols.
    generator: Matrix,
    /// nα × (n−k)α, the parity-check matrix transposed: see [`tolerance::checks`].
    checks: Matrix,
    /// Members 0 … virtuals−1 are not stored.
    virtuals: usize,
    /// The checks of the stored members alone; `None` if those are all.
    stored_checks: Option<Matrix>,
    /// See [`Code::pipeline`].
    pipeline: Option<Chain>,
    /// See [`Code::parity_sets`].
    sets: Option<ParitySets>,
    /// Recoveries of an XOR code.
    solved: Solved,
    tolerance: usize,
    /// For a code of local groups: see [`Code::reach`].
    reach: Option<Reach>,
    /// See [`Code::local_groups`].
    local_groups: Vec<Option<usize>>,
}

/// Why a code is taken to survive any n−k losses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// A theorem about its generator, stated where that is built. Patterns are tried all the same if they are few.
    Theorem,
    /// Nothing but trying every pattern.
    Trial,
}

impl Code {
    /// A code from its generator matrix (nα × kα; row bα+i is symbol i of block b). Its tolerance is proved here, by
    /// trying every pattern of losses up to the first that is fatal.
    ///
    /// # Errors
    /// [`CodeError::Size`], [`CodeError::Shape`], [`CodeError::RankDeficient`], and [`CodeError::TooManyPatterns`] when
    /// the proof would take too long.
    pub fn from_generator(
        name: &str,
        n: usize,
        k: usize,
        alpha: usize,
        generator: Matrix,
    ) -> Result<Self, CodeError> {
        let mut parts = Parts::new(name, n, k, alpha, generator)?;
        parts.tolerance = tolerance::prove(name, &parts.checks, n, alpha)?;
        Ok(Self(Arc::new(parts)))
    }

    /// A code that is known, or only hoped, to survive any n−k losses; costs one round of trials at most.
    ///
    /// # Errors
    /// Those of [`Code::from_generator`], and [`CodeError::NotMds`] if a trial fails.
    pub(crate) fn from_mds_generator(
        name: &str,
        n: usize,
        k: usize,
        alpha: usize,
        generator: Matrix,
        evidence: Evidence,
    ) -> Result<Self, CodeError> {
        let mut parts = Parts::new(name, n, k, alpha, generator)?;
        parts.tolerance = n - k;
        let trusted = evidence == Evidence::Theorem && !tolerance::is_quick(n, n - k);
        if !trusted && !tolerance::survives_any(name, &parts.checks, n, alpha, n - k)? {
            return Err(CodeError::NotMds { code: name.to_owned(), losses: n - k });
        }
        Ok(Self(Arc::new(parts)))
    }

    /// A code of local groups (`groups[b]`: the group of block b, if it is in one), each with one parity of its own,
    /// α = 1. Besides its tolerance its [reach](Code::reach) is settled by trial.
    ///
    /// # Errors
    /// Those of [`Code::from_generator`].
    pub(crate) fn from_local_generator(
        name: &str,
        k: usize,
        generator: Matrix,
        groups: &[Option<usize>],
    ) -> Result<Self, CodeError> {
        let mut parts = Parts::new(name, groups.len(), k, 1, generator)?;
        parts.tolerance = tolerance::prove(name, &parts.checks, groups.len(), 1)?;
        parts.reach = Some(tolerance::reach(&parts.checks, groups));
        parts.local_groups = groups.to_vec();
        Ok(Self(Arc::new(parts)))
    }

    /// The systematic extension of the code that a pipeline makes, which stores the data nowhere as they are: k virtual
    /// members and the stored ones. Its tolerance is proved.
    ///
    /// # Errors
    /// Those of [`Code::from_generator`].
    pub(crate) fn of_pipeline(name: &str, pipeline: Chain) -> Result<Self, CodeError> {
        let (n, k, alpha) = (pipeline.nodes(), pipeline.k(), pipeline.alpha());
        let generator = pipeline.generator().over_gf256();
        let stored = Parts::new(name, n, k, alpha, generator.clone())?;
        let tolerance = tolerance::prove(name, &stored.checks, n, alpha)?;
        let whole = Matrix::identity(generator.field(), k * alpha).stack(&generator)?;
        let mut parts = Parts::new(name, k + n, k, alpha, whole)?;
        (parts.virtuals, parts.stored_checks, parts.tolerance) = (k, Some(stored.checks), tolerance);
        parts.pipeline = Some(pipeline);
        Ok(Self(Arc::new(parts)))
    }

    /// An XOR code from its parity sets, which must make it MDS: that is proved here, by rank over GF(2). If the data are not
    /// blocks 0 … k−1, it is the systematic extension: k virtual members and the stored ones.
    ///
    /// # Errors
    /// [`CodeError::Size`], [`CodeError::OpenParitySets`], [`CodeError::NotMds`], [`CodeError::TooManyPatterns`].
    pub(crate) fn from_parity_sets(sets: ParitySets) -> Result<Self, CodeError> {
        let (name, n, k, alpha) = (sets.name(), sets.n(), sets.k(), sets.alpha());
        let virtuals = if sets.is_systematic() { 0 } else { k };
        require_size(name, virtuals + n, k, alpha)?;
        let losses = n - k;
        let rows = checks_of(&sets);
        if !tolerance::survives_any_xor(name, &rows, (n, alpha), losses)? {
            return Err(CodeError::NotMds { code: name.to_owned(), losses });
        }
        let field = Field::Gf256;
        let mut generator = matrix_of(field, &sets.solve()?, k * alpha);
        let mut checks = matrix_of(field, &rows, sets.sets().len());
        let mut stored_checks = None;
        if virtuals > 0 {
            generator = Matrix::identity(field, k * alpha).stack(&generator)?;
            // The sets, and for each data symbol that it is a stored one.
            let whole = extended(&checks, sets.data());
            stored_checks = Some(std::mem::replace(&mut checks, whole));
        }
        let parts = Parts::of(name, (virtuals + n, k, alpha), generator, checks);
        let sets = Some(sets.clone());
        Ok(Self(Arc::new(Parts { virtuals, stored_checks, sets, tolerance: losses, ..parts })))
    }

    /// The code of a name such as `rs-10+4`; [`families`](crate::families) lists what there is.
    ///
    /// # Errors
    /// [`CodeError::Unknown`], [`CodeError::BadParameters`], [`CodeError::NameTooLong`].
    pub fn parse(name: &str) -> Result<Self, CodeError> {
        registry::parse(name)
    }

    /// The name, which [`Code::parse`] understands if it came from there.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Members of a stripe, virtual ones too.
    pub fn n(&self) -> usize {
        self.0.n
    }

    /// How many members, the first ones, are virtual: 0, or k where the data are not stored as they are.
    pub fn virtuals(&self) -> usize {
        self.0.virtuals
    }

    /// Blocks that are stored, the n of (n,k) in papers.
    pub fn stored(&self) -> usize {
        self.0.n - self.0.virtuals
    }

    /// The pipeline that makes the stored members as the data pass, if the code is made for one: its node i makes member
    /// `virtuals() + i`.
    pub fn pipeline(&self) -> Option<&Chain> {
        self.0.pipeline.as_ref()
    }

    /// The sets of stored symbols that sum to zero, if it is an XOR code: what its authors define it by.
    pub fn parity_sets(&self) -> Option<&ParitySets> {
        self.0.sets.as_ref()
    }

    /// Blocks' worth of data in a stripe.
    pub fn k(&self) -> usize {
        self.0.k
    }

    /// Symbols per block (α).
    pub fn alpha(&self) -> usize {
        self.0.alpha
    }

    /// The field of the coefficients.
    pub fn field(&self) -> Field {
        self.0.generator.field()
    }

    /// The generator matrix, nα × kα.
    pub fn generator(&self) -> &Matrix {
        &self.0.generator
    }

    /// Whether blocks 0 … k−1 are stored and the data themselves.
    pub fn is_systematic(&self) -> bool {
        if self.virtuals() > 0 {
            return false;
        }
        let data = self.k() * self.alpha();
        (0..data).all(|row| unit_column(self.generator().row(row)) == Some(row))
    }

    /// The member that each data symbol is as it is (the first place, if in several); `None` unless all of them have one.
    /// For a systematic code, and one of which the data are virtual, these are the symbols of members 0 … k−1; an array code
    /// may spread them over all blocks.
    pub fn data_symbols(&self) -> Option<Vec<SymbolId>> {
        let mut places = vec![None; self.k() * self.alpha()];
        for row in (0..self.n() * self.alpha()).rev() {
            if let Some(column) = unit_column(self.generator().row(row)) {
                places[column] = Some(self.symbol_at(row));
            }
        }
        places.into_iter().collect()
    }

    /// The largest f such that any f lost stored blocks can be recovered from the rest. Proved when the code was made.
    pub fn tolerance(&self) -> usize {
        self.0.tolerance
    }

    /// How a code of local groups compares with the best that any coefficients could do in its place; `None` for other
    /// codes, whose tolerance says it all.
    pub fn reach(&self) -> Option<Reach> {
        self.0.reach
    }

    /// For a code of local groups, the group of each block (`None` for a global parity), n of them; empty for other codes.
    /// Each group has one parity of its own.
    pub fn local_groups(&self) -> &[Option<usize>] {
        &self.0.local_groups
    }

    /// Whether any k stored blocks suffice (maximum distance separable).
    pub fn is_mds(&self) -> bool {
        self.tolerance() == self.stored() - self.k()
    }

    /// The coefficients (kα of them) by which symbol `index` of block `member` is made of the data.
    ///
    /// # Panics
    /// If there is no such symbol, as slices do; [`Code::rows`] checks.
    pub fn symbol_row(&self, member: u16, index: u16) -> &[u16] {
        assert!(usize::from(index) < self.alpha(), "symbol {index} of {}", self.alpha());
        self.generator().row(usize::from(member) * self.alpha() + usize::from(index))
    }

    /// The rows of the given symbols, in this order: (symbols) × kα.
    ///
    /// # Errors
    /// [`CodeError::NoSuchSymbol`].
    pub fn rows(&self, symbols: &[SymbolId]) -> Result<Matrix, CodeError> {
        let row = |&symbol: &SymbolId| {
            let (block, index) = (usize::from(symbol.block), usize::from(symbol.index));
            if block >= self.n() || index >= self.alpha() {
                return Err(CodeError::NoSuchSymbol { code: self.name().to_owned(), symbol });
            }
            Ok(block * self.alpha() + index)
        };
        let rows = symbols.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        Ok(self.generator().select_rows(&rows)?)
    }

    /// All symbols of the given blocks, block by block.
    ///
    /// # Errors
    /// [`CodeError::NoSuchBlock`].
    pub fn symbols_of(&self, blocks: &[usize]) -> Result<Vec<SymbolId>, CodeError> {
        let (n, alpha) = (self.n(), self.alpha());
        if let Some(&block) = blocks.iter().find(|&&block| block >= n) {
            return Err(CodeError::NoSuchBlock { code: self.name().to_owned(), n, block });
        }
        Ok(blocks
            .iter()
            .flat_map(|block| block * alpha..(block + 1) * alpha)
            .map(|r| self.symbol_at(r))
            .collect())
    }

    pub(crate) fn solved(&self) -> &Solved {
        &self.0.solved
    }

    pub(crate) fn checks(&self) -> &Matrix {
        &self.0.checks
    }

    /// The checks of the stored members alone, in their order.
    pub(crate) fn stored_checks(&self) -> &Matrix {
        self.0.stored_checks.as_ref().unwrap_or(&self.0.checks)
    }

    /// The symbol of a generator row. `MAX_STRIPE_SYMBOLS` keeps both parts within 16 bits.
    pub(crate) fn symbol_at(&self, row: usize) -> SymbolId {
        SymbolId { block: (row / self.alpha()) as u16, index: (row % self.alpha()) as u16 }
    }
}

impl Parts {
    /// Checks sizes and rank; the tolerance is left to the caller.
    fn new(name: &str, n: usize, k: usize, alpha: usize, generator: Matrix) -> Result<Self, CodeError> {
        require_size(name, n, k, alpha)?;
        let code = || name.to_owned();
        let (rows, cols) = (generator.rows(), generator.cols());
        if (rows, cols) != (n * alpha, k * alpha) {
            let (expected_rows, expected_cols) = (n * alpha, k * alpha);
            return Err(CodeError::Shape { code: code(), rows, cols, expected_rows, expected_cols });
        }
        let checks = tolerance::checks(&generator)?;
        if rows - checks.cols() != cols {
            return Err(CodeError::RankDeficient { code: code(), rank: rows - checks.cols(), needed: cols });
        }
        Ok(Self::of(name, (n, k, alpha), generator, checks))
    }

    /// What follows from a generator of that size and its checks. The tolerance is left to the caller.
    fn of(name: &str, (n, k, alpha): (usize, usize, usize), generator: Matrix, checks: Matrix) -> Self {
        Self {
            name: name.to_owned(),
            n,
            k,
            alpha,
            generator,
            checks,
            virtuals: 0,
            stored_checks: None,
            pipeline: None,
            sets: None,
            solved: Solved::default(),
            tolerance: 0,
            reach: None,
            local_groups: Vec::new(),
        }
    }
}

fn require_size(name: &str, n: usize, k: usize, alpha: usize) -> Result<(), CodeError> {
    let limit = MAX_STRIPE_SYMBOLS;
    if k == 0 || k > n || alpha == 0 || n.saturating_mul(alpha) > limit {
        return Err(CodeError::Size { code: name.to_owned(), n, k, alpha, limit });
    }
    Ok(())
}

/// For each symbol of a stripe the sets that it is in.
fn checks_of(sets: &ParitySets) -> Vec<Bits> {
    let mut rows = vec![Bits::new(sets.sets().len()); sets.symbols()];
    for (number, set) in sets.sets().iter().enumerate() {
        set.iter().for_each(|&symbol| rows[symbol as usize].insert(number));
    }
    rows
}

fn matrix_of(field: Field, rows: &[Bits], columns: usize) -> Matrix {
    let mut matrix = Matrix::zero(field, rows.len(), columns);
    for (at, row) in rows.iter().enumerate() {
        row.iter().for_each(|column| matrix.set(at, column, 1));
    }
    matrix
}

/// The checks of stored symbols, below those of the data, each of which is one of the stored symbols as it is.
fn extended(stored: &Matrix, data: &[u32]) -> Matrix {
    let (virtuals, sets) = (data.len(), stored.cols());
    let mut checks = Matrix::zero(stored.field(), virtuals + stored.rows(), sets + virtuals);
    for row in 0..stored.rows() {
        (0..sets).for_each(|column| checks.set(virtuals + row, column, stored.get(row, column)));
    }
    for (number, &symbol) in data.iter().enumerate() {
        checks.set(number, sets + number, 1);
        checks.set(virtuals + symbol as usize, sets + number, 1);
    }
    checks
}

/// The column of the only nonzero element of `row`, if that is 1.
fn unit_column(row: &[u16]) -> Option<usize> {
    let column = row.iter().position(|&value| value != 0)?;
    (row[column] == 1 && row[column + 1..].iter().all(|&value| value == 0)).then_some(column)
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({self})")
    }
}

/// The name, with (n,k) as papers write it: `rs-10+4 (14,10)`.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({},{})", self.name(), self.stored(), self.k())
    }
}

/// Codes are equal when their blocks are, whatever their names.
impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.alpha() == other.alpha() && self.generator() == other.generator()
    }
}

impl Eq for Code {}
