//! What `stripeline codes inspect` shows of a code.

use crate::{Code, CodeError, Fewest, Reach, Recovery, ToleranceCount};
use gf::Matrix;
use std::fmt;

/// Everything there is to know about a code, ready to print or to serialise.
#[derive(Clone, PartialEq, Debug)]
pub struct InspectReport {
    /// Its name.
    pub name: String,
    /// Members of a stripe.
    pub n: usize,
    /// How many of them, the first ones, are virtual: data that are not stored as they are.
    pub virtuals: usize,
    /// Blocks' worth of data.
    pub k: usize,
    /// Symbols per block.
    pub alpha: usize,
    /// The field, as [`gf::Field`] prints it.
    pub field: String,
    /// Any so many losses are survived.
    pub tolerance: usize,
    /// For a code of local groups, how it compares with the best possible.
    pub reach: Option<Reach>,
    /// Whether any k blocks suffice.
    pub mds: bool,
    /// Whether blocks 0 … k−1 are the data themselves.
    pub systematic: bool,
    /// Blocks stored per block of data.
    pub storage_overhead: f64,
    /// The generator, nα × kα.
    pub generator: Matrix,
    /// For each member, what its repair reads when it alone is lost of those that are stored.
    pub repairs: Vec<BlockRepair>,
}

/// The repair of one lost block when all others are there and none is preferred but by index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockRepair {
    /// The lost block.
    pub block: usize,
    /// Blocks that are read; `None` if it cannot be repaired.
    pub reads: Option<Vec<u16>>,
    /// Symbols that are read; divided by α, blocks' worth of data.
    pub symbols_read: usize,
    /// What is known of that number; `None` if it cannot be repaired.
    pub fewest: Option<Fewest>,
}

impl Code {
    /// All about this code.
    ///
    /// # Errors
    /// A code that was constructed causes none; only what [`Code::decode`] might report.
    pub fn describe(&self) -> Result<InspectReport, CodeError> {
        Ok(InspectReport {
            name: self.name().to_owned(),
            n: self.n(),
            virtuals: self.virtuals(),
            k: self.k(),
            alpha: self.alpha(),
            field: self.field().to_string(),
            tolerance: self.tolerance(),
            reach: self.reach(),
            mds: self.is_mds(),
            systematic: self.is_systematic(),
            storage_overhead: self.stored() as f64 / self.k() as f64,
            generator: self.generator().clone(),
            repairs: (0..self.n()).map(|block| self.describe_repair(block)).collect::<Result<_, _>>()?,
        })
    }

    fn describe_repair(&self, block: usize) -> Result<BlockRepair, CodeError> {
        let others: Vec<usize> = (self.virtuals()..self.n()).filter(|&other| other != block).collect();
        match self.recovery(&self.symbols_of(&[block])?, &[], &others) {
            Ok(Recovery { equation, fewest }) => Ok(BlockRepair {
                block,
                reads: Some(equation.blocks()),
                symbols_read: equation.inputs.len(),
                fewest: Some(fewest),
            }),
            Err(CodeError::NotRecoverable { .. }) => {
                Ok(BlockRepair { block, reads: None, symbols_read: 0, fewest: None })
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for InspectReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes_no = |yes| if yes { "yes" } else { "no" };
        writeln!(f, "{} ({},{})", self.name, self.n - self.virtuals, self.k)?;
        writeln!(f, "  field              {}", self.field)?;
        writeln!(f, "  symbols per block  {}", self.alpha)?;
        writeln!(f, "  systematic         {}", yes_no(self.systematic))?;
        if self.virtuals > 0 {
            writeln!(
                f,
                "  virtual members    0 to {}: the data, which are not stored as they are",
                self.virtuals - 1
            )?;
        }
        writeln!(
            f,
            "  survives any       {} losses{}",
            self.tolerance,
            if self.mds { " (MDS)" } else { "" }
        )?;
        if let Some(reach) = self.reach {
            writeln!(f, "  reach              {reach}")?;
        }
        writeln!(f, "  storage overhead   {:.2}x", self.storage_overhead)?;
        writeln!(f, "  generator          {} x {}", self.generator.rows(), self.generator.cols())?;
        for row in 0..self.generator.rows() {
            write!(
                f,
                "    {:>4}",
                if self.alpha == 1 {
                    row.to_string()
                } else {
                    format!("{}.{}", row / self.alpha, row % self.alpha)
                }
            )?;
            for value in self.generator.row(row) {
                write!(f, " {value:>3}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "  repair of one lost block")?;
        for repair in &self.repairs {
            write!(f, "    {:>4}  ", repair.block)?;
            match &repair.reads {
                Some(reads) => {
                    let blocks: Vec<String> = reads.iter().map(u16::to_string).collect();
                    let worth = repair.symbols_read as f64 / self.alpha as f64;
                    write!(f, "reads {worth:.2} blocks' worth from {}: {}", reads.len(), blocks.join(" "))?;
                    match repair.fewest {
                        Some(Fewest::OfStoredEquations) => writeln!(f, " (fewest of stored equations)")?,
                        Some(Fewest::Unproved) => writeln!(f, " (perhaps not fewest)")?,
                        Some(Fewest::Proved) | None => writeln!(f)?,
                    }
                }
                None => writeln!(f, "impossible")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Tried(ToleranceCount { patterns, recoverable }) if patterns == recoverable => {
                write!(f, "all {patterns} largest patterns that any coefficients could recover")
            }
            Self::Tried(ToleranceCount { patterns, recoverable }) => {
                let short = patterns - recoverable;
                write!(
                    f,
                    "{recoverable} of {patterns} largest patterns that some coefficients recover; {short} are fatal here"
                )
            }
            Self::Untried { patterns, limit } => {
                write!(f, "not known: {patterns} patterns, at most {limit} are tried")
            }
        }
    }
}
