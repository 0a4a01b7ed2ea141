//! What a user of the binary sees without a cluster: answers, one-sentence errors, exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may give up

use std::process::{Command, Output};

fn stripeline(arguments: &[&str]) -> Output {
    let nowhere = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_stripeline"))
        .args(arguments)
        .env("STRIPELINE_HOME", nowhere.path())
        .env_remove("STRIPELINE_COORDINATOR")
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

fn answer(arguments: &[&str]) -> String {
    let output = stripeline(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
    String::from_utf8(output.stdout).unwrap()
}

/// The error of a command that was understood and could not be done: one line, nothing on standard output, exit code 1.
fn error(arguments: &[&str]) -> String {
    let output = stripeline(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
    assert!(output.stdout.is_empty());
    assert_eq!(text.lines().count(), 1, "{text}");
    text.strip_prefix("error: ").expect("the prefix").trim_end().to_owned()
}

#[test]
fn tolerance_in_json_is_exactly_two_numbers() {
    let json = |losses| answer(&["codes", "tolerance", "rs-10+4", "--losses", losses, "--json"]);
    assert_eq!(json("4"), "{\"patterns\":1001,\"recoverable\":1001}\n");
    assert_eq!(json("5"), "{\"patterns\":2002,\"recoverable\":0}\n");
    assert_eq!(json("0"), "{\"patterns\":1,\"recoverable\":1}\n");
}

#[test]
fn dependencies_in_json_are_exactly_three_numbers() {
    let json = |code| answer(&["codes", "dependencies", code, "--json"]);
    assert_eq!(json("rapidraid-11+5"), "{\"accidental\":0,\"natural\":21,\"subsets\":4368}\n");
    assert_eq!(json("rapidraid16-4+4"), "{\"accidental\":0,\"natural\":1,\"subsets\":70}\n");
    let listed = answer(&["codes", "dependencies", "rapidraid-4+4", "--list"]);
    assert!(listed.ends_with("\n  0 1 4 5\n"), "{listed}");
    // Nothing is to be chosen in a code that is known by name alone.
    assert_eq!(json("rs-4+2"), "{\"accidental\":null,\"dependent\":0,\"natural\":null,\"subsets\":15}\n");
}

#[test]
fn codes_are_compared_over_racks() {
    let compared: serde_json::Value = serde_json::from_str(&answer(&[
        "--json",
        "codes",
        "compare",
        "rs-6+3",
        "rep-3",
        "--per-rack",
        "1,3",
    ]))
    .unwrap();
    let rows = compared.as_array().unwrap();
    let of = |row: usize, field: &str| rows[row][field].as_f64().unwrap();
    assert_eq!(
        (rows.len(), of(0, "cross_rack"), of(1, "cross_rack"), of(3, "cross_rack")),
        (4, 6.0, 2.0, 0.0)
    );
    assert!(of(1, "mttdl_years") > of(0, "mttdl_years"), "{compared}");
    assert!((rows[2]["resilience"][1]["nines"].as_f64().unwrap() - 3.0).abs() < 1e-9);
    let text = answer(&["codes", "compare", "rapidraid-16+12", "--per-rack", "2"]);
    assert!(text.contains("(28,16)") && text.contains('±'), "{text}");
    let refused = error(&["codes", "compare", "rs-20+4"]);
    assert!(
        refused.contains("rs-20+4 (24,20) cannot be judged") && refused.contains("20 racks"),
        "{refused}"
    );
    assert!(
        error(&["codes", "compare", "rs-4+2", "--node-gbps", "0"])
            .contains("--node-gbps must be more than 0")
    );
    assert!(error(&["codes", "compare", "rs-4+2", "--lost-with-rack", "2"]).contains("from 0 to 1"));
    assert!(error(&["codes", "compare", "rs-4+2", "--per-rack", "0"]).contains("at least 1"));
}

#[test]
fn codes_are_listed_and_inspected() {
    let list: serde_json::Value = serde_json::from_str(&answer(&["codes", "list", "--json"])).unwrap();
    assert!(list.as_array().unwrap().iter().any(|family| family["example"] == "rs-10+4"));
    let shown = answer(&["codes", "list"]);
    for family in ["rs-K+M", "rs16-K+M", "lrc-K+L+G", "rotated-K+M-rR", "rapidraid-K+M", "rapidraid16-K+M"] {
        assert!(shown.contains(family), "{family}: {shown}");
    }
    let lrc: serde_json::Value =
        serde_json::from_str(&answer(&["--json", "codes", "inspect", "lrc-12+2+2"])).unwrap();
    assert_eq!(lrc["reach"], serde_json::json!({"patterns": 1568, "recoverable": 1568}));
    assert_eq!(
        (&lrc["repairs"][0]["symbols_read"], &lrc["repairs"][0]["fewest"]),
        (&6.into(), &"proved".into())
    );

    let text = answer(&["--json", "codes", "inspect", "rs-2+2"]);
    let code: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&code["n"], &code["k"], &code["tolerance"]), (&4.into(), &2.into(), &2.into()));
    assert_eq!(code["mds"], true);
    assert_eq!(code["generator"], serde_json::json!([[1, 0], [0, 1], [3, 2], [2, 3]]));
    assert_eq!(code["repairs"][0]["symbols_read"], 2);
    assert!(answer(&["codes", "inspect", "rs-10+4"]).starts_with("rs-10+4 (14,10)\n"));
}

#[test]
fn wrong_codes_and_amounts_are_explained_in_a_sentence() {
    assert!(error(&["codes", "inspect", "rs-10+"]).contains("such as rs-10+4"));
    assert!(error(&["codes", "inspect", "sr-10+4"]).starts_with("unknown code 'sr-10+4'"));
    assert!(error(&["codes", "tolerance", "rs-100+100", "--losses", "50"]).contains("at most"));
    assert!(error(&["archive", "a", "--code", "nope"]).starts_with("unknown code"));
    assert!(error(&["archive", "a", "--code", "rs-2+1", "--slice", "33KiB"]).contains("--slice"));
    assert!(error(&["repair", "block", "abc"]).contains("--index"));
    assert!(error(&["repair", "node", "3", "--scheme", "magic"]).contains("pipeline"));
    assert!(error(&["put", "/nonexistent", "a"]).starts_with("cannot read /nonexistent"));
}

#[test]
fn without_a_cluster_the_way_to_one_is_named() {
    for arguments in [
        &["ls"][..],
        &["stat", "a"],
        &["cluster", "status"],
        &["get", "a", "-"],
        &["rm", "a"],
        &["throttle", "none"],
        &["throttle", "--healing", "100mbit", "--clients", "none"],
        &["tasks", "list"],
        &["scrub"],
        &["catalog", "recover"],
        &["explain", "repair", "a", "--index", "0"],
    ] {
        assert!(error(arguments).contains("stripeline cluster up"), "{arguments:?}");
    }
    assert!(error(&["cluster", "down"]).starts_with("there is no cluster in "));
    assert!(error(&["node", "stop", "3"]).starts_with("there is no node 3"));
    assert!(error(&["node", "start", "3"]).starts_with("there is no cluster in "));
    let refused = error(&["ls", "--coordinator", "127.0.0.1:1", "--wait", "0"]);
    assert!(refused.starts_with("no coordinator answers at 127.0.0.1:1 (Connection refused"), "{refused}");
    assert!(error(&["ls", "--coordinator", "nonsense"]).contains("host:port"));
}

#[test]
fn a_put_that_finds_no_cluster_leaves_its_input_alone() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "precious").unwrap();
    error(&["put", file.path().to_str().unwrap(), "a"]);
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "precious");
}

#[test]
fn misuse_is_exit_code_2() {
    for arguments in [
        &[][..],
        &["nonsense"],
        &["codes", "tolerance", "rs-10+4"],
        &["ls", "--nonsense"],
        &["get", "a", "-", "--range", "5-3"],
        &["throttle", "fast"],
        &["throttle", "400"],
        &["throttle"],
        &["throttle", "--archival", "400"],
        &["cluster", "up", "--nodes", "many"],
        &["cluster", "up", "--block-size", "-1"],
    ] {
        let output = stripeline(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
    }
    assert!(answer(&["--help"]).contains("codes"));
}

#[test]
fn daemons_say_what_they_lack() {
    assert!(error(&["node"]).contains("--id"));
    assert!(error(&["node", "--id", "0", "--coordinator", "127.0.0.1:1"]).contains("from 1"));
    assert!(error(&["node", "--id", "1", "--dir", "d"]).contains("--coordinator"));
    assert!(error(&["coordinator"]).contains("--dir"));
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let folder = folder.path().to_str().unwrap();
    let in_use = error(&["cluster", "up", "--nodes", "1", "--dir", folder, "--port", &port]);
    assert!(in_use.starts_with(&format!("port {port} is in use")), "{in_use}");
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_stripeline"))
        .args(["codes", "inspect", "rs-100+50"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_bare_send_keeps_to_its_rate() {
    let text = answer(&["bare-send", "--bytes", "4MiB", "--rate", "160mbit", "--json"]);
    let sent: serde_json::Value = serde_json::from_str(&text).unwrap();
    // 4 MiB at 20 MB/s, less the credit of either bucket.
    let seconds = sent["us"].as_f64().unwrap() / 1e6;
    assert!((0.18..2.0).contains(&seconds), "{seconds}");
}

#[test]
fn the_laboratory_is_a_program_of_its_own_and_its_exit_code_passes_through() {
    // A copy in a folder of its own has nothing beside it.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("stripeline");
    std::fs::copy(env!("CARGO_BIN_EXE_stripeline"), &program).unwrap();
    let path = folder.path().join("bin");
    let start =
        |arguments: &[&str]| Command::new(&program).args(arguments).env("PATH", &path).output().unwrap();
    let missing = start(&["bench", "list"]);
    assert_eq!(missing.status.code(), Some(1));
    let sentence = String::from_utf8(missing.stderr).unwrap();
    assert!(sentence.starts_with("error: this needs the program stripeline-lab"), "{sentence}");
    assert!(sentence.contains("'make build' builds it") && sentence.lines().count() == 1, "{sentence}");

    let script = "#!/bin/sh\necho \"$@\"\nexit 7\n";
    for place in [path.join("stripeline-lab"), folder.path().join("stripeline-lab")] {
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(&place, script).unwrap();
        std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let told = start(&["--json", "bench", "--help", "rp-8a", "--quick"]);
        assert_eq!(told.status.code(), Some(7));
        assert_eq!(String::from_utf8(told.stdout).unwrap(), "bench --json --help rp-8a --quick\n");
        std::fs::remove_file(&place).unwrap();
    }
}
