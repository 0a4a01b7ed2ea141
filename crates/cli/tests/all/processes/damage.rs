//! Disks that lie, files that shrink, a catalog that is gone: it is noticed, said, and nothing is lost.

use super::rig::{Rig, one_sentence};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Enough for the identity, the folders and some blocks.
const SMALL_DISK: &str = "size=2m";

#[test]
fn damaged_blocks_are_found_read_around_and_made_again() {
    let rig = Rig::up(8);
    let bytes = rig.file("f", 1_200_000, 1);
    rig.put("f", "coded");
    rig.put("f", "copied");
    rig.ok(&["archive", "coded", "--code", "rs-4+2"]);
    // One block of each stripe, each damaged in another way.
    let (coded, copied) = (rig.blocks("coded"), rig.blocks("copied"));
    let damaged = [&coded[0], &coded[4], &coded[8], &coded[12], &copied[3]];
    let files: Vec<PathBuf> = damaged.iter().map(|block| rig.block_file(block)).collect();
    truncate(&files[0]);
    flip(&files[1], 40_000);
    flip(&sidecar(&files[2]), 20);
    let end = fs::metadata(sidecar(&files[3])).unwrap().len() - 3;
    flip(&sidecar(&files[3]), end);
    flip(&files[4], 0);

    let scrubbed = rig.run(&["scrub"]);
    assert_eq!(scrubbed.status.code(), Some(1));
    assert!(one_sentence(&scrubbed.stderr).contains("blocks are unsound"), "{}", scrubbed.stderr);
    let report = String::from_utf8(scrubbed.stdout).unwrap();
    for block in damaged {
        assert!(report.contains(block["block"].as_str().unwrap()), "{block} is not in {report}");
    }
    assert!(rig.get("coded") == bytes && rig.get("copied") == bytes);

    // The coordinator hears of it with the next heartbeat and has each made again from the others.
    rig.until("every damaged block is made again", || {
        let tasks = rig.json(&["tasks", "list"]);
        let task = tasks.as_array().unwrap().iter().find(|task| task["name"] == "healer").unwrap();
        assert_eq!(task["errors"], 0, "{task}");
        task["done"] == damaged.len()
    });
    let copies = |name: &str| -> Vec<usize> {
        rig.blocks(name).iter().map(|block| block["living_nodes"].as_array().unwrap().len()).collect()
    };
    assert!(
        copies("coded").iter().all(|&copies| copies == 1)
            && copies("copied").iter().all(|&copies| copies == 3)
    );
    let read = rig.json(&["get", "coded", &rig.arg("copy")]);
    assert_eq!((&read["degraded_blocks"], &read["digest_checked"]), (&0.into(), &true.into()));
    assert!(rig.get("copied") == bytes);
}

#[test]
fn a_scrub_calls_nothing_sound_that_it_did_not_read() {
    let rig = Rig::up(3);
    rig.file("f", 300_000, 1);
    rig.put("f", "a");
    let fails = |arguments: &[&str]| {
        let scrubbed = rig.run(arguments);
        assert_eq!(scrubbed.status.code(), Some(1), "{arguments:?}");
        one_sentence(&scrubbed.stderr)
    };
    // A sidecar that a later version wrote.
    let meta = sidecar(&rig.block_file(&rig.blocks("a")[0]));
    flip(&meta, 8);
    let sentence = fails(&["scrub"]);
    assert!(sentence.contains("1 blocks or folders could not be read"), "{sentence}");
    flip(&meta, 8);
    assert!(rig.ok(&["scrub"]).contains("all sound"));

    rig.ok(&["tasks", "stop", "scrub", "--node", "2"]);
    rig.until("it is stopped", || {
        let tasks = rig.json(&["tasks", "list"]);
        let mut tasks = tasks.as_array().unwrap().iter();
        tasks.any(|t| t["name"] == "scrub" && t["node"] == 2 && t["state"] == "stopped")
    });
    let sentence = fails(&["scrub", "--node", "2"]);
    assert!(sentence.contains("task 'scrub' was stopped"), "{sentence}");
    // One node that fails keeps nobody from reading the others.
    let (id, on_node_3) =
        (rig.blocks("a")[1]["block"].as_str().unwrap().to_owned(), rig.home().join("node-3"));
    flip(&on_node_3.join(format!("data/blocks/{}/{id}.1", &id[..2])), 7);
    let scrubbed = rig.run(&["scrub"]);
    let (found, sentence) = (String::from_utf8(scrubbed.stdout).unwrap(), one_sentence(&scrubbed.stderr));
    assert!(found.contains(&format!("node-3: block {id}")), "{found}");
    assert!(sentence.contains("node-2: ") && sentence.contains("1 of "), "{sentence}");
    rig.ok(&["tasks", "resume", "scrub", "--node", "2"]);
    rig.until("it goes on", || rig.run(&["scrub", "--node", "2"]).status.success());
}

#[test]
fn health_says_what_is_so_and_ends_with_a_code_for_it() {
    let rig = Rig::up(3);
    rig.file("f", 300_000, 1);
    rig.put("f", "object");
    let health = || {
        let ran = rig.run(&["--json", "health"]);
        (ran.status.code(), serde_json::from_slice::<serde_json::Value>(&ran.stdout).unwrap())
    };
    let (code, whole) = health();
    assert_eq!(
        (code, &whole["whole"], &whole["short_blocks"]),
        (Some(0), &true.into(), &0.into()),
        "{whole}"
    );
    assert_eq!(whole["objects"], serde_json::json!([{"losses": 2, "count": 1}]));
    assert!(rig.ok(&["health"]).contains("everything has all of its copies"));
    let status = rig.json(&["cluster", "status"]);
    assert_eq!(status["objects_by_margin"], whole["objects"]);
    assert!(rig.ok(&["cluster", "status"]).contains("objects by further losses: 1 survive 2"));

    rig.lose(1);
    let (code, short) = health();
    assert_eq!((code, &short["whole"]), (Some(3), &false.into()), "{short}");
    assert_eq!(short["objects"], serde_json::json!([{"losses": 1, "count": 1}]));
    assert_eq!(short["waiting_for_nodes"], short["short_blocks"]);
    assert!(rig.ok(&["stat", "object"]).contains("2 of 3"), "copies that are there, and that it is to have");
    let told = rig.run(&["health"]);
    assert!(one_sentence(&told.stderr).contains("not all of their copies"), "{}", told.stderr);

    rig.lose(2);
    rig.lose(3);
    let (code, lost) = health();
    assert_eq!((code, &lost["unreadable_objects"]), (Some(4), &1.into()), "{lost}");
    assert_eq!(lost["unreadable_names"], serde_json::json!(["object"]));
}

#[test]
fn a_reader_that_meets_damage_first_still_gets_the_right_bytes() {
    let rig = Rig::up(8);
    let bytes = rig.file("f", 500_000, 2);
    rig.put("f", "coded");
    rig.put("f", "copied");
    rig.ok(&["archive", "coded", "--code", "rs-4+2"]);
    let (coded, copied) = (rig.blocks("coded"), rig.blocks("copied"));
    flip(&rig.block_file(&coded[0]), 65_535);
    truncate(&rig.block_file(&coded[5]));
    flip(&sidecar(&rig.block_file(&coded[1])), 100);
    copied.iter().for_each(|block| flip(&rig.block_file(block), 1000));
    assert!(rig.get("coded") == bytes);
    assert!(rig.get("copied") == bytes);
    let part = rig.run(&["get", "coded", "-", "--range", "65000-66000"]);
    assert!(part.status.success() && part.stdout == bytes[65_000..=66_000]);
}

#[test]
fn a_catalog_of_garbage_is_refused_and_left_as_it_is() {
    let rig = Rig::up(4);
    let bytes = rig.file("f", 300_000, 3);
    rig.put("f", "a");
    rig.ok(&["cluster", "down"]);
    let catalog = rig.home().join("coordinator/data/catalog.redb");
    let whole = fs::read(&catalog).unwrap();
    let mut damaged = whole.clone();
    damaged[..4096].copy_from_slice(&super::rig::content(4096, 4));
    for garbage in [super::rig::content(whole.len(), 5), damaged, super::rig::content(100, 6)] {
        fs::write(&catalog, &garbage).unwrap();
        let sentence = rig.error(&["cluster", "up"]);
        assert!(sentence.starts_with("coordinator did not start: the catalog "), "{sentence}");
        assert!(fs::read(&catalog).unwrap() == garbage);
    }
    assert!(rig.error(&["catalog", "recover", &rig.arg("f")]).contains("damaged"));
    fs::remove_file(&catalog).unwrap();
    rig.ok(&["cluster", "up"]);
    assert!(rig.get("a") == bytes);
}

#[test]
fn a_full_disk_is_written_around() {
    let Some(disk) = SmallDisk::mount() else { return };
    let rig = Rig::new();
    fs::create_dir_all(rig.home().join("node-1")).unwrap();
    symlink(disk.path(), rig.home().join("node-1/data")).unwrap();
    // The disk is smaller than what nodes keep free unasked.
    rig.ok(&["cluster", "up", "--nodes", "4", "--block-size", "64KiB", "--reserve", "0"]);
    // Whole blocks: a last one that is shorter may still fit.
    let bytes = rig.file("f", 8 << 16, 7);
    // Three quarters of it are meant for node 1, which has room for less than half of that.
    let names: Vec<String> = (0..8).map(|i| format!("a{i}")).collect();
    for name in &names {
        rig.put("f", name);
    }
    let intact = || names.iter().all(|name| rig.get(name) == bytes);
    assert!(intact());
    let elsewhere = rig.blocks("a7");
    assert!(elsewhere.iter().all(|b| b["nodes"] == serde_json::json!([2, 3, 4])), "{elsewhere:?}");

    let repair = ["repair", "block", "a7", "--index", "0", "--requestor", "1", "--discard"];
    let sentence = rig.error(&repair);
    assert!(sentence.contains("node-1"), "{sentence}");
    for node in ["2", "3"] {
        rig.ok(&["node", "stop", node]);
    }
    rig.until("two nodes are missed", || rig.living() == [1, 4]);
    let sentence = rig.error(&["put", &rig.arg("f"), "no-room"]);
    assert!(sentence.contains("node"), "{sentence}");
    for node in ["2", "3"] {
        rig.ok(&["node", "start", node]);
    }
    assert!(rig.error(&["stat", "no-room"]).contains("no object"));
    assert!(intact());
    assert!(rig.ok(&["scrub"]).contains("all sound"));
}

/// A file system of two mebibytes in memory. Dropping it unmounts it.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// `None`, with a notice, for who may not mount.
    fn mount() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", SMALL_DISK, "tmpfs"]).arg(folder.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk(folder)),
            refused => {
                eprintln!("NOTICE: no disk was filled, for none could be mounted (root may): {refused:?}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

fn sidecar(data: &Path) -> PathBuf {
    data.with_added_extension("meta")
}

fn truncate(file: &Path) {
    let length = fs::metadata(file).unwrap().len();
    fs::File::options().write(true).open(file).unwrap().set_len(length / 2).unwrap();
}

fn flip(file: &Path, at: u64) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at as usize] ^= 0x10;
    fs::write(file, bytes).unwrap();
}
