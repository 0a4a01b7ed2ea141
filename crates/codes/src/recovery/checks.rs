//! The equations of an MDS code of one symbol to a block, from its parity checks. The checks determine the n−k blocks
//! that are not read, so that a system of n−k unknowns is solved and not one of k, which is mostly the larger. A
//! recovery solves one for every block.
//!
//! With H the checks (n × (n−k), c·H = 0 for every codeword c), R the blocks that are read and U the others:
//! c_U · H_U = −c_R · H_R, so c_U = c_R · (H_R · H_U⁻¹) in characteristic 2. H_U has an inverse, as U can be lost.

use crate::{Code, CodeError, Equation, SymbolId};
use gf::Matrix;

impl Code {
    /// `wanted` from the first k of `blocks`, if they are k others, each once; `None` if another way must be found.
    pub(super) fn by_checks(
        &self,
        wanted: &[SymbolId],
        blocks: &[usize],
    ) -> Result<Option<Equation>, CodeError> {
        let (n, k) = (self.n(), self.k());
        let Some(read) = blocks.get(..k).filter(|_| n - k <= k) else { return Ok(None) };
        let mut place = vec![None; n];
        for &block in read {
            match place.get_mut(block) {
                Some(free @ None) => *free = Some(0),
                _ => return Ok(None),
            }
        }
        let unread: Vec<usize> = (0..n).filter(|&block| place[block].is_none()).collect();
        let column = |symbol: &SymbolId| unread.iter().position(|&block| block == usize::from(symbol.block));
        let alone = wanted.iter().all(|symbol| symbol.index == 0);
        let Some(columns) = wanted.iter().map(column).collect::<Option<Vec<usize>>>().filter(|_| alone)
        else {
            return Ok(None);
        };
        let checks = self.checks();
        let inverse = checks.select_rows(&unread)?.invert()?;
        // Only the columns that are wanted: k products of rows with each.
        let inverse = inverse.select_cols(&columns)?;
        let by_block = checks.select_rows(read)?.mul(&inverse)?;
        let mut matrix = Matrix::zero(self.field(), wanted.len(), k);
        for (column, row) in (0..k).map(|column| (column, by_block.row(column))) {
            row.iter().enumerate().for_each(|(wanted, &coefficient)| matrix.set(wanted, column, coefficient));
        }
        let inputs = read.iter().map(|&block| SymbolId { block: block as u16, index: 0 }).collect();
        Ok(Some(Equation { wanted: wanted.to_vec(), inputs, matrix }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same equation as by elimination over the data, for every block or pair that is lost and many choices of helpers.
    #[test]
    fn they_are_those_of_elimination() {
        for name in ["rs-10+4", "rs-4+2", "rs-cauchy-6+3", "rs-3+3"] {
            let code = Code::parse(name).unwrap();
            let n = code.n();
            let mut state = 1_usize;
            for lost in 0..n {
                for lost in [vec![lost], vec![lost, (lost + 1) % n]] {
                    let mut others: Vec<usize> = (0..n).filter(|block| !lost.contains(block)).collect();
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let count = others.len();
                    others.rotate_left((state >> 33) % count);
                    others.swap(0, (state >> 13) % count);
                    let wanted = code.symbols_of(&lost).unwrap();
                    let by_checks = code.by_checks(&wanted, &others).unwrap().unwrap();
                    let by_data = code.express(&wanted, &code.symbols_of(&others).unwrap()).unwrap();
                    assert_eq!(by_checks, by_data, "{name} {lost:?} {others:?}");
                }
            }
        }
    }

    #[test]
    fn what_they_do_not_cover_is_left_to_elimination() {
        let code = Code::parse("rs-4+2").unwrap();
        let wanted = code.symbols_of(&[5]).unwrap();
        for blocks in [&[0, 1, 2][..], &[0, 1, 2, 2, 3], &[0, 1, 5, 2], &[0, 1, 2, 9]] {
            assert_eq!(code.by_checks(&wanted, blocks).unwrap(), None, "{blocks:?}");
        }
        assert!(code.by_checks(&wanted, &[3, 0, 4, 1]).unwrap().is_some());
        let wide = Code::parse("rs-2+4").unwrap();
        assert_eq!(wide.by_checks(&wide.symbols_of(&[5]).unwrap(), &[0, 1]).unwrap(), None);
    }
}
