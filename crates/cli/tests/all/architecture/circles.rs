//! Circles of modules: files of one crate that name each other by `crate::…`, directly or by way of others.

use super::sources::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Module → modules that it names; the root of the crate is the empty name.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Every circle, as the names of its modules: `cli: home local::state`.
pub fn circles(sources: &[Source]) -> BTreeSet<String> {
    let crates: BTreeSet<&str> = sources.iter().map(Source::krate).collect();
    crates.into_iter().flat_map(|krate| circles_of(krate, &graph(krate, sources))).collect()
}

fn circles_of(krate: &str, graph: &Graph) -> Vec<String> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|module| (module.as_str(), reach(graph, module))).collect();
    let circle = |module: &str| -> Vec<&str> {
        reached[module].iter().copied().filter(|other| reached[other].contains(module)).collect()
    };
    let all: BTreeSet<Vec<&str>> =
        graph.keys().map(|module| circle(module)).filter(|c| c.len() > 1).collect();
    all.into_iter().map(|circle| format!("{krate}: {}", circle.join(" "))).collect()
}

/// All that a module names, directly or not; itself only if it is in a circle.
fn reach<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in graph.get(module).into_iter().flatten() {
            if reached.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    reached
}

fn graph(krate: &str, sources: &[Source]) -> Graph {
    let ours = sources.iter().filter(|source| source.krate() == krate && source.is_product());
    let files: Vec<(String, &Source)> =
        ours.filter_map(|source| Some((module(&source.path)?, source))).collect();
    let names: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let named = |name: &str, source: &Source| -> BTreeSet<String> {
        let code: Vec<&str> = source.code().map(|(_, line)| line).collect();
        let homes = paths(&code.join("\n")).into_iter().filter_map(|path| home(&names, &path));
        homes.filter(|home| home != name).collect()
    };
    files.iter().map(|(name, source)| (name.clone(), named(name, source))).collect()
}

/// `gf/src/kernel/mod.rs` → `kernel`; `None` for programs beside the library.
fn module(path: &str) -> Option<String> {
    let inside = path.split_once("/src/")?.1.strip_suffix(".rs")?;
    if inside.starts_with("bin/") || inside == "main" {
        return None;
    }
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    Some(if inside == "lib" { String::new() } else { inside.replace('/', "::") })
}

/// The file that a path leads into: its longest beginning that is a module.
fn home(modules: &BTreeSet<&str>, path: &[String]) -> Option<String> {
    (0..=path.len())
        .rev()
        .map(|length| path[..length].join("::"))
        .find(|name| modules.contains(name.as_str()))
}

/// What follows each `crate::`, braces taken apart.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, word) in code.match_indices("crate::") {
        if !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            tree(&mut code[at + word.len()..].chars().peekable(), &[], &mut found);
        }
    }
    found
}

/// One path of a use tree, or all within its braces, which begin with `before`.
fn tree(
    code: &mut std::iter::Peekable<std::str::Chars<'_>>,
    before: &[String],
    found: &mut Vec<Vec<String>>,
) {
    let mut path = before.to_vec();
    loop {
        while code.next_if(|c| c.is_whitespace()).is_some() {}
        let mut name = String::new();
        while let Some(c) = code.next_if(|c| c.is_alphanumeric() || *c == '_') {
            name.push(c);
        }
        if !name.is_empty() {
            path.push(name);
        } else if code.next_if_eq(&'{').is_some() {
            while code.peek().is_some_and(|c| *c != '}') {
                tree(code, &path, found);
                // Up to the next of the list: past its comma, and past what it is renamed to.
                while code.next_if(|c| !matches!(c, ',' | '}')).is_some() {}
                code.next_if_eq(&',');
                while code.next_if(|c| c.is_whitespace()).is_some() {}
            }
            code.next();
            return;
        }
        let colons = code.next_if_eq(&':').is_some() && code.next_if_eq(&':').is_some();
        if !colons {
            found.push(path);
            return;
        }
    }
}
