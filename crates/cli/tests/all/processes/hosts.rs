//! Hosts of two nodes with a disk each, a process each: no two blocks of a stripe lie on one host, and a disk that fails takes
//! no other with it.

use super::rig::{Daemon, Rig};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

const HOSTS: u32 = 5;

/// A coordinator, and hosts of two nodes: the first has nodes 1 and 2, the next 3 and 4, and so on.
fn up(rig: &Rig) -> Vec<Daemon> {
    let folder = |name: &str| rig.home().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(rig.home()).unwrap();
    let dir = folder("coordinator");
    let hasty = ["--heartbeat-ms", "100", "--dead-after-ms", "1500", "--recovery-grace", "1"];
    let coordinator = ["coordinator", "--found", "--dir", &dir, "--listen", "127.0.0.1:0"];
    let more = ["--block-size", "64KiB", "--garbage-grace-ms", "1000"];
    let mut daemons = vec![rig.daemon(&[&coordinator[..], &hasty, &more].concat(), "coordinator.log")];
    rig.until("the coordinator listens", || rig.address("coordinator", "control").is_some());
    daemons.extend((0..HOSTS).map(|host| start(rig, host)));
    rig.until("all nodes live", || rig.living().len() == 2 * HOSTS as usize);
    daemons
}

fn start(rig: &Rig, host: u32) -> Daemon {
    let store = |number: u32| {
        let folder = rig.home().join(format!("node-{number}"));
        fs::create_dir_all(&folder).unwrap();
        format!("{number}={}", folder.to_str().unwrap())
    };
    let (first, second) = (store(2 * host + 1), store(2 * host + 2));
    let (coordinator, name, rack) = (rig.coordinator(), format!("host-{host}"), format!("rack-{}", host % 2));
    let node = ["node", "--store", &first, "--store", &second, "--host", &name, "--rack", &rack];
    let more = ["--coordinator", &coordinator, "--try-disk-ms", "200"];
    rig.daemon(&[&node[..], &more].concat(), &format!("{name}.log"))
}

fn host_of(node: u64) -> u64 {
    (node - 1) / 2
}

/// The nodes of all copies of each block of an object, parities too.
fn homes(rig: &Rig, name: &str) -> Vec<Vec<u64>> {
    let nodes =
        |block: &Value| block["nodes"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    rig.blocks(name).iter().map(nodes).collect()
}

fn node(rig: &Rig, number: u64) -> Value {
    let status = rig.json(&["cluster", "status"]);
    let found = status["nodes"].as_array().unwrap().iter().find(|n| n["node"] == number).cloned();
    found.expect("the node is known")
}

#[test]
fn a_disk_that_fails_is_its_blocks_loss_and_not_its_host_s() {
    let rig = Rig::new();
    let _daemons = up(&rig);
    let bytes = rig.file("f", 180_000, 1);
    rig.put("f", "replicated");
    for copies in homes(&rig, "replicated") {
        let hosts: BTreeSet<u64> = copies.iter().map(|&node| host_of(node)).collect();
        assert!(hosts.len() == 3 && copies.len() == 3, "a host each: {copies:?}");
    }
    rig.put("f", "archived");
    rig.ok(&["archive", "archived", "--code", "rs-3+1"]);
    let refused = rig.error(&["archive", "replicated", "--code", "rs-4+2"]);
    assert!(refused.contains("needs 6 nodes"), "ten nodes are five hosts: {refused}");

    let victim = homes(&rig, "archived")[0][0];
    let data = rig.home().join(format!("node-{victim}/data"));
    let (identity, elsewhere) = (data.join("identity"), data.join("elsewhere"));
    fs::rename(&identity, &elsewhere).unwrap();
    rig.until("the node leaves", || node(&rig, victim)["living"] == false);
    let ailment = node(&rig, victim)["ailment"].as_str().unwrap().to_owned();
    assert!(ailment.contains("no block store"), "{ailment}");
    let shown = rig.ok(&["cluster", "status"]);
    assert!(
        shown.contains("its disk failed") && shown.contains(&format!("disk of node-{victim} failed")),
        "{shown}"
    );
    let neighbour = if victim % 2 == 1 { victim + 1 } else { victim - 1 };
    assert!(rig.living().contains(&neighbour) && rig.living().len() == 2 * HOSTS as usize - 1);
    assert!(rig.get("archived") == bytes && rig.get("replicated") == bytes);

    rig.until("its blocks are made again", || rig.json(&["cluster", "status"])["missing_blocks"] == 0);
    let stripe: Vec<u64> = homes(&rig, "archived").into_iter().flatten().filter(|&n| n != victim).collect();
    let hosts: BTreeSet<u64> = stripe.iter().map(|&node| host_of(node)).collect();
    assert_eq!(hosts.len(), stripe.len(), "on a host each: {stripe:?}");

    fs::rename(&elsewhere, &identity).unwrap();
    rig.until("it is back", || node(&rig, victim)["living"] == true);
    assert_eq!(node(&rig, victim)["ailment"], "");
    rig.until("what was made twice is gone", || rig.json(&["cluster", "status"])["garbage"] == 0);
    assert!(rig.get("archived") == bytes && rig.get("replicated") == bytes);
    assert!(rig.ok(&["scrub"]).contains("all sound"));
}

#[test]
fn a_disk_that_is_not_there_keeps_no_other_node_of_its_host_away() {
    let rig = Rig::new();
    let mut daemons = up(&rig);
    let bytes = rig.file("f", 180_000, 2);
    rig.put("f", "a");
    drop(daemons.pop());
    let (mounted, elsewhere) = (rig.home().join("node-9"), rig.path("unmounted"));
    fs::rename(&mounted, &elsewhere).unwrap();
    let folder = |number: u32| rig.home().join(format!("node-{number}"));
    let stores = [9, 10].map(|number| format!("{number}={}", folder(number).to_str().unwrap()));
    let (coordinator, log) = (rig.coordinator(), "again.log");
    let node = ["node", "--store", &stores[0], "--store", &stores[1], "--host", "host-4", "--rack", "rack-0"];
    let _again = rig.daemon(&[&node[..], &["--coordinator", &coordinator]].concat(), log);
    rig.until("the other one lives", || rig.living().contains(&10));
    let said = fs::read_to_string(rig.path(log)).unwrap();
    assert!(said.contains("node-9") && said.contains("is its disk mounted?"), "{said}");
    assert!(!mounted.exists(), "no empty store is made where a disk should be mounted");
    assert!(rig.get("a") == bytes);
    fs::rename(&elsewhere, &mounted).unwrap();
    rig.until("it is served when it is mounted", || rig.living().contains(&9));

    fs::remove_dir_all(rig.path("home/gone")).unwrap_or_default();
    let gone = [11, 12].map(|number| format!("{number}={}", rig.arg(&format!("gone-{number}"))));
    let all =
        ["--coordinator", &coordinator, "node", "--host", "h", "--store", &gone[0], "--store", &gone[1]];
    assert_eq!(rig.run(&all).status.code(), Some(1), "a process that can serve none ends");
}
