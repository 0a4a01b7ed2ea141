//! The least time in which a network carries what a repair moved: on uneven links the counterpart of timeslots (RP §2.2,
//! §4). Computed from bytes that nodes counted and from the testbed's limits; the planner's predictions are not asked.

use crate::testbed::{LinkRate, Testbed};
use std::collections::BTreeMap;

/// Bytes from one host to another.
pub type Moved = (usize, usize, u64);

/// The limits in force on a testbed.
#[derive(Clone, PartialEq, Debug)]
pub struct Capacities {
    /// Of each host's port, each way.
    ports: Vec<LinkRate>,
    /// The rack of each host.
    racks: Vec<usize>,
    /// Between a rack and the core, each way.
    core: LinkRate,
    /// From host, to host: what one connection alone gets.
    between: Vec<Vec<LinkRate>>,
}

/// What is used up: links, ports, racks' links; `true` for the receiving side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Resource {
    Link(usize, usize),
    Port(usize, bool),
    Rack(usize, bool),
}

impl Capacities {
    /// Those of a testbed as they are now.
    pub fn of(testbed: &Testbed) -> Capacities {
        let (hosts, limits) = (testbed.hosts(), testbed.limits());
        let row = |from: usize| (0..hosts.len()).map(|to| limits.between(from, to)).collect();
        Capacities {
            ports: limits.ports.clone(),
            racks: hosts.iter().map(|host| host.rack).collect(),
            core: limits.core,
            between: (0..hosts.len()).map(row).collect(),
        }
    }

    /// Seconds for a flow whose nodes pass slices of so many bytes on: its busiest link, port or rack takes so long, and
    /// the first or last slice one turn on every other link of its way. What several lanes moved has no one way, and there
    /// the last slices are left out.
    pub fn streamed(&self, moved: &[Moved], slice_bytes: u64) -> f64 {
        let mut used: BTreeMap<Resource, u64> = BTreeMap::new();
        for &(from, to, bytes) in moved {
            let mut uses =
                vec![Resource::Link(from, to), Resource::Port(from, false), Resource::Port(to, true)];
            if self.racks[from] != self.racks[to] {
                uses.extend([Resource::Rack(self.racks[from], false), Resource::Rack(self.racks[to], true)]);
            }
            for resource in uses {
                *used.entry(resource).or_default() += bytes;
            }
        }
        let busiest = used.iter().map(|(&resource, &bytes)| seconds(bytes, self.rate(resource)));
        if has_cycle(moved) {
            return busiest.fold(0.0, f64::max);
        }
        let sources = moved.iter().map(|&(from, ..)| from).filter(|from| moved.iter().all(|m| m.1 != *from));
        let fill = sources.map(|source| self.fill(moved, slice_bytes, source, 0.0, 0.0));
        busiest.fold(0.0, f64::max) + fill.fold(0.0, f64::max)
    }

    /// Seconds for a tree or chain whose nodes take one whole sum after the other, the smallest subtree's first, add them
    /// up, and only then send (PPR; Pipe-B): the way from the leaves to the root.
    pub fn forwarded(&self, moved: &[Moved]) -> f64 {
        let root = moved.iter().map(|&(_, to, _)| to).find(|to| moved.iter().all(|m| m.0 != *to));
        root.map_or(0.0, |root| self.summed_at(moved, root).0)
    }

    /// When a node has its sum, and how many nodes are in it.
    fn summed_at(&self, moved: &[Moved], node: usize) -> (f64, usize) {
        let into = moved.iter().filter(|&&(_, to, _)| to == node);
        let mut parts: Vec<(usize, f64, f64)> = into
            .map(|&(from, to, bytes)| {
                let (ready, nodes) = self.summed_at(moved, from);
                (nodes, ready, seconds(bytes, self.alone(from, to)))
            })
            .collect();
        parts.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let nodes = parts.iter().map(|part| part.0).sum::<usize>() + 1;
        (parts.iter().fold(0.0, |now: f64, &(_, ready, takes)| now.max(ready) + takes), nodes)
    }

    /// The longest way of one slice from `node` on, without its slowest link. There must be no cycle.
    fn fill(&self, moved: &[Moved], slice_bytes: u64, node: usize, sum: f64, slowest: f64) -> f64 {
        let onwards = moved.iter().filter(|&&(from, ..)| from == node).map(|&(from, to, bytes)| {
            let takes = seconds(slice_bytes.min(bytes), self.alone(from, to));
            self.fill(moved, slice_bytes, to, sum + takes, slowest.max(takes))
        });
        onwards.fold(sum - slowest, f64::max)
    }

    /// What one connection gets where nobody else is.
    fn alone(&self, from: usize, to: usize) -> LinkRate {
        let link = self.between[from][to];
        if self.racks[from] == self.racks[to] { link } else { link.narrower(self.core) }
    }

    fn rate(&self, resource: Resource) -> LinkRate {
        match resource {
            Resource::Link(from, to) => self.alone(from, to),
            Resource::Port(host, _) => self.ports[host],
            Resource::Rack(..) => self.core,
        }
    }
}

/// Whether some host hands on what comes back to it, in another lane.
fn has_cycle(moved: &[Moved]) -> bool {
    let mut left = moved.to_vec();
    loop {
        let before = left.len();
        let ends: Vec<usize> =
            left.iter().map(|m| m.1).filter(|to| left.iter().all(|m| m.0 != *to)).collect();
        left.retain(|(_, to, _)| !ends.contains(to));
        if left.is_empty() || left.len() == before {
            return !left.is_empty();
        }
    }
}

/// A rate without limit takes no time.
fn seconds(bytes: u64, rate: LinkRate) -> f64 {
    rate.payload_bytes_per_s().map_or(0.0, |bytes_per_s| bytes as f64 / bytes_per_s)
}

#[cfg(test)]
mod tests {
    use super::super::super::timeslots;
    use super::*;

    const BLOCK: u64 = 64 << 20;

    fn even(hosts: usize, racks: usize, core: LinkRate) -> Capacities {
        let rate = LinkRate::mbit(1000.0);
        Capacities {
            ports: vec![rate; hosts],
            racks: (0..hosts).map(|host| host % racks).collect(),
            core,
            between: vec![vec![rate; hosts]; hosts],
        }
    }

    fn close(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-9
    }

    /// Hosts 0 to k−1 help, host k is the requestor.
    fn tree(k: usize) -> Vec<Moved> {
        let mut holders: Vec<usize> = (0..=k).collect();
        let mut moved = Vec::new();
        while holders.len() > 1 {
            moved.extend(
                holders.chunks(2).filter(|pair| pair.len() == 2).map(|pair| (pair[0], pair[1], BLOCK)),
            );
            holders = holders.chunks(2).filter_map(|pair| pair.last().copied()).collect();
        }
        moved
    }

    #[test]
    fn on_equal_links_it_is_the_timeslots_of_the_papers() {
        let slice_bytes: u32 = 32 << 10;
        let slices = BLOCK / u64::from(slice_bytes);
        for k in 2..=16 {
            let network = even(k + 1, 1, LinkRate::UNLIMITED);
            let slot = seconds(BLOCK, LinkRate::mbit(1000.0));
            let star: Vec<Moved> = (0..k).map(|helper| (helper, k, BLOCK)).collect();
            let chain: Vec<Moved> = (0..k).map(|helper| (helper, helper + 1, BLOCK)).collect();
            let streamed = |moved: &[Moved]| network.streamed(moved, slice_bytes.into()) / slot;
            let expect = |scheme: &str| timeslots(scheme, k, slices).unwrap();
            assert!(close(streamed(&star), expect("conventional")), "{k}");
            assert!(close(streamed(&chain), expect("pipeline")), "{k}");
            assert!(close(streamed(&tree(k)), expect("ppr-sliced")), "{k}");
            assert!(close(network.forwarded(&tree(k)) / slot, expect("ppr")), "{k}");
            assert!(close(network.forwarded(&chain) / slot, expect("pipe-b")), "{k}");
        }
    }

    /// RP §4.1: two lanes of two helpers each way, and half the block over each link to the requestor.
    #[test]
    fn lanes_that_cross_take_what_the_busiest_link_takes() {
        let network = even(4, 1, LinkRate::UNLIMITED);
        let slot = seconds(BLOCK, LinkRate::mbit(1000.0));
        let half = BLOCK / 2;
        let lanes = [(0, 1, BLOCK), (1, 2, half), (2, 0, half), (2, 3, half), (0, 3, half)];
        assert!(close(network.streamed(&lanes, 1024), 1.5 * slot), "host 0 sends a block and a half");
        assert!(!has_cycle(&tree(10)));
    }

    /// RP §4.2: what several streams share is the racks' links.
    #[test]
    fn racks_share_their_links() {
        let core = LinkRate::mbit(500.0);
        let network = even(6, 2, core);
        let slot = seconds(BLOCK, core);
        // Two streams into rack 0 from rack 1, and one within it.
        let star = [(1, 0, BLOCK), (3, 0, BLOCK), (2, 0, BLOCK)];
        assert!(close(network.streamed(&star, 1024), 2.0 * slot));
        // A chain that crosses once each way: racks' links are full-duplex.
        let chain = [(0, 1, BLOCK), (1, 2, BLOCK)];
        assert!(close(network.streamed(&chain, BLOCK / 64), (1.0 + 1.0 / 64.0) * slot));
        assert!(close(network.forwarded(&chain), 2.0 * slot));
    }
}
