//! What the links of a testbed have carried, as the kernel counts it at the bridges: also what no daemon tells of.

use super::spec::Spec;
use super::{Testbed, layout, namespace};
use crate::error::{LabError, Result, bad};
use std::collections::BTreeMap;
use std::fs;

/// Counters of the devices in a thread's namespace: `/proc/net` would be those of the process.
const COUNTERS: &str = "/proc/thread-self/net/dev";

/// The place of the bytes that a device sent, after its name; those that it received come first.
const SENT: usize = 8;

/// One direction of one link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// What a host sends.
    FromHost(usize),
    /// What a host receives.
    ToHost(usize),
    /// What a rack sends to other racks.
    FromRack(usize),
    /// What a rack receives from them.
    ToRack(usize),
}

/// Bytes by the way that they went, headers of packets included: one header for as much as the kernel hands on at once, which
/// is up to 64 KiB.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Carried(pub BTreeMap<Way, u64>);

impl Carried {
    /// What came after `before`.
    pub fn since(mut self, before: &Carried) -> Carried {
        for (way, bytes) in &mut self.0 {
            *bytes = bytes.saturating_sub(before.0.get(way).copied().unwrap_or(0));
        }
        self
    }

    /// What left racks, all of them together.
    pub fn between_racks(&self) -> u64 {
        self.0.iter().filter(|(way, _)| matches!(way, Way::FromRack(_))).map(|(_, bytes)| bytes).sum()
    }
}

impl Testbed {
    /// What every link has carried since the testbed was made.
    ///
    /// # Errors
    /// [`LabError::Io`] if the testbed is gone; [`LabError::BadSpec`] if the kernel's counters cannot be read.
    pub fn carried(&self) -> Result<Carried> {
        let spec = self.spec();
        let mut carried = Carried::default();
        for (name, _) in layout::switches(spec) {
            let text = namespace::inside(&name, || fs::read_to_string(COUNTERS))?;
            let text = text.map_err(LabError::io(format!("read {COUNTERS} in {name}")))?;
            for (device, received, sent) in counters(&text)? {
                for (way, bytes) in ways(spec, &name, device, [received, sent]) {
                    carried.0.insert(way, bytes);
                }
            }
        }
        Ok(carried)
    }
}

/// What a device of a bridge's namespace counts as: what it receives comes from the other end of its cable.
fn ways(spec: &Spec, switch: &str, device: &str, [received, sent]: [u64; 2]) -> Vec<(Way, u64)> {
    let host = (0..spec.hosts).find(|&host| layout::host_port(host) == device);
    if let Some(host) = host {
        return vec![(Way::FromHost(host), received), (Way::ToHost(host), sent)];
    }
    let racks = spec.racks.map_or(0, |racks| racks.count);
    let rack =
        (0..racks).find(|&rack| device == layout::UPLINK && switch == layout::rack_namespace(spec, rack));
    rack.map_or(Vec::new(), |rack| vec![(Way::FromRack(rack), sent), (Way::ToRack(rack), received)])
}

/// (device, bytes received, bytes sent), after two lines of headings.
fn counters(text: &str) -> Result<Vec<(&str, u64, u64)>> {
    let line = |line: &'_ str| -> Option<(usize, u64, u64)> {
        let colon = line.find(':')?;
        let mut numbers = line[colon + 1..].split_whitespace().map(|number| number.parse().ok());
        Some((colon, numbers.next()??, numbers.nth(SENT - 1)??))
    };
    let parsed = text.lines().skip(2).map(|text| {
        let (colon, received, sent) = line(text).ok_or_else(|| bad(format!("{COUNTERS} says '{text}'")))?;
        Ok((text[..colon].trim(), received, sent))
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{LinkRate, Racks};

    #[test]
    fn the_kernels_table_is_read_and_each_device_is_a_link() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n\
                    \x20   lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n\
                    \x20   h2:     100       1    0    0    0     0          0         0      250       2    0    0    0     0       0          0\n\
                    \x20 core:7 1 0 0 0 0 0 0 9 2 0 0 0 0 0 0\n";
        let read = counters(text).unwrap();
        assert_eq!(read, [("lo", 0, 0), ("h2", 100, 250), ("core", 7, 9)]);
        let racks = Some(Racks { count: 2, core_rate: LinkRate::UNLIMITED });
        let spec = Spec { racks, ..Spec::flat("t", 4, LinkRate::UNLIMITED) };
        let of = |device, bytes| ways(&spec, "sl-t-r0", device, bytes);
        assert_eq!(of("h2", [100, 250]), [(Way::FromHost(2), 100), (Way::ToHost(2), 250)]);
        assert_eq!(of("core", [7, 9]), [(Way::FromRack(0), 9), (Way::ToRack(0), 7)]);
        assert_eq!(of("br0", [1, 1]), []);
        assert!(counters("a\nb\nc").is_err());
        let before = Carried(BTreeMap::from([(Way::FromRack(0), 4)]));
        let after = Carried(BTreeMap::from([(Way::FromRack(0), 9), (Way::FromRack(1), 2)]));
        assert_eq!(after.since(&before).between_racks(), 7);
    }
}
