//! The house rules that a compiler does not check: what is absent from the pure crates, which way dependencies point, and
//! what may only become less.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod circles;
mod planted;
mod rules;
mod sources;

use rules::{CLOCKS, PROTOCOL, SOCKETS};
use std::collections::BTreeSet;
use std::fs;

/// Files that name generated messages, by crate, but for the codec. Whoever brings one below its ceiling lowers it.
const PROTOCOL_FILES: &[(&str, usize)] = &[
    ("wire", 0),
    ("worker", 1),
    ("exec", 18),
    ("node", 5),
    ("coordinator", 12),
    ("client", 7),
    ("cli", 8),
    ("lab", 4),
];

/// Files that read a clock or wait for one.
const CLOCK_FILES: &[(&str, usize)] = &[
    ("disk", 1),
    ("wire", 2),
    ("exec", 9),
    ("worker", 1),
    ("node", 3),
    ("coordinator", 13),
    ("client", 4),
    ("gateway", 1),
    ("cli", 8),
    ("lab", 12),
    ("chaos", 6),
];

/// Files that hold sockets.
const SOCKET_FILES: &[(&str, usize)] =
    &[("exec", 4), ("node", 1), ("gateway", 1), ("cli", 2), ("lab", 2), ("chaos", 1)];

/// The circles of modules that are left. None may be added, and one that is gone is struck from the list.
const CIRCLES: &[&str] =
    &["exec: ends engine", "flow: graph runs", "gf: field tower", "lab: error scratch testbed"];

#[test]
fn every_crate_has_a_layer_and_dependencies_point_downwards() {
    none(rules::layers(&sources::manifests()));
}

#[test]
fn pure_crates_stay_pure() {
    none(rules::pure_dependencies(&sources::manifests()));
    none(rules::pure_code(&sources::all()));
}

#[test]
fn names_say_something_and_files_hold_one_idea() {
    none(rules::names_and_lengths(&sources::all()));
}

#[test]
fn each_crate_has_one_program_of_tests_and_no_test_is_forgotten() {
    none(rules::one_test_program(&sources::all()));
}

#[test]
fn generated_messages_are_named_by_ever_fewer_files() {
    none(rules::ceilings(&sources::all(), &PROTOCOL, PROTOCOL_FILES));
}

#[test]
fn clocks_are_named_by_ever_fewer_files() {
    none(rules::ceilings(&sources::all(), &CLOCKS, CLOCK_FILES));
}

#[test]
fn sockets_are_named_by_ever_fewer_files() {
    none(rules::ceilings(&sources::all(), &SOCKETS, SOCKET_FILES));
}

#[test]
fn circles_of_modules_become_fewer() {
    let (found, known) =
        (circles::circles(&sources::all()), BTreeSet::from_iter(CIRCLES.iter().map(|c| (*c).to_owned())));
    none(found.difference(&known).map(|circle| format!("a new circle of modules, {circle}")));
    none(
        known
            .difference(&found)
            .map(|circle| format!("strike from the list what is no circle any more: {circle}")),
    );
}

#[test]
fn no_regex_engine_comes_with_the_daemons() {
    let lock = fs::read_to_string(sources::crates().parent().unwrap().join("Cargo.lock")).unwrap();
    let manifests = sources::manifests();
    let ours = |name: &str| {
        let manifest = manifests.iter().find(|(krate, _)| krate == name);
        manifest.map(|(_, text)| rules::dependencies(text))
    };
    let way = rules::way_to("regex", "cli", &lock, &ours);
    none(way.map(|way| format!("a regex engine is linked into the daemons: {}", way.join(" <- "))));
}

fn none(broken: impl IntoIterator<Item = String>) {
    let broken: Vec<String> = broken.into_iter().collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
