//! What only an operator decides: copies of which the catalog knows nothing. What only a file tells: whether a catalog is sound.

use super::rig::{Daemon, Rig, one_sentence};
use std::fs;

/// Milliseconds for which superfluous copies are kept.
const GRACE_MS: &str = "500";

/// A coordinator and three nodes.
fn up(rig: &Rig) -> Vec<Daemon> {
    let folder = |name: &str| {
        fs::create_dir_all(rig.home().join(name)).unwrap();
        rig.home().join(name).to_str().unwrap().to_owned()
    };
    let coordinator = ["coordinator", "--found", "--listen", "127.0.0.1:0", "--garbage-grace-ms", GRACE_MS];
    let dir = folder("coordinator");
    let mut daemons = vec![rig.daemon(&[&coordinator[..], &["--dir", &dir]].concat(), "coordinator.log")];
    rig.until("the coordinator listens", || rig.address("coordinator", "control").is_some());
    let address = rig.coordinator();
    daemons.extend((1..=3).map(|number| {
        let store = format!("{number}={}", folder(&format!("node-{number}")));
        let host = format!("host-{number}");
        let node = ["node", "--store", &store, "--host", &host, "--coordinator", &address];
        rig.daemon(&node, &format!("{host}.log"))
    }));
    rig.until("all nodes live", || rig.living().len() == 3);
    daemons
}

/// Both files of a copy, as they were.
fn files_of(rig: &Rig, block: &serde_json::Value) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let data = rig.block_file(block);
    let sidecar = data.with_file_name(format!("{}.meta", data.file_name().unwrap().to_str().unwrap()));
    [data, sidecar].map(|file| (file.clone(), fs::read(file).unwrap())).to_vec()
}

#[test]
fn a_copy_that_comes_back_is_listed_and_deleted_by_its_name() {
    let rig = Rig::new();
    let _daemons = up(&rig);
    rig.file("f", 10_000, 1);
    rig.put("f", "object");
    let block = rig.blocks("object")[0].clone();
    let files = files_of(&rig, &block);
    let version = rig.json(&["stat", "object"])["version"].clone();
    assert!(rig.ok(&["cluster", "unknown"]).contains("no copy that the catalog does not know"));
    rig.ok(&["rm", "object"]);
    rig.until("it is deleted", || !files[0].0.exists());
    rig.until("nothing waits", || rig.json(&["cluster", "status"])["garbage"] == 0);
    for (file, bytes) in &files {
        fs::write(file, bytes).unwrap();
    }
    let told = rig.json(&["cluster", "unknown"]);
    assert_eq!((told["copies"].as_array().unwrap().len(), &told["unasked"]), (1, &serde_json::json!([])));
    let unknown = &told["copies"][0];
    assert_eq!((&unknown["object"], &unknown["version"]), (&"object".into(), &version), "{told}");
    assert_eq!(unknown["block"], block["block"]);
    let name = unknown["copy"].as_str().unwrap();
    assert!(rig.ok(&["cluster", "unknown"]).contains(name));

    // Standard input is no terminal here.
    let refused = rig.error(&["cluster", "unknown", "--delete", name]);
    assert!(refused.contains("--yes"), "{refused}");
    let refused = rig.run(&["cluster", "unknown", "--delete", "7", "--yes"]);
    assert!(
        !refused.status.success() && refused.stderr.contains("NODE:BLOCK.GENERATION"),
        "{}",
        refused.stderr
    );
    assert!(files[0].0.exists());
    assert!(rig.ok(&["cluster", "unknown", "--delete", name, "--yes"]).contains("1 copy will be deleted"));
    rig.until("it is deleted", || !files[0].0.exists() && !files[1].0.exists());
    let again = rig.run(&["cluster", "unknown", "--delete", name, "--yes"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(one_sentence(&again.stderr).contains("not unknown"), "{}", again.stderr);
}

#[test]
fn a_catalog_is_checked_without_its_coordinator() {
    let rig = Rig::up(4);
    rig.file("f", 100_000, 1);
    rig.put("f", "first");
    rig.put("f", "second");
    let home = rig.home().to_str().unwrap().to_owned();
    let backup = rig.arg("backup");
    rig.ok(&["catalog", "backup", &backup]);
    let running = rig.json(&["catalog", "check", &home]);
    assert_eq!((&running["in_use"], &running["sound"]), (&true.into(), &true.into()), "{running}");
    rig.ok(&["cluster", "down"]);
    let file = rig.home().join("coordinator/data/catalog.redb");
    let names = ["coordinator", "coordinator/data", "coordinator/data/catalog.redb"];
    let folders = names.map(|name| rig.home().join(name).to_str().unwrap().to_owned());
    for path in folders.iter().chain([&home, &backup]) {
        let checked = rig.json(&["catalog", "check", path]);
        assert_eq!((&checked["in_use"], &checked["sound"]), (&false.into(), &true.into()), "{checked}");
    }

    let bytes = fs::read(&file).unwrap();
    let at = |bytes: &[u8], key: &[u8]| -> Vec<usize> {
        (0..bytes.len() - key.len()).filter(|at| bytes[*at..].starts_with(key)).collect()
    };
    let mut damaged = bytes.clone();
    at(&bytes, b"second").into_iter().for_each(|at| damaged[at] ^= 4);
    fs::write(&file, &damaged).unwrap();
    let ran = rig.run(&["catalog", "check", &home]);
    assert_eq!(ran.status.code(), Some(3), "{}", ran.stderr);
    assert!(one_sentence(&ran.stderr).contains("is damaged"), "{}", ran.stderr);
    let report = String::from_utf8(ran.stdout).unwrap();
    assert!(report.contains("damaged: row objects") && !report.contains("'first'"), "{report}");

    let mut changed = fs::read(&backup).unwrap();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    for (name, bytes) in [("changed", &changed[..]), ("short", &changed[..middle])] {
        fs::write(rig.path(name), bytes).unwrap();
        let ran = rig.run(&["catalog", "check", &rig.arg(name)]);
        assert_eq!(ran.status.code(), Some(3), "{}", ran.stderr);
        assert!(String::from_utf8(ran.stdout).unwrap().contains("damaged: the backup: "));
    }
    assert!(rig.error(&["catalog", "check", &rig.arg("f")]).contains("no catalog and no backup"));
    assert!(rig.error(&["catalog", "check", &rig.arg("nothing")]).contains("cannot read"));
    fs::create_dir(rig.path("empty")).unwrap();
    assert!(rig.error(&["catalog", "check", &rig.arg("empty")]).contains("no catalog.redb"));
}
