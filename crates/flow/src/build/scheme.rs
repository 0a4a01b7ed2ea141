//! The repair schemes by name. A new scheme is a file with its builder and one line in the list below.

use std::fmt;
use std::str::FromStr;

use super::request::RepairRequest;
use crate::error::FlowError;
use crate::prove::Proved;

macro_rules! schemes {
    ($($(#[$doc:meta])* $scheme:ident = $name:literal => $builder:path;)*) => {
        /// A way to build the flow of a repair or degraded read.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Scheme { $($(#[$doc])* $scheme,)* }

        const SCHEMES: &[(Scheme, &str)] = &[$((Scheme::$scheme, $name)),*];

        /// Builds and proves the flow that `scheme` makes of `request`.
        ///
        /// # Errors
        /// A request that asks for nothing sensible, or [`FlowError::Code`] if the helpers do not suffice.
        pub fn build(scheme: Scheme, request: &RepairRequest<'_>) -> Result<Proved, FlowError> {
            match scheme { $(Scheme::$scheme => $builder(request),)* }
        }
    };
}

schemes! {
    /// Helpers send raw symbols, the requestor decodes (RP §2.2).
    Conventional = "conventional" => super::star::star;
    /// The same from the first parity of an XOR code, without a choice of symbols: a baseline (XOR supplement §3).
    FirstParity = "first-parity" => super::star::first_parity;
    /// Repair pipelining: partial sums along a chain of helpers (RP §3.2).
    Pipeline = "pipeline" => super::chain::chain;
    /// Partial-parallel repair: a binary tree that forwards whole combined blocks (PPR; RP §2.2).
    Ppr = "ppr" => super::tree::tree;
    /// The same tree, streamed in slices, as the comparison of RP §6.1 has it.
    PprSliced = "ppr-sliced" => super::tree::tree;
    /// The chain that forwards whole combined blocks: Pipe-B, a baseline (RP §6.4).
    PipeB = "pipe-b" => super::chain::chain;
    /// The chain whose helpers take the next slice only after their successor has acknowledged the last:
    /// Pipe-S, a baseline (RP §6.4).
    PipeS = "pipe-s" => super::chain::chain;
    /// The chain that crosses racks least (RP §4.2, Algorithm 1). The planner puts the helpers in that order: a flow
    /// knows no rack.
    RackAware = "rack-aware" => super::chain::chain;
    /// The chain whose slowest link is fastest (RP §4.3, Algorithm 2). The planner puts the helpers in that order.
    Weighted = "weighted" => super::chain::chain;
    /// k−1 chains over the same helpers, each rotated by one, so that k−1 helpers deliver (RP §4.1).
    Cyclic = "cyclic" => super::cyclic::cyclic;
    /// Several chains whose shares fill the links (ours). The planner finds the [`paths`](super::paths()); if it
    /// knows no links, this is one chain.
    MultiPath = "multi-path" => super::chain::chain;
}

impl Scheme {
    /// Every scheme there is.
    pub fn all() -> impl Iterator<Item = Scheme> {
        SCHEMES.iter().map(|&(scheme, _)| scheme)
    }

    /// Whether a slice of this scheme is a whole symbol (at α = 1: the block), whatever slice is asked for:
    /// [`Geometry::whole_slice`](crate::Geometry::whole_slice).
    pub fn whole_block(self) -> bool {
        matches!(self, Scheme::Ppr | Scheme::PipeB)
    }

    /// Streams that each of k helpers receives, by its place in the row, and last those that the requestor receives.
    /// Every helper sends one. Several lanes count as one chain, in which every helper but the first receives.
    pub fn received(self, k: usize) -> Vec<usize> {
        let mut received = match self {
            Scheme::Conventional | Scheme::FirstParity => vec![0; k],
            Scheme::Ppr | Scheme::PprSliced => super::tree::received(k),
            _ => (0..k).map(|place| usize::from(place > 0)).collect(),
        };
        received.push(k - received.iter().sum::<usize>());
        received
    }

    /// Whether it is there to compare with, and never better than another.
    pub fn is_baseline(self) -> bool {
        matches!(self, Scheme::FirstParity | Scheme::PipeB | Scheme::PipeS)
    }

    /// Whether stages handle one slice at a time, from receiving it to its acknowledgement by the successor.
    pub fn serial(self) -> bool {
        matches!(self, Scheme::PipeS)
    }

    /// The name that operators use.
    pub fn name(self) -> &'static str {
        SCHEMES.iter().find(|&&(scheme, _)| scheme == self).map_or("", |&(_, name)| name)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheme {
    type Err = FlowError;

    fn from_str(name: &str) -> Result<Self, FlowError> {
        let found = SCHEMES.iter().find(|&&(_, known)| known == name);
        found.map(|&(scheme, _)| scheme).ok_or_else(|| FlowError::UnknownScheme {
            name: name.to_owned(),
            known: SCHEMES.iter().map(|&(_, known)| known).collect::<Vec<_>>().join(", "),
        })
    }
}
