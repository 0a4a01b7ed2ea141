//! Bytes on links, and which end of which node carried most of them.

use model::Peer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wire::proto::{LinkBytes, Participant};

/// What a flow moved from whom to whom.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// (from, to) → bytes.
    links: BTreeMap<(Peer, Peer), u64>,
}

/// One direction of a node's network: where a flow's time is decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    pub node: Peer,
    pub incoming: bool,
    pub bytes: u64,
}

impl Traffic {
    /// What an explanation says in JSON: links with the nodes at their ends.
    pub fn predicted(links: &Value) -> Option<Traffic> {
        let end = |link: &Value, end: &str| Some(Peer::from_number(u32::try_from(link[end].as_u64()?).ok()?));
        let link = |link: &Value| Some(((end(link, "from")?, end(link, "to")?), link["bytes"].as_u64()?));
        Some(Traffic { links: links.as_array()?.iter().map(link).collect::<Option<_>>()? })
    }

    /// What a flow counted.
    pub fn of(links: &[LinkBytes], participants: &[Participant]) -> Traffic {
        let at = |site: u32| participants.iter().find(|p| p.site == site);
        let node = |site: u32| at(site).map_or(Peer::Client, |p| Peer::from_number(p.node));
        let mut traffic = Traffic::default();
        for link in links {
            *traffic.links.entry((node(link.from), node(link.to))).or_default() += link.bytes;
        }
        traffic
    }

    /// Adds what another flow moved.
    pub fn add(&mut self, other: &Traffic) {
        for (link, bytes) in &other.links {
            *self.links.entry(*link).or_default() += bytes;
        }
    }

    pub fn total(&self) -> u64 {
        self.links.values().sum()
    }

    /// The port with the most bytes.
    pub fn busiest(&self) -> Option<Port> {
        let mut ports: BTreeMap<(Peer, bool), u64> = BTreeMap::new();
        for (&(from, to), &bytes) in &self.links {
            *ports.entry((from, false)).or_default() += bytes;
            *ports.entry((to, true)).or_default() += bytes;
        }
        let busiest = ports.into_iter().max_by_key(|&(_, bytes)| bytes);
        busiest.map(|((node, incoming), bytes)| Port { node, incoming, bytes })
    }

    pub fn links(&self) -> impl Iterator<Item = (Peer, Peer, u64)> + '_ {
        self.links.iter().map(|(&(from, to), &bytes)| (from, to, bytes))
    }

    pub fn links_json(&self) -> Value {
        let link = |(from, to, bytes): (Peer, Peer, u64)| json!({"from": from.number(), "to": to.number(), "bytes": bytes});
        self.links().map(link).collect()
    }

    pub fn busiest_json(&self) -> Value {
        self.busiest().map_or(Value::Null, |port| {
            let direction = if port.incoming { "in" } else { "out" };
            json!({"node": port.node.number(), "direction": direction, "bytes": port.bytes})
        })
    }
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", if self.incoming { "into" } else { "out of" }, self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_bound_by_its_requestor_and_a_chain_by_nobody_in_particular() {
        let participant = |site| Participant { site, node: site + 10, ..Default::default() };
        let participants: Vec<_> = (0..4).map(participant).collect();
        let link = |from, to| LinkBytes { from, to, bytes: 64 };
        let star = Traffic::of(&[link(1, 0), link(2, 0), link(3, 0)], &participants);
        assert_eq!(star.busiest(), Some(Port { node: Peer::from_number(10), incoming: true, bytes: 192 }));
        assert_eq!(star.total(), 192);
        let chain = Traffic::of(&[link(1, 2), link(2, 3), link(3, 0)], &participants);
        assert_eq!(chain.busiest().map(|port| port.bytes), Some(64));
    }
}
