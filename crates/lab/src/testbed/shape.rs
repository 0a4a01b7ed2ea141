//! Limits of links, as `tc -batch` lines.
//!
//! ```text
//!   a host's egress    eth0        tbf (port) [ ── htb ── a class per limited destination, found by u32 ]
//!   a host's ingress   its bridge port: tbf (port)
//!   a rack             core: tbf (to the core);  its port on the core: tbf (from it)
//! ```

use super::layout::{self, HOST_DEVICE};
use super::spec::{LinkRate, Spec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A bucket holds at least one packet as the kernel hands it on, 64 KiB of payload in 45 segments with headers. A smaller
/// bucket makes the kernel cut packets up first, which costs a processor more than the network does.
const PACKET_BYTES: u64 = 68_130;

/// … and what passes in this time, in microseconds: 190 KiB in all at 1 Gbit/s. While a packet's tokens gather, the bucket
/// must not overflow before the timer comes that sends it, or the link is slower than it claims. Timers are late by less,
/// also those of a virtual machine.
const BURST_US: u64 = 1_000;

/// Packets that wait for tokens: what passes in this time, in microseconds; 1 MiB at 1 Gbit/s. A star's senders meet here.
const QUEUE_US: u64 = 8389;

/// … but at least this: a packet of 64 KiB, as the kernel hands it on, of each of 16 senders of a star. With half of that a
/// star of twelve at 500 Mbit/s lost such packets whole, 45 segments at once, and took 1.12 × its bound.
const MIN_QUEUE_BYTES: u64 = 1 << 20;

/// Every limit of a testbed at some time. Those of its [`Spec`] to begin with.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Limits {
    /// Of each host's port, in each direction.
    pub ports: Vec<LinkRate>,
    /// Between each rack and the core, in each direction.
    pub core: LinkRate,
    /// Of ordered pairs: from → to → limit. Pairs without a limit are absent.
    pub pairs: BTreeMap<usize, BTreeMap<usize, LinkRate>>,
}

impl Limits {
    /// The limits that a testbed is made with.
    pub fn of(spec: &Spec) -> Limits {
        let mut limits = Limits {
            ports: vec![spec.rate; spec.hosts],
            core: spec.racks.map_or(LinkRate::UNLIMITED, |racks| racks.core_rate),
            pairs: BTreeMap::new(),
        };
        for (from, row) in spec.matrix.iter().flatten().enumerate() {
            for (to, &mbit) in row.iter().enumerate().filter(|&(to, _)| to != from) {
                limits.set_pair(from, to, LinkRate::mbit(mbit));
            }
        }
        limits
    }

    /// Limits an ordered pair, or lifts its limit.
    pub fn set_pair(&mut self, from: usize, to: usize, rate: LinkRate) {
        let row = self.pairs.entry(from).or_default();
        if rate.is_limited() {
            row.insert(to, rate);
        } else {
            row.remove(&to);
        }
        self.pairs.retain(|_, row| !row.is_empty());
    }

    /// The limit of an ordered pair beyond those of ports.
    pub fn pair(&self, from: usize, to: usize) -> LinkRate {
        self.pairs.get(&from).and_then(|row| row.get(&to)).copied().unwrap_or(LinkRate::UNLIMITED)
    }

    /// What one flow between two hosts can get, alone and within a rack.
    pub fn between(&self, from: usize, to: usize) -> LinkRate {
        self.ports[from].narrower(self.pair(from, to)).narrower(self.ports[to])
    }

    /// For each namespace where something is to be set, the lines that set it.
    pub fn batches(&self, spec: &Spec) -> BTreeMap<String, String> {
        let mut batches: BTreeMap<String, String> = BTreeMap::new();
        for host in 0..spec.hosts {
            batches.insert(layout::host_namespace(spec, host), self.egress(spec, host));
            *batches.entry(layout::switch_of(spec, host)).or_default() += &self.ingress(host);
        }
        for rack in 0..spec.racks.map_or(0, |racks| racks.count) {
            *batches.entry(layout::rack_namespace(spec, rack)).or_default() +=
                &port(layout::UPLINK, self.core);
            *batches.entry(layout::core_namespace(spec)).or_default() +=
                &port(&layout::rack_port(rack), self.core);
        }
        batches
    }

    /// What limits what a host receives: lines for the namespace of its bridge.
    pub fn ingress(&self, host: usize) -> String {
        port(&layout::host_port(host), self.ports[host])
    }

    /// What limits what a host sends: lines for its own namespace.
    pub fn egress(&self, spec: &Spec, host: usize) -> String {
        let mut batch = port(HOST_DEVICE, self.ports[host]);
        // A limit that is no narrower than the port's would only be late a second time.
        let narrow = |&(_, &rate): &(&usize, &LinkRate)| self.ports[host].narrower(rate) != self.ports[host];
        let pairs: Vec<_> = self.pairs.get(&host).into_iter().flatten().filter(narrow).collect();
        if pairs.is_empty() {
            return batch;
        }
        let parent = if self.ports[host].is_limited() { "parent 1:1" } else { "root" };
        // What no filter takes is not limited here: ARP, and pairs without a limit.
        let _ =
            writeln!(batch, "qdisc add dev {HOST_DEVICE} {parent} handle 2: htb default 0 direct_qlen 64");
        for (&to, &rate) in pairs {
            // Class numbers are hexadecimal, and 0 is none.
            let (class, bits, address) = (to + 1, rate.bits_per_s, layout::address(spec, to));
            let (burst, queue) = (burst_bytes(rate), queue_bytes(rate));
            let _ = writeln!(
                batch,
                "class add dev {HOST_DEVICE} parent 2: classid 2:{class:x} htb rate {bits}bit ceil {bits}bit burst {burst} cburst {burst} quantum {PACKET_BYTES}\n\
                 qdisc add dev {HOST_DEVICE} parent 2:{class:x} bfifo limit {queue}\n\
                 filter add dev {HOST_DEVICE} parent 2: protocol ip prio 1 u32 match ip dst {address}/32 flowid 2:{class:x}"
            );
        }
        batch
    }
}

/// A device's own limit. What was set there before goes first, with all that hung below it.
fn port(device: &str, rate: LinkRate) -> String {
    let reset = format!("qdisc replace dev {device} root noqueue\n");
    if !rate.is_limited() {
        return reset;
    }
    let (bits, burst, queue) = (rate.bits_per_s, burst_bytes(rate), queue_bytes(rate));
    format!(
        "{reset}qdisc replace dev {device} root handle 1: tbf rate {bits}bit burst {burst} limit {queue}\n"
    )
}

fn burst_bytes(rate: LinkRate) -> u64 {
    PACKET_BYTES + bytes_in(rate, BURST_US)
}

fn queue_bytes(rate: LinkRate) -> u64 {
    bytes_in(rate, QUEUE_US).max(MIN_QUEUE_BYTES)
}

fn bytes_in(rate: LinkRate, us: u64) -> u64 {
    (u128::from(rate.bits_per_s) * u128::from(us) / 8_000_000) as u64
}
