//! What experiments about archival by a pipeline stand on: as many hosts as a stripe of (16,11) has blocks, a rack each, and for
//! each sample a cluster of its own, into which replicas are put before the links are limited.
//!
//! ```text
//!   links without limits ─▶ a fresh cluster, replicas put ─▶ limits, some hosts at half of them ─▶ archival
//! ```

use super::encoding::{Load, Network, PREFIX, SECONDS, Site, busiest_s};
use super::stand::{BUSIEST, PROCESSOR_SHARE};
use super::whole_node::stop_watch;
use super::{Bench, Experiment};
use crate::cluster::LabCluster;
use crate::error::{LabError, Result};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Sample, Setup, Unit, sample};
use crate::testbed::LinkRate;
use cli::processor::{ProcessorShare, settle};
use client::Archival;

/// One node downloads the data, makes the parities and uploads them: the paper's CEC.
pub const CLASSICAL: &str = "classical, rs-11+5";
/// Parities of the same code along a chain of the data nodes.
pub const SYSTEMATIC: &str = "pipeline, rs-11+5";
/// The paper's RR8 and …
pub const RR8: &str = "RapidRAID, GF(2^8)";
/// … RR16.
pub const RR16: &str = "RapidRAID, GF(2^16)";

/// Payload bytes that hosts sent, for each byte of data, as the kernel counted them.
const SENT: &str = "sent_bytes_per_byte";
const N: usize = 16;
const K: usize = 11;

/// How an archival is done.
pub struct Contender {
    /// Its series.
    pub label: Label,
    code: &'static str,
    policy: &'static str,
    scheme: &'static str,
}

const CONTENDERS: [Contender; 4] = [
    Contender { label: Label::rival(CLASSICAL), code: "rs-11+5", policy: "random", scheme: "star" },
    Contender { label: Label::rival(SYSTEMATIC), code: "rs-11+5", policy: "random", scheme: "pipeline" },
    Contender { label: Label::subject(RR8), code: "rapidraid-11+5", policy: "rapidraid", scheme: "" },
    Contender { label: Label::subject(RR16), code: "rapidraid16-11+5", policy: "rapidraid", scheme: "" },
];

/// All contenders, in the order in which they take turns.
pub const ALL: &[&str] = &[CLASSICAL, SYSTEMATIC, RR8, RR16];

/// Those of figure 5: the classical one, and RapidRAID over the small field.
pub const TWO: &[&str] = &[CLASSICAL, RR8];

/// Stripes that are archived at once, and of which blocks.
#[derive(Clone, Copy)]
pub struct Objects {
    /// Of eleven blocks each.
    pub count: usize,
    /// Length of a block.
    pub block_bytes: u64,
}

/// A link at which two processors are not what an archival waits for, though sixteen nodes run on them.
const PORT_MBIT: f64 = 100.0;

/// As many hosts as blocks, so that each takes part in every stripe of a pipeline.
pub fn network(bench: &Bench<'_>) -> Network {
    Network { racks: N, hosts_per_rack: 1, port: bench.rate_or(PORT_MBIT), core: LinkRate::UNLIMITED }
}

/// An empty record of archival times.
pub fn results(
    site: &Site<'_>,
    experiment: &Experiment,
    objects: Objects,
    x: Axis,
    rounds: usize,
) -> Results {
    let network = network(site.bench);
    let text = format!("network namespaces joined by veth pairs, {N} hosts, a rack each");
    let setup =
        Setup { hosts: Some(N), block_bytes: Some(objects.block_bytes), ..Setup::here(&text, rounds) };
    let y = Measure::new(SECONDS, "time to archive", Unit::Seconds);
    let mut results = site.bench.record(experiment, setup, x, y);
    results.ratios = Ratio::columns(&[CLASSICAL], &[]);
    results.beside = vec![
        Measure::new(BUSIEST, "busiest link's time", Unit::Seconds),
        Measure::new(SENT, "sent per block of data", Unit::Blocks),
        Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent),
    ];
    results.notes.push(format!(
        "{} of {K} blocks, two replicas of each, archived at once; links at {} in each direction. The paper has blocks of 64 MB, links of \
         1 Gb/s and 50 nodes of four cores. RapidRAID's replicas were put along its pipeline, the others' by random placement.",
        match objects.count {
            1 => "One object".to_owned(),
            count => format!("{count} objects"),
        },
        network.port,
    ));
    results.notes.push(
        "Each sample is of a cluster of its own, with blocks in memory. The time is from the order to the answer: planning, notes in the \
         catalog, verification, syncs and commits included. A bound is what the busiest link allows for the bytes that it did carry, as the \
         kernel counted them."
            .to_owned(),
    );
    results
}

/// Those of these names, in their order.
pub fn chosen(names: &[&str]) -> impl Iterator<Item = &'static Contender> {
    CONTENDERS.iter().filter(|contender| names.contains(&contender.label.name))
}

/// Archives by each contender in turn, as often as the record says, while so many hosts have half of the rate.
///
/// # Errors
/// Of the testbed and the cluster; nothing is reported then.
pub fn take_turns(
    site: &mut Site<'_>,
    contenders: &[&str],
    objects: Objects,
    (x, congested): (f64, usize),
    results: &mut Results,
) -> Result<()> {
    for round in 1..=results.setup.runs {
        for contender in chosen(contenders) {
            let sample = archive(site, contender, objects, congested)?;
            let seconds = sample.get(SECONDS).copied().unwrap_or_default();
            (site.bench.say)(&format!(
                "round {round} of {}: {} at {}: {seconds:.2} s",
                results.setup.runs,
                contender.label.name,
                results.x.text(x)
            ));
            results.add(contender.label, x, sample);
        }
    }
    results.bounds_from(BUSIEST);
    Ok(())
}

fn archive(site: &mut Site<'_>, contender: &Contender, objects: Objects, congested: usize) -> Result<Sample> {
    let cluster = put(site, contender, objects)?;
    let port = network(site.bench).port;
    for host in 0..congested {
        site.testbed.set_host_rate(host, LinkRate { bits_per_s: port.bits_per_s / 2 })?;
    }
    let sample = archived(site, &cluster, contender, objects)?;
    cluster.shutdown()?;
    Ok(sample)
}

/// A cluster with replicas of some objects, on links that have their limits.
///
/// # Errors
/// Of the testbed and the cluster.
pub fn put(site: &mut Site<'_>, contender: &Contender, objects: Objects) -> Result<LabCluster> {
    let Objects { count, block_bytes } = objects;
    let load = Load {
        code: contender.code,
        replicas: 2,
        rack_capacity: 1,
        stripes: count,
        block_bytes,
        tasks: count as u32,
    };
    let cluster = site.cluster()?;
    for object in 0..count {
        cluster.put_blocks(&format!("{PREFIX}{object}"), K, load.options(contender.policy))?;
    }
    site.limit()?;
    Ok(cluster)
}

/// Archives them, when the machine has settled.
///
/// # Errors
/// Of the testbed and the cluster; [`LabError::Daemon`] if not all was archived.
pub fn archived(
    site: &Site<'_>,
    cluster: &LabCluster,
    contender: &Contender,
    Objects { count, block_bytes }: Objects,
) -> Result<Sample> {
    settle()?;
    let (processors, before) = (ProcessorShare::start()?, site.testbed.carried()?);
    let elapsed = stop_watch();
    let events = cluster.archive_events(Archival {
        name: PREFIX.to_owned(),
        is_prefix: true,
        parallel: count as u32,
        scheme: contender.scheme.to_owned(),
        ..Archival::default()
    })?;
    let seconds = elapsed().as_secs_f64();
    let (share, carried) = (processors.so_far()?, site.testbed.carried()?.since(&before));
    let end =
        events.last().filter(|end| end.state == "done" && end.failed == 0 && end.done as usize == count);
    let said = events.last().map_or("the archival reported nothing", |event| &event.message);
    end.ok_or_else(|| LabError::of_coordinator(said))?;
    let busiest = busiest_s(&site.testbed, &carried);
    let data = (count * K) as f64 * block_bytes as f64;
    Ok(sample([
        (SECONDS, seconds),
        (BUSIEST, busiest),
        (SENT, carried.between_racks() as f64 / data),
        (PROCESSOR_SHARE, share),
    ]))
}

/// How much less time than the classical archival one takes, at `x`.
pub fn saving(results: &Results, name: &str, x: f64) -> Comparison {
    Comparison::saving(
        format!("{name} against {CLASSICAL}, {}", results.x.text(x)),
        results.ratio(name, CLASSICAL, x),
    )
    .why(busy(results, name, x))
}

/// Its time against its own bound.
pub fn own(results: &Results, name: &str, x: f64) -> Comparison {
    Comparison::times(
        format!("{name} against its own bound, {}", results.x.text(x)),
        results.of_bound(name, x),
    )
    .why(busy(results, name, x))
}

fn busy(results: &Results, name: &str, x: f64) -> String {
    format!("processors {:.0} % busy", results.median_of(name, x, PROCESSOR_SHARE) * 100.0)
}
