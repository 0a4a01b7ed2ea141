//! Nodes whose disks take no writes: they start, their blocks can be read, and new blocks go elsewhere.

use super::rig::Rig;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A cluster with one node whose folder has its own file system. The daemons end before that is unmounted.
struct Bench {
    rig: Rig,
    disk: Mounted,
}

impl Bench {
    /// Starts three nodes. Returns `None` if this user may not mount.
    fn up() -> Option<Bench> {
        let rig = Rig::new();
        let disk = Mounted::at(&rig.home().join("node-2"))?;
        rig.ok(&["cluster", "up", "--nodes", "3", "--block-size", "64KiB", "--reserve", "1MiB"]);
        Some(Bench { rig, disk })
    }
}

/// A file system in memory for a node's whole folder. Dropping it unmounts it.
struct Mounted(PathBuf);

impl Mounted {
    /// Mounts it. Returns `None`, with a notice, if this user may not mount.
    fn at(folder: &Path) -> Option<Mounted> {
        fs::create_dir_all(folder).unwrap();
        let mounted = mount(&["-t", "tmpfs", "-o", "size=8m", "tmpfs"], folder);
        if !mounted {
            eprintln!("NOTICE: no disk was filled, for none could be mounted (root may)");
        }
        mounted.then(|| Mounted(folder.to_owned()))
    }

    fn remount(&self, how: &str) {
        assert!(mount(&["-o", &format!("remount,{how}")], &self.0));
    }

    /// Fills the file system to the last byte.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut filler = File::options().create(true).append(true).open(&path).unwrap();
        for piece in [1 << 16, 1] {
            loop {
                match filler.write_all(&vec![7; piece]) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        path
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn mount(arguments: &[&str], folder: &Path) -> bool {
    Command::new("mount").args(arguments).arg(folder).output().is_ok_and(|output| output.status.success())
}

fn node(rig: &Rig, number: u64) -> Value {
    let status = rig.json(&["cluster", "status"]);
    let found = status["nodes"].as_array().unwrap().iter().find(|n| n["node"] == number).cloned();
    found.expect("the node is known")
}

fn refuses(rig: &Rig, number: u64) -> bool {
    node(rig, number)["takes_no_writes"].as_str().is_some_and(|why| !why.is_empty())
}

#[test]
fn a_node_on_a_full_disk_starts_serves_reads_and_takes_no_writes() {
    let Some(Bench { rig, disk }) = &Bench::up() else { return };
    let bytes = rig.file("f", 300_000, 1);
    rig.put("f", "a");
    for round in 0..2 {
        rig.ok(&["node", "stop", "2"]);
        let filler = disk.fill();
        rig.ok(&["node", "start", "2"]);
        // Others take the room that the start freed.
        disk.fill();
        rig.lose(1);
        rig.lose(3);
        assert!(rig.get("a") == bytes, "round {round}: all is read from the node whose disk is full");
        rig.until("it is said", || refuses(rig, 2));
        let shown = rig.ok(&["cluster", "status"]);
        assert!(shown.contains("the disk of node-2 takes no writes"), "{shown}");
        assert!(!shown.contains("set back"), "{shown}");
        rig.ok(&["cluster", "up"]);
        rig.put("f", "elsewhere");
        let takes = |block: &Value| block["nodes"].as_array().unwrap().iter().any(|node| node == 2);
        assert!(!rig.blocks("elsewhere").iter().any(takes), "nothing new goes there");
        fs::remove_file(filler).unwrap();
        rig.until("it takes writes again", || !refuses(rig, 2));
        rig.put("f", &format!("b{round}"));
    }
    assert!(rig.ok(&["scrub"]).contains("all sound"));
}

#[test]
fn a_coordinator_that_starts_anew_is_heard_by_a_node_whose_disk_is_full() {
    let Some(Bench { rig, disk }) = &Bench::up() else { return };
    let bytes = rig.file("f", 300_000, 2);
    rig.put("f", "a");
    disk.fill();
    rig.process("coordinator").kill();
    rig.ok(&["cluster", "up"]);
    rig.lose(1);
    rig.lose(3);
    assert!(rig.get("a") == bytes);
}

#[test]
fn a_node_on_a_read_only_disk_serves_reads_running_and_started() {
    let Some(Bench { rig, disk }) = &Bench::up() else { return };
    let bytes = rig.file("f", 300_000, 3);
    rig.put("f", "a");
    rig.lose(2);
    disk.remount("ro");
    let (dir, coordinator) = (disk.0.to_str().unwrap(), rig.coordinator());
    let by_hand = ["node", "--id", "2", "--rack", "rack-1", "--dir", dir, "--coordinator", &coordinator];
    let running = rig.daemon(&[&by_hand[..], &["--try-disk-ms", "200"]].concat(), "by-hand.log");
    rig.until("it lives", || rig.living().contains(&2));
    rig.until("it is said", || refuses(rig, 2));
    rig.lose(1);
    rig.lose(3);
    assert!(rig.get("a") == bytes, "all is read from the node whose disk is read-only");
    disk.remount("rw");
    rig.until("it takes writes again", || !refuses(rig, 2));
    rig.ok(&["node", "start", "1"]);
    rig.ok(&["node", "start", "3"]);
    rig.put("f", "b");
    assert!(rig.get("b") == bytes);
    drop(running);
    let said = fs::read_to_string(rig.path("by-hand.log")).unwrap();
    assert!(said.contains("takes no writes") && !said.contains("panicked"), "{said}");
}

#[test]
fn a_node_makes_its_temporary_folder_again() {
    let rig = Rig::up(3);
    rig.file("f", 300_000, 4);
    let tmp = |node: u32| rig.home().join(format!("node-{node}/data/tmp"));
    for node in 1..=3 {
        fs::remove_dir_all(tmp(node)).unwrap();
    }
    rig.put("f", "a");
    rig.ok(&["node", "stop", "1"]);
    fs::create_dir_all(tmp(1).join("a folder/in it")).unwrap();
    rig.ok(&["node", "stop", "2"]);
    fs::remove_dir_all(tmp(2)).unwrap();
    rig.ok(&["cluster", "up"]);
    rig.put("f", "b");
    assert!(!tmp(1).join("a folder").exists());
}
