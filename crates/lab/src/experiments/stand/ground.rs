//! What hosts stand on beyond a flat network of equal links, and nodes beyond the usual.

use super::StandSpec;
use crate::error::Result;
use crate::testbed::{LinkRate, Racks, Spec, Testbed};

/// Racks, uneven links, hosts that hold no block, caches. The default: a flat network of equal links, and no cache.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ground {
    /// So many of the hosts, the last ones, get their nodes when all stripes are stored: they hold no block, and the
    /// others' nodes are the only ones that blocks can be on.
    pub spares: usize,
    /// Host i is in rack i mod `count`.
    pub racks: Option<Racks>,
    /// Limits of ports that differ from the spec's: those of the first hosts.
    pub ports: Vec<LinkRate>,
    /// Limits of ordered pairs of hosts, Mbit/s, as `lab up --matrix` takes them; `None`: the ports' only.
    pub matrix: Option<Vec<Vec<f64>>>,
    /// Memory in which each node keeps blocks that it has read.
    pub cache_bytes: u64,
}

impl Ground {
    /// The testbed's hosts and racks, without any limit: stripes are stored first.
    pub(super) fn unlimited(&self, name: &str, hosts: usize) -> Spec {
        let racks = self.racks.map(|racks| Racks { core_rate: LinkRate::UNLIMITED, ..racks });
        Spec { racks, ..Spec::flat(name, hosts, LinkRate::UNLIMITED) }
    }

    /// Sets every limit.
    pub(super) fn limit(&self, testbed: &mut Testbed, spec: &StandSpec) -> Result<()> {
        testbed.set_rate(spec.rate)?;
        for (host, &rate) in self.ports.iter().enumerate() {
            testbed.set_host_rate(host, rate)?;
        }
        if let Some(racks) = self.racks {
            testbed.set_core_rate(racks.core_rate)?;
        }
        let pairs: Vec<(usize, usize, LinkRate)> = self
            .matrix
            .iter()
            .flatten()
            .enumerate()
            .flat_map(|(from, row)| row.iter().enumerate().map(move |(to, &mbit)| (from, to, mbit)))
            .filter(|&(from, to, mbit)| from != to && mbit > 0.0)
            .map(|(from, to, mbit)| (from, to, LinkRate::mbit(mbit)))
            .collect();
        if pairs.is_empty() { Ok(()) } else { testbed.limit_pairs(&pairs) }
    }

    /// Whether one rate tells what every link carries.
    pub(super) fn is_even(&self) -> bool {
        self.racks.is_none() && self.ports.is_empty() && self.matrix.is_none()
    }

    /// In words.
    pub(super) fn text(&self) -> String {
        match (self.racks, &self.matrix) {
            (Some(racks), _) => format!(
                "network namespaces joined by veth pairs, a bridge in each of {} racks and one between them",
                racks.count
            ),
            (None, Some(_)) => {
                "network namespaces joined by veth pairs and a bridge, each ordered pair with a limit of its own"
                    .to_owned()
            }
            (None, None) => "network namespaces joined by veth pairs and a bridge".to_owned(),
        }
    }
}
