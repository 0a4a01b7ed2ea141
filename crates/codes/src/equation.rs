//! Repair equations: wanted symbols as combinations of symbols that survive.

use crate::{Code, CodeError, SymbolId};
use gf::{Matrix, MatrixError};
use std::ops::Range;

/// `wanted = matrix × inputs` (the decoding equation of PPR §4.1 and RP §2.1, for any number of symbols).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Equation {
    /// What is computed, one for each row of `matrix`.
    pub wanted: Vec<SymbolId>,
    /// What is read, one for each column of `matrix`: block by block, none whose column is zero.
    pub inputs: Vec<SymbolId>,
    /// Coefficients, (wanted) × (inputs).
    pub matrix: Matrix,
}

impl Equation {
    /// The blocks that are read, in the order of `inputs`.
    pub fn blocks(&self) -> Vec<u16> {
        self.inputs.chunk_by(|a, b| a.block == b.block).map(|group| group[0].block).collect()
    }

    /// The columns of `matrix` that belong to `block`; empty if it is not read.
    pub fn columns(&self, block: u16) -> Range<usize> {
        let start = self.inputs.iter().position(|input| input.block == block).unwrap_or(0);
        let count = self.inputs.iter().filter(|input| input.block == block).count();
        start..start + count
    }
}

impl Code {
    /// The wanted symbols from whole blocks of which any symbol may be read; `available` lists them by preference.
    /// The equation is that of [`Code::recovery`]: it reads the k preferred blocks of an MDS code with α = 1, else as
    /// few symbols as it finds.
    ///
    /// # Errors
    /// [`CodeError::NotRecoverable`], [`CodeError::NoSuchSymbol`], [`CodeError::NoSuchBlock`].
    pub fn repair(&self, wanted: &[SymbolId], available: &[usize]) -> Result<Equation, CodeError> {
        Ok(self.recovery(wanted, &[], available)?.equation)
    }

    /// All symbols of the `lost` blocks from `available` ones, listed by preference; see [`Code::repair`].
    ///
    /// # Errors
    /// Those of [`Code::repair`], and [`CodeError::LostAndAvailable`].
    pub fn decode(&self, lost: &[usize], available: &[usize]) -> Result<Equation, CodeError> {
        if let Some(&block) = lost.iter().find(|block| available.contains(block)) {
            return Err(CodeError::LostAndAvailable { code: self.name().to_owned(), block });
        }
        self.repair(&self.symbols_of(lost)?, available)
    }

    /// Every symbol that is not plain data, from the data symbols: for a systematic code, the n−k parity blocks from
    /// the k data blocks.
    ///
    /// # Errors
    /// [`CodeError::DataNotStored`] if the stripe does not hold the data symbols as they are.
    pub fn encode_equation(&self) -> Result<Equation, CodeError> {
        let data =
            self.data_symbols().ok_or_else(|| CodeError::DataNotStored { code: self.name().to_owned() })?;
        let all: Vec<usize> = (0..self.n()).collect();
        let rest: Vec<SymbolId> = self.symbols_of(&all)?.into_iter().filter(|s| !data.contains(s)).collect();
        self.express(&rest, &data)
    }

    /// The wanted symbols from exactly the given ones, earlier ones preferred. Symbols of a block must stand together.
    ///
    /// # Errors
    /// [`CodeError::NotRecoverable`], [`CodeError::NoSuchSymbol`].
    pub fn express(&self, wanted: &[SymbolId], from: &[SymbolId]) -> Result<Equation, CodeError> {
        let solution = match self.rows(from)?.solve_left(&self.rows(wanted)?) {
            Err(MatrixError::NotSpanned { .. }) => return Err(self.not_recoverable(wanted, from)),
            solution => solution?,
        };
        let used: Vec<usize> = (0..from.len()).filter(|&col| !solution.is_zero_col(col)).collect();
        Ok(Equation {
            wanted: wanted.to_vec(),
            inputs: used.iter().map(|&col| from[col]).collect(),
            matrix: solution.select_cols(&used)?,
        })
    }

    fn not_recoverable(&self, wanted: &[SymbolId], from: &[SymbolId]) -> CodeError {
        let blocks = |symbols: &[SymbolId]| {
            let mut blocks: Vec<usize> = symbols.iter().map(|symbol| usize::from(symbol.block)).collect();
            blocks.dedup();
            blocks
        };
        CodeError::NotRecoverable {
            code: self.name().to_owned(),
            lost: blocks(wanted),
            available: blocks(from),
        }
    }
}
