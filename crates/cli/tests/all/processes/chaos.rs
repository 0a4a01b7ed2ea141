//! Eighteen schedules of work and faults over processes of this build; docs/chaos.md says what they do and how they replay.
//!
//! They are split into four tests, so that each ends well within the time limit of a test, and a failure names few seeds.

use chaos::plan::{Fault, Step, Work, codes};
use chaos::violation::Kind;
use chaos::{Plan, Settings, Summary};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Seeds of one test.
const SEEDS: u64 = 5;

/// Schedules at once: each is half asleep.
const PARALLEL: usize = 2;

fn part(number: u64) {
    chaos::sweep().unwrap();
    let settings = Settings::new(env!("CARGO_BIN_EXE_stripeline"));
    let (first, last) = (number * SEEDS + 1, (number + 1) * SEEDS);
    let (next, summary) = (AtomicU64::new(first), Mutex::new(Summary::default()));
    let run = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > last {
                return;
            }
            match chaos::run(&Plan::of(seed), &settings) {
                Ok(report) => {
                    if report.failures().next().is_some() {
                        eprintln!("{}", report.story.join("\n"));
                    }
                    eprintln!("{report}");
                    summary.lock().unwrap().add(&report);
                }
                Err(error) => summary.lock().unwrap().add_broken(seed, &error),
            }
        }
    };
    std::thread::scope(|scope| (0..PARALLEL).for_each(|_| _ = scope.spawn(run)));
    let summary = summary.into_inner().unwrap();
    eprintln!("{summary}");
    assert!(summary.is_good(), "`make chaos SEEDS=N` replays a seed\n{summary}");
}

/// Nothing is proved by a harness that finds nothing: here every copy is removed behind the cluster's back.
#[test]
fn what_is_lost_is_found() {
    let mut plan = Plan::of(1).without_faults();
    plan.ends_ms = 600;
    let put = Work::Put {
        object: 0,
        content: 1,
        bytes: 200_000,
        killed_after_ms: None,
        coded: false,
        code: None,
        policy: None,
    };
    plan.clients = vec![vec![Step { at_ms: 0, does: put }]];
    let settings =
        Settings { quiet: Duration::from_secs(3), ..Settings::new(env!("CARGO_BIN_EXE_stripeline")) };
    let kinds = |plan: &Plan| {
        let report = chaos::run(plan, &settings).unwrap();
        BTreeSet::from_iter(report.failures().map(|violation| violation.kind))
    };
    assert_eq!(kinds(&plan), BTreeSet::new());
    plan.faults = vec![Step { at_ms: 1_000, does: Fault::Vandalize }];
    let found = kinds(&plan);
    assert!(found.contains(&Kind::Lost), "{found:?}");
}

/// A wrong margin would let the harness destroy the last copy of something; a family that is never drawn would never be tested.
#[test]
fn the_codes_that_are_drawn_are_those_that_there_are() {
    let ask = |arguments: &[&str]| -> Value {
        let mut program = Command::new(env!("CARGO_BIN_EXE_stripeline"));
        let ran = program.args(["--json", "codes"]).args(arguments).output().unwrap();
        serde_json::from_slice(&ran.stdout).unwrap()
    };
    for code in codes::all() {
        let said = ask(&["inspect", code.name]);
        let number = |key: &str| said[key].as_u64().unwrap();
        let stored = number("n") - number("virtuals");
        let known = (u64::from(code.stored), u64::from(code.tolerance), code.is_virtual);
        assert_eq!((stored, number("tolerance"), number("virtuals") > 0), known, "{}", code.name);
    }
    let listed = ask(&["list"]);
    let patterns = listed.as_array().unwrap().iter().map(|family| family["pattern"].as_str().unwrap());
    let prefixes: BTreeSet<&str> = patterns
        .map(|pattern| pattern.split(|letter: char| letter.is_ascii_uppercase()).next().unwrap())
        .collect();
    let drawn = codes::FAMILIES.iter().map(|(prefix, _)| *prefix);
    let left_out = codes::LEFT_OUT.iter().map(|(prefix, _)| *prefix);
    assert_eq!(prefixes, drawn.chain(left_out).collect());
}

#[test]
fn seeds_1_to_5_lose_nothing_and_leave_nothing() {
    part(0);
}

#[test]
fn seeds_6_to_10_lose_nothing_and_leave_nothing() {
    part(1);
}

#[test]
fn seeds_11_to_15_lose_nothing_and_leave_nothing() {
    part(2);
}
