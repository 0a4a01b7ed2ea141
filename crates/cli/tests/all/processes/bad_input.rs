//! Requests that cannot be met: one clear sentence each, exit code 1, and nothing is changed.

use super::rig::{Rig, one_sentence};
use std::fs;

/// A cluster of eight with an object `a` (replicated) and an object `b` (archived); what is in both.
fn with_two_objects() -> (Rig, Vec<u8>) {
    let rig = Rig::up(8);
    let bytes = rig.file("f", 300_000, 1);
    rig.put("f", "a");
    rig.put("f", "b");
    rig.ok(&["archive", "b", "--code", "rs-4+2"]);
    (rig, bytes)
}

#[test]
fn what_cannot_be_done_is_said_in_a_sentence_and_changes_nothing() {
    let (rig, bytes) = with_two_objects();
    let listed = rig.json(&["ls"]);
    let (file, folder, no_folder) = (rig.arg("f"), rig.arg("."), rig.arg("none/such"));
    let long_name = "n".repeat(2000);
    let nothing = "0".repeat(32);
    for (arguments, says) in [
        (&["archive", "a", "--code", "sr-4+2"][..], "unknown code 'sr-4+2'"),
        (&["archive", "a", "--code", "rs-4+"], "such as rs-10+4"),
        (&["archive", "a", "--code", "rs-10+4"], "needs 14 nodes, 8 are alive"),
        (&["archive", "a", "--code", "rep-3"], "no code for archival"),
        (&["archive", "b", "--code", "rs-3+2"], "archived as rs-4+2 already"),
        (&["archive", "none", "--code", "rs-4+2"], "no object \"none\""),
        (&["archive", "a", "--code", "rs-4+2", "--slice", "5000"], "--slice"),
        (&["put", &no_folder, "c"], "cannot read"),
        (&["put", &folder, "c"], "is a folder"),
        (&["put", &file, ""], "a name of 0 bytes"),
        (&["put", &file, &long_name], "names have 1 to 1024"),
        (&["put", &file, "c", "--block-size", "0"], "at least 1"),
        (&["put", &file, "c", "--block-size", "5GiB"], "at most"),
        (&["put", &file, "c", "--block-size", "3"], "at least"),
        (&["put", &file, "c", "--replicas", "0"], "at least 1"),
        (&["put", &file, "c", "--replicas", "99"], "at most 16"),
        (&["get", "none", "-"], "no object \"none\""),
        (&["get", "a", &no_folder], "No such file or directory"),
        (&["get", "a", &folder], "Is a directory"),
        (&["get", "a", "-", "--range", "300000-"], "which has 300000 bytes"),
        (&["get", "a", "-", "--scheme", "magic"], "conventional, first-parity, pipeline"),
        (&["get", "a", "-", "--slice", "3KiB"], "--slice"),
        (&["stat", "none"], "no object \"none\""),
        (&["rm", "none"], "no object \"none\""),
        (&["repair", "node", "3"], "node-3 is alive"),
        (&["repair", "node", "77"], "no node 77"),
        (&["repair", "node", "0"], "numbered from 1"),
        (&["repair", "block", "b", "--index", "99"], "no block 99"),
        (&["repair", "block", &nothing], "no block 0"),
        (
            &["repair", "block", "b", "--index", "0", "--scheme", "magic"],
            "conventional, first-parity, pipeline",
        ),
        (&["repair", "block", "b", "--index", "0", "--discard", "--requestor", "77"], "no node 77"),
        (&["explain", "repair", "b", "--index", "99"], "no block 99"),
        (&["scrub", "--node", "77"], "node-77 is not living"),
        (&["tasks", "pause", "none"], "there are: archive-aged, audit"),
        (&["tasks", "pause", "scrub", "--node", "77"], "no node 77"),
        (&["node", "stop", "77"], "no node 77"),
        (&["node", "start", "77"], "no node 77"),
        (&["catalog", "backup", &no_folder], "cannot write"),
        (&["catalog", "recover", &file], "the coordinator runs"),
        (&["cluster", "up", "--nodes", "0"], "--nodes"),
        (&["cluster", "up", "--nodes", "5"], "has 8 nodes"),
        (&["cluster", "up", "--racks", "3"], "has 2 racks"),
        (&["cluster", "up", "--block-size", "1MiB"], "cluster down"),
    ] {
        let sentence = rig.error(arguments);
        assert!(sentence.contains(says), "{arguments:?}: {sentence}");
    }
    assert!(!rig.path("none").exists());
    assert_eq!(rig.json(&["ls"]), listed);
    assert!(rig.get("a") == bytes && rig.get("b") == bytes);
    let left = fs::read_dir(rig.path(".")).unwrap().count();
    assert_eq!(left, 2, "the cluster and the file, and nothing half-written");
}

#[test]
fn amounts_and_ranges_are_refused_before_anything_happens() {
    let rig = Rig::new();
    for (arguments, says) in [
        (&["get", "a", "-", "--range", "9-3"][..], "no range"),
        (&["get", "a", "-", "--range", "x"], "no range"),
        (&["put", "f", "a", "--block-size", "many"], "no size"),
        (&["put", "f", "a", "--block-size", "64mbit"], "no size"),
        (&["throttle", "400"], "no rate"),
        (&["throttle", "50MB"], "no rate"),
        (&["cluster", "up", "--throttle", "fast"], "no rate"),
        (&["cluster", "up", "--nodes", "many"], "--nodes"),
    ] {
        let ran = rig.run(arguments);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}");
        let first = ran.stderr.lines().next().unwrap();
        assert!(ran.stdout.is_empty() && first.starts_with("error: "), "{}", ran.stderr);
        assert!(first.contains(says), "{arguments:?}: {first}");
    }
    for arguments in [["--nodes", "0"], ["--nodes", "100000"], ["--racks", "0"], ["--block-size", "0"]] {
        rig.error(&[&["cluster", "up"][..], &arguments].concat());
        assert!(!rig.home().join("node-1").exists(), "{arguments:?}");
    }
}

#[test]
fn too_few_survivors_is_said_and_ends_when_they_are_back() {
    let (rig, bytes) = with_two_objects();
    let stripe = rig.blocks("b")[0]["stripe"].clone();
    let members = stripe["members"].as_array().unwrap();
    let lost: Vec<String> = members[..3].iter().map(|m| m["node"].to_string()).collect();
    lost.iter().for_each(|node| drop(rig.ok(&["node", "stop", node])));
    rig.until("three nodes are missed", || rig.living().len() == 5);

    for arguments in
        [&["repair", "block", "b", "--index", "0"][..], &["explain", "repair", "b", "--index", "0"]]
    {
        let sentence = rig.error(arguments);
        assert!(sentence.contains("cannot be recovered now: 3 of the 4"), "{sentence}");
    }
    let failed = rig.run(&["repair", "node", &lost[0]]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(one_sentence(&failed.stderr).contains("cannot be recovered now"), "{}", failed.stderr);
    let to_file = rig.error(&["get", "b", &rig.arg("copy")]);
    assert!(to_file.contains("cannot be recovered now"), "{to_file}");
    assert!(!rig.path("copy").exists(), "half an object has no name");
    let status = rig.json(&["cluster", "status"]);
    assert!(status["unrecoverable_blocks"].as_u64().unwrap() >= 3, "{status}");

    lost.iter().for_each(|node| drop(rig.ok(&["node", "start", node])));
    assert!(rig.get("a") == bytes && rig.get("b") == bytes);
    assert_eq!(rig.json(&["cluster", "status"])["missing_blocks"], 0);
}
