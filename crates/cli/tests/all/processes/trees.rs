//! Trees of files: put, got back, gone on with, removed; what cannot be done is named, and the rest is done.

use super::rig::{Ran, Rig};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Files below a folder, by path.
fn files(folder: &Path, below: &str) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let Some(name) = entry.file_name().to_str().map(|name| format!("{below}{name}")) else { continue };
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => all.extend(files(&entry.path(), &format!("{name}/"))),
            kind if kind.is_file() => _ = all.insert(name, fs::read(entry.path()).unwrap()),
            _ => {}
        }
    }
    all
}

fn told(ran: &Ran, code: i32) -> String {
    assert_eq!(ran.status.code(), Some(code), "{}", ran.stderr);
    String::from_utf8(ran.stdout.clone()).unwrap()
}

#[test]
fn a_tree_is_put_got_back_and_removed_and_what_cannot_be_is_named() {
    let rig = Rig::up(3);
    let tree = rig.path("tree");
    for at in ["", "a", "a/b", "empty"] {
        fs::create_dir_all(tree.join(at)).unwrap();
    }
    for number in 0..60_usize {
        let at = ["", "a/", "a/b/"][number % 3];
        let bytes = super::rig::content(number * 37, number as u64);
        fs::write(tree.join(format!("{at}{number} of 60")), bytes).unwrap();
    }
    let all = files(&tree, "");
    std::os::unix::fs::symlink("/etc/hostname", tree.join("a/link")).unwrap();
    fs::write(tree.join(OsStr::from_bytes(b"no\xffutf")), b"x").unwrap();
    let (tree_arg, out_arg) = (rig.arg("tree"), rig.arg("out"));

    let ran = rig.run(&["put", "-r", &tree_arg, "t/"]);
    assert!(told(&ran, 1).contains("60 files, "), "the others are stored");
    assert!(ran.stderr.contains("a/link: a symbolic link: it is not followed"), "{}", ran.stderr);
    assert!(ran.stderr.contains("is no UTF-8"), "{}", ran.stderr);
    assert!(ran.stderr.contains("2 files not stored"), "{}", ran.stderr);
    fs::remove_file(tree.join("a/link")).unwrap();
    fs::remove_file(tree.join(OsStr::from_bytes(b"no\xffutf"))).unwrap();

    // One has changed since, of the same length.
    let changed = all.iter().find(|(_, bytes)| bytes.len() > 100).unwrap().0.clone();
    let other = vec![7; all[&changed].len()];
    fs::write(tree.join(&changed), &other).unwrap();
    let again = rig.json(&["put", "-r", &tree_arg, "t", "--skip-same"]);
    assert_eq!((&again["files"], &again["same"]), (&1.into(), &59.into()), "{again}");
    fs::write(tree.join(&changed), &all[&changed]).unwrap();
    let ran =
        rig.run_with(&["put", "-r", &tree_arg, "t/", "--names-from", "-"], format!("./{changed}\n").into());
    assert!(told(&ran, 0).starts_with("1 file, "));

    told(&rig.run(&["get", "-r", "t/", &out_arg]), 0);
    assert!(files(&rig.path("out"), "") == all);
    fs::write(rig.path("out").join(&changed), b"").unwrap();
    let again = rig.json(&["get", "-r", "t", &out_arg, "--skip-same", "--at-once", "3"]);
    assert_eq!((&again["files"], &again["same"]), (&1.into(), &59.into()), "{again}");
    assert!(files(&rig.path("out"), "") == all);

    // Names that no file can have, and a folder that leads elsewhere.
    for name in ["t//x", "t/a/../../x", "t/link/x"] {
        rig.put("tree/0 of 60", name);
    }
    std::os::unix::fs::symlink("/tmp", rig.path("out/link")).unwrap();
    let ran = rig.run(&["get", "-r", "t/", &out_arg]);
    assert!(told(&ran, 1).contains("60 files, "));
    for name in ["t//x: a part of its path is empty", "t/a/../../x: a part of its path is", "t/link/x: "] {
        assert!(ran.stderr.contains(name), "{name}: {}", ran.stderr);
    }

    let dry = told(&rig.run(&["rm", "--prefix", "t/", "--dry-run"]), 0);
    assert!(dry.contains("63 objects of") && dry.contains("t/a/b/"), "{dry}");
    let asks = rig.error(&["rm", "--prefix", "t/"]);
    assert!(asks.contains("63 objects of") && asks.contains("give --yes"), "{asks}");
    rig.put("tree/0 of 60", "top");
    assert!(told(&rig.run(&["rm", "--prefix", "t/", "--yes"]), 0).starts_with("63 objects, "));
    assert_eq!(rig.json(&["ls"]).as_array().unwrap().len(), 1);
    assert!(rig.error(&["rm", "--prefix", "", "--yes"]).contains("would remove everything"));
}
