//! All copies of a block are damaged, each in another place. Their sound chunks make up the block.

use super::rig::{Rig, one_sentence};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const CHUNK: usize = 32 * 1024;

/// Starts a cluster with blocks of eight chunks.
fn up(nodes: u32) -> Rig {
    let rig = Rig::new();
    rig.ok(&["cluster", "up", "--nodes", &nodes.to_string(), "--block-size", "256KiB"]);
    rig
}

/// Returns the data files of a block's copies.
fn files(rig: &Rig, block: &Value) -> Vec<PathBuf> {
    let id = block["block"].as_str().unwrap();
    let file = |node: &Value| {
        let folder = rig.home().join(format!("node-{node}/data/blocks/{}", &id[..2]));
        let mut found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let is_it = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with(id) && !name.ends_with(".meta")
        };
        found.find(is_it).expect("a copy of the block")
    };
    block["nodes"].as_array().unwrap().iter().map(file).collect()
}

fn flip(file: &PathBuf, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

fn scrub(rig: &Rig) {
    rig.run(&["scrub"]);
}

/// Waits until each of these blocks has all of its copies and is on a node where it was not before. Damaged copies are deleted later.
fn are_made_again(rig: &Rig, name: &str, damaged: &[Value]) {
    let nodes = |block: &Value| block["nodes"].as_array().unwrap().clone();
    rig.until("all copies are made again", || {
        let now = rig.blocks(name);
        let is_new = |before: &Value| {
            let after = now.iter().find(|block| block["block"] == before["block"]).map(nodes);
            let after = after.expect("the block is there");
            // A copy that was replaced before another one was known to be damaged leaves its node free for that one.
            after.len() == nodes(before).len() && after.iter().any(|node| !nodes(before).contains(node))
        };
        damaged.iter().all(is_new) && rig.run(&["health"]).status.success()
    });
}

#[test]
fn replicas_that_are_each_damaged_in_another_chunk_are_read_and_made_again() {
    let rig = up(7);
    let bytes = rig.file("f", 8 * CHUNK, 1);
    rig.put("f", "a");
    let blocks = rig.blocks("a");
    for (file, chunk) in files(&rig, &blocks[0]).iter().zip([1, 3, 5]) {
        flip(file, chunk * CHUNK + 77);
    }
    assert!(rig.get("a") == bytes, "before anybody knows");
    scrub(&rig);
    assert!(rig.get("a") == bytes, "when all are known to be damaged");
    are_made_again(&rig, "a", &blocks[..1]);
    assert!(rig.get("a") == bytes);
}

#[test]
fn damaged_heads_of_sidecars_make_nothing_unreadable() {
    let rig = up(5);
    let bytes = rig.file("f", 8 * CHUNK, 2);
    for (name, at) in [("version", [9; 3]), ("mixed", [9, 20, 3])] {
        rig.put("f", name);
        for (file, at) in files(&rig, &rig.blocks(name)[0]).iter().zip(at) {
            flip(&file.with_added_extension("meta"), at);
        }
        assert!(rig.get(name) == bytes, "{name}");
    }
    scrub(&rig);
    for name in ["version", "mixed"] {
        assert!(rig.get(name) == bytes, "{name}, scrubbed");
    }
}

#[test]
fn a_stripe_with_too_many_damaged_members_is_decoded_chunk_by_chunk() {
    let rig = up(10);
    let bytes = rig.file("f", 4 * 8 * CHUNK, 3);
    rig.ok(&["put", &rig.arg("f"), "a", "--code", "rs-4+2"]);
    let blocks = rig.blocks("a");
    for (block, chunk) in blocks.iter().take(3).zip([1, 3, 6]) {
        flip(&files(&rig, block)[0], chunk * CHUNK + 5);
    }
    assert!(rig.get("a") == bytes, "before anybody knows");
    scrub(&rig);
    assert!(rig.get("a") == bytes, "when all are known to be damaged");
    are_made_again(&rig, "a", &blocks[..3]);
    assert!(rig.get("a") == bytes);
}

#[test]
fn what_no_copy_has_is_refused_and_never_made_up() {
    let rig = up(5);
    rig.file("f", 8 * CHUNK, 4);
    rig.put("f", "a");
    let block = &rig.blocks("a")[0];
    for file in files(&rig, block) {
        flip(&file, 4 * CHUNK + 9);
    }
    for _ in 0..2 {
        let ran = rig.run(&["get", "a", &rig.arg("out")]);
        assert_eq!(ran.status.code(), Some(1), "{}", ran.stderr);
        let sentence = one_sentence(&ran.stderr);
        assert!(sentence.contains("corrupt"), "{sentence}");
        assert!(!rig.path("out").exists());
        scrub(&rig);
    }
}
