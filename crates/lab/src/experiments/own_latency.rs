//! What a reader waits while a node is dead: degraded reads of small and large ranges, beside healthy ones.
//!
//! One client reads all the time, as a gateway would: neither the start of a process nor a first connection counts. Kinds
//! of reads take turns, and none comes after the same other one each time: what that one leaves behind would be its burden.

use super::stand::{PROCESSOR_SHARE, SLICE_BYTES, Stand, StandSpec, Stripe};
use super::{Bench, Experiment, degraded};
use crate::error::{LabError, Result};
use crate::report::{
    Axis, Comparison, Label, Measure, Ratio, Results, Spread, Summary, Target, Unit, sample,
};
use crate::testbed::{Host, Testbed};
use cli::processor::ProcessorShare;
use client::Client;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

pub const EXPERIMENT: Experiment = Experiment {
    id: "own-latency",
    title: "Latency of degraded reads over the size of the read",
    paper: "none: operators ask, the papers leave it out.",
    must_show: "what auto chooses is never more than a tenth slower (median) than the better of star and chain, and at 4 KiB \
                at most one and a half times a healthy read; the bound beside it: one round trip per hop, and the busiest link's bytes at the links' rate.",
    run,
    compare,
};

const SECONDS: &str = "seconds";
const HEALTHY: &str = "healthy read";
const STAR: &str = "conventional";
const CHAIN: &str = "pipeline";
const AUTO: &str = "auto";
const KINDS: [Label; 4] =
    [Label::rival(HEALTHY), Label::rival(STAR), Label::rival(CHAIN), Label::subject(AUTO)];

/// In four rounds each kind comes right after each other one (Williams, Aust. J. Sci. Res. A 2, 1949).
const TURNS: [usize; 4] = [0, 1, 3, 2];

/// The size for which operators ask first.
const SMALL_READ: f64 = 4096.0;

/// What a degraded read of that size may take, in healthy ones.
const SMALL_READ_TARGET: f64 = 1.5;

/// Round trips measured, of which the median counts.
const PINGS: usize = 200;

/// Reads of each kind and size that are not counted.
const WARM_UPS: usize = 2;

/// Read sizes with the number of reads of each kind: p99 needs a hundred, and large reads take seconds.
const READS: &[(u64, usize)] =
    &[(4 << 10, 300), (16 << 10, 300), (64 << 10, 300), (1 << 20, 150), (64 << 20, 20)];
const QUICK_READS: &[(u64, usize)] =
    &[(4 << 10, 20), (16 << 10, 20), (64 << 10, 20), (1 << 20, 10), (4 << 20, 3)];

fn run(bench: &Bench<'_>) -> Result<Results> {
    let block_bytes: u64 = bench.sized(64 << 20, 4 << 20);
    Stand::with(bench, &StandSpec::usual(bench, 1000.0, vec![("rs-10+4", block_bytes)]), |stand| {
        let lost = stand.stripes[0].members[0];
        (bench.say)(&format!("killing {lost}, which holds the first block"));
        stand.cluster.stop_node(lost)?;
        let reads = bench.sized(READS, QUICK_READS);
        let mut results = record(stand, reads);
        measure(stand, reads, &mut results)?;
        bounds(stand, reads, &mut results)?;
        Ok(results)
    })
}

fn record(stand: &Stand<'_>, reads: &[(u64, usize)]) -> Results {
    let most = reads.iter().map(|&(_, count)| count).max().unwrap_or(0);
    let mut setup = stand.setup(most);
    setup.slice_bytes = Some(SLICE_BYTES.into());
    let y = Measure::new(SECONDS, "latency (p50)", Unit::Milliseconds);
    let mut results = stand.bench.record(&EXPERIMENT, setup, Axis::bytes("bytes read"), y);
    results.log_y = true;
    results.spread = Spread::P99;
    results.ratios = Ratio::columns(&[], &[HEALTHY]);
    results.beside = vec![Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent)];
    let counts: Vec<String> = reads.iter().map(|(bytes, count)| format!("{count} of {bytes} B")).collect();
    results.notes.push(format!(
        "Reads of each kind: {}. A p99 of fewer than 100 is their maximum.",
        counts.join(", ")
    ));
    results
}

fn measure(stand: &Stand<'_>, reads: &[(u64, usize)], results: &mut Results) -> Result<()> {
    let stripe = &stand.stripes[0];
    let client_host = stand.cluster.host_of(stripe.requestor)?.index;
    for &(bytes, count) in reads {
        (stand.bench.say)(&format!("{count} reads of {} of each kind", results.x.text(bytes as f64)));
        let processors = ProcessorShare::start()?;
        let taken = stand.cluster.with_client(client_host, async |client| {
            let mut taken = Vec::new();
            for round in 0..count + WARM_UPS {
                for label in TURNS.map(|turn| KINDS[(turn + round) % KINDS.len()]) {
                    let seconds = read(&client, stripe, label.name, bytes).await?;
                    taken.extend((round >= WARM_UPS).then_some((label, seconds)));
                }
            }
            Ok(taken)
        })?;
        let share = processors.so_far()?;
        for (label, seconds) in taken {
            results.add(label, bytes as f64, sample([(SECONDS, seconds), (PROCESSOR_SHARE, share)]));
        }
    }
    Ok(())
}

/// Seconds of one read of the lost block's beginning; of the next block's, if it shall be healthy.
async fn read(client: &Client, stripe: &Stripe, name: &str, bytes: u64) -> Result<f64> {
    let (first, scheme, decoded) = if name == HEALTHY { (stripe.block_bytes, AUTO, 0) } else { (0, name, 1) };
    let what = format!("{name} of {bytes} B");
    degraded::read(client, stripe, scheme, first..first + bytes, (decoded, &what)).await
}

/// A round trip per hop, and the bytes of the busiest link at the links' rate.
fn bounds(stand: &Stand<'_>, reads: &[(u64, usize)], results: &mut Results) -> Result<()> {
    let round_trip = round_trip_s(&stand.testbed)?;
    let k = stand.stripes[0].code.k() as f64;
    let bytes_per_s = results.setup.link_measured_bits_per_s.map_or(f64::INFINITY, |bits| bits / 8.0);
    for &(bytes, _) in reads {
        let once = bytes as f64 / bytes_per_s;
        let (star, chain) = (round_trip + k * once, k * round_trip + once);
        let bounds = [(HEALTHY, round_trip + once), (STAR, star), (CHAIN, chain), (AUTO, star.min(chain))];
        for (name, bound) in bounds {
            results.bound(name, bytes as f64, bound);
        }
    }
    results.notes.push(format!(
        "A round trip of one byte over TCP between two hosts takes {:.0} µs. Token buckets let short bursts pass above \
         the links' rate, so that small reads may beat a bound of bytes.",
        round_trip * 1e6
    ));
    Ok(())
}

/// Seconds of a byte to another host and back over TCP: the median.
///
/// # Errors
/// [`LabError::Io`].
pub(super) fn round_trip_s(testbed: &Testbed) -> Result<f64> {
    let (near, far): (&Host, &Host) = (testbed.host(1)?, testbed.host(2)?);
    let failed = |source: io::Error| LabError::Io { what: "measure a round trip".to_owned(), source };
    let listener = far.inside(|| TcpListener::bind((far.addr, 0)))?.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || -> io::Result<()> {
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let mut byte = [0];
            (0..PINGS).try_for_each(|_| stream.read_exact(&mut byte).and_then(|()| stream.write_all(&byte)))
        });
        let pings = near.inside(|| -> io::Result<Vec<f64>> {
            let mut stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            let ping = |_| {
                let started = Instant::now();
                stream.write_all(&[1])?;
                stream.read_exact(&mut [0])?;
                Ok(started.elapsed().as_secs_f64())
            };
            (0..PINGS).map(ping).collect()
        })?;
        let pings = pings.map_err(failed)?;
        echo.join().map_err(|_| failed(io::ErrorKind::Other.into()))?.map_err(failed)?;
        Ok(Summary::of(pings).map_or(0.0, |summary| summary.median))
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let Some(auto) = results.series(AUTO) else { return Vec::new() };
    let judged = |x: f64| {
        let medians = [STAR, CHAIN].map(|name| (name, results.median(name, x).unwrap_or(f64::INFINITY)));
        let (better, seconds) = if medians[0].1 <= medians[1].1 { medians[0] } else { medians[1] };
        let size = results.x.text(x);
        let p99 = |name: &str| results.summary(name, x, SECONDS).map_or(0.0, |s| s.p99 * 1e3);
        let (p99_better, p99_auto) = (p99(better), p99(AUTO));
        let what = format!("auto at {size} against the better of star and chain");
        let choice = Comparison::times(what, results.median(AUTO, x).map(|auto| auto / seconds)).at_most(1.1);
        let what = format!("auto at {size} against a healthy read");
        let target = if x == SMALL_READ { Target::AtMost(SMALL_READ_TARGET) } else { Target::None };
        [
            choice.why(format!(
                "{better} is the better one there; p99 {p99_better:.2} ms, of auto {p99_auto:.2} ms"
            )),
            Comparison::times(what, results.ratio(AUTO, HEALTHY, x)).target(target),
        ]
    };
    auto.points.iter().flat_map(|point| judged(point.x)).collect()
}
