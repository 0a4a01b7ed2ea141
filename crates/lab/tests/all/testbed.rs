//! Testbeds on this machine's kernel: what is there while one is up, and what is left when it is down. Where the tests
//! do not run as root, or without iproute2, they say so and pass.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may give up

use lab::{LabError, LinkRate, LinkReport, Racks, Spec, Testbed};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Slow enough for a bucket to outlast timers that are late by 20 ms.
const RATE: LinkRate = LinkRate { bits_per_s: 20_000_000 };

/// Says to this very program, started again, which testbed to make.
const VICTIM: &str = "STRIPELINE_TEST_VICTIM";

/// Those of other runs of these tests are not in the way.
fn name(what: &str) -> String {
    format!("t{what}{}", std::process::id() % 1_000_000)
}

fn possible() -> bool {
    match Testbed::remove("tnone") {
        Err(error @ (LabError::NotRoot | LabError::MissingTool(_))) => {
            eprintln!("not tested: {error}");
            false
        }
        other => other.map(|_| true).unwrap(),
    }
}

/// Goes at the end of its test, however that ends.
struct Cleared<'a>(&'a str);

impl Drop for Cleared<'_> {
    fn drop(&mut self) {
        let _ = Testbed::remove(self.0);
    }
}

/// What the links carry, unless the machine does something else all the time: that is no fault of a link.
fn measured(testbed: &Testbed) -> Option<LinkReport> {
    match testbed.measure() {
        Err(error @ (LabError::Unsteady { .. } | LabError::ProcessorBound { .. })) => {
            eprintln!("not tested: {error}");
            None
        }
        other => Some(other.unwrap()),
    }
}

fn namespaces(name: &str) -> BTreeSet<String> {
    let output = Command::new("ip").args(["netns", "list"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|n| n.starts_with(&format!("sl-{name}-"))).map(str::to_owned).collect()
}

#[test]
fn links_carry_what_they_are_said_to_and_nothing_is_left() {
    if !possible() {
        return;
    }
    let spec = Spec::flat(&name("flat"), 4, RATE);
    let _cleared = Cleared(&spec.name);
    let mut testbed = Testbed::up(&spec).unwrap();
    assert_eq!(namespaces(&spec.name).len(), 5);
    if let Some(report) = measured(&testbed) {
        assert_eq!(report.links.len(), 4);
        let near = |link: &lab::MeasuredLink| {
            (0.95..1.05).contains(&(link.measured_mbit / link.expected_mbit().unwrap()))
        };
        assert!(report.links.iter().all(near), "{report:?}");
    }

    // One pair is slower than its ports, and only in its direction.
    testbed.limit_pairs(&[(0, 2, LinkRate::mbit(5.0))]).unwrap();
    testbed.set_host_rate(3, LinkRate::mbit(10.0)).unwrap();
    if let Some(report) = measured(&testbed) {
        let carried = |from: &str, to: &str| {
            let of_pair = |link: &&lab::MeasuredLink| link.from == from && link.to == to;
            report.links.iter().find(of_pair).unwrap().measured_mbit
        };
        assert!((4.5..5.1).contains(&carried("host 0", "host 2")), "{report:?}");
        assert!((9.0..10.1).contains(&carried("host 2", "host 3")), "{report:?}");
        assert!((18.1..20.1).contains(&carried("host 0", "host 1")), "{report:?}");
    }
    assert_eq!(testbed.rate_between(2, 0).unwrap(), RATE);

    // Up again is the same testbed, with the limits that were asked for.
    let again = Testbed::up(&spec).unwrap();
    assert_eq!(again.hosts(), testbed.hosts());
    assert_eq!(again.rate_between(0, 2).unwrap(), RATE);
    measured(&again);
    let other = Spec { hosts: 5, ..spec.clone() };
    assert!(matches!(Testbed::up(&other), Err(LabError::DifferentSpec { .. })));
    assert_eq!(Testbed::find(&spec.name).unwrap().spec(), &spec);

    // A process on a host does not keep it.
    let mut child = testbed.hosts()[1].command("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    testbed.down().unwrap();
    assert!(!child.wait().unwrap().success());
    assert_eq!(namespaces(&spec.name), BTreeSet::new());
    assert!(matches!(Testbed::find(&spec.name), Err(LabError::NotUp(_))));
    assert!(!Testbed::names().unwrap().contains(&spec.name));
}

#[test]
fn a_link_that_is_not_as_claimed_is_refused() {
    if !possible() {
        return;
    }
    let spec = Spec::flat(&name("bad"), 3, RATE);
    let _cleared = Cleared(&spec.name);
    let testbed = Testbed::up(&spec).unwrap();
    // Somebody changes a limit behind the testbed's back.
    let host = &testbed.hosts()[1];
    let tbf = "qdisc replace dev eth0 root tbf rate 10mbit burst 128kb limit 1mb";
    assert!(host.command("tc").args(tbf.split(' ')).status().unwrap().success());
    let refusal = testbed.measure().unwrap_err();
    testbed.down().unwrap();
    match refusal {
        LabError::LinkDeviates(link) | LabError::ProcessorBound { link, .. } => {
            assert!(link.from == "host 1" && link.measured_mbit < 15.0, "{link:?}");
        }
        LabError::Unsteady { .. } => eprintln!("refused, but not told why: {refusal}"),
        other => panic!("{other}"),
    }
}

#[test]
fn racks_share_their_links_to_the_core() {
    if !possible() {
        return;
    }
    let racks = Some(Racks { count: 2, core_rate: LinkRate::mbit(10.0) });
    let spec = Spec { racks, ..Spec::flat(&name("rack"), 5, RATE) };
    let _cleared = Cleared(&spec.name);
    let testbed = Testbed::up(&spec).unwrap();
    let racks: Vec<usize> = testbed.hosts().iter().map(|host| host.rack).collect();
    assert_eq!(racks, [0, 1, 0, 1, 0]);
    if let Some(report) = measured(&testbed) {
        let core: Vec<_> = report.links.iter().filter(|link| link.from.starts_with("rack")).collect();
        assert_eq!(core.len(), 2);
        assert!(core.iter().all(|link| link.claimed == LinkRate::mbit(10.0)));
    }
    testbed.down().unwrap();
}

#[test]
fn hosts_reach_each_other_and_nobody_else() {
    if !possible() {
        return;
    }
    let spec = Spec::flat(&name("talk"), 2, LinkRate::UNLIMITED);
    let _cleared = Cleared(&spec.name);
    let testbed = Testbed::up(&spec).unwrap();
    let [a, b] = testbed.hosts() else { panic!("two hosts") };
    let listener = b.inside(|| TcpListener::bind((b.addr, 0))).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let mut sender = a.inside(|| std::net::TcpStream::connect(address)).unwrap().unwrap();
    let (mut receiver, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), a.addr);
    sender.write_all(b"block").unwrap();
    drop(sender);
    let mut got = String::new();
    receiver.read_to_string(&mut got).unwrap();
    assert_eq!(got, "block");

    let outside = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(300));
    assert!(outside.is_err(), "the machine itself reaches a host");
    let text = a.command("cat").arg("/proc/sys/net/ipv4/tcp_congestion_control").output().unwrap().stdout;
    assert_eq!(String::from_utf8(text).unwrap().trim(), "cubic");
    testbed.down().unwrap();
}

#[test]
fn what_a_killed_up_left_is_cleared_away() {
    if let Ok(name) = std::env::var(VICTIM) {
        // More hosts than can be made before the other process strikes.
        let _ = Testbed::up(&Spec::flat(&name, 60, LinkRate::mbit(10.0)));
        return;
    }
    if !possible() {
        return;
    }
    let name = name("kill");
    let _cleared = Cleared(&name);
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "testbed::what_a_killed_up_left_is_cleared_away"])
        .env(VICTIM, &name)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while namespaces(&name).len() < 10 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(!namespaces(&name).is_empty());
    assert!(matches!(Testbed::find(&name), Err(LabError::NotUp(_))), "half a testbed is none");

    let testbed = Testbed::up(&Spec::flat(&name, 3, LinkRate::mbit(10.0))).unwrap();
    assert_eq!(namespaces(&name).len(), 4);
    measured(&testbed);
    testbed.down().unwrap();
    assert_eq!(namespaces(&name), BTreeSet::new());
}
