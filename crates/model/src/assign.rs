//! How many repairs at once find helpers and requestors.

/// How a recovery finds helpers and requestors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Assign {
    /// For many blocks at once, so that the busiest link carries little (`plan::recovery`).
    #[default]
    Balanced,
    /// One after another, the least recently selected helpers (RP §3.3).
    LeastRecent,
    /// For many at once by loads and caches (`plan::m_ppr`).
    MPpr,
    /// The survivors on the nodes of the lowest numbers, requestors in turn: what RP §6.1 compares scheduling with.
    LowestIndex,
}
