//! Checks that every file on a disk is accounted for, and that nodes report their contents truthfully.

use super::Findings;
use crate::catalog::View;
use crate::cluster::Daemon;
use crate::disks::{self, BlockFile, Found};
use crate::status::nodes;
use crate::violation::Kind;
use crate::world::World;
use anyhow::Result;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Compares the files on disks with the copies that count in the catalog and the others that `cluster status` counts.
pub(super) fn disks(world: &World, status: &Value, view: &View, findings: &mut Findings) -> Result<()> {
    let (mut besides, mut strange) = (0, Vec::new());
    for node in world.cluster.nodes() {
        let found = disks::find(&node.folder)?;
        for path in &found.temporary {
            findings.insert((Kind::Unaccounted, format!("{} is left over", path.display())));
        }
        besides += copies_besides(node, &found, view, findings);
        strange.extend(strangers(world, node, &found.files, view));
        told_of_itself(node, &found.files, status, findings);
    }
    let counts = Counts::of(status);
    if besides != counts.sum() {
        let what =
            format!("{besides} copies lie on disks beside those that are counted on; status says {counts:?}");
        findings.insert((Kind::Unaccounted, what));
        findings.extend(strange.into_iter().map(|what| (Kind::Unaccounted, what)));
    }
    Ok(())
}

/// Copies on disks that do not count, by the categories of status.
#[derive(Debug)]
struct Counts {
    garbage: u64,
    unknown: u64,
    in_flight: u64,
    /// Damaged copies, which stay until their blocks have all copies without them.
    damaged: u64,
}

impl Counts {
    fn of(status: &Value) -> Counts {
        let number = |key: &str| status[key].as_u64().unwrap_or(0);
        Counts {
            garbage: number("garbage"),
            unknown: number("unknown_copies"),
            in_flight: number("in_flight"),
            damaged: number("damaged_copies"),
        }
    }

    fn sum(&self) -> u64 {
        self.garbage + self.unknown + self.in_flight + self.damaged
    }
}

/// Returns the number of copies, whole or half, on a disk beyond one for each block that counts a copy there. A counted copy that is not there is
/// a finding.
fn copies_besides(node: &Daemon, found: &Found, view: &View, findings: &mut Findings) -> u64 {
    let copies: BTreeSet<&str> = found.files.iter().map(|file| file.copy.as_str()).collect();
    let data = found.files.iter().filter(|file| !file.is_sidecar);
    let present: BTreeSet<&str> = data.map(|file| file.block.as_str()).collect();
    let mut counted = 0;
    for block in view.counted_at(node.number) {
        counted += u64::from(present.contains(block));
        if !present.contains(block) {
            let what = format!("node-{} is said to have block {block}, and has not", node.number);
            findings.insert((Kind::Unaccounted, what));
        }
    }
    (copies.len() as u64).saturating_sub(counted)
}

/// Describes files of blocks that the catalog does not place on this node.
fn strangers(world: &World, node: &Daemon, files: &[BlockFile], view: &View) -> Option<String> {
    let is_strange = |file: &&BlockFile| !view.places.contains(&(file.block.clone(), node.number));
    let strangers: Vec<&BlockFile> = files.iter().filter(is_strange).collect();
    let first = strangers.first()?;
    let hurt = strangers.iter().filter(|file| world.hurt.has(&file.path)).count();
    Some(format!(
        "node-{} has {} files that the catalog does not account for, {hurt} of them hurt, such as {}",
        node.number,
        strangers.len(),
        first.path.display()
    ))
}

/// Compares what a node reports with the files on its disk.
fn told_of_itself(node: &Daemon, files: &[BlockFile], status: &Value, findings: &mut Findings) {
    let mut halves: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for file in files {
        let entry = halves.entry(&file.copy).or_default();
        *(if file.is_sidecar { &mut entry.0 } else { &mut entry.1 }) += 1;
    }
    let data = files.iter().filter(|file| !file.is_sidecar && halves[file.copy.as_str()].0 > 0);
    let whole_bytes: u64 = data.map(|file| file.bytes).sum();
    let half = halves.values().filter(|(sidecars, data)| sidecars + data == 1).count() as u64;
    let whole = halves.len() as u64 - half;
    let said = nodes(status).iter().find(|said| said["node"] == node.number);
    let said = |key: &str| said.and_then(|said| said[key].as_u64()).unwrap_or(0);
    let told = (said("blocks"), said("stored_bytes"), said("half_blocks"));
    if told != (whole, whole_bytes, half) {
        let disk = (whole, whole_bytes, half);
        let number = node.number;
        let what = format!("node-{number} says (blocks, bytes, halves) {told:?}, its disk has {disk:?}");
        findings.insert((Kind::UntrueStatus, what));
    }
}
