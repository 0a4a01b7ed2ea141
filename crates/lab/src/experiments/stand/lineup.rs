//! Who is measured, and under which name.

use crate::report::{Kind, Shape};

/// One plain TCP connection.
pub const DIRECT: &str = "direct send";
/// As many hops as a chain of helpers, that only pass on.
pub const RELAY_CHAIN: &str = "bare relay chain";
/// … that read a file and XOR it in.
pub const HELPER_CHAIN: &str = "bare helper chain";

/// The series that a contender's samples go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Whose it is.
    pub kind: Kind,
    /// How it is drawn.
    pub shape: Shape,
}

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

impl Label {
    /// The scheme that the experiment is about.
    pub const fn subject(name: &'static str) -> Label {
        Label { name, kind: Kind::Subject, shape: Shape::Curve }
    }

    /// A scheme to compare with.
    pub const fn rival(name: &'static str) -> Label {
        Label { name, kind: Kind::Rival, shape: Shape::Curve }
    }

    /// A bare program.
    pub const fn bare(name: &'static str) -> Label {
        Label { name, kind: Kind::Bare, shape: Shape::Curve }
    }

    /// The same as a level: measured at one x, and compared with all.
    pub const fn level(self) -> Label {
        Label { shape: Shape::Level, ..self }
    }
}

impl Contender {
    /// A verified repair.
    pub fn repair(stripe: usize, scheme: &'static str, slice_bytes: u32) -> Contender {
        Contender::Repair { stripe, scheme, slice_bytes, verify: true }
    }
}

impl Lineup {
    /// Adds one.
    pub fn add(&mut self, label: Label, x: f64, contender: Contender) {
        self.entries.push((label, x, contender));
    }
}
