//! README's "By hand", pasted.

use super::rig::{PATIENCE, Rig};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const README: &str = include_str!("../../../../../README.md");

/// The commands of the block under that heading, but for the build.
fn commands() -> Vec<&'static str> {
    let (_, section) = README.split_once("\n## By hand\n").expect("the section");
    let (_, block) = section.split_once("```sh\n").expect("a block of commands");
    let (block, _) = block.split_once("```").expect("its end");
    block.lines().filter(|line| !line.starts_with("make ")).collect()
}

#[test]
fn what_readme_says_to_do_by_hand_succeeds_as_pasted_and_repairs_something() {
    let rig = Rig::new();
    let bytes = rig.file("FILE", 3_000_000, 1);
    let commands = commands();
    assert!(
        commands.len() > 8 && commands.last().is_some_and(|last| last.starts_with("stripeline cluster down"))
    );
    let program = Path::new(env!("CARGO_BIN_EXE_stripeline")).parent().expect("its folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    // Each command, and what it said; the first that fails ends it.
    let script = format!("set -e\n{}\n", commands.join("\n"));
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .current_dir(rig.path("FILE").parent().expect("the folder"))
        .env("PATH", path)
        .env("STRIPELINE_HOME", rig.home())
        .env_remove("STRIPELINE_COORDINATOR")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut stdout = shell.stdout.take().expect("its output");
    let said = std::thread::spawn(move || {
        let mut said = String::new();
        stdout.read_to_string(&mut said).map(|_| said)
    });
    let mut stderr = shell.stderr.take().expect("its errors");
    let complained = std::thread::spawn(move || {
        let mut said = String::new();
        stderr.read_to_string(&mut said).map(|_| said)
    });
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = shell.try_wait().expect("a child") {
            break status;
        }
        assert!(Instant::now() < deadline, "it hangs");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let said = said.join().expect("a thread").expect("text");
    let complained = complained.join().expect("a thread").expect("text");
    assert!(status.success(), "{said}\n{complained}");
    assert!(said.contains(" blocks of node-") && said.contains(" rebuilt"), "nothing was rebuilt: {said}");
    assert!(
        std::fs::read(rig.path("copy")).expect("a copy") == bytes[1000..2000],
        "the range, over the whole"
    );
}
