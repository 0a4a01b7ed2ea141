//! Which namespaces a testbed has, how they are wired, and their addresses.
//!
//! ```text
//!   flat     sl-NAME-h0 eth0 ──── h0 ┐
//!            sl-NAME-h1 eth0 ──── h1 ┴ br0 in sl-NAME-br
//!
//!   racks    sl-NAME-h0 eth0 ──── h0 ┐
//!            sl-NAME-h2 eth0 ──── h2 ┴ br0 in sl-NAME-r0   core ── r0 ┐
//!            sl-NAME-h1 eth0 ──── h1 ─ br0 in sl-NAME-r1   core ── r1 ┴ br0 in sl-NAME-core
//! ```
//!
//! Bridges live in namespaces too, so nothing of a testbed touches the machine's own network.

use super::spec::Spec;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// A host's end of its cable.
pub const HOST_DEVICE: &str = "eth0";

/// A rack's end of its cable to the core.
pub const UPLINK: &str = "core";

/// What all names of a testbed's namespaces begin with. Names of testbeds hold no dash.
pub fn prefix(name: &str) -> String {
    format!("sl-{name}-")
}

/// The namespace of a host.
pub fn host_namespace(spec: &Spec, host: usize) -> String {
    format!("{}h{host}", prefix(&spec.name))
}

/// The namespace of the bridge that a host is plugged into.
pub fn switch_of(spec: &Spec, host: usize) -> String {
    match spec.racks {
        None => format!("{}br", prefix(&spec.name)),
        Some(_) => rack_namespace(spec, spec.rack_of(host)),
    }
}

/// The namespace of a rack's bridge.
pub fn rack_namespace(spec: &Spec, rack: usize) -> String {
    format!("{}r{rack}", prefix(&spec.name))
}

/// The namespace of the bridge between racks.
pub fn core_namespace(spec: &Spec) -> String {
    format!("{}core", prefix(&spec.name))
}

/// The device on a bridge that leads to a host.
pub fn host_port(host: usize) -> String {
    format!("h{host}")
}

/// The device on the core bridge that leads to a rack.
pub fn rack_port(rack: usize) -> String {
    format!("r{rack}")
}

/// 10.77.rack.host, counted from 1 at the end.
pub fn address(spec: &Spec, host: usize) -> Ipv4Addr {
    // MAX_HOSTS keeps both within a byte.
    Ipv4Addr::new(10, 77, spec.rack_of(host) as u8, host as u8 + 1)
}

/// The bridges: the namespace of each, and its ports.
pub fn switches(spec: &Spec) -> Vec<(String, Vec<String>)> {
    let Some(racks) = spec.racks else {
        return vec![(switch_of(spec, 0), (0..spec.hosts).map(host_port).collect())];
    };
    let rack = |rack| {
        let hosts = (0..spec.hosts).filter(|&host| spec.rack_of(host) == rack).map(host_port);
        (rack_namespace(spec, rack), hosts.chain([UPLINK.to_owned()]).collect())
    };
    let core = (core_namespace(spec), (0..racks.count).map(rack_port).collect());
    (0..racks.count).map(rack).chain([core]).collect()
}

/// Every namespace of the testbed.
pub fn namespaces(spec: &Spec) -> Vec<String> {
    let hosts = (0..spec.hosts).map(|host| host_namespace(spec, host));
    hosts.chain(switches(spec).into_iter().map(|(name, _)| name)).collect()
}

/// `ip -batch`: the cables, both ends of each put straight into their namespaces.
pub fn cables(spec: &Spec) -> String {
    let mut batch = String::new();
    let mut cable = |end: &str, at: &str, other: &str, there: &str| {
        let _ = writeln!(batch, "link add {end} netns {at} type veth peer name {other} netns {there}");
    };
    for host in 0..spec.hosts {
        cable(HOST_DEVICE, &host_namespace(spec, host), &host_port(host), &switch_of(spec, host));
    }
    for rack in 0..spec.racks.map_or(0, |racks| racks.count) {
        cable(UPLINK, &rack_namespace(spec, rack), &rack_port(rack), &core_namespace(spec));
    }
    batch
}

/// `ip -batch` inside a host: its address.
pub fn host_setup(spec: &Spec, host: usize) -> String {
    let address = address(spec, host);
    format!("link set lo up\naddr add {address}/16 dev {HOST_DEVICE}\nlink set {HOST_DEVICE} up\n")
}

/// `ip -batch` inside a bridge's namespace: the bridge and its ports. Without the forwarding delay, or seconds pass
/// before the first packet does.
pub fn switch_setup(ports: &[String]) -> String {
    let mut batch = "link add br0 type bridge forward_delay 0 mcast_snooping 0\nlink set br0 up\n".to_owned();
    for port in ports {
        let _ = writeln!(batch, "link set {port} master br0\nlink set {port} up");
    }
    batch
}
