//! Code names: which families there are and how their parameters are read.

#[cfg(test)]
mod tests;

use crate::{
    Code, CodeError, ParitySets, cauchy, lrc, random, rapidraid, replication, rotated, rs, rs_legacy, rs16,
    single_parity, xor,
};
use gf::Matrix;

/// Longest name that is looked at; the longest useful one has some thirty bytes.
const MAX_NAME_BYTES: usize = 64;

/// Largest number of blocks in a stripe over GF(2^8): its elements must differ from block to block.
const MAX_BLOCKS: usize = 256;

/// Largest prime of an array: the paper's STAR(997) has a million symbols. Codes, which have matrices, end sooner.
const MAX_PRIME: usize = 1000;

/// A family of codes: what `stripeline codes list` shows, and how a name becomes a code.
#[derive(Debug)]
pub struct Family {
    /// How names are made: capital letters stand for numbers.
    pub pattern: &'static str,
    /// A name of the family.
    pub example: &'static str,
    /// What it is, in a line.
    pub description: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Start of all its names.
    pub(crate) prefix: &'static str,
    pub(crate) build: fn(&Parameters) -> Result<Code, CodeError>,
    /// For a family of XOR codes: what the code is made of.
    pub(crate) parity_sets: Option<xor::Build>,
    /// For a family whose coefficients may be chosen: the generator of the stored blocks, n × k over GF(2^16), with others,
    /// drawn from a seed.
    pub(crate) redraw: Option<Redraw>,
}

pub(crate) type Redraw = fn(&Parameters, u64) -> Result<Matrix, CodeError>;

/// All families, in the order in which they are listed.
pub fn families() -> &'static [Family] {
    const FAMILIES: &[Family] = &[
        rs::FAMILY,
        cauchy::FAMILY,
        rs_legacy::FAMILY,
        single_parity::FAMILY,
        rs16::FAMILY,
        lrc::FAMILY,
        rotated::FAMILY,
        rapidraid::FAMILY,
        rapidraid::FAMILY_16,
        xor::RDP,
        xor::EVENODD,
        xor::STAR,
        xor::X_CODE,
        xor::HDP,
        xor::CAUCHY,
        xor::CAUCHY_GOOD,
        xor::CAUCHY_BEST,
        xor::LIBERATION,
        xor::BLAUM_ROTH,
        xor::LIBER8TION,
        replication::FAMILY,
        random::FAMILY,
    ];
    FAMILIES
}

/// A name whose family is known.
pub(crate) struct Parameters<'a> {
    pub name: &'a str,
    /// What follows the prefix.
    rest: &'a str,
    family: &'static Family,
}

pub(crate) fn parse(name: &str) -> Result<Code, CodeError> {
    let parameters = known(name)?;
    (parameters.family.build)(&parameters)
}

/// The parity sets of that name; `None` if its family is none of XOR codes.
pub(crate) fn parity_sets(name: &str) -> Result<Option<ParitySets>, CodeError> {
    let parameters = known(name)?;
    parameters.family.parity_sets.map(|build| build(&parameters)).transpose()
}

fn known(name: &str) -> Result<Parameters<'_>, CodeError> {
    if name.len() > MAX_NAME_BYTES {
        return Err(CodeError::NameTooLong { bytes: name.len(), limit: MAX_NAME_BYTES });
    }
    of_a_family(name).ok_or_else(|| CodeError::Unknown {
        name: name.to_owned(),
        known: families().iter().map(|f| f.pattern).collect(),
        suggestion: nearest(name),
    })
}

/// How the generator of that name would be drawn anew; `None` if its family leaves nothing to be chosen.
pub(crate) fn redraw(name: &str) -> Option<impl Fn(u64) -> Result<Matrix, CodeError>> {
    let parameters = of_a_family(name)?;
    let redraw = parameters.family.redraw?;
    Some(move |seed| redraw(&parameters, seed))
}

fn of_a_family(name: &str) -> Option<Parameters<'_>> {
    // `rs-cauchy-6+3` starts like `rs-…` too: the longest prefix is meant.
    let family = families().iter().filter(|f| name.starts_with(f.prefix)).max_by_key(|f| f.prefix.len())?;
    Some(Parameters { name, rest: &name[family.prefix.len()..], family })
}

impl<'a> Parameters<'a> {
    /// `K+M` as (k, m), with k ≥ 1, m ≥ 1 and k+m ≤ 256.
    pub fn k_plus_m(&self) -> Result<(usize, usize), CodeError> {
        self.k_plus_m_of(self.rest, MAX_BLOCKS)
    }

    /// `K+M` as (k, m), with k ≥ 1, m ≥ 1 and k+m ≤ `limit`.
    pub fn k_plus_m_up_to(&self, limit: usize) -> Result<(usize, usize), CodeError> {
        self.k_plus_m_of(self.rest, limit)
    }

    /// `K+L+G` as (k, l, g), with 1 ≤ l ≤ k, g ≥ 1 and k+l+g ≤ 256.
    pub fn k_plus_l_plus_g(&self) -> Result<(usize, usize, usize), CodeError> {
        let (rest, global) = self.rest.rsplit_once('+').ok_or_else(|| self.no_plus(self.rest))?;
        let (data, local) = rest.split_once('+').ok_or_else(|| self.bad("needs K+L+G".to_owned()))?;
        let (k, l, g) = (self.count(data)?, self.count(local)?, self.count(global)?);
        if l == 0 || g == 0 || l > k {
            return Err(self.bad("L and G must be at least 1, and L at most K".to_owned()));
        }
        match k.checked_add(l).and_then(|sum| sum.checked_add(g)) {
            Some(n) if n <= MAX_BLOCKS => Ok((k, l, g)),
            _ => Err(self.bad(format!("K+L+G must be at most {MAX_BLOCKS}"))),
        }
    }

    /// `K+M-sSEED` as (k, m, seed).
    pub fn k_plus_m_seed(&self) -> Result<(usize, usize, u64), CodeError> {
        let (shape, seed) =
            self.rest.split_once("-s").ok_or_else(|| self.bad("the seed is missing".to_owned()))?;
        let (k, m) = self.k_plus_m_of(shape, MAX_BLOCKS)?;
        Ok((k, m, self.number(seed)?))
    }

    /// `K+M-rR` as (k, m, r).
    pub fn k_plus_m_r(&self) -> Result<(usize, usize, usize), CodeError> {
        let (shape, r) = self
            .rest
            .split_once("-r")
            .ok_or_else(|| self.bad("the number of symbols is missing".to_owned()))?;
        let (k, m) = self.k_plus_m_of(shape, MAX_BLOCKS)?;
        Ok((k, m, self.count(r)?))
    }

    /// `K+M-wW` as (k, m, w).
    pub fn k_plus_m_w(&self) -> Result<(usize, usize, usize), CodeError> {
        let (shape, w) = self
            .rest
            .split_once("-w")
            .ok_or_else(|| self.bad("the number of symbols is missing".to_owned()))?;
        let (k, m) = self.k_plus_m_of(shape, MAX_BLOCKS)?;
        Ok((k, m, self.count(w)?))
    }

    /// `P` as a prime of at least `least`.
    pub fn prime(&self, least: usize) -> Result<usize, CodeError> {
        self.prime_of(self.rest, least)
    }

    /// `P`, or `P-kK` with fewer columns of data than the `most` that P has, as (p, k).
    pub fn prime_and_k(&self, most: fn(usize) -> usize) -> Result<(usize, usize), CodeError> {
        let Some((p, k)) = self.rest.split_once("-k") else {
            let p = self.prime_of(self.rest, 3)?;
            return Ok((p, most(p)));
        };
        let (p, k) = (self.prime_of(p, 3)?, self.count(k)?);
        if k == 0 || k >= most(p) {
            return Err(self.bad(format!(
                "K must be from 1 to {}; without it, it is {}",
                most(p) - 1,
                most(p)
            )));
        }
        Ok((p, k))
    }

    fn prime_of(&self, digits: &str, least: usize) -> Result<usize, CodeError> {
        match self.count(digits)? {
            p if (least..=MAX_PRIME).contains(&p) && xor::is_prime(p) => Ok(p),
            p => Err(self.bad(format!("{p} is not a prime from {least} to {MAX_PRIME}"))),
        }
    }

    /// `N` as a number of blocks, 1 … 256.
    pub fn blocks(&self) -> Result<usize, CodeError> {
        match self.count(self.rest)? {
            0 => Err(self.bad("there must be at least one block".to_owned())),
            n if n > MAX_BLOCKS => Err(self.bad(format!("{n} blocks; at most {MAX_BLOCKS} are possible"))),
            n => Ok(n),
        }
    }

    fn k_plus_m_of(&self, shape: &str, limit: usize) -> Result<(usize, usize), CodeError> {
        let (k, m) = shape.split_once('+').ok_or_else(|| self.no_plus(shape))?;
        let (k, m) = (self.count(k)?, self.count(m)?);
        if k == 0 || m == 0 {
            return Err(self.bad("K and M must be at least 1".to_owned()));
        }
        match k.checked_add(m) {
            Some(n) if n <= limit => Ok((k, m)),
            _ => Err(self.bad(format!("K+M must be at most {limit}"))),
        }
    }

    fn no_plus(&self, shape: &str) -> CodeError {
        self.bad(format!("'{shape}' has no '+'"))
    }

    fn count(&self, digits: &str) -> Result<usize, CodeError> {
        let number = self.number(digits)?;
        usize::try_from(number).map_err(|_| self.bad(format!("{number} is too large")))
    }

    /// A number in its only spelling, so that a code has one name: digits, no sign, no space, no leading zero.
    fn number(&self, digits: &str) -> Result<u64, CodeError> {
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.bad(format!("'{digits}' is not a whole number")));
        }
        if digits.len() > 1 && digits.starts_with('0') {
            return Err(self.bad(format!("'{digits}' has a leading zero")));
        }
        digits.parse().map_err(|_| self.bad(format!("{digits} is too large")))
    }

    /// The error for parameters that the family does not accept.
    pub fn bad(&self, reason: String) -> CodeError {
        let Family { pattern, example, .. } = *self.family;
        CodeError::BadParameters { name: self.name.to_owned(), pattern, example, reason }
    }
}

/// The pattern most like `name` when numbers and capitals are left aside; `None` if half of it differs.
fn nearest(name: &str) -> Option<&'static str> {
    let given: Vec<char> = name.trim().to_lowercase().chars().filter(|c| !c.is_ascii_digit()).collect();
    let distance = |family: &Family| {
        let fixed = |c: &char| !c.is_ascii_digit() && !c.is_ascii_uppercase();
        let wanted: Vec<char> = family.pattern.chars().filter(fixed).collect();
        let distance = edit_distance(&given, &wanted);
        (2 * distance <= wanted.len()).then_some((distance, family.pattern))
    };
    families().iter().filter_map(distance).min().map(|(_, pattern)| pattern)
}

/// Insertions, deletions and replacements that turn `a` into `b` (Levenshtein), one row of the table at a time.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
