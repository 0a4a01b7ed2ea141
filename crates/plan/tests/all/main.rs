//! Planners against bounds and brute force.

mod cyclic_lanes;
mod ear;
mod encode;
mod helpers;
mod hosts;
mod m_ppr;
mod multi_path;
mod pipeline;
mod placement;
mod rack_aware_path;
mod rapidraid;
mod recovery;
mod reliability;
mod relocate;
mod room;
mod weighted_path;
mod xor;
