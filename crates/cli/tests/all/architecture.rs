//! The house rules that a compiler does not check: what is absent from the pure crates, and which way dependencies
//! point.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom up; a crate depends on crates before it only.
const LAYERS: [&str; 12] =
    ["gf", "codes", "flow", "plan", "disk", "wire", "exec", "node", "coordinator", "client", "cli", "lab"];

/// No I/O, no clock, no threads, no randomness, no environment.
const PURE: [&str; 4] = ["gf", "codes", "flow", "plan"];

/// What a pure crate may depend on besides pure crates.
const PURE_DEPENDENCIES: [&str; 1] = ["thiserror"];

/// Nobody reads it, so it may be long: `crates/wire/tests` makes it again and compares.
const GENERATED: &str = "wire/src/proto/stripeline.v1.rs";

const IMPURE: [&str; 16] = [
    "std::fs",
    "std::net",
    "std::io",
    "std::thread",
    "std::time",
    "std::env",
    "std::process",
    "std::os",
    "Instant::",
    "SystemTime",
    "println!",
    "eprintln!",
    "extern \"C\"",
    "include_bytes!",
    "tokio",
    "libc::",
];

#[test]
fn every_crate_has_a_layer() {
    let found: BTreeSet<String> = fs::read_dir(crates())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, LAYERS.iter().map(|s| s.to_string()).collect());
}

#[test]
fn dependencies_point_downwards() {
    for (height, name) in LAYERS.iter().enumerate() {
        for dependency in dependencies(name) {
            if let Some(position) = LAYERS.iter().position(|layer| *layer == dependency) {
                assert!(position < height, "{name} depends on {dependency}, which is not below it");
            }
        }
    }
}

#[test]
fn pure_crates_stay_pure() {
    for name in PURE {
        for dependency in dependencies(name) {
            let allowed =
                PURE.contains(&dependency.as_str()) || PURE_DEPENDENCIES.contains(&dependency.as_str());
            assert!(allowed, "{name} is pure, but depends on {dependency}");
        }
        let mut files = Vec::new();
        sources(&crates().join(name).join("src"), &mut files);
        assert!(!files.is_empty());
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for (number, line) in (1..).zip(text.lines()) {
                let code = line.split("//").next().unwrap_or_default();
                for word in IMPURE {
                    assert!(!code.contains(word), "{}:{number}: {word} in a pure crate", file.display());
                }
            }
        }
    }
}

#[test]
fn names_say_something_and_files_hold_one_idea() {
    for name in LAYERS {
        let mut files = Vec::new();
        sources(&crates().join(name), &mut files);
        for file in files {
            let stem = file.file_stem().unwrap().to_str().unwrap();
            let vague = ["util", "utils", "common", "misc", "manager"].contains(&stem);
            assert!(!vague, "{}: a name that says nothing", file.display());
            if file.ends_with(GENERATED) {
                continue;
            }
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            assert!(lines <= 600, "{} has {lines} lines: more than one idea?", file.display());
        }
    }
}

#[test]
fn no_regex_engine_comes_with_the_daemons() {
    let lock = fs::read_to_string(crates().parent().unwrap().join("Cargo.lock")).unwrap();
    let ours = |name: &str| LAYERS.contains(&name).then(|| dependencies(name));
    let way = way_to("regex", "cli", &lock, &ours);
    assert!(way.is_none(), "a regex engine is linked into the daemons: {}", way.unwrap().join(" <- "));
}

#[test]
fn a_dependency_is_found_however_far_down_it_is() {
    let lock = "[[package]]\nname = \"a\"\ndependencies = [\n \"b 1.0\",\n]\n\n\
                [[package]]\nname = \"b\"\ndependencies = [\n \"regex-automata\",\n]\n\n\
                [[package]]\nname = \"regex-automata\"\n";
    let ours = |name: &str| (name == "cli").then(|| vec!["a".to_owned()]);
    assert_eq!(way_to("regex", "cli", lock, &ours).unwrap(), ["regex-automata", "b", "a", "cli"]);
    assert_eq!(way_to("serde", "cli", lock, &ours), None);
}

/// From a package whose name begins with `wanted` up to `root`, by what packages depend on. `ours` says which packages of this
/// workspace a package needs at run time: for them Cargo.lock names the tests' as well.
fn way_to(
    wanted: &str,
    root: &str,
    lock: &str,
    ours: &dyn Fn(&str) -> Option<Vec<String>>,
) -> Option<Vec<String>> {
    let lock: toml::Table = toml::from_str(lock).unwrap();
    let mut needs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for package in lock["package"].as_array().unwrap() {
        let names = package.get("dependencies").and_then(toml::Value::as_array).into_iter().flatten();
        let names = names.map(|name| name.as_str().unwrap().split(' ').next().unwrap().to_owned());
        needs.entry(package["name"].as_str().unwrap()).or_default().extend(names);
    }
    let mut needed_by = BTreeMap::from([(root.to_owned(), None)]);
    let mut open = vec![root.to_owned()];
    while let Some(name) = open.pop() {
        if name.starts_with(wanted) {
            return Some(std::iter::successors(Some(name), |name| needed_by[name].clone()).collect());
        }
        for next in ours(&name).or_else(|| needs.get(name.as_str()).cloned()).unwrap_or_default() {
            if !needed_by.contains_key(&next) {
                needed_by.insert(next.clone(), Some(name.clone()));
                open.push(next);
            }
        }
    }
    None
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The names under `[dependencies]`.
fn dependencies(name: &str) -> Vec<String> {
    let text = fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
    let section = text.split("\n[").find(|s| s.starts_with("dependencies]")).unwrap_or_default();
    section
        .lines()
        .skip(1)
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|word| !word.is_empty() && !word.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}
