//! `stripeline plan`: what a researcher who uses it as a calculator sees.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may give up

use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Output};
use tempfile::NamedTempFile;

fn stripeline(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stripeline")).args(arguments).output().unwrap()
}

fn answer(arguments: &[&str]) -> String {
    let output = stripeline(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
    String::from_utf8(output.stdout).unwrap()
}

/// The answer with `--json`.
fn document(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(&[arguments, &["--json"]].concat())).unwrap()
}

/// The error of a command that was understood and could not be done: one line, nothing on standard output.
fn error(arguments: &[&str]) -> String {
    let output = stripeline(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
    assert!(output.stdout.is_empty());
    assert_eq!(text.lines().count(), 1, "{text}");
    text.strip_prefix("error: ").expect("the prefix").trim_end().to_owned()
}

fn file(content: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file
}

/// `stripeline plan …` about what a file says.
struct About<'a> {
    command: [&'a str; 2],
    file: NamedTempFile,
}

impl<'a> About<'a> {
    fn new(command: [&'a str; 2], content: impl ToString) -> Self {
        About { command, file: file(&content.to_string()) }
    }

    fn arguments<'b>(&'b self, k: &'b str, requestor: &'b str, more: &[&'b str]) -> Vec<&'b str> {
        let [command, option] = self.command;
        let path = self.file.path().to_str().unwrap();
        [&["plan", command, "--k", k, "--requestor", requestor, option, path], more].concat()
    }
}

const PATH: [&str; 2] = ["path", "--weights"];

#[test]
fn a_weighted_path_avoids_slow_links_and_slow_nodes() {
    let weights = json!([[0, 9, 9, 9], [9, 0, 2, 9], [3, 9, 0, 9], [1, 4, null, 0]]);
    let plain = About::new(PATH, json!({"weights": weights}));
    let found = document(&plain.arguments("2", "0", &[]));
    assert_eq!(found, json!({"path": [1, 2, 0], "max_weight": 3.0, "proven": true}));
    let found = document(&plain.arguments("3", "0", &[]));
    assert_eq!(found, json!({"path": [3, 1, 2, 0], "max_weight": 4.0, "proven": true}));
    let found = document(&plain.arguments("1", "0", &["--helpers", "1,2"]));
    assert_eq!(found["path"], json!([2, 0]));
    assert!(answer(&plain.arguments("2", "0", &[])).contains("largest weight 3: no path has less"));
    let with_nodes = About::new(PATH, json!({"weights": weights, "nodes": [0, 0, 7, 0]}));
    assert_eq!(document(&with_nodes.arguments("1", "0", &[]))["path"], json!([3, 0]));
    assert_eq!(document(&with_nodes.arguments("2", "0", &[]))["max_weight"], 7.0);
}

#[test]
fn wrong_weights_are_explained_in_a_sentence() {
    let good = About::new(PATH, json!({"weights": [[0, 1, 1], [1, 0, 1], [1, 1, 0]]}));
    assert!(error(&good.arguments("3", "0", &[])).contains("3 helpers are needed, 2 are available"));
    assert!(error(&good.arguments("0", "0", &[])).contains("at least one helper"));
    assert!(error(&good.arguments("1", "3", &[])).contains("no node 3"));
    assert!(
        error(&good.arguments("1", "0", &["--helpers", "0,1"])).contains("node 0 cannot take part twice")
    );
    for (content, told) in [
        (json!({"weights": [[0, 1], [1]]}).to_string(), "row 1 has 1 columns"),
        (json!({"weights": [[0, 1], [-1, 0]]}).to_string(), "from node 1 to node 0 is below 0"),
        (json!({"weights": [[0, 1], [null, 0]]}).to_string(), "no path leads through 1 helpers to node 0"),
        (json!({"weights": [[0, 1], [1, 0]], "nodes": [1]}).to_string(), "1 numbers are given for 2 nodes"),
        ("{\"weights\": [[0, NaN], [1, 0]]}".to_owned(), "line 1"),
        ("{\"weights\": 3}".to_owned(), "line 1"),
        ("{}".to_owned(), "missing field `weights`"),
        (String::new(), "line 1"),
    ] {
        let about = About::new(PATH, &content);
        let text = error(&about.arguments("1", "0", &[]));
        assert!(text.contains(told), "{content}: {text}");
    }
    let missing = error(&["plan", "path", "--k", "1", "--requestor", "0", "--weights", "/nonexistent"]);
    assert!(missing.starts_with("cannot read /nonexistent"), "{missing}");
}

const MULTIPATH: [&str; 2] = ["multipath", "--bandwidth"];

/// The loads of lanes stay within `limit`, and their rates sum up to the rate.
fn check_lanes(found: &Value, k: usize, requestor: u64, limit: impl Fn(usize, usize) -> f64) {
    let mut sum = 0.0;
    let mut loads = std::collections::BTreeMap::new();
    for lane in found["lanes"].as_array().unwrap() {
        let path: Vec<usize> =
            lane["path"].as_array().unwrap().iter().map(|node| node.as_u64().unwrap() as usize).collect();
        assert_eq!((path.len(), path[k] as u64), (k + 1, requestor));
        let rate = lane["rate"].as_f64().unwrap();
        sum += rate;
        path.windows(2).for_each(|link| *loads.entry((link[0], link[1])).or_insert(0.0) += rate);
    }
    assert!((found["rate"].as_f64().unwrap() - sum).abs() < 1e-9);
    assert!(loads.iter().all(|(&(from, to), &load)| load <= limit(from, to) + 1e-9), "{loads:?}");
}

#[test]
fn several_paths_fill_what_one_leaves_idle() {
    // Three helpers of two, one of them slow: it takes part in half of the slices.
    let nodes = About::new(MULTIPATH, json!({"up": [0, 100, 50, 50], "down": [100, 100, 100, 100]}));
    let found = document(&nodes.arguments("2", "0", &[]));
    assert_eq!((&found["rate"], &found["bound"]), (&json!(100.0), &json!(100.0)));
    assert_eq!(found["lanes"].as_array().unwrap().len(), 2);
    check_lanes(&found, 2, 0, |_, _| 100.0);
    let single = document(&nodes.arguments("2", "0", &["--lanes", "1"]));
    assert_eq!((&single["rate"], &single["bound"]), (&json!(50.0), &json!(100.0)));
    assert!(answer(&nodes.arguments("2", "0", &[])).contains("100.00 % of the bound 100.000"));

    let rows = [[0.0, 1.0, 1.0, 1.0], [4.0, 0.0, 3.0, 9.0], [5.0, 6.0, 0.0, 2.0], [2.0, 0.0, 8.0, 0.0]];
    let links = About::new(MULTIPATH, json!({"bandwidth": rows}));
    let found = document(&links.arguments("2", "0", &[]));
    check_lanes(&found, 2, 0, |from, to| rows[from][to]);
    // All that enters the requestor: 4 over 2→1, 5 over 1→2 and 3→2, 2 over 1→3.
    assert!(
        (found["rate"].as_f64().unwrap() - 11.0).abs() < 1e-4 && found["bound"].as_f64().unwrap() >= 11.0
    );
    let all = json!({"bandwidth": rows, "up": [null, 5, 6, 1], "down": [9.5, null, null, null]});
    let both = About::new(MULTIPATH, all);
    assert!(document(&both.arguments("2", "0", &[]))["bound"].as_f64().unwrap() <= 6.0);
}

#[test]
fn wrong_bandwidths_are_explained_in_a_sentence() {
    for (content, told) in [
        (json!({"up": [1, 2, 3], "down": [1, 2]}), "2 numbers are given for 3 nodes"),
        (json!({"up": [1, 2, 3], "down": [1, -2, 3]}), "node 1 is below 0"),
        (json!({"up": [1, 2, 3]}), "up and down"),
        (json!({}), "up and down"),
        (json!({"bandwidth": [[1, 2], [1]]}), "row 1 has 1 columns"),
        (
            json!({"bandwidth": [[0, 1, 1], [0, 0, 1], [0, 1, 0]]}),
            "no path leads through 2 helpers to node 0",
        ),
        (json!({"up": [1, 1], "down": [1, 1]}), "2 helpers are needed, 1 are available"),
        (json!({"up": [null, null, null], "down": [null, null, null]}), "no bandwidth limits the rate"),
        (json!({"up": [1, 1, 1], "down": [1, 1, 1], "bandwidth": [[1]]}), "3 numbers are given for 1 nodes"),
    ] {
        let about = About::new(MULTIPATH, &content);
        let text = error(&about.arguments("2", "0", &[]));
        assert!(text.contains(told), "{content}: {text}");
    }
}

#[test]
fn rack_aware_paths_visit_each_rack_once() {
    let plan = ["plan", "rack", "--k", "4", "--requestor", "0", "--racks", "0,1,2,0,2,2"];
    assert_eq!(document(&plan), json!({"path": [5, 4, 2, 3, 0], "cross_rack": 1}));
    assert!(answer(&plan).contains("streams between racks: 1"));
    let chosen = document(&[&plan[..], &["--helpers", "1,2,3,4"]].concat());
    assert_eq!(chosen, json!({"path": [1, 4, 2, 3, 0], "cross_rack": 2}));
    assert!(error(&["plan", "rack", "--k", "9", "--requestor", "0", "--racks", "0,1"]).contains("9 helpers"));
    assert!(error(&["plan", "rack", "--k", "1", "--requestor", "7", "--racks", "0,1"]).contains("node-7"));
}

#[test]
fn cyclic_lanes_share_the_slices() {
    let plan = ["plan", "cyclic", "--helpers", "5,6,7", "--requestor", "1", "--slices", "5"];
    let lanes = json!([{"path": [5, 6, 7, 1], "slices": 3}, {"path": [6, 7, 5, 1], "slices": 2}]);
    assert_eq!(document(&plan), json!({"lanes": lanes, "timeslots": 1.4}));
    assert!(answer(&plan).contains("6 → 7 → 5 → 1"));
    let twice = error(&["plan", "cyclic", "--helpers", "5,6,5", "--requestor", "1", "--slices", "5"]);
    assert!(twice.contains("node 5"), "{twice}");
}

#[test]
fn a_recovery_is_assigned_within_a_block_of_its_bound_and_a_lost_stripe_is_named() {
    let block = |survivors: [u32; 3], needed: u32| json!({"survivors": survivors, "needed": needed, "requestors": [7, 8, 9], "bytes": 100});
    // Each of 1 … 6 sends one of six blocks; three blocks come to three requestors.
    let blocks = json!({"blocks": [block([1, 2, 3], 2), block([3, 4, 5], 2), block([5, 6, 1], 2), block([1, 2, 3], 4)]});
    let file = file(&blocks.to_string());
    let arguments = ["plan", "recovery", "--blocks", file.path().to_str().unwrap()];
    let plan = document(&arguments);
    assert_eq!((&plan["busiest_bytes"], &plan["bound_bytes"]), (&json!(100), &json!(100)));
    let senders: std::collections::BTreeSet<u64> = (0..3)
        .flat_map(|i| {
            plan["assignments"][i]["chain"].as_array().unwrap().iter().map(|node| node.as_u64().unwrap())
        })
        .collect();
    assert_eq!(senders.len(), 6);
    assert!(plan["assignments"][3]["error"].as_str().unwrap().contains("4 helpers are needed"), "{plan}");
    assert!(answer(&arguments).contains("no assignment is below 100"));
    let wrong = self::file(r#"{"blocks": [{"survivor": []}]}"#);
    assert!(error(&["plan", "recovery", "--blocks", wrong.path().to_str().unwrap()]).contains("survivor"));
}

#[test]
fn a_recovery_reads_the_fewest_symbols_and_says_from_whom() {
    fn of<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["plan", "recover", "rdp-7", "--lost", "0"], more].concat()
    }
    let read = |more: &[&str]| document(&of(more));
    assert_eq!(read(&["--method", "conventional"])["symbols_read"], 36);
    for method in ["exact", "replace"] {
        let found = read(&["--method", method, "--equations"]);
        assert_eq!((&found["symbols_read"], &found["proven"]), (&json!(27), &json!(method == "exact")));
        let reads = found["reads"].as_object().unwrap();
        let count = reads.values().map(|symbols| symbols.as_array().unwrap().len()).sum::<usize>();
        assert_eq!((reads.len(), count), (7, 27));
        // Only what is read is in the sums, and each of the six symbols has one.
        let equations = found["equations"].as_array().unwrap();
        let is_read = |term: &Value| reads[&term[0].to_string()].as_array().unwrap().contains(&term[1]);
        assert!(equations.iter().all(|sum| sum["sum"].as_array().unwrap().iter().all(is_read)));
        assert_eq!(equations.len(), 6);
    }
    assert!(answer(&of(&[])).contains("27 symbols are read, 4.50 blocks' worth: nothing cheaper suffices"));
    let costs = file(r#"{"costs": [1, 20, 1, 1, 1, 1, 1, 1]}"#);
    let weighed = read(&["--costs", costs.path().to_str().unwrap()]);
    assert_eq!(weighed["reads"].get("1"), None, "as if that node were lost too: {weighed}");
    let several = document(&["plan", "recover", "star-5", "--lost", "1,4,6"]);
    assert_eq!(several["reads"].as_object().unwrap().len(), 5);

    assert!(error(&["plan", "recover", "rdp-7", "--lost", "0,1,2"]).contains("cannot be recovered"));
    assert!(error(&["plan", "recover", "rdp-7", "--lost", "8"]).contains("there is no block 8"));
    assert!(error(&["plan", "recover", "rdp-7", "--lost", "2,2"]).contains("named twice"));
    assert!(error(&["plan", "recover", "rs-6+3", "--lost", "0"]).contains("is no XOR code"));
    let short = file(r#"{"costs": [1]}"#);
    assert!(error(&of(&["--costs", short.path().to_str().unwrap()])).contains("1 costs for 8 nodes"));
}

/// `stripeline plan place` over 20 racks of 20 nodes.
fn place<'a>(policy: &'a str, code: &'a str, capacity: &'a str, blocks: &'a str) -> Vec<&'a str> {
    let cluster = ["plan", "place", "--racks", "20", "--nodes-per-rack", "20", "--seed", "7"];
    [&cluster[..], &["--policy", policy, "--code", code, "--rack-capacity", capacity, "--blocks", blocks]]
        .concat()
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn encoding_aware_replicas_lie_evenly_and_encode_within_their_rack() {
    for (code, k) in [("rs-10+4", 10), ("lrc-10+2+2", 10)] {
        let found = document(&place("ear", code, "2", "4000"));
        let share = numbers(&found["rack_share"]);
        assert!(
            share.len() == 20
                && share.is_sorted_by(|a, b| a >= b)
                && (share.iter().sum::<f64>() - 1.0).abs() < 1e-9
        );
        assert!(share[0] < 0.06 && share[19] > 0.04, "{share:?}");
        let drawn = numbers(&found["iterations_by_position"]);
        assert!(drawn.len() == k && drawn.iter().all(|&layouts| (1.0..3.0).contains(&layouts)), "{drawn:?}");
        assert_eq!(found["cross_rack_downloads_per_stripe"], 0.0);
        assert_eq!((&found["violating_stripes"], &found["violating_short_stripes"]), (&json!(0), &json!(0)));
        assert!(found["stripes"].as_u64().unwrap() >= 380, "{found}");
        let text = answer(&place("ear", code, "2", "4000"));
        assert!(
            text.contains("rack failures survived: 2") && text.contains("full stripes that violate: 0.000 %"),
            "{text}"
        );
        assert_eq!(text.contains("1 of a local group"), code.starts_with("lrc"), "{text}");
    }
}

#[test]
fn other_policies_pay_with_downloads_or_relocation_and_say_how_much_is_expected() {
    let random = document(&place("random", "rs-10+4", "1", "20000"));
    assert_eq!(random["cross_rack_downloads_expected"], 9.0);
    assert!((random["cross_rack_downloads_per_stripe"].as_f64().unwrap() - 9.0).abs() < 0.1);
    assert!(numbers(&random["iterations_by_position"]).iter().all(|&layouts| layouts == 1.0));
    let preliminary = document(&place("ear-preliminary", "rs-10+4", "1", "20000"));
    assert_eq!(preliminary["cross_rack_downloads_per_stripe"], 0.0);
    let share = preliminary["violating_stripes"].as_f64().unwrap() / preliminary["stripes"].as_f64().unwrap();
    assert!(
        (share - preliminary["violating_share_expected"].as_f64().unwrap()).abs() < 0.05,
        "{preliminary}"
    );
    // Of three replicas in racks of their own encoding downloads less.
    let own = document(&[&place("random", "rs-10+4", "1", "2000")[..], &["--spread", "each-own"]].concat());
    assert_eq!(own["cross_rack_downloads_expected"], 8.5);
    // Runs are averaged, and a seed gives the same again.
    let runs = [&place("ear", "rs-10+4", "1", "300")[..], &["--runs", "3"]].concat();
    let found = document(&runs);
    assert_eq!((&found["runs"], &found), (&json!(3), &document(&runs)));
}

#[test]
fn a_placement_that_is_impossible_is_explained_in_a_sentence() {
    let with = |more: &[&'static str]| [&place("ear", "rs-10+4", "2", "100")[..], more].concat();
    assert!(error(&place("rr", "rs-10+4", "1", "10")).contains("there are random, ear-preliminary, ear"));
    assert!(error(&place("ear", "rs-10+4", "5", "10")).contains("at most 4"));
    assert!(error(&place("ear", "rs-10+4", "0", "10")).contains("at least 1"));
    assert!(error(&place("ear", "rs-10", "1", "10")).contains("rs-10"));
    assert!(error(&with(&["--target-racks", "6"])).contains("needs 7 racks of 20 nodes; it may use 6"));
    assert!(error(&with(&["--target-racks", "21"])).contains("21 target racks are wanted, 20 racks"));
    assert!(error(&with(&["--replicas", "0"])).contains("at least one replica"));
    assert!(error(&with(&["--replicas", "1"])).contains("use 2 replicas"));
    assert!(error(&with(&["--replicas", "21", "--spread", "each-own"])).contains("need 21 racks"));
    assert!(error(&with(&["--replicas", "401"])).contains("rep-401 needs 401 nodes, 400 are alive"));
    let small = ["plan", "place", "--policy", "random", "--racks", "3", "--code", "rs-4+2", "--blocks", "9"];
    let small = |nodes| [&small[..], &["--nodes-per-rack", nodes]].concat();
    assert!(error(&small("9")).contains("needs 6 racks of 9 nodes; it may use 3"));
    assert!(error(&small("1000000")).contains("3000000 nodes are more than"));
    assert_eq!(stripeline(&small("0")).status.code(), Some(2));
}
