//! The table: every scheme × every family of codes × every lost block, over real sockets. A new scheme, and a new family
//! whose example is no wider than [`MOST_BLOCKS`], is in it without being named here.

use crate::rig::{Rig, remove};
use codes::{Code, families};
use flow::{Scheme, Site};
use std::collections::BTreeMap;

/// Codes that papers and issues name, and one for each family whose example is wider than this test has nodes.
const NAMED: &[&str] = &[
    "rs-10+4",
    "rs-12+4",
    "rs16-6+3",
    "lrc-12+2+2",
    "lrc-10+2+2",
    "rotated-12+4-r4",
    "rapidraid-4+3",
    "rapidraid16-3+2",
    "rep-3",
];

/// Nodes in one process, each with its listeners and threads.
const MOST_BLOCKS: usize = 20;

/// Slices shorter than a symbol, so that there are several, of which the last is short.
const SLICE_BYTES: u32 = 8 * 1024;

/// Data blocks get shorter by this, one after another, so that links carry different numbers of bytes.
const STEP_BYTES: u64 = 1_111;

/// The names, and each family's example where it fits.
fn table() -> Vec<String> {
    let mut names: Vec<String> = NAMED.iter().map(|&name| name.to_owned()).collect();
    for family in families() {
        let code = Code::parse(family.example).unwrap();
        if code.n() <= MOST_BLOCKS && !names.contains(&code.name().to_owned()) {
            names.push(code.name().to_owned());
        }
    }
    for family in families() {
        let has = |name: &String| family_of(name) == family.pattern;
        assert!(names.iter().any(has), "no code of {} in the table: name one of few blocks", family.pattern);
    }
    names
}

/// The pattern of which `name` is made: that with the longest beginning in common.
fn family_of(name: &str) -> &'static str {
    let beginning = |pattern: &'static str| pattern.split(|c: char| c.is_ascii_uppercase()).next().unwrap();
    let patterns = families().iter().map(|family| family.pattern);
    patterns
        .filter(|&pattern| name.starts_with(beginning(pattern)))
        .max_by_key(|&pattern| beginning(pattern).len())
        .unwrap()
}

async fn rig(name: &str) -> Rig {
    let code = Code::parse(name).unwrap();
    // A chunk to a symbol at least where a block has several: below, every block would be one symbol.
    let chunks = if code.alpha() > 1 { code.alpha() as u64 } else { 1 };
    let longest = chunks * gf::CHUNK_BYTES as u64;
    let lengths: Vec<u64> = (0..code.k() as u64).map(|i| longest - i * STEP_BYTES).collect();
    Rig::new(name, &lengths, SLICE_BYTES).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_scheme_repairs_every_block_of_every_family_by_the_bytes_predicted() {
    for name in table() {
        let mut rig = rig(&name).await;
        for scheme in Scheme::all() {
            for lost in 0..rig.blocks.len() {
                let what = format!("{name}, {scheme}, block {lost}");
                let (plan, predicted) = rig.plan_and_cost(scheme, lost as u16);
                let result = rig.repair(plan).await.unwrap_or_else(|fault| panic!("{what}: {fault}"));
                assert!(rig.repaired(lost), "{what}: other bytes");
                let links: BTreeMap<_, _> =
                    result.links.iter().map(|l| ((Site(l.from), Site(l.to)), l.bytes)).collect();
                assert_eq!(links, predicted.links, "{what}: links");
                assert_eq!(rig.read_at(&result), predicted.disk_read, "{what}: disks");
                assert!(links.values().any(|&bytes| bytes > 0), "{what}: nothing was sent");
                remove(&rig.requestor.flows().store, rig.ids[lost]);
            }
        }
        rig.nodes.clear();
    }
}
