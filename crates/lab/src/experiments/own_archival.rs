//! Ours: what an object costs after its archival, the table that RapidRAID's evaluation lacks.

use super::conversion::{CLASSICAL, Contender, Objects, RR8, TWO, archived, chosen, network, put, results};
use super::encoding::{Network, PREFIX, SECONDS, Site};
use super::whole_node::stop_watch;
use super::{Bench, Experiment};
use crate::cluster::LabCluster;
use crate::error::{Result, bad};
use crate::report::{Axis, Comparison, Results, sample};
use crate::scratch::Scratch;
use client::{ByteRange, GetOptions};
use model::NodeId;
use std::path::Path;

pub const EXPERIMENT: Experiment = Experiment {
    id: "own-archival",
    title: "Archival, reads and repair of an object by (16,11) codes",
    paper: "none: RapidRAID's evaluation ends with the archival. Static resilience of both codes is in rr-t1.",
    must_show: "the whole object is read at 0.8 of the classical code's rate or more when nothing is lost.",
    run,
    compare,
};

const ARCHIVE: f64 = 0.0;
const READ: f64 = 1.0;
const RANGE: f64 = 2.0;
const ONE_LOST: f64 = 3.0;
const TWO_LOST: f64 = 4.0;
const REPAIR: f64 = 5.0;
const STEPS: [&str; 6] = [
    "archive",
    "read all",
    "read 1 MiB of block 5",
    "read all, one host dead",
    "read all, two dead",
    "rebuild both blocks",
];

/// Hosts beyond those of a stripe: two to rebuild blocks on.
const SPARE: usize = 2;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let network = network(bench);
    let network = Network { racks: network.racks + SPARE, ..network };
    network.with(bench, |site| {
        let objects = Objects { count: 1, block_bytes: bench.sized(16 << 20, 2 << 20) };
        let axis = Axis::named("step", STEPS);
        let mut results = results(site, &EXPERIMENT, objects, axis, bench.rounds(2, 1));
        results.notes.push(format!(
            "{SPARE} hosts more. Reads are of the whole object into a file in memory, by a client on the coordinator's host, by the scheme that \
             the coordinator chooses; the file's digest is compared. The hosts that die hold blocks 3 and 7 of the classical stripe, or the \
             codeword's, and both blocks are rebuilt in one pass."
        ));
        for round in 1..=results.setup.runs {
            for contender in chosen(TWO) {
                (site.bench.say)(&format!("round {round} of {}: {}", results.setup.runs, contender.label.name));
                steps(site, contender, objects, &mut results)?;
            }
        }
        Ok(results)
    })
}

/// All steps on a cluster of their own.
fn steps(site: &mut Site<'_>, contender: &Contender, objects: Objects, results: &mut Results) -> Result<()> {
    let mut cluster = put(site, contender, objects)?;
    results.add(contender.label, ARCHIVE, archived(site, &cluster, contender, objects)?);
    let names = cluster.names(PREFIX)?;
    let name = names.first().ok_or_else(|| bad("nothing was put".to_owned()))?;
    cluster.wait_without_garbage()?;
    let folder = Scratch::new(None)?;
    let mut add = |x: f64, seconds: f64| {
        (site.bench.say)(&format!("{}: {seconds:.3} s", STEPS[x as usize]));
        results.add(contender.label, x, sample([(SECONDS, seconds)]));
    };
    add(READ, read(&cluster, name, folder.path(), None)?);
    let first = 5 * objects.block_bytes;
    let range = ByteRange::From { first, last: Some(first + (1 << 20) - 1) };
    add(RANGE, read(&cluster, name, folder.path(), Some(range))?);
    for (member, x) in [(3, ONE_LOST), (7, TWO_LOST)] {
        let node = holder(&cluster, name, member)?;
        cluster.stop_node(node)?;
        add(x, read(&cluster, name, folder.path(), None)?);
    }
    let elapsed = stop_watch();
    cluster.repair_object(name)?;
    add(REPAIR, elapsed().as_secs_f64());
    cluster.shutdown()
}

/// The node of a stored member of the object's stripe, counted from the first that is stored.
fn holder(cluster: &LabCluster, name: &str, member: usize) -> Result<NodeId> {
    let stripe = cluster.lookup(name)?.blocks.into_iter().find_map(|block| block.stripe);
    let stripe = stripe.ok_or_else(|| bad(format!("{name} was not archived")))?;
    let stored = stripe.members.iter().filter(|m| !m.is_virtual).nth(member);
    stored.map(|member| NodeId(member.node)).ok_or_else(|| bad(format!("{name} has no member {member}")))
}

/// Seconds to read an object, or a range of it, into a file.
fn read(cluster: &LabCluster, name: &str, folder: &Path, range: Option<ByteRange>) -> Result<f64> {
    let path = folder.join("copy");
    cluster.with_client(LabCluster::COORDINATOR_HOST, async |client| {
        let elapsed = stop_watch();
        client.get_to_file(name, &path, GetOptions { range, ..GetOptions::default() }).await?;
        Ok(elapsed().as_secs_f64())
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let against = |x: f64| {
        let what = format!("{RR8} against {CLASSICAL}: {}", results.x.text(x));
        Comparison::times(what, results.ratio(RR8, CLASSICAL, x))
    };
    [ARCHIVE, READ, RANGE, ONE_LOST, TWO_LOST, REPAIR]
        .map(|x| if x == READ { against(x).at_most(1.0 / 0.8) } else { against(x) })
        .into()
}
