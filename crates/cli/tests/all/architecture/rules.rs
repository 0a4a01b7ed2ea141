//! The rules: each is a function of files, or of manifests, and says what breaks it.

use super::sources::Source;
use std::collections::{BTreeMap, BTreeSet};

/// From the bottom up; a crate depends on crates before it only.
pub const LAYERS: [&str; 17] = [
    "gf",
    "codes",
    "model",
    "flow",
    "plan",
    "disk",
    "catalog",
    "wire",
    "worker",
    "exec",
    "node",
    "coordinator",
    "client",
    "gateway",
    "cli",
    "lab",
    "chaos",
];

/// No I/O, no clock, no threads, no randomness, no environment.
pub const PURE: [&str; 5] = ["gf", "codes", "model", "flow", "plan"];

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

/// Nobody reads it, so it may be long, and say what it likes: `crates/wire/tests` makes it again and compares.
pub const GENERATED: &str = "wire/src/proto/stripeline.v1.rs";

/// A file with more lines than that has more than one idea.
const LONGEST_FILE: usize = 600;

/// Names that say nothing.
const VAGUE: [&str; 5] = ["util", "utils", "common", "misc", "manager"];

/// What a ratchet counts: a name for people, and the words that a file is counted for.
pub struct Counted {
    pub what: &'static str,
    pub words: &'static [&'static str],
    /// The folder where it belongs, which is not counted; none if empty.
    pub home: &'static str,
}

pub const PROTOCOL: Counted =
    Counted { what: "generated messages", words: &["proto::"], home: "wire/src/codec/" };

pub const CLOCKS: Counted = Counted {
    what: "a clock",
    words: &[
        "Instant",
        "SystemTime",
        "ClockId",
        "tokio::time",
        "time::sleep",
        "time::timeout",
        "time::interval",
    ],
    home: "",
};

pub const SOCKETS: Counted = Counted {
    what: "sockets",
    words: &[
        "TcpStream",
        "TcpListener",
        "TcpSocket",
        "UdpSocket",
        "UnixStream",
        "UnixListener",
        "tokio::net",
        "os::unix::net",
        "rustix::net",
        "TcpListenerStream",
    ],
    home: "wire/src/net/",
};

/// Every crate has a layer, and depends on crates below it only.
pub fn layers(manifests: &[(String, String)]) -> Vec<String> {
    let height = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let found: BTreeSet<&str> = manifests.iter().map(|(name, _)| name.as_str()).collect();
    let all = BTreeSet::from(LAYERS);
    let mut broken: Vec<String> = found.difference(&all).map(|name| format!("{name} has no layer")).collect();
    broken.extend(all.difference(&found).map(|name| format!("there is no crate {name}")));
    for (name, manifest) in manifests {
        let needs = dependencies(manifest);
        let upwards = needs.iter().filter(|other| height(other) >= height(name) && height(other).is_some());
        broken.extend(upwards.map(|other| format!("{name} depends on {other}, which is not below it")));
    }
    broken
}

/// Pure crates depend on pure ones.
pub fn pure_dependencies(manifests: &[(String, String)]) -> Vec<String> {
    let pure = manifests.iter().filter(|(name, _)| PURE.contains(&name.as_str()));
    let allowed = |other: &String| PURE.iter().chain(&PURE_DEPENDENCIES).any(|pure| pure == other);
    let impure = pure.flat_map(|(name, manifest)| {
        let others = dependencies(manifest).into_iter().filter(|other| !allowed(other));
        others.map(move |other| format!("{name} is pure, but depends on {other}"))
    });
    impure.collect()
}

/// Pure crates name nothing that is not.
pub fn pure_code(sources: &[Source]) -> Vec<String> {
    let pure =
        sources.iter().filter(|source| PURE.contains(&source.krate()) && source.path.contains("/src/"));
    let mut broken = Vec::new();
    for source in pure {
        for (number, line) in (1..).zip(source.text.lines()) {
            let code = line.split("//").next().unwrap_or_default();
            let named = IMPURE.iter().filter(|word| code.contains(*word));
            broken.extend(named.map(|word| format!("{}:{number}: {word} in a pure crate", source.path)));
        }
    }
    broken
}

/// Names say something, and files hold one idea.
pub fn names_and_lengths(sources: &[Source]) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources.iter().filter(|source| source.path != GENERATED) {
        let vague = source.path.split(['/', '.']).any(|part| VAGUE.contains(&part));
        broken.extend(vague.then(|| format!("{}: a name that says nothing", source.path)));
        let lines = source.text.lines().count();
        let long = lines > LONGEST_FILE;
        broken.extend(long.then(|| format!("{} has {lines} lines: more than one idea?", source.path)));
    }
    broken
}

/// The tests of a crate are one program, which is linked once: `tests/all`. Every file there is a module of another; one that
/// nobody names would not be compiled.
pub fn one_test_program(sources: &[Source]) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources {
        let krate = source.krate();
        let Some(inside) = source.path.strip_prefix(&format!("{krate}/tests/")) else { continue };
        let Some(module) = inside.strip_prefix("all/").and_then(|name| name.strip_suffix(".rs")) else {
            broken.push(format!("{}: tests are modules of {krate}/tests/all", source.path));
            continue;
        };
        if module == "main" {
            continue;
        }
        let module = module.strip_suffix("/mod").unwrap_or(module);
        let all = format!("{krate}/tests/all");
        let (parents, name) = match module.rsplit_once('/') {
            Some((folder, name)) => {
                (["/mod.rs", ".rs"].map(|end| format!("{all}/{folder}{end}")).to_vec(), name)
            }
            None => (vec![format!("{all}/main.rs")], module),
        };
        let mut parents = sources.iter().filter(|other| parents.contains(&other.path));
        if !parents.any(|parent| parent.names(&[&format!("mod {name};")])) {
            broken.push(format!("{}: nobody names this module, so it is not compiled", source.path));
        }
    }
    broken
}

/// How many files of each crate name something, against what is allowed. A ceiling only ever sinks: one that is too high is
/// broken too.
pub fn ceilings(sources: &[Source], counted: &Counted, ceilings: &[(&str, usize)]) -> Vec<String> {
    let files = sources.iter().filter(|source| source.is_product() && source.path != GENERATED);
    let mut found: BTreeMap<&str, Vec<&str>> =
        ceilings.iter().map(|(krate, _)| (*krate, Vec::new())).collect();
    let is_at_home = |path: &str| !counted.home.is_empty() && path.starts_with(counted.home);
    for source in files.filter(|source| source.names(counted.words) && !is_at_home(&source.path)) {
        found.entry(source.krate()).or_default().push(&source.path);
    }
    let what = counted.what;
    let judged = found.into_iter().filter_map(|(krate, files)| {
        let count = files.len();
        let ceiling = ceilings.iter().find(|(name, _)| *name == krate).map_or(0, |(_, ceiling)| *ceiling);
        match count.cmp(&ceiling) {
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Less => {
                Some(format!("{count} files of {krate} name {what}: lower the ceiling to {count}"))
            }
            std::cmp::Ordering::Greater => Some(format!(
                "{count} files of {krate} name {what}, at most {ceiling} may: {}",
                files.join(", ")
            )),
        }
    });
    judged.collect()
}

/// From a package whose name begins with `wanted` up to `root`, by what packages depend on. `ours` says which packages of this
/// workspace a package needs at run time: for them Cargo.lock names the tests' as well.
pub fn way_to(
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

/// The names under `[dependencies]` of a manifest.
pub fn dependencies(manifest: &str) -> Vec<String> {
    let section = manifest.split("\n[").find(|s| s.starts_with("dependencies]")).unwrap_or_default();
    section
        .lines()
        .skip(1)
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|word| !word.is_empty() && !word.starts_with('#'))
        .map(str::to_owned)
        .collect()
}
