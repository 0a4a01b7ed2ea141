//! Objects that are coded as they are put, and buckets that say so.

use super::rig::Rig;
use std::fs;

/// Two stripes of rs-4+2 with blocks of 64 KiB, the second one short.
const FILE_BYTES: usize = 400_000;

#[test]
fn what_is_coded_as_it_is_put_outlives_as_much_as_what_is_archived() {
    let rig = Rig::up(8);
    let bytes = rig.file("f", FILE_BYTES, 1);
    let object = rig.json(&["put", &rig.arg("f"), "a", "--code", "rs-4+2"]);
    assert_eq!((&object["code"], &object["object_bytes"]), (&"rs-4+2".into(), &FILE_BYTES.into()));
    assert_eq!(object["digest"], blake3::hash(&bytes).to_hex().as_str());
    let blocks = rig.blocks("a");
    assert!(blocks.iter().all(|block| block["nodes"].as_array().unwrap().len() == 1));
    assert!(rig.ok(&["stat", "a"]).contains("rs-4+2"));
    assert!(rig.get("a") == bytes);
    for block in &blocks[..2] {
        rig.ok(&["node", "stop", &block["nodes"][0].to_string(), "--kill"]);
    }
    assert!(rig.get("a") == bytes);
    let lost = blocks[0]["nodes"][0].to_string();
    rig.until("both nodes are missed", || rig.living().len() == 6);
    rig.ok(&["repair", "node", &lost]);
    assert!(rig.get("a") == bytes);
    assert!(rig.ok(&["scrub"]).contains("all sound"));
}

#[test]
fn what_would_gain_nothing_or_has_no_room_is_refused() {
    let rig = Rig::up(8);
    let small = rig.file("small", 1_000, 1);
    let refused = rig.error(&["put", &rig.arg("small"), "small", "--code", "rs-2+4"]);
    assert!(refused.contains("--short"), "{refused}");
    assert!(rig.error(&["get", "small", "-"]).contains("no object"));
    rig.ok(&["put", &rig.arg("small"), "small", "--code", "rs-2+4", "--short"]);
    assert!(rig.get("small") == small);
    for (code, said) in [("rs-10+4", "14"), ("rs-4", "rs-4"), ("rep-3", "rep-3")] {
        let refused = rig.error(&["put", &rig.arg("small"), "b", "--code", code]);
        assert!(refused.contains(said), "{code}: {refused}");
    }
    let misused = rig.run(&["put", &rig.arg("small"), "b", "--policy", "ear"]);
    assert!(misused.status.code() == Some(2) && misused.stderr.contains("--code"), "{}", misused.stderr);
}

#[test]
fn a_bucket_says_how_its_objects_are_put_and_when_they_are_archived() {
    let rig = Rig::up(8);
    let bytes = rig.file("f", FILE_BYTES, 1);
    rig.ok(&["bucket", "set", "hot", "--code", "rs-4+2", "--on-write"]);
    rig.put("f", "hot/a");
    rig.put("f", "cold/a");
    assert_eq!(rig.json(&["ls", "hot/"])[0]["code"], "rs-4+2");
    assert_eq!(rig.json(&["ls", "cold/"])[0]["code"], "rep-3");
    assert!(rig.get("hot/a") == bytes);
    let aging = [
        "bucket",
        "set",
        "cold",
        "--policy",
        "random",
        "--code",
        "rs-3+3",
        "--rack-capacity",
        "3",
        "--archive-after",
    ];
    rig.ok(&[&aging[..], &["36h"]].concat());
    let listed = rig.json(&["bucket", "list"]);
    assert_eq!((&listed[0]["name"], &listed[0]["archive_after_s"]), (&"cold".into(), &129_600.into()));
    assert_eq!((&listed[1]["policy"], &listed[1]["archive_after_s"]), (&"on-write".into(), &0.into()));
    assert!(rig.ok(&["bucket", "list"]).contains("36h"));
    for (wrong, code) in [("0s", 1), ("soon", 2), ("1 week", 2)] {
        let refused = rig.run(&[&aging[..], &[wrong]].concat());
        assert_eq!(refused.status.code(), Some(code), "{wrong}");
        assert!(refused.stderr.contains("--archive-after"), "{wrong}: {}", refused.stderr);
    }
    assert!(rig.error(&["archive", "--prefix", "warm/"]).contains("no object's name begins with"));
    rig.ok(&["bucket", "unset", "hot"]);
    fs::write(rig.path("g"), b"later").unwrap();
    rig.put("g", "hot/b");
    assert_eq!(rig.json(&["ls", "hot/b"])[0]["code"], "rep-3");
}
