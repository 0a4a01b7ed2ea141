//! Clients wait a bounded time for a coordinator that is away, and say so. Reads go around a node that stands still.

use super::rig::Rig;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const KILLS: u32 = 5;

#[test]
fn commands_wait_for_a_coordinator_that_is_killed_again_and_again() {
    let rig = Rig::up(4);
    let bytes = rig.file("f", 200_000, 1);
    let is_over = AtomicBool::new(false);
    let put_all = |writer: u32| {
        let mut names = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let name = format!("{writer}/{}", names.len());
            rig.put("f", &name);
            names.push(name);
        }
        names
    };
    let names: Vec<String> = scope(|scope| {
        let writers = [0, 1].map(|writer| scope.spawn(move || put_all(writer)));
        for _ in 0..KILLS {
            sleep(Duration::from_millis(700));
            rig.process("coordinator").kill();
            sleep(Duration::from_millis(300));
            rig.ok(&["cluster", "up"]);
        }
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert!(names.len() >= 2);
    for name in names {
        assert!(rig.get(&name) == bytes, "{name}");
    }

    rig.process("coordinator").kill();
    let told = rig.run(&["--wait", "1", "ls"]);
    assert_eq!(told.status.code(), Some(1));
    assert!(told.stderr.contains("waiting up to 1 s (--wait) for the coordinator"), "{}", told.stderr);
    assert!(told.stderr.contains("no coordinator answers at"), "{}", told.stderr);
    let at_once = rig.error(&["--wait", "0", "ls"]);
    assert!(at_once.contains("no coordinator answers at"), "{at_once}");
    scope(|scope| {
        let listed = scope.spawn(|| rig.ok(&["ls"]));
        sleep(Duration::from_millis(500));
        rig.ok(&["cluster", "up"]);
        assert!(listed.join().unwrap().contains("0/0"));
    });
}

/// A node that is stopped keeps its connections, and its lease is ten seconds long.
#[test]
fn a_read_does_not_wait_for_the_lease_of_a_node_that_stands_still() {
    let rig = Rig::up(4);
    let bytes = rig.file("f", 6 << 20, 1);
    rig.ok(&["put", &rig.arg("f"), "f", "--block-size", "8MiB"]);
    for node in 1..=4 {
        let process = rig.process(&format!("node-{node}"));
        process.stop();
        let began = Instant::now();
        let read = rig.get("f");
        let took = began.elapsed();
        process.go_on();
        assert!(read == bytes);
        assert!(took < Duration::from_secs(6), "node-{node} stands still: {took:?}");
        rig.until("it lives again", || rig.living() == [1, 2, 3, 4]);
    }
}
