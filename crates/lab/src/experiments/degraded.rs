//! Degraded reads of whole lost blocks by a client on a host that holds none of the stripe: what 7(c) and 7(d) of PPR
//! measure.

use super::stand::{PROCESSOR_SHARE, Stand, Stripe, VERIFIED};
use super::{Experiment, timeslots};
use crate::error::{Result, bad};
use crate::report::{Axis, Label, Measure, Results, Summary, Unit, sample};
use cli::processor::ProcessorShare;
use client::{ByteRange, Client, GetOptions, GetReport};
use model::NodeId;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::time::Instant;

/// Payload of the block over the time of the read, bits per second.
pub const THROUGHPUT: &str = "bits_per_s";

/// Reads of each kind that are not counted: connections are made.
const WARM_UPS: usize = 1;

/// An empty record of an experiment about reads.
pub fn results(stand: &Stand<'_>, experiment: &Experiment, x: Axis, rounds: usize) -> Results {
    let mut results = stand.results(experiment, x, rounds);
    results.log_y = true;
    results.y = Measure::new(VERIFIED, "latency", Unit::Seconds);
    results.beside = vec![
        Measure::new(THROUGHPUT, "throughput", Unit::GigabitsPerSecond),
        Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent),
    ];
    results
}

/// Kills the nodes of the first blocks of some stripes. `what` stands before what is said of it.
///
/// # Errors
/// Of the cluster.
pub fn kill(stand: &mut Stand<'_>, stripes: Range<usize>, what: &str) -> Result<BTreeSet<NodeId>> {
    let dead: BTreeSet<NodeId> = stripes.map(|stripe| stand.stripes[stripe].members[0]).collect();
    let numbers: BTreeSet<u32> = dead.iter().map(|node| node.0).collect();
    (stand.bench.say)(&format!("{what}killing the nodes of the first blocks, {numbers:?}"));
    dead.iter().try_for_each(|&node| stand.cluster.stop_node(node))?;
    Ok(dead)
}

/// The first block of a stripe, whose node is dead, read whole by every scheme in turn, as often as the record says; under
/// `x`, with bounds: the timeslots of each scheme × a direct send of one block in the same rounds.
///
/// # Errors
/// Of the reads, or if one is not degraded.
pub fn measure(
    stand: &Stand<'_>,
    stripe: &Stripe,
    schemes: &[Label],
    x: f64,
    results: &mut Results,
) -> Result<()> {
    let host = stand.cluster.host_of(stripe.requestor)?.index;
    let mut direct = Vec::new();
    for round in 0..results.setup.runs + WARM_UPS {
        let reads = stand.cluster.with_client(host, async |client| {
            let mut reads = Vec::new();
            for &label in schemes {
                let processors = ProcessorShare::start()?;
                let whole = Range { start: 0, end: stripe.block_bytes };
                let what = format!("{} read of {}", label.name, stripe.object);
                let seconds = read(&client, stripe, label.name, whole, (1, &what)).await?;
                reads.push((label, seconds, processors.so_far()?));
            }
            Ok(reads)
        })?;
        if round < WARM_UPS {
            continue;
        }
        for (label, seconds, share) in reads {
            let throughput = stripe.block_bytes as f64 * 8.0 / seconds;
            let read = sample([(VERIFIED, seconds), (THROUGHPUT, throughput), (PROCESSOR_SHARE, share)]);
            results.add(label, x, read);
            (stand.bench.say)(&format!("{} at {}: {seconds:.3} s", label.name, results.x.text(x)));
        }
        direct.extend(stand.direct(stripe.block_bytes)?.get(VERIFIED).copied());
    }
    let slot = Summary::of(direct).map_or(0.0, |summary| summary.median);
    let slices = stripe.block_bytes.div_ceil(flow::limits::DEFAULT_SLICE_BYTES.into());
    for label in schemes {
        if let Some(slots) = timeslots(label.name, stripe.code.k(), slices) {
            results.bound(label.name, x, slots * slot);
        }
    }
    Ok(())
}

/// Seconds from the call to the last byte in the reader's hands. So many blocks must be decoded for it; `what` is read, in
/// words.
///
/// # Errors
/// Of the client, or if it was another kind of read.
pub async fn read(
    client: &Client,
    stripe: &Stripe,
    scheme: &str,
    bytes: Range<u64>,
    (degraded, what): (u64, &str),
) -> Result<f64> {
    let options = GetOptions {
        range: Some(ByteRange::From { first: bytes.start, last: Some(bytes.end - 1) }),
        scheme: scheme.to_owned(),
        ..GetOptions::default()
    };
    let (seconds, report) = timed(client, &stripe.object, options).await?;
    if report.degraded_blocks != degraded || report.bytes != bytes.end - bytes.start {
        return Err(bad(format!(
            "a {what} gave {} B and decoded {} blocks instead of {degraded}",
            report.bytes, report.degraded_blocks
        )));
    }
    Ok(seconds)
}

/// A read, and its seconds from the call to the last byte in the reader's hands.
///
/// # Errors
/// Of the client.
pub async fn timed(client: &Client, object: &str, options: GetOptions) -> Result<(f64, GetReport)> {
    let started = Instant::now();
    let report = client.get(object, io::sink(), options).await?;
    Ok((started.elapsed().as_secs_f64(), report))
}
