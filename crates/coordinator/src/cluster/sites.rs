//! Where nodes stand that blocks can be kept at, as the catalog wants to know it.

use catalog::{Site, Sites};
use model::NodeId;
use plan::decide::{NodeFacts, World};
use std::collections::BTreeMap;

/// Those that do not leave, dead ones too.
pub(crate) fn sites(view: &World) -> Sites {
    let mut hosts = BTreeMap::new();
    let mut site = |(id, node): (NodeId, &NodeFacts)| {
        let host = *hosts.entry(view.topology.host_of(id)).or_insert(id.0);
        (id, Site { rack: node.rack, host })
    };
    view.nodes.iter().filter(|(_, node)| !node.is_leaving).map(&mut site).collect()
}
