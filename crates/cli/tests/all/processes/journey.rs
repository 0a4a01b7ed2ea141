//! What a user does, from the first `cluster up` to the last `cluster down`.

use super::rig::{Rig, content};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::process::Stdio;

/// Five stripes of rs-4+2 with blocks of 64 KiB, the last one not full.
const FILE_BYTES: usize = 1_234_567;

/// A cluster with an archived object `a`; what is in it.
fn with_archive() -> (Rig, Vec<u8>) {
    let rig = Rig::up(8);
    let bytes = rig.file("f", FILE_BYTES, 1);
    rig.put("f", "a");
    rig.ok(&["archive", "a", "--code", "rs-4+2"]);
    (rig, bytes)
}

#[test]
fn what_is_put_comes_back_whole_and_in_parts() {
    let rig = Rig::up(4);
    let bytes = rig.file("f", FILE_BYTES, 1);
    let object = rig.json(&["put", &rig.arg("f"), "docs/a"]);
    assert_eq!(object["object_bytes"], FILE_BYTES);
    assert_eq!(object["digest"], blake3::hash(&bytes).to_hex().as_str());
    assert!(rig.get("docs/a") == bytes);
    let report = rig.json(&["get", "docs/a", &rig.arg("copy")]);
    assert_eq!((&report["bytes"], &report["digest_checked"]), (&FILE_BYTES.into(), &true.into()));
    assert_eq!(report["degraded_blocks"], 0);
    assert!(fs::read(rig.path("copy")).unwrap() == bytes);

    for (range, wanted) in [
        ("0-0", 0..1),
        ("65535-65536", 65_535..65_537),
        ("100000-400000", 100_000..400_001),
        ("1234566-", 1_234_566..FILE_BYTES),
        ("-70000", FILE_BYTES - 70_000..FILE_BYTES),
        ("1000000-9999999", 1_000_000..FILE_BYTES),
    ] {
        let part = rig.run(&["get", "docs/a", "-", "--range", range]);
        assert!(part.status.success() && part.stdout == bytes[wanted], "{range}");
    }

    let listed = rig.json(&["ls", "docs/"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!((&listed[0]["name"], &listed[0]["code"]), (&"docs/a".into(), &"rep-3".into()));
    assert_eq!(rig.json(&["ls", "other"]), Value::Array(Vec::new()));
    assert!(rig.ok(&["ls"]).contains("docs/a"));
    let blocks = rig.blocks("docs/a");
    assert_eq!(blocks.len(), FILE_BYTES.div_ceil(65_536));
    assert!(blocks.iter().all(|b| b["nodes"].as_array().unwrap().len() == 3 && b["stripe"].is_null()));
    assert!(rig.ok(&["stat", "docs/a"]).contains("1234567 bytes"));

    // Again under the same name, shorter; then not at all.
    let second = rig.file("g", 17, 2);
    rig.put("g", "docs/a");
    assert!(rig.get("docs/a") == second);
    rig.ok(&["rm", "docs/a"]);
    assert!(rig.error(&["get", "docs/a", "-"]).contains("no object"));
}

#[test]
fn pipes_work_and_may_be_closed() {
    let rig = Rig::up(3);
    let bytes = content(300_000, 3);
    for (name, bytes) in [("piped", bytes.clone()), ("empty", Vec::new())] {
        let put = rig.run_with(&["put", "-", name], bytes.clone());
        assert!(put.status.success(), "{}", put.stderr);
        assert!(rig.get(name) == bytes);
    }
    // As `get piped | head -c 10` does.
    let mut get = rig.command(&["get", "piped", "-"]);
    let mut child = get.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut head = [0; 10];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut head).unwrap();
    drop(stdout);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(head, bytes[..10]);
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn an_archived_object_outlives_its_nodes() {
    let (rig, bytes) = with_archive();
    let blocks = rig.blocks("a");
    assert!(
        blocks.iter().all(|b| b["stripe"]["code"] == "rs-4+2" && b["nodes"].as_array().unwrap().len() == 1)
    );
    assert_eq!(rig.json(&["ls"])[0]["code"], "rs-4+2");
    let again = rig.json_lines(&["archive", "a", "--code", "rs-4+2"]);
    assert_eq!(again.last().unwrap()["state"], "done");

    // Two nodes go, the second without a word; the reader finds out by itself.
    let (first, second) = (blocks[0]["nodes"][0].as_u64().unwrap(), blocks[1]["nodes"][0].as_u64().unwrap());
    rig.ok(&["node", "stop", &first.to_string()]);
    rig.ok(&["node", "stop", &second.to_string(), "--kill"]);
    assert!(rig.get("a") == bytes);
    let report = rig.json(&["get", "a", &rig.arg("copy"), "--scheme", "pipeline"]);
    assert!(report["degraded_blocks"].as_u64().unwrap() >= 2, "{report}");
    let part = rig.run(&["get", "a", "-", "--range", "1000-80000", "--scheme", "conventional"]);
    assert!(part.stdout == bytes[1000..=80_000]);
    rig.until("both nodes are missed", || rig.living().len() == 6);
    assert!(rig.ok(&["cluster", "status"]).contains("have no living copy"));

    explain_and_repair_one(&rig);
    assert!(rig.ok(&["repair", "node", &first.to_string(), "-v"]).contains("rebuilt"));
    let events = rig.json_lines(&["repair", "node", &second.to_string(), "--parallel", "2"]);
    assert_eq!(events.last().unwrap()["state"], "done");
    let report = rig.json(&["get", "a", &rig.arg("copy")]);
    assert_eq!(report["degraded_blocks"], 0);
    assert!(fs::read(rig.path("copy")).unwrap() == bytes);

    // They come back, with copies that nobody needs any more.
    rig.ok(&["node", "start", &first.to_string()]);
    rig.ok(&["node", "start", &second.to_string()]);
    assert!(rig.get("a") == bytes);
    assert!(rig.ok(&["scrub"]).contains("all sound"));
}

#[test]
fn several_lost_blocks_of_a_stripe_come_back_in_one_pass() {
    let (rig, bytes) = with_archive();
    let blocks = rig.blocks("a");
    let lost = [&blocks[0], &blocks[1]].map(|block| block["nodes"][0].as_u64().unwrap().to_string());
    rig.ok(&["node", "stop", &lost[0]]);
    rig.ok(&["node", "stop", &lost[1]]);
    rig.until("both nodes are missed", || rig.living().len() == 6);

    let helper = blocks[2]["nodes"][0].as_u64().unwrap();
    let table = format!(
        r#"{{"nodes": [{}, {}, {helper}], "up": [100, 200.5, null], "disk": [null, null, 800.5]}}"#,
        lost[0], lost[1]
    );
    let set = rig.run_with(&["links", "set", "-"], table.into_bytes());
    assert!(set.status.success(), "{}", set.stderr);
    let shown = rig.ok(&["links", "show"]);
    assert!(shown.contains("200.5") && shown.contains("800.5"), "{shown}");
    assert!(rig.ok(&["explain", "repair", "a", "--index", "0"]).contains("the disks decide"));
    for list in ["up", "disk"] {
        fs::write(rig.path("bad"), format!(r#"{{"{list}": [1, -1]}}"#)).unwrap();
        assert!(rig.error(&["links", "set", &rig.arg("bad")]).contains("node 2"));
    }
    assert!(rig.ok(&["links", "clear"]).contains("no link is limited"));

    let refused = rig.error(&["repair", "stripe", "a", "--index", "0", "--scheme", "ppr"]);
    assert!(refused.contains("pipeline"), "{refused}");
    let events = rig.json_lines(&["repair", "stripe", "a", "--index", "0", "--scheme", "pipeline"]);
    let flow = events.iter().find(|event| event["scheme"] == "pipeline").unwrap();
    // Three hops of two blocks of 64 KiB, and one of each to its node.
    let moved: u64 =
        flow["links"].as_array().unwrap().iter().map(|link| link["bytes"].as_u64().unwrap()).sum();
    assert_eq!(moved, 8 * 65_536);
    assert!(rig.ok(&["repair", "object", "a", "-v"]).contains("whole again"));
    let report = rig.json(&["get", "a", &rig.arg("copy")]);
    assert_eq!(report["degraded_blocks"], 0);
    assert!(fs::read(rig.path("copy")).unwrap() == bytes);

    let audit = rig.json(&["audit"]);
    let first = &audit[0];
    assert_eq!((&first["scheme"], &first["moved_bytes"]), (&"pipeline".into(), &moved.into()));
    assert!(audit.as_array().unwrap().iter().all(|entry| entry["differing"].as_array().unwrap().is_empty()));
    assert!(rig.ok(&["audit", "--last", "1"]).contains("as predicted"));
}

/// Block 0 of `a` is lost: what a repair would do, rehearsals of it, and the repair.
fn explain_and_repair_one(rig: &Rig) {
    let text = rig.ok(&["explain", "repair", "a", "--index", "0"]);
    assert!(text.contains("== conventional") && text.contains("== pipeline"), "{text}");
    let dot = rig.ok(&["explain", "repair", "a", "--index", "0", "--scheme", "pipeline", "--dot"]);
    assert!(dot.starts_with("digraph") && dot.trim_end().ends_with('}'), "{dot}");
    let explained = rig.json(&["explain", "repair", "a", "--index", "0"]);
    let plan = |scheme: &str| {
        let plans = explained["plans"].as_array().unwrap();
        plans.iter().find(|plan| plan["scheme"] == scheme).unwrap().clone()
    };
    assert_eq!(plan("conventional")["timeslots"], 4.0);
    assert_eq!(plan("pipeline")["network_bytes"], 4 * 65_536);

    for scheme in ["conventional", "pipeline"] {
        let rehearsal = ["repair", "block", "a", "--index", "0", "--scheme", scheme, "--discard"];
        let events = rig.json_lines(&rehearsal);
        let flow = events.iter().find(|event| event["scheme"] == scheme).unwrap();
        let links = flow["links"].as_array().unwrap();
        assert_eq!(links.iter().map(|l| l["bytes"].as_u64().unwrap()).sum::<u64>(), 4 * 65_536);
        assert_eq!(
            rig.blocks("a")[0]["living_nodes"],
            Value::Array(Vec::new()),
            "a rehearsal changes nothing"
        );
    }
    let block = rig.blocks("a")[0]["block"].as_str().unwrap().to_owned();
    let repaired = rig.ok(&["repair", "block", &block, "--scheme", "pipeline", "--verbose"]);
    assert!(repaired.contains(&format!("block {block} rebuilt")) && repaired.contains("FROM"), "{repaired}");
    assert_eq!(rig.blocks("a")[0]["living_nodes"].as_array().unwrap().len(), 1);
    assert!(rig.ok(&["repair", "block", &block]).contains("not missing"));
    let conventional = ["repair", "block", "a", "--index", "1", "--scheme", "conventional"];
    assert!(rig.ok(&conventional).contains("conventional"));
}

#[test]
fn tasks_and_limits_are_the_operators() {
    let rig = Rig::up(3);
    let state = |name: &str, node: u64| {
        let tasks = rig.json(&["tasks", "list"]);
        let mut tasks = tasks.as_array().unwrap().iter();
        tasks.find(|t| t["name"] == name && t["node"] == node).unwrap()["state"].as_str().unwrap().to_owned()
    };
    for (arguments, node) in [(&["gc"][..], 0), (&["scrub", "--node", "2"], 2)] {
        assert_ne!(state(arguments[0], node), "paused");
        rig.ok(&[&["tasks", "pause"], arguments].concat());
        rig.until("the task is paused", || state(arguments[0], node) == "paused");
        assert!(rig.ok(&["tasks", "list"]).contains("paused"));
        rig.ok(&[&["tasks", "resume"], arguments].concat());
        rig.until("the task goes on", || state(arguments[0], node) != "paused");
    }

    let limits = || {
        let status = rig.json(&["cluster", "status"]);
        let nodes = status["nodes"].as_array().unwrap().iter();
        nodes.map(|n| n["egress_bytes_per_s"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    rig.ok(&["throttle", "80mbit"]);
    rig.until("every node has heard of it", || limits() == [10_000_000; 3]);
    let bytes = rig.file("f", 500_000, 4);
    rig.put("f", "a");
    assert!(rig.get("a") == bytes);
    rig.ok(&["throttle", "none"]);
    rig.until("every node has heard of it", || limits() == [0; 3]);
}

#[test]
fn the_catalog_is_backed_up_and_recovered() {
    let (rig, bytes) = with_archive();
    let replicated = rig.file("g", 100_000, 5);
    rig.put("g", "g");
    let backup = rig.arg("backup");
    assert!(rig.json(&["catalog", "backup", &backup])["bytes"].as_u64().unwrap() > 0);
    assert_eq!(rig.run(&["catalog", "backup", "-"]).stdout, fs::read(&backup).unwrap());

    let catalog = rig.home().join("coordinator/data/catalog.redb");
    rig.ok(&["cluster", "down"]);
    fs::remove_file(&catalog).unwrap();
    rig.ok(&["catalog", "recover", &backup]);
    assert!(rig.error(&["catalog", "recover", &backup]).contains("there is a catalog already"));
    rig.ok(&["cluster", "up"]);
    assert!(rig.get("a") == bytes && rig.get("g") == replicated);

    // Without a backup nodes keep it.
    rig.ok(&["cluster", "down"]);
    fs::remove_file(&catalog).unwrap();
    rig.ok(&["cluster", "up"]);
    assert!(rig.get("a") == bytes && rig.get("g") == replicated);

    // And if they do not, what they have says enough.
    rig.ok(&["cluster", "down"]);
    fs::remove_file(&catalog).unwrap();
    for node in 1..=8 {
        let _ = fs::remove_dir_all(rig.home().join(format!("node-{node}/data/records")));
    }
    rig.ok(&["cluster", "up"]);
    assert_eq!(rig.json(&["ls"]), Value::Array(Vec::new()));
    let found = rig.json(&["catalog", "recover"]);
    assert_eq!((&found["objects"], &found["incomplete"]), (&2.into(), &Value::Array(Vec::new())), "{found}");
    assert_ne!(found["safe_mode"], "", "{found}");
    rig.ok(&["catalog", "end-safe-mode"]);
    assert!(rig.get("a") == bytes && rig.get("g") == replicated);
    assert_eq!(rig.json(&["ls", "a"])[0]["code"], "rs-4+2");

    // And it is a catalog like any other: nodes may be lost, objects may change.
    rig.lose(rig.blocks("a")[0]["nodes"][0].as_u64().unwrap());
    assert!(rig.get("a") == bytes && rig.get("g") == replicated);
    rig.put("f", "g");
    assert!(rig.get("g") == bytes);
}

#[test]
fn a_cluster_that_was_down_comes_up_as_it_was() {
    let (rig, bytes) = with_archive();
    let before = (rig.json(&["cluster", "status"])["cluster"].clone(), rig.coordinator());
    assert_eq!(rig.json(&["cluster", "up"])["started"], 0);
    assert_eq!(rig.json(&["cluster", "down"])["stopped"], 9);
    assert!(rig.error(&["get", "a", "-"]).contains("cluster up"));
    assert_eq!(rig.json(&["cluster", "down"])["stopped"], 0);
    assert_eq!(rig.json(&["cluster", "up"])["started"], 9);
    assert_eq!((rig.json(&["cluster", "status"])["cluster"].clone(), rig.coordinator()), before);
    assert!(rig.get("a") == bytes);

    // What was killed is started again, and nothing else.
    for daemon in ["coordinator", "node-3"] {
        let survivor = rig.process("node-1");
        rig.process(daemon).kill();
        assert_eq!(rig.json(&["cluster", "up"])["started"], 1);
        assert_eq!(rig.process("node-1"), survivor);
        assert!(survivor.is_running());
        assert!(rig.get("a") == bytes);
    }
    // It can grow.
    assert_eq!(rig.json(&["cluster", "up", "--nodes", "9"])["started"], 1);
    assert_eq!(rig.living().len(), 9);
}
