//! What the documents show is what is there: code on their pages is code that tests run, and links lead somewhere.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};

/// Every block of Rust stands below a link to the file that it is.
#[test]
fn the_code_of_the_first_change_is_the_code_that_tests_run() {
    let page = repository().join("docs/first-change.md");
    let text = fs::read_to_string(&page).unwrap();
    let mut parts = text.split("\n```rust\n");
    let mut before = parts.next().unwrap();
    let mut shown = 0;
    for part in parts {
        let (code, after) = part.split_once("\n```\n").expect("a block that does not end");
        let prose = prose(before);
        let target = *links(&prose).last().expect("a block of Rust below no link");
        let file = page.parent().unwrap().join(target);
        let is = fs::read_to_string(&file).unwrap_or_else(|_| panic!("{} is not there", file.display()));
        assert_eq!(code, is.trim_end(), "{} and docs/first-change.md differ: copy the file", file.display());
        before = after;
        shown += 1;
    }
    assert_eq!(shown, 4);
}

#[test]
fn links_lead_to_files() {
    let mut pages = Vec::new();
    pages_in(&repository(), &mut pages);
    pages_in(&repository().join("docs"), &mut pages);
    pages_in(&repository().join("docs/decisions"), &mut pages);
    assert!(pages.len() > 5);
    for page in pages {
        let text = prose(&fs::read_to_string(&page).unwrap());
        for target in links(&text).into_iter().filter(|target| !target.contains("://")) {
            let file = target.split('#').next().unwrap_or_default();
            let there = page.parent().unwrap().join(file);
            assert!(there.exists(), "{}: {target} leads nowhere", page.display());
        }
    }
}

#[test]
fn every_decision_has_its_line_in_the_architecture() {
    let architecture = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let listed = links(&architecture);
    let mut pages = Vec::new();
    pages_in(&repository().join("docs/decisions"), &mut pages);
    assert!(!pages.is_empty());
    for page in pages {
        let name = page.file_name().unwrap().to_str().unwrap();
        let lines = listed.iter().filter(|target| target.ends_with(name)).count();
        assert_eq!(lines, 1, "{name} is linked {lines} times");
        let text = fs::read_to_string(&page).unwrap();
        for heading in ["## Context", "## Decision", "## What it costs", "## What holds it"] {
            assert!(text.contains(heading), "{name} has no {heading:?}");
        }
    }
}

/// Tests are moved and renamed, files too; a page that rests on one must not be left behind.
#[test]
fn tests_and_files_that_pages_name_exist() {
    let mut sources = String::new();
    sources_in(&repository().join("crates"), &mut sources);
    let mut pages = vec![repository().join("ARCHITECTURE.md")];
    for page in ["glossary", "data-model", "formats", "first-change"] {
        pages.push(repository().join(format!("docs/{page}.md")));
    }
    pages_in(&repository().join("docs/decisions"), &mut pages);
    for page in pages {
        let text = prose(&fs::read_to_string(&page).unwrap());
        for name in text.split('`').skip(1).step_by(2) {
            if name.starts_with("crates/") {
                assert!(repository().join(name).exists(), "{}: {name} is not there", page.display());
            }
            let word = name.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit());
            if word && name.matches('_').count() >= 3 {
                let there = sources.contains(&format!("fn {name}("));
                assert!(there, "{}: there is no test {name}", page.display());
            }
        }
    }
}

#[test]
fn the_glossary_is_in_order() {
    let text = fs::read_to_string(repository().join("docs/glossary.md")).unwrap();
    let table = text.split("\n\n").find(|part| part.starts_with("| word |")).unwrap();
    let words: Vec<String> = table.lines().skip(2).map(|line| first_word(line).to_lowercase()).collect();
    assert!(words.len() > 50);
    assert!(words.is_sorted(), "{:?}", words.windows(2).find(|pair| pair[0] > pair[1]));
}

/// The word that a line of the table is about, without signs.
/// At slices of 32 KiB, as the record beside it has them.
#[test]
fn the_figures_of_the_front_page_are_those_of_the_record() {
    let page = fs::read_to_string(repository().join("README.md")).unwrap();
    let record = fs::read_to_string(repository().join("results/rp-8a.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let median = |series: &str, metric: &str| {
        let series = record["series"].as_array().unwrap().iter().find(|s| s["name"] == series).unwrap();
        let points = series["points"].as_array().unwrap();
        let point = points.iter().find(|point| point["x"] == 32_768.0).unwrap();
        let mut values: Vec<f64> =
            point["samples"].as_array().unwrap().iter().map(|s| s[metric].as_f64().unwrap()).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    for (row, series) in [
        ("conventional", "conventional"),
        ("PPR, streamed", "ppr-sliced"),
        ("pipeline", "pipeline"),
        ("bare chain of helpers (read, XOR, relay; checks nothing)", "bare helper chain"),
        ("direct send of one block", "direct send"),
    ] {
        let (time, cpu) = (median(series, "verified_s"), median(series, "cpu_s"));
        let ratio = time / median("direct send", "verified_s");
        let line = format!("| {row} | {time:.3} s | {ratio:.3} | {cpu:.2} |");
        assert!(page.contains(&line), "README.md does not say what results/rp-8a.json does: {line}");
    }
}

fn first_word(line: &str) -> String {
    let cell = line.split('|').nth(1).unwrap_or_default();
    cell.chars().filter(|c| c.is_ascii_alphabetic() || *c == ' ').collect::<String>().trim().to_owned()
}

/// A page without its fenced blocks.
fn prose(page: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in page.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// Targets of the links in prose, in order.
fn links(prose: &str) -> Vec<&str> {
    prose.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target)).collect()
}

fn pages_in(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            into.push(path);
        }
    }
}

fn sources_in(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources_in(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
