//! Daemons that must not start: each says why in a sentence, ends with exit code 1, and disturbs nobody.

use super::rig::{Rig, one_sentence};
use std::fs;
use std::net::TcpListener;

#[test]
fn a_daemon_that_would_be_in_the_way_does_not_start() {
    let rig = Rig::up(3);
    let bytes = rig.file("f", 200_000, 1);
    rig.put("f", "a");
    let coordinator = rig.coordinator();
    let folder = |name: &str| rig.home().join(name).to_str().unwrap().to_owned();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listener = TcpListener::bind(taken).unwrap();
    let (taken, elsewhere) = (listener.local_addr().unwrap().to_string(), rig.arg("elsewhere"));
    let node = ["--coordinator", &coordinator, "node", "--id", "9", "--dir", &elsewhere];

    let in_use = "Address already in use";
    assert!(rig.error(&["coordinator", "--found", "--dir", &elsewhere, "--listen", &taken]).contains(in_use));
    assert!(
        rig.error(&["coordinator", "--found", "--dir", &elsewhere, "--listen", &coordinator])
            .contains(in_use)
    );
    assert!(rig.error(&[&node[..], &["--listen-control", &taken]].concat()).contains(in_use));
    assert!(rig.error(&[&node[..], &["--listen-data", &taken]].concat()).contains(in_use));

    let second = ["coordinator", "--dir", &folder("coordinator"), "--listen", "127.0.0.1:0"];
    assert!(rig.error(&second).contains("in use by another coordinator"));
    let start =
        |id: &str, dir: &str| rig.error(&["--coordinator", &coordinator, "node", "--id", id, "--dir", dir]);
    assert!(start("1", &folder("node-1")).contains("in use by another process"));
    rig.ok(&["node", "stop", "1"]);
    assert!(start("2", &folder("node-1")).contains("belongs to node-1, not to node-2"));
    assert!(start("1", "/dev/null").contains("/dev/null"));
    rig.ok(&["node", "start", "1"]);

    assert!(rig.get("a") == bytes);
    assert_eq!(rig.living(), [1, 2, 3]);
}

#[test]
fn a_local_cluster_that_cannot_come_up_says_which_daemon_and_why() {
    let rig = Rig::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let sentence = rig.error(&["cluster", "up", "--nodes", "1", "--port", &port]);
    assert!(sentence.contains(&format!("port {port} is in use")), "{sentence}");

    rig.ok(&["cluster", "up", "--nodes", "2"]);
    rig.ok(&["cluster", "down"]);
    let identity = rig.home().join("node-2/data/identity");
    let whole = fs::read(&identity).unwrap();
    fs::write(&identity, b"not an identity").unwrap();
    let sentence = rig.error(&["cluster", "up"]);
    assert!(sentence.starts_with("node-2 did not start: "), "{sentence}");
    fs::write(&identity, whole).unwrap();
    rig.ok(&["cluster", "up"]);
    assert_eq!(rig.living(), [1, 2]);
}

#[test]
fn a_node_of_another_cluster_is_refused() {
    let (ours, theirs) = (Rig::up(3), Rig::up(3));
    let bytes = theirs.file("f", 200_000, 2);
    theirs.put("f", "a");
    theirs.ok(&["node", "stop", "3"]);
    let (coordinator, folder) = (ours.coordinator(), theirs.home().join("node-3"));
    let stray = ["--coordinator", &coordinator, "node", "--id", "7", "--dir", folder.to_str().unwrap()];
    assert!(ours.error(&stray).contains("belongs to node-3"));
    let stray = ["--coordinator", &coordinator, "node", "--id", "3", "--dir", folder.to_str().unwrap()];
    let mut daemon = ours.daemon(&stray, "stray.log");
    assert_eq!(daemon.ended().code(), Some(1));
    let log = fs::read_to_string(ours.path("stray.log")).unwrap();
    let sentence = one_sentence(log.lines().last().unwrap());
    assert!(sentence.contains("belongs to cluster"), "{log}");

    theirs.ok(&["node", "start", "3"]);
    assert!(theirs.get("a") == bytes);
    assert_eq!(ours.living(), [1, 2, 3]);
}
