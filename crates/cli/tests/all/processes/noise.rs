//! Garbage at every port of every daemon: they drop it and go on.

use super::rig::{Rig, content};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What a stranger may send. None of it is a message.
fn noises() -> Vec<Vec<u8>> {
    let http2_preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut noises = vec![
        content(4096, 1),
        content(200_000, 2),
        b"GET / HTTP/1.1\r\nHost: stripeline\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        vec![0xff; 4096],
        vec![0; 4096],
        vec![b'a'],
    ];
    // HTTP/2 that begins well: a frame of 16 MiB, one of an unknown type, headers that are none.
    for frame in [
        &[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1][..],
        &[0, 0, 4, 0x77, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4],
        &[0, 0, 8, 1, 5, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ] {
        noises.push([http2_preface, &[0, 0, 0, 4, 0, 0, 0, 0, 0][..], frame].concat());
    }
    // A length field of every size and place that a parser might believe.
    for at in 0..40 {
        let mut noise = content(256, 3 + at);
        noise[at as usize..at as usize + 8].fill(0xff);
        noises.push(noise);
    }
    noises
}

#[test]
fn garbage_at_every_port_disturbs_nobody() {
    let rig = Rig::up(6);
    let bytes = rig.file("f", 500_000, 100);
    rig.put("f", "before");
    let nodes: Vec<String> = (1..=6).map(|node| format!("node-{node}")).collect();
    let mut ports = vec![rig.coordinator()];
    for node in &nodes {
        ports.extend(["control", "data"].map(|port| rig.address(node, port).unwrap()));
    }
    let processes: Vec<_> = nodes.iter().map(|node| rig.process(node)).collect();
    let coordinator = rig.process("coordinator");

    // These stay open while everything below happens: silent, or in the middle of a message.
    let mut open = Vec::new();
    for port in &ports {
        for begun in [&b""[..], &b"PRI * HTTP"[..], &content(10, 7)] {
            for _ in 0..5 {
                let mut connection = TcpStream::connect(port).unwrap();
                connection.write_all(begun).unwrap();
                open.push(connection);
            }
        }
    }
    for port in &ports {
        for noise in noises() {
            let mut connection = TcpStream::connect(port).unwrap();
            connection.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
            connection.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            // They may hang up at any byte.
            let _ = connection.write_all(&noise);
            let _ = connection.read(&mut [0; 256]);
        }
    }

    assert!(rig.get("before") == bytes);
    rig.put("f", "after");
    rig.ok(&["archive", "after", "--code", "rs-3+2"]);
    assert!(rig.get("after") == bytes);
    let block = ["repair", "block", "after", "--index", "0", "--discard"];
    assert!(rig.ok(&block).contains("rebuilt"));
    assert!(rig.ok(&["scrub"]).contains("all sound"));
    assert_eq!(rig.living().len(), 6);
    assert_eq!(nodes.iter().map(|node| rig.process(node)).collect::<Vec<_>>(), processes);
    assert!(coordinator.is_running() && processes.iter().all(|process| process.is_running()));
    drop(open);
}
