//! Degraded reads of whole lost blocks by a client on a host that holds none of the stripe: what 7(c) and 7(d) of PPR
//! measure.

use super::stand::{Contender, PROCESSOR_SHARE, Stand, Stripe, VERIFIED};
use super::timeslots;
use crate::error::LabError;
use crate::report::{Kind, Measure, Results, Sample, Shape, Summary, Unit};
use cli::processor::ProcessorShare;
use client::{ByteRange, Client, GetOptions};
use std::io;
use std::time::Instant;

/// Payload of the block over the time of the read, bits per second.
pub const THROUGHPUT: &str = "bits_per_s";

/// Reads of each kind that are not counted: connections are made.
const WARM_UPS: usize = 1;

/// Whose reads are measured: a scheme, and what it is here.
pub type Reader = (&'static str, Kind);

/// What is recorded of reads.
pub fn record(results: &mut Results) {
    results.y = Measure::new(VERIFIED, "latency", Unit::Seconds);
    results.beside = vec![
        Measure::new(THROUGHPUT, "throughput", Unit::GigabitsPerSecond),
        Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent),
    ];
}

/// The first block of a stripe, whose node is dead, read whole by every reader in turn, so many times; under `x`, with
/// bounds: the timeslots of each scheme × a direct send of one block in the same rounds.
///
/// # Errors
/// Of the reads, or if one is not degraded.
pub fn measure(
    stand: &Stand<'_>,
    stripe: &Stripe,
    readers: &[Reader],
    x: f64,
    rounds: usize,
    results: &mut Results,
) -> Result<(), LabError> {
    let host = stand.cluster.host_of(stripe.requestor)?.index;
    let mut direct = Vec::new();
    for round in 0..rounds + WARM_UPS {
        let samples = stand.cluster.with_client(host, async |client| {
            let mut samples = Vec::new();
            for &(scheme, kind) in readers {
                let processors = ProcessorShare::start()?;
                let seconds = read(&client, stripe, scheme).await?;
                samples.push((scheme, kind, seconds, processors.so_far()?));
            }
            Ok(samples)
        })?;
        if round < WARM_UPS {
            continue;
        }
        for (scheme, kind, seconds, share) in samples {
            let throughput = stripe.block_bytes as f64 * 8.0 / seconds;
            let sample = [(VERIFIED, seconds), (THROUGHPUT, throughput), (PROCESSOR_SHARE, share)];
            let sample: Sample =
                sample.into_iter().map(|(metric, value)| (metric.to_owned(), value)).collect();
            results.add(scheme, kind, Shape::Curve, x, sample);
            (stand.bench.say)(&format!("{scheme} at {}: {seconds:.3} s", results.x.text(x)));
        }
        let send = stand.measure(&Contender::Direct { bytes: stripe.block_bytes })?;
        direct.extend(send.get(VERIFIED).copied());
    }
    let slot = Summary::of(direct).map_or(0.0, |summary| summary.median);
    let slices = stripe.block_bytes.div_ceil(flow::limits::DEFAULT_SLICE_BYTES.into());
    for &(scheme, _) in readers {
        if let Some(slots) = timeslots(scheme, stripe.code.k(), slices) {
            results.bound(scheme, x, slots * slot);
        }
    }
    Ok(())
}

/// Seconds from the call to the last byte in the reader's hands.
async fn read(client: &Client, stripe: &Stripe, scheme: &str) -> Result<f64, LabError> {
    let options = GetOptions {
        range: Some(ByteRange::From { first: 0, last: Some(stripe.block_bytes - 1) }),
        scheme: scheme.to_owned(),
        ..GetOptions::default()
    };
    let started = Instant::now();
    let report = client.get(&stripe.object, io::sink(), options).await?;
    let seconds = started.elapsed().as_secs_f64();
    if report.degraded_blocks != 1 || report.bytes != stripe.block_bytes {
        return Err(LabError::BadSpec(format!(
            "a {scheme} read of {} gave {} B and decoded {} blocks instead of 1",
            stripe.object, report.bytes, report.degraded_blocks
        )));
    }
    Ok(seconds)
}
