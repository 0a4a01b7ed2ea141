//! What it costs to keep blocks as a stripe, and as replicas.

use codes::Code;
use model::Placement;
use plan::decide::is_made;

/// Bytes on disks, without sidecars.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cost {
    /// Of the data once.
    pub data: u64,
    /// With all replicas that are wanted.
    pub replicated: u64,
    /// With the parities, which are as long as the longest block.
    pub coded: u64,
}

impl Cost {
    pub fn of(code: &Code, data: &[Placement]) -> Cost {
        let longest = data.iter().map(|placement| placement.facts.stored_bytes).max().unwrap_or(0);
        let parities = (code.k()..code.n()).filter(|&index| is_made(code, data, index)).count() as u64;
        let bytes = |copies: fn(&Placement) -> u64| -> u64 {
            data.iter().map(|placement| placement.facts.stored_bytes * copies(placement)).sum()
        };
        let once = bytes(|_| 1);
        // What stands for virtual blocks is all that is kept.
        let kept = if code.virtuals() > 0 { 0 } else { once };
        Cost {
            data: once,
            replicated: bytes(|placement| u64::from(placement.facts.replicas.max(1))),
            coded: kept + parities * longest,
        }
    }

    pub fn add(&mut self, other: Cost) {
        self.data += other.data;
        self.replicated += other.replicated;
        self.coded += other.coded;
    }

    /// Of so many such stripes.
    pub fn times(self, stripes: u64) -> Cost {
        let Cost { data, replicated, coded } = self;
        let [data, replicated, coded] = [data, replicated, coded].map(|bytes| bytes.saturating_mul(stripes));
        Cost { data, replicated, coded }
    }

    /// Whether replicas take less room. A single one protects nothing, so that any code is worth its room.
    pub fn is_waste(&self) -> bool {
        self.coded > self.replicated && self.replicated > self.data
    }
}

/// Why so many stripes are left as replicas, or refused.
pub(crate) fn too_dear(stripes: usize, waiting: &str, cost: Cost) -> String {
    let Cost { data, replicated, coded } = cost;
    format!(
        "{stripes} stripes lack blocks{waiting} and would take {} the data instead of {}: put more small objects together, or say \
         --short",
        times(coded, data),
        times(replicated, data),
    )
}

/// `1.40 ×`.
pub(crate) fn times(bytes: u64, data: u64) -> String {
    format!("{:.2} ×", bytes as f64 / data.max(1) as f64)
}
