//! Codes by name, parsed once: the proof of a code's tolerance takes time.

use crate::code::Code;
use crate::error::CodeError;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Codes that are remembered; a cluster uses a handful.
const MAX_CODES: usize = 64;

/// How a stripe stands that has lost some of its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// All of it can be had, and also after any so many further losses of stored blocks. It may survive more, but not all.
    Survives(usize),
    /// Some of it cannot be had from what can be read.
    Lost,
    /// The code is not known, or has another number of blocks.
    Unknown,
}

/// Codes that were asked for. It remembers them behind a lock, which nobody can observe: the same name is always the same
/// code.
#[derive(Debug, Default)]
pub struct Codebook {
    known: Mutex<BTreeMap<String, Code>>,
}

impl Codebook {
    /// The code of that name.
    ///
    /// # Errors
    /// As [`Code::parse`].
    pub fn get(&self, name: &str) -> Result<Code, CodeError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(code) = known.get(name) {
            return Ok(code.clone());
        }
        let code = Code::parse(name)?;
        if known.len() >= MAX_CODES {
            known.clear();
        }
        known.insert(name.to_owned(), code.clone());
        Ok(code)
    }

    /// How a stripe stands of which those in `usable` can be read: by the code's tolerance, less what is lost of it.
    pub fn standing(&self, name: &str, usable: &[bool]) -> Standing {
        let code = match self.get(name) {
            Ok(code) if code.n() == usable.len() => code,
            _ => return Standing::Unknown,
        };
        let lost = usable.iter().skip(code.virtuals()).filter(|usable| !**usable).count();
        match code.tolerance().checked_sub(lost) {
            Some(left) => Standing::Survives(left),
            // Patterns beyond the tolerance: some are survived.
            None if self.recoverable(name, usable).iter().all(|had| *had) => Standing::Survives(0),
            None => Standing::Lost,
        }
    }

    /// Which members of a stripe can be had if those in `usable` can be read; empty if the code is not known, or has
    /// another number of blocks.
    pub fn recoverable(&self, name: &str, usable: &[bool]) -> Vec<bool> {
        let Ok(code) = self.get(name) else { return Vec::new() };
        if code.n() != usable.len() {
            return Vec::new();
        }
        let available: Vec<usize> = (0..usable.len()).filter(|&member| usable[member]).collect();
        // Members that are virtual are no members of an MDS code.
        if code.is_mds() && code.virtuals() == 0 {
            return usable.iter().map(|&usable| usable || available.len() >= code.k()).collect();
        }
        let Ok(from) = code.symbols_of(&available) else { return Vec::new() };
        // Whether it follows at all, not from how little, which takes a search.
        let follows =
            |member| code.symbols_of(&[member]).and_then(|wanted| code.express(&wanted, &from)).is_ok();
        let had = |member: usize| usable[member] || follows(member);
        (0..usable.len()).map(had).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_had_is_what_the_code_can_decode() {
        let codes = Codebook::default();
        assert_eq!(codes.recoverable("rs-2+2", &[true, false, false, true]), [true; 4]);
        assert_eq!(codes.recoverable("rs-2+2", &[false, false, false, true]), [false, false, false, true]);
        // Blocks 0 and 1 share a group: its parity and one global one make up for them. Without any of the group's own
        // they do not come back, nor does what is made of them; block 2 does, from block 3 and parity 5.
        let lost = |lost: &[usize]| (0..8).map(|member| !lost.contains(&member)).collect::<Vec<bool>>();
        assert_eq!(codes.recoverable("lrc-4+2+2", &lost(&[0, 1, 7])), [true; 8]);
        assert_eq!(codes.recoverable("lrc-4+2+2", &lost(&[0, 1, 2, 4, 7])), lost(&[0, 1, 4, 7]));
        // Of a pipeline's: c2 is made of d0 and d1 alone, c1 of d0; one that is known to be zero counts.
        let of = |there: &[usize]| (0..9).map(|member| there.contains(&member)).collect::<Vec<bool>>();
        assert_eq!(codes.recoverable("rapidraid-3+3", &of(&[3, 4, 5])), [true; 9]);
        assert_eq!(codes.recoverable("rapidraid-3+3", &of(&[3, 4])), of(&[0, 1, 3, 4]));
        assert_eq!(codes.recoverable("rapidraid-3+3", &of(&[2, 3, 4])), [true; 9]);
        assert!(codes.recoverable("rs-2+2", &[true]).is_empty());
    }

    #[test]
    fn a_stripe_stands_as_long_as_its_code_can_decode_it() {
        let codes = Codebook::default();
        let standing = |code: &str, n: usize, lost: &[usize]| {
            codes.standing(code, &(0..n).map(|member| !lost.contains(&member)).collect::<Vec<_>>())
        };
        let survives = Standing::Survives;
        let rs: Vec<Standing> = (0..4).map(|lost| standing("rs-4+2", 6, &[0, 4, 5][..lost.min(3)])).collect();
        assert_eq!(rs, [survives(2), survives(1), survives(0), Standing::Lost]);
        // Any three losses are survived, some patterns of four as well.
        assert_eq!(standing("lrc-4+2+2", 8, &[]), survives(3));
        assert_eq!(standing("lrc-4+2+2", 8, &[0, 2, 4, 7]), survives(0));
        assert_eq!(standing("lrc-4+2+2", 8, &[0, 1, 2, 4, 7]), Standing::Lost);
        // Virtual ones cannot be lost.
        assert_eq!(standing("rapidraid-3+3", 9, &[0, 1, 2]), survives(3));
        assert_eq!(standing("rapidraid-3+3", 9, &[0, 1, 2, 5]), survives(2));
        assert_eq!(standing("rs-4+2", 7, &[]), Standing::Unknown);
        assert_eq!(standing("nonsense", 6, &[]), Standing::Unknown);
        // That is: what is counted on by the code itself.
        assert!(codes.recoverable("rs-2+2", &[true, false, true]).is_empty());
        assert!(codes.recoverable("nonsense", &[true]).is_empty());
    }
}
