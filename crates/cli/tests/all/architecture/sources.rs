//! What rules look at: files as they are named in the repository, with their text.

use std::fs;
use std::path::{Path, PathBuf};

/// A file under `crates/`.
#[derive(Clone, Debug)]
pub struct Source {
    /// From the folder of all crates: `gf/src/lib.rs`.
    pub path: String,
    pub text: String,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    /// The crate that the file is part of.
    pub fn krate(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }

    /// Whether it is part of what is built for users: neither a test nor a benchmark nor a file of tests.
    pub fn is_product(&self) -> bool {
        self.path.contains("/src/") && !self.path.contains("/tests/")
    }

    /// The lines without comments, up to the tests at the end of the file; the first has number 1.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let before_tests = self.text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        (1..).zip(before_tests.lines().map(|line| line.split("//").next().unwrap_or_default()))
    }

    /// Whether one of these words stands in the code.
    pub fn names(&self, words: &[&str]) -> bool {
        self.code().any(|(_, line)| words.iter().any(|word| has_word(line, word)))
    }
}

/// Whether `word` stands in `line` and is no part of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
        !(part(before) || part(after) && part(word.chars().next_back()))
    })
}

/// The folder of all crates.
pub fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust file under it, by path.
pub fn all() -> Vec<Source> {
    let mut found = Vec::new();
    collect(&crates(), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty());
    found
}

fn collect(folder: &Path, into: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let name = path.strip_prefix(crates()).unwrap().to_str().unwrap();
            into.push(Source::new(name, &fs::read_to_string(&path).unwrap()));
        }
    }
}

/// The text of each crate's manifest, by the crate's name.
pub fn manifests() -> Vec<(String, String)> {
    let folders = fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().path());
    let named = folders.map(|folder| {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(folder.join("Cargo.toml")).unwrap())
    });
    named.collect()
}
