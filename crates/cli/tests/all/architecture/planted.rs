//! Each rule with a violation planted, which it must find, beside what it must leave alone.

use super::circles::circles;
use super::rules::{
    CLOCKS, Counted, GENERATED, LAYERS, PROTOCOL, SOCKETS, ceilings, layers, names_and_lengths,
    one_test_program, pure_code, pure_dependencies, way_to,
};
use super::sources::Source;

/// Manifests of all crates, that of `krate` with these dependencies.
fn manifests(krate: &str, dependencies: &str) -> Vec<(String, String)> {
    let text = |name: &str| {
        let inside = if name == krate { dependencies } else { "" };
        format!(
            "[package]\nname = \"{name}\"\n\n[dependencies]\n{inside}\n[dev-dependencies]\ntokio = \"1\"\n"
        )
    };
    LAYERS.iter().map(|name| ((*name).to_owned(), text(name))).collect()
}

#[test]
fn a_dependency_that_points_upwards_is_found() {
    assert_eq!(layers(&manifests("flow", "gf.workspace = true\ncodes.workspace = true\n")), [""; 0]);
    let found = layers(&manifests("flow", "gf.workspace = true\nplan.workspace = true\n"));
    assert_eq!(found, ["flow depends on plan, which is not below it"]);
    assert_eq!(layers(&manifests("disk", "disk.workspace = true\n")).len(), 1);
}

#[test]
fn a_crate_without_a_layer_is_found_and_one_that_is_gone() {
    let mut manifests = manifests("", "");
    manifests[0].0 = "attic".to_owned();
    assert_eq!(layers(&manifests), ["attic has no layer", "there is no crate gf"]);
}

#[test]
fn an_impure_dependency_of_a_pure_crate_is_found() {
    assert_eq!(pure_dependencies(&manifests("plan", "thiserror.workspace = true\n")), [""; 0]);
    let found = pure_dependencies(&manifests("plan", "rand = \"0.9\"\n"));
    assert_eq!(found, ["plan is pure, but depends on rand"]);
    assert_eq!(pure_dependencies(&manifests("node", "rand = \"0.9\"\n")), [""; 0]);
}

#[test]
fn impure_code_in_a_pure_crate_is_found() {
    let clean = Source::new("gf/src/lib.rs", "// std::fs is for others\nfn f() {}\n");
    let elsewhere = Source::new("disk/src/lib.rs", "use std::fs;\n");
    let planted = Source::new("codes/src/rs.rs", "fn f() {}\nuse std::fs;\n");
    assert_eq!(pure_code(&[clean, elsewhere, planted]), ["codes/src/rs.rs:2: std::fs in a pure crate"]);
}

#[test]
fn vague_names_and_long_files_are_found() {
    let long = "x\n".repeat(601);
    let sources = [
        Source::new("gf/src/lib.rs", &"x\n".repeat(600)),
        Source::new(GENERATED, &long),
        Source::new("gf/src/utils.rs", ""),
        Source::new("gf/src/common/field.rs", ""),
        Source::new("wire/src/proto/other.rs", &long),
    ];
    let found = names_and_lengths(&sources);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("gf/src/utils.rs:") && found[1].starts_with("gf/src/common/field.rs:"));
    assert_eq!(found[2], "wire/src/proto/other.rs has 601 lines: more than one idea?");
}

#[test]
fn a_second_test_program_and_a_forgotten_module_are_found() {
    let sources = [
        Source::new("gf/tests/all/main.rs", "mod regions;\nmod deep;\n"),
        Source::new("gf/tests/all/regions.rs", ""),
        Source::new("gf/tests/all/deep/mod.rs", "mod down;\n"),
        Source::new("gf/tests/all/deep/down.rs", ""),
        Source::new("gf/tests/all/forgotten.rs", ""),
        Source::new("gf/tests/all/deep/lost.rs", ""),
        Source::new("gf/tests/another.rs", ""),
    ];
    let found = one_test_program(&sources);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("gf/tests/all/forgotten.rs: nobody"));
    assert!(found[1].starts_with("gf/tests/all/deep/lost.rs: nobody"));
    assert_eq!(found[2], "gf/tests/another.rs: tests are modules of gf/tests/all");
}

/// Files of a crate, each with one line, and how many of them are counted.
fn counted(counted: &Counted, lines: &[&str]) -> usize {
    let file = |line: &&str| Source::new("node/src/file.rs", line);
    let sources: Vec<Source> = lines.iter().map(file).collect();
    let found = ceilings(&sources, counted, &[("node", 99)]);
    found[0].rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn what_names_messages_clocks_and_sockets_is_counted_and_nothing_else() {
    assert_eq!(counted(&PROTOCOL, &["use wire::proto::Ping;", "let a = proto::Ping {};"]), 2);
    assert_eq!(counted(&PROTOCOL, &["// proto::Ping", "myproto::Ping", "protocol::x"]), 0);
    let clocks = [
        "use std::time::{Duration, Instant};",
        "std::time::SystemTime::now()",
        "tokio::time::sleep(a)",
        "use tokio::time;",
        "clock_gettime(ClockId::Monotonic)",
    ];
    assert_eq!(counted(&CLOCKS, &clocks), clocks.len());
    assert_eq!(counted(&CLOCKS, &["use std::time::Duration;", "Instantly", "// Instant"]), 0);
    let sockets = [
        "use std::net::TcpStream;",
        "std::net::{IpAddr, TcpListener}",
        "use tokio::net;",
        "std::os::unix::net::UnixStream",
        "rustix::net::sockopt",
    ];
    assert_eq!(counted(&SOCKETS, &sockets), sockets.len());
    assert_eq!(counted(&SOCKETS, &["use std::net::SocketAddr;", "// a TcpStream"]), 0);
    let tests =
        Source::new("node/src/a.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n    use wire::proto::X;\n}\n");
    let benches = Source::new("node/benches/a.rs", "use wire::proto::X;\n");
    assert_eq!(ceilings(&[tests, benches], &PROTOCOL, &[]), [""; 0]);
}

#[test]
fn a_ceiling_holds_and_only_sinks() {
    let sources = ["a", "b"].map(|name| Source::new(&format!("node/src/{name}.rs"), "use wire::proto::X;"));
    assert_eq!(ceilings(&sources, &PROTOCOL, &[("node", 2)]), [""; 0]);
    let over = ceilings(&sources, &PROTOCOL, &[("node", 1)]);
    let sentence = "2 files of node name generated messages, at most 1 may: node/src/a.rs, node/src/b.rs";
    assert_eq!(over, [sentence]);
    assert_eq!(ceilings(&sources, &PROTOCOL, &[]).len(), 1, "a crate that is not listed has none");
    let under = ceilings(&sources, &PROTOCOL, &[("node", 3), ("disk", 1)]);
    assert!(under[0].ends_with("lower the ceiling to 0") && under[1].ends_with("lower the ceiling to 2"));
}

#[test]
fn circles_of_modules_are_found_however_they_are_written() {
    let sources = [
        Source::new("gf/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n"),
        Source::new("gf/src/a.rs", "use crate::{\n    b::deep::{Deep as Far, More},\n    d::D,\n};\n"),
        Source::new("gf/src/b/mod.rs", "fn f(c: crate::c::C) {}\n"),
        Source::new("gf/src/b/deep.rs", "use crate::c::C;\n"),
        Source::new("gf/src/c.rs", "fn f() -> crate::a::A {}\n"),
        Source::new(
            "gf/src/d.rs",
            "// crate::a::A\nuse crate::d::Own;\n#[cfg(test)]\nmod tests {\n use crate::a::A;\n}\n",
        ),
        Source::new("disk/src/a.rs", "use crate::b::B;\n"),
        Source::new("disk/src/b.rs", "use std::crate_a::a::A;\n"),
    ];
    let found: Vec<String> = circles(&sources).into_iter().collect();
    assert_eq!(found, ["gf: a b::deep c"]);
    let cut = Source::new("gf/src/c.rs", "");
    let without: Vec<Source> =
        sources.iter().filter(|s| s.path != cut.path).cloned().chain([cut.clone()]).collect();
    assert!(circles(&without).is_empty());
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
