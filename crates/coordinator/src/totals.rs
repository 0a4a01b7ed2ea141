//! Totals over all nodes.

use plan::decide::{World, nearly_full};

/// Returns the bytes that living nodes have stored, those that nodes which take blocks can still take, and whether these are few.
pub(crate) fn room_of(view: &World) -> (u64, u64, bool) {
    let living = || view.nodes.iter().map(|(_, node)| node).filter(|node| node.is_living);
    let stored_bytes = living().map(|node| node.stored_bytes).fold(0, u64::saturating_add);
    let takers = living().filter(|node| node.takes_blocks());
    let free: Vec<u64> = takers.filter_map(|node| node.free_bytes).collect();
    // A disk that cannot tell its end says that it has none.
    let free_bytes = free.iter().copied().fold(0, u64::saturating_add);
    (stored_bytes, free_bytes, !free.is_empty() && nearly_full(stored_bytes, free_bytes))
}

/// Names the nodes that are quarantined.
pub(crate) fn quarantined(view: &World) -> Vec<String> {
    let quarantined = view.nodes.iter().filter(|(_, node)| node.is_quarantined);
    quarantined.map(|(id, _)| format!("node-{id}")).collect()
}
