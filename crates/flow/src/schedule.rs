//! When a slice arrives: one slice through a lane over equal full-duplex links.
//!
//! A stage sends once all its inputs are there. A site sends one stream at a time and receives one at a time, at
//! the full rate, and a stage takes its inputs in the order in which it lists them. So the timeslots of a
//! reduction tree, where a block is one slice, come out as the paper counts them: ⌈log2(k+1)⌉ (RP §2.2).

use crate::graph::{Input, Lane, Site, Stage};

/// How much longer one slice takes through `lane` than its bytes occupy the busiest interface. For a stream of
/// slices, which keeps that interface busy, this is the time in which the pipeline fills and drains. `bytes[e]`
/// crosses edge e; the result is in bytes too, of one link.
///
/// # Panics
/// As slices do, if the lane is not [valid](crate::validate::validate) or `bytes` is not as long as its edges.
pub(crate) fn filling(lane: &Lane, bytes: &[f64]) -> f64 {
    let mut sites: Vec<Site> = lane.stages.iter().map(|stage| stage.site).collect();
    sites.sort_unstable();
    sites.dedup();
    let place = |stage: &Stage| sites.binary_search(&stage.site).unwrap_or_default();
    let mut ready = vec![0.0_f64; lane.stages.len()];
    // When each site's outgoing and incoming side is next free, and for how long it was busy.
    let mut sends = vec![Port::default(); sites.len()];
    let mut receives = sends.clone();
    for (index, stage) in lane.stages.iter().enumerate() {
        for input in &stage.inputs {
            let Input::Edge(id) = input else { continue };
            let from = usize::from(lane.edges[usize::from(id.0)].from.0);
            let sender = &mut sends[place(&lane.stages[from])];
            let receiver = &mut receives[place(stage)];
            let start = ready[from].max(sender.free_at).max(receiver.free_at);
            let took = bytes[usize::from(id.0)];
            for port in [sender, receiver] {
                port.free_at = start + took;
                port.busy += took;
            }
            ready[index] = ready[index].max(start + took);
        }
    }
    let busiest = sends.iter().chain(&receives).map(|port| port.busy).fold(0.0, f64::max);
    ready.into_iter().fold(0.0, f64::max) - busiest
}

#[derive(Clone, Copy, Default)]
struct Port {
    free_at: f64,
    busy: f64,
}
