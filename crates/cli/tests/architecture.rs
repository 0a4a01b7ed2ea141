//! The house rules that a compiler does not check: what is absent from the pure crates, and which way dependencies
//! point.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom up; a crate depends on crates before it only.
const LAYERS: [&str; 13] = [
    "gf",
    "codes",
    "model",
    "flow",
    "plan",
    "disk",
    "wire",
    "exec",
    "node",
    "coordinator",
    "client",
    "lab",
    "cli",
];

/// No I/O, no clock, no threads, no randomness, no environment.
const PURE: [&str; 5] = ["gf", "codes", "model", "flow", "plan"];

/// What a pure crate may depend on besides pure crates.
const PURE_DEPENDENCIES: [&str; 1] = ["thiserror"];

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
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            assert!(lines <= 600, "{} has {lines} lines: more than one idea?", file.display());
        }
    }
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
