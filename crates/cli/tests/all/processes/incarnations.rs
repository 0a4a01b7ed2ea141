//! Folders of nodes that are cloned, set back, or given up: who is who is told by stores and the words of their starts.

use super::rig::Rig;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => _ = fs::copy(entry.path(), target).unwrap(),
        }
    }
}

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let folders = fs::read_dir(folder.join("blocks")).unwrap();
    folders.flat_map(|f| fs::read_dir(f.unwrap().path()).unwrap().map(|file| file.unwrap().path())).collect()
}

#[test]
fn a_cloned_folder_is_refused_with_both_addresses_and_costs_nothing() {
    let rig = Rig::up(4);
    let bytes = rig.file("f", 400_000, 1);
    rig.put("f", "a");
    let own = rig.home().join("node-1/data");
    let before = files(&own);
    assert!(!before.is_empty());
    copy(&own, &rig.path("clone").join("data"));
    let folder = rig.arg("clone");
    let coordinator = rig.coordinator();
    let arguments = ["node", "--id", "1", "--dir", &folder, "--coordinator", &coordinator];
    let mut clone = rig.daemon(&arguments, "clone.log");
    let status = clone.ended();
    assert_eq!(status.code(), Some(1));
    let log = fs::read_to_string(rig.path("clone.log")).unwrap();
    let refusal = log.lines().last().unwrap();
    let address = rig.address("node-1", "control").unwrap();
    assert!(refusal.contains("clone") && refusal.contains(&address), "{refusal}");
    assert_eq!(refusal.matches("127.0.0.1:").count(), 2, "both addresses: {refusal}");

    assert_eq!(rig.living(), [1, 2, 3, 4]);
    assert_eq!(rig.address("node-1", "control"), Some(address));
    assert!(rig.get("a") == bytes && rig.ok(&["scrub"]).contains("all sound"));
    assert_eq!(files(&own), before, "no order reached either");
    assert_eq!(rig.json(&["cluster", "status"])["garbage"], 0);
}

#[test]
fn a_folder_that_was_set_back_is_welcome_and_shown_until_its_next_start() {
    let rig = Rig::up(4);
    let bytes = rig.file("f", 400_000, 2);
    rig.put("f", "a");
    let own = rig.home().join("node-2/data");
    let shown = || {
        let status = rig.json(&["cluster", "status"]);
        status["nodes"].as_array().unwrap().iter().any(|n| n["node"] == 2 && n["set_back"] == true)
    };
    rig.lose(2);
    copy(&own, &rig.path("before"));
    rig.ok(&["node", "start", "2"]);
    assert!(!shown(), "an ordinary start");
    rig.lose(2);
    fs::remove_dir_all(&own).unwrap();
    copy(&rig.path("before"), &own);
    rig.ok(&["node", "start", "2"]);
    assert!(shown());
    assert!(rig.ok(&["cluster", "status"]).contains("node-2 was set back"));
    assert!(rig.get("a") == bytes && rig.ok(&["scrub"]).contains("all sound"));
    rig.lose(2);
    rig.ok(&["node", "start", "2"]);
    assert!(!shown());
}

#[test]
fn a_node_that_is_forgotten_is_refused_and_its_number_goes_to_an_empty_folder() {
    let rig = Rig::up(5);
    let bytes = rig.file("f", 400_000, 3);
    rig.put("f", "a");
    let alive = rig.error(&["node", "forget", "2"]);
    assert!(alive.contains("node-2 is alive") && alive.contains("stripeline node stop 2"), "{alive}");
    let nobody = rig.error(&["node", "forget", "77"]);
    assert!(nobody.contains("no node 77"), "{nobody}");
    rig.lose(2);
    let said = rig.json_lines(&["node", "forget", "2"]).pop().unwrap();
    assert_eq!((&said["node"], &said["over"], &said["lost_blocks"]), (&2.into(), &true.into(), &0.into()));
    let said = rig.ok(&["node", "forget", "2"]);
    assert!(said.contains("node-2 is forgotten, and its number is free"), "{said}");
    assert_eq!(rig.json(&["cluster", "status"])["nodes"].as_array().unwrap().len(), 4);
    assert!(rig.get("a") == bytes);

    // Its disk is replaced.
    let own = rig.home().join("node-2/data");
    fs::rename(&own, rig.path("old")).unwrap();
    rig.ok(&["node", "start", "2"]);
    rig.until("the new store is welcome", || rig.living() == [1, 2, 3, 4, 5]);
    copy(&rig.path("old"), &rig.path("back").join("data"));
    let (folder, coordinator) = (rig.arg("back"), rig.coordinator());
    let arguments = ["node", "--id", "2", "--dir", &folder, "--coordinator", &coordinator];
    let mut back = rig.daemon(&arguments, "back.log");
    assert_eq!(back.ended().code(), Some(1));
    let log = fs::read_to_string(rig.path("back.log")).unwrap();
    let refusal = log.lines().last().unwrap();
    assert!(refusal.contains("given up for good") && refusal.contains("empty folder"), "{refusal}");
    assert!(rig.get("a") == bytes && rig.ok(&["scrub"]).contains("all sound"));
}

#[test]
fn a_running_node_that_is_forgotten_ends_and_is_readmitted_if_that_was_a_mistake() {
    let rig = Rig::up(5);
    let bytes = rig.file("f", 400_000, 4);
    rig.put("f", "a");
    let store_of = |line: &str| {
        let mut words = line.split(|c: char| !c.is_ascii_hexdigit()).filter(|word| word.len() == 32);
        words.next_back().map(str::to_owned)
    };
    // It says nothing, and is not dead.
    let process = rig.process("node-2");
    process.stop();
    rig.until("it counts as dead", || rig.living() == [1, 3, 4, 5]);
    rig.ok(&["node", "forget", "2"]);
    process.go_on();
    rig.until("it ends", || !process.is_running());
    let log = fs::read_to_string(rig.home().join("node-2/log")).unwrap();
    let refusal = log.lines().last().unwrap();
    assert!(
        refusal.contains("given up for good") && refusal.contains("stripeline node readmit"),
        "{refusal}"
    );
    let store = store_of(refusal).unwrap();

    let before = files(&rig.home().join("node-2/data"));
    assert!(!before.is_empty());
    let said = rig.json(&["node", "readmit", &store]);
    assert_eq!((&said["node"], &said["store"]), (&2.into(), &store.as_str().into()));
    rig.ok(&["node", "start", "2"]);
    rig.until("it is welcome", || rig.living() == [1, 2, 3, 4, 5]);
    let again = rig.error(&["node", "readmit", &store]);
    assert!(again.contains("no store") && again.contains("given up"), "{again}");
    assert!(rig.get("a") == bytes && rig.ok(&["scrub"]).contains("all sound"));
    // What it had was made again elsewhere, so that its copies are superfluous, and wait like others for what letting go asks for.
    let status = rig.json(&["cluster", "status"]);
    let counts = ["unknown_copies", "missing_blocks"].map(|count| status[count].as_u64());
    assert_eq!(counts, [Some(0), Some(0)], "{status}");
    assert!(status["garbage"].as_u64() > Some(0), "{status}");
}
