//! Who is measured, and under which name.

use super::StandSpec;
use crate::report::{Axis, Label, Scale};

/// One plain TCP connection.
pub const DIRECT: &str = "direct send";
/// As many hops as a chain of helpers, that only pass on.
pub const RELAY_CHAIN: &str = "bare relay chain";
/// … that read a file and XOR it in.
pub const HELPER_CHAIN: &str = "bare helper chain";

/// Schemes under their own names: a star, …
pub const CONVENTIONAL: &str = "conventional";
/// … a tree that forwards whole sums, …
pub const PPR: &str = "ppr";
/// … the same tree in slices, …
pub const PPR_SLICED: &str = "ppr-sliced";
/// … and a chain in slices.
pub const PIPELINE: &str = "pipeline";

/// Ours beside the schemes that the papers compare with.
pub const SCHEMES: [Label; 4] =
    [Label::subject(PIPELINE), Label::rival(CONVENTIONAL), Label::rival(PPR), Label::rival(PPR_SLICED)];

/// Slices of the schemes that have any, where nothing else is asked (RP §6.1).
pub const SLICE_BYTES: u32 = 32 << 10;

/// What takes a turn. Stripes by their index on the stand, sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contender {
    /// The product repairs the first block of a stripe, and throws the result away.
    Repair { stripe: usize, scheme: &'static str, slice_bytes: u32, verify: bool },
    /// The product repairs the first `blocks` blocks of a stripe in one pass, each on a node of its own, and throws the
    /// results away.
    Several { stripe: usize, blocks: u32, scheme: &'static str, slice_bytes: u32 },
    /// One plain TCP connection between two hosts.
    Direct { bytes: u64 },
    /// A block through k relays.
    Relay { stripe: usize, slice_bytes: u32 },
    /// The XOR of k files along a chain.
    Helpers { stripe: usize, slice_bytes: u32 },
}

/// All contenders, in the order in which they take their turns.
#[derive(Default)]
pub struct Lineup {
    /// (series, x, what).
    pub entries: Vec<(Label, f64, Contender)>,
}

impl Contender {
    /// A verified repair.
    pub fn repair(stripe: usize, scheme: &'static str, slice_bytes: u32) -> Contender {
        Contender::Repair { stripe, scheme, slice_bytes, verify: true }
    }
}

impl Lineup {
    /// Each of the schemes that labels name, on every stripe: at its block size if that is what varies, else at its index.
    /// A direct send is one level if all blocks are of one size, else beside each stripe.
    pub fn over_stripes(spec: &StandSpec, axis: &Axis, labels: &[Label]) -> Lineup {
        let mut lineup = Lineup::default();
        let one_size = spec.stripes.windows(2).all(|pair| pair[0].1 == pair[1].1);
        for (stripe, &(_, bytes)) in spec.stripes.iter().enumerate() {
            let x = if axis.scale == Scale::Bytes { bytes as f64 } else { stripe as f64 };
            lineup.add_schemes(stripe, x, labels);
            if !one_size {
                lineup.add(Label::bare(DIRECT), x, Contender::Direct { bytes });
            }
        }
        if one_size {
            lineup.add_level(spec);
        }
        lineup
    }

    /// Adds one.
    pub fn add(&mut self, label: Label, x: f64, contender: Contender) {
        self.entries.push((label, x, contender));
    }

    /// Adds repairs by the schemes that labels name.
    pub fn add_schemes(&mut self, stripe: usize, x: f64, labels: &[Label]) {
        for &label in labels {
            self.add(label, x, Contender::repair(stripe, label.name, SLICE_BYTES));
        }
    }

    /// Adds direct sends of a block as a level, at the first x of an axis of names.
    pub fn add_level(&mut self, spec: &StandSpec) {
        if let Some(&(_, bytes)) = spec.stripes.first() {
            self.add(Label::bare(DIRECT).level(), 0.0, Contender::Direct { bytes });
        }
    }
}
