//! The encoding schemes by name. A new scheme is a file with its builder and one line in the list below.

use std::fmt;
use std::str::FromStr;

use codes::Code;

use super::EncodeRequest;
use crate::error::FlowError;
use crate::prove::Proved;

/// What is to be known of a scheme before its flow is built.
struct Kind {
    scheme: EncodeScheme,
    name: &'static str,
    is_chain: bool,
    has_lanes: bool,
}

macro_rules! schemes {
    ($($(#[$doc:meta])* $scheme:ident = $name:literal, chain: $chain:literal, lanes: $lanes:literal => $builder:path;)*) => {
        /// A way to build the flow of an encoding.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub enum EncodeScheme { $($(#[$doc])* $scheme,)* }

        const SCHEMES: &[Kind] = &[$(Kind {
            scheme: EncodeScheme::$scheme,
            name: $name,
            is_chain: $chain,
            has_lanes: $lanes,
        }),*];

        /// Builds and proves the flow that `scheme` makes of `request`.
        ///
        /// # Errors
        /// A request that asks for nothing sensible, or [`FlowError::Code`] if the data do not suffice.
        pub fn build(scheme: EncodeScheme, request: &EncodeRequest<'_>) -> Result<Proved, FlowError> {
            match scheme { $(EncodeScheme::$scheme => $builder(request),)* }
        }
    };
}

schemes! {
    /// One site downloads the data, makes the parities and uploads them (RP §2.2, EAR §2).
    #[default]
    Star = "star", chain: false, lanes: false => super::star::star;
    /// Partial parities along a chain of the data sites (RapidRAID §III, for any systematic code).
    Pipeline = "pipeline", chain: true, lanes: false => super::pipeline::pipeline;
    /// Chains over the same data sites, each rotated by one (ours).
    PipelineLanes = "pipeline-lanes", chain: true, lanes: true => super::pipeline::pipeline_lanes;
    /// Each data site is the archiver of a part of the slices (ours).
    StarLanes = "star-lanes", chain: false, lanes: true => super::star_lanes::star_lanes;
    /// The pipeline of a code that is made for one (RapidRAID §IV).
    RapidRaid = "rapidraid", chain: false, lanes: false => super::rapidraid::rapidraid;
}

impl EncodeScheme {
    /// The schemes by which blocks of a code can be made, the usual one first.
    pub fn of(code: &Code) -> impl Iterator<Item = EncodeScheme> {
        let has_pipeline = code.pipeline().is_some();
        let first = if has_pipeline { EncodeScheme::RapidRaid } else { EncodeScheme::default() };
        let others = EncodeScheme::all()
            .filter(move |&scheme| scheme != first && (has_pipeline || scheme != EncodeScheme::RapidRaid));
        std::iter::once(first).chain(others)
    }

    /// Every scheme there is.
    pub fn all() -> impl Iterator<Item = EncodeScheme> {
        SCHEMES.iter().map(|kind| kind.scheme)
    }

    fn kind(self) -> Option<&'static Kind> {
        SCHEMES.iter().find(|kind| kind.scheme == self)
    }

    /// Whether parities travel through the data sites, in the order in which these are listed.
    pub fn is_chain(self) -> bool {
        self.kind().is_some_and(|kind| kind.is_chain)
    }

    /// Whether slices are dealt to several lanes.
    pub fn has_lanes(self) -> bool {
        self.kind().is_some_and(|kind| kind.has_lanes)
    }

    /// The name that operators use.
    pub fn name(self) -> &'static str {
        self.kind().map_or("", |kind| kind.name)
    }
}

impl fmt::Display for EncodeScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for EncodeScheme {
    type Err = FlowError;

    fn from_str(name: &str) -> Result<Self, FlowError> {
        let found = SCHEMES.iter().find(|kind| kind.name == name);
        found.map(|kind| kind.scheme).ok_or_else(|| FlowError::UnknownEncoding {
            name: name.to_owned(),
            known: SCHEMES.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", "),
        })
    }
}
