//! What an encoding moved: from where blocks lay before and lie afterwards, what nodes say of their links, and what the kernel
//! counted.

use crate::cluster::{LabCluster, LinkTraffic, RepairOutcome};
use crate::error::{LabError, Result};
use crate::testbed::{Carried, Testbed, Way};
use model::{NodeId, Peer};
use std::collections::{BTreeMap, BTreeSet};

/// Where each block's copies are, and which stripe it is in.
pub struct Layout(BTreeMap<Vec<u8>, Place>);

struct Place {
    bytes: u64,
    nodes: BTreeSet<u32>,
    stripe: Option<Vec<u8>>,
}

/// What an encoding came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    pub stripes: u64,
    /// Of the blocks that are in these.
    pub data_bytes: u64,
    /// Blocks that encoders fetched from other racks.
    pub downloads: u64,
    /// Blocks that lie where none of their replicas was.
    pub relocated: u64,
    /// Downloads, parities and relocations that went from rack to rack. A relocated block is copied from one of its replicas:
    /// if none of these is in its new rack, it crossed.
    pub cross_rack_bytes: u64,
}

impl Layout {
    /// That of all objects whose names begin so.
    pub fn of(cluster: &LabCluster, prefix: &str) -> Result<Layout> {
        let mut places = BTreeMap::new();
        for name in cluster.names(prefix)? {
            for block in cluster.lookup(&name)?.blocks {
                let stripe = block.stripe.as_ref().map(|stripe| stripe.stripe.clone());
                let member =
                    block.stripe.as_ref().and_then(|stripe| stripe.members.get(stripe.index as usize));
                let nodes = member.map_or(block.nodes, |member| vec![member.node]).into_iter().collect();
                places.insert(block.block, Place { bytes: block.stored_bytes, nodes, stripe });
            }
        }
        Ok(Layout(places))
    }

    /// What was encoded since, by these flows.
    pub fn since(
        &self,
        before: &Layout,
        flows: &[RepairOutcome],
        rack: impl Fn(NodeId) -> Result<usize>,
    ) -> Result<Moved> {
        let (mut moved, mut stripes) = (Moved::default(), BTreeSet::new());
        for (block, place) in &self.0 {
            let Some(stripe) = &place.stripe else { continue };
            stripes.insert(stripe);
            moved.data_bytes += place.bytes;
            let replicas = before.0.get(block).map(|before| &before.nodes);
            let Some(replicas) = replicas.filter(|replicas| replicas.is_disjoint(&place.nodes)) else {
                continue;
            };
            moved.relocated += 1;
            let racks = |nodes: &BTreeSet<u32>| nodes.iter().map(|&node| rack(NodeId(node))).collect();
            let (from, to): (Result<BTreeSet<usize>>, Result<BTreeSet<usize>>) =
                (racks(replicas), racks(&place.nodes));
            if from?.is_disjoint(&to?) {
                moved.cross_rack_bytes += place.bytes;
            }
        }
        moved.stripes = stripes.len() as u64;
        let node = |peer: Peer| NodeId(peer.number());
        for flow in flows {
            let encoder = encoder(&flow.links)?;
            for link in flow.links.iter().filter(|link| link.bytes > 0) {
                if rack(node(link.from))? == rack(node(link.to))? {
                    continue;
                }
                moved.cross_rack_bytes += link.bytes;
                moved.downloads += u64::from(link.to == encoder);
            }
        }
        Ok(moved)
    }
}

/// Who is at one end of every link: a star has its encoder there.
fn encoder(links: &[LinkTraffic]) -> Result<Peer> {
    let ends = links.iter().flat_map(|link| [link.from, link.to]);
    let common = |peer: &Peer| links.iter().all(|link| link.from == *peer || link.to == *peer);
    ends.into_iter().find(common).ok_or_else(|| LabError::of_coordinator("an encoding without an encoder"))
}

/// Seconds in which every link carries what it did, at best: those of the busiest one. A link without a limit takes no time.
pub fn busiest_s(testbed: &Testbed, carried: &Carried) -> f64 {
    let limits = testbed.limits();
    let seconds = carried.0.iter().map(|(&way, &bytes)| {
        let rate = match way {
            Way::FromHost(host) | Way::ToHost(host) => limits.ports[host],
            Way::FromRack(_) | Way::ToRack(_) => limits.core,
        };
        rate.payload_bytes_per_s().map_or(0.0, |bytes_per_s| bytes as f64 / bytes_per_s)
    });
    seconds.fold(0.0, f64::max)
}
