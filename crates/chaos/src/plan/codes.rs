//! The codes that plans draw: at least one of each family that `stripeline codes list` names and that a cluster stores. A test of the command
//! line (`processes::chaos`) compares this table with the program.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// A code that plans draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// Number of stored blocks per stripe, each on its own node.
    pub stored: u32,
    /// Number of stored blocks that may be lost, whichever they are.
    pub tolerance: u32,
    /// Whether it stores no data block unchanged; only replicas become such stripes.
    pub is_virtual: bool,
}

/// A family's prefix and its codes.
pub type Family = (&'static str, &'static [Known]);

const fn plain(name: &'static str, stored: u32, tolerance: u32) -> Known {
    Known { name, stored, tolerance, is_virtual: false }
}

const fn virtuals(name: &'static str, stored: u32, tolerance: u32) -> Known {
    Known { name, stored, tolerance, is_virtual: true }
}

/// Families that are not drawn, with the reason. A symbol has at least 32 KiB and a block at least two symbols, so wide codes of small blocks
/// would take too long for what they show.
pub const LEFT_OUT: &[(&str, &str)] =
    &[("rep-", "no code for archival: replicas that are not archived are the same")];

/// All other families.
pub const FAMILIES: &[Family] = &[
    ("rs-", &[plain("rs-2+2", 4, 2), plain("rs-3+2", 5, 2), plain("rs-4+2", 6, 2)]),
    ("rs-cauchy-", &[plain("rs-cauchy-3+2", 5, 2), plain("rs-cauchy-4+3", 7, 3)]),
    ("rs-legacy-", &[plain("rs-legacy-3+2", 5, 2), plain("rs-legacy-4+3", 7, 3)]),
    ("xor-", &[plain("xor-2+1", 3, 1), plain("xor-4+1", 5, 1)]),
    ("rs16-", &[plain("rs16-3+2", 5, 2), plain("rs16-5+3", 8, 3)]),
    (
        "lrc-",
        &[
            plain("lrc-2+2+1", 5, 2),
            plain("lrc-4+2+1", 7, 2),
            plain("lrc-4+2+2", 8, 3),
            plain("lrc-6+2+2", 10, 3),
        ],
    ),
    (
        "rotated-",
        &[plain("rotated-3+2-r2", 5, 2), plain("rotated-4+2-r4", 6, 2), plain("rotated-4+3-r2", 7, 3)],
    ),
    (
        "rapidraid-",
        &[virtuals("rapidraid-3+2", 5, 2), virtuals("rapidraid-4+2", 6, 2), virtuals("rapidraid-4+4", 8, 3)],
    ),
    ("rapidraid16-", &[virtuals("rapidraid16-3+2", 5, 2), virtuals("rapidraid16-3+3", 6, 3)]),
    ("rdp-", &[plain("rdp-5-k3", 5, 2), plain("rdp-5", 6, 2)]),
    ("evenodd-", &[plain("evenodd-3", 5, 2), plain("evenodd-5", 7, 2)]),
    ("star-", &[plain("star-3-k2", 5, 3), plain("star-5-k3", 6, 3)]),
    ("xcode-", &[virtuals("xcode-5", 5, 2), virtuals("xcode-7", 7, 2)]),
    ("hdp-", &[virtuals("hdp-5", 4, 2), virtuals("hdp-7", 6, 2)]),
    ("crs-", &[plain("crs-3+2-w3", 5, 2), plain("crs-4+3-w3", 7, 3)]),
    ("crs-good-", &[plain("crs-good-3+2-w3", 5, 2), plain("crs-good-4+3-w3", 7, 3)]),
    ("crs-best-", &[plain("crs-best-3+2-w3", 5, 2), plain("crs-best-4+2-w3", 6, 2)]),
    ("liberation-", &[plain("liberation-3+2-w3", 5, 2), plain("liberation-5+2-w5", 7, 2)]),
    ("blaum-roth-", &[plain("blaum-roth-3+2-w4", 5, 2), plain("blaum-roth-4+2-w4", 6, 2)]),
    ("liber8tion-", &[plain("liber8tion-3+2", 5, 2), plain("liber8tion-4+2", 6, 2)]),
    ("random-a2-", &[plain("random-a2-3+2-s1", 5, 2)]),
];

/// Codes that other draws derive from these: pipelines over the cluster's code.
const DERIVED: &[Known] = &[virtuals("rapidraid-2+2", 4, 2)];

/// Returns all codes of all families.
pub fn all() -> impl Iterator<Item = &'static Known> {
    FAMILIES.iter().flat_map(|(_, codes)| *codes).chain(DERIVED)
}

/// Returns a code by its name.
pub fn known(name: &str) -> Option<&'static Known> {
    all().find(|code| code.name == name)
}

/// Returns the number of members of a stripe that may be lost, whichever they are; 0 for an unknown code.
pub fn tolerance(name: &str) -> usize {
    known(name).map_or(0, |code| code.tolerance as usize)
}

/// Draws a code; all families are equally likely.
pub fn draw(random: &mut StdRng) -> Option<&'static Known> {
    let (_, codes) = FAMILIES.choose(random)?;
    codes.choose(random)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_different_and_of_their_family() {
        let names: BTreeSet<&str> = all().map(|code| code.name).collect();
        assert_eq!(names.len(), all().count());
        for (prefix, codes) in FAMILIES {
            assert!(!codes.is_empty() && codes.iter().all(|code| code.name.starts_with(prefix)), "{prefix}");
        }
        assert_eq!((tolerance("lrc-4+2+2"), tolerance("nobody-knows")), (3, 0));
    }
}
