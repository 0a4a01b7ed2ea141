//! EAR figure 11: what a writer waits while replicas are encoded.

use super::ear_10a::{CODE, load, network};
use super::encoding::{DOWNLOADS, EAR, Load, POLICIES, RATE, RELOCATED, RR, SECONDS, Site};
use super::stand::PROCESSOR_SHARE;
use super::whole_node::stop_watch;
use super::{Bench, Experiment};
use crate::cluster::LabCluster;
use crate::error::Result;
use crate::report::{Axis, Comparison, Measure, Ratio, Results, Sample, Unit, sample};
use client::{Client, PutOptions};
use plan::Draw;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ear-11",
    title: "Response time of writes while replicas are encoded",
    paper: "EAR, figure 11: twelve racks of one host, (10,8), two replicas, 96 stripes; writes of one block of 64 MB, Poisson at 0.5/s, \
            encoding from the 30th second on. EAR over RR: writes −12.4 % while encoding, equal before, the encoding −31.6 %.",
    must_show: "writes while encoding and the encoding take less with ear than with random; writes before differ by 5 % at most.",
    run,
    compare,
};

/// Places on the axis.
const BEFORE: f64 = 0.0;
const MEANWHILE: f64 = 1.0;
const ENCODING: f64 = 2.0;

/// Writes.
const WRITES: &str = "writes";

/// Writes of all hosts: four times as many as in the paper for the time that a block takes on a link, for an encoding with ear
/// is short.
const WRITES_PER_S: f64 = 4.0;

/// Encoding starts after so long.
const ALONE: Duration = Duration::from_secs(8);

/// Writes start no later than this, also if the encoding has not ended.
const LONGEST: Duration = Duration::from_secs(120);

/// A write that is to be made.
#[derive(Clone, Copy)]
struct Arrival {
    number: usize,
    host: usize,
    /// From the start.
    at: Duration,
}

/// A write that was made: when it was due, and when it was durable.
type Written = (Duration, Duration);

fn run(bench: &Bench<'_>) -> Result<Results> {
    network(bench).with(bench, |site| {
        let axis = Axis::named("what", ["writes before", "writes while encoding", "the encoding"]);
        let load =
            Load { stripes: bench.sized(72, 12), block_bytes: bench.sized(1 << 20, 256 << 10), ..load(bench, CODE) };
        let rounds = bench.rounds(4, 1);
        let mut results = site.results(&EXPERIMENT, &load, axis, rounds);
        results.y = Measure::new(SECONDS, "time", Unit::Seconds);
        results.ratios = Ratio::columns(&[RR], &[]);
        results.beside = vec![
            Measure::new(WRITES, "writes", Unit::Blocks),
            Measure::new(RATE, "encoding throughput", Unit::MebibytesPerSecond),
            Measure::new(DOWNLOADS, "downloads across racks per stripe", Unit::Blocks),
            Measure::new(RELOCATED, "relocated per stripe", Unit::Blocks),
            Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent),
        ];
        results.notes.push(format!(
            "A sample of writes is the mean of a round's, from when a write was due to its end: single blocks from random hosts, placed by the \
             same policy, Poisson at {WRITES_PER_S}/s, at the same times with both policies in every round. Encoding starts after {} s.",
            ALONE.as_secs()
        ));
        for round in 1..=rounds {
            let arrivals = arrivals(site.testbed.hosts().len());
            for label in POLICIES {
                let measured = measure(site, &load, label.name, &arrivals)?;
                for (x, sample) in measured {
                    let seconds = sample.get(SECONDS).copied().unwrap_or_default();
                    let what = results.x.text(x);
                    (bench.say)(&format!("round {round} of {rounds}: {}, {what}: {seconds:.3} s", label.name));
                    results.add(label, x, sample);
                }
            }
        }
        Ok(results)
    })
}

/// A Poisson process, the same in every round.
fn arrivals(hosts: usize) -> Vec<Arrival> {
    const PARTS: usize = 1 << 24;
    let mut draw = Draw::seeded(0x0011);
    let (mut arrivals, mut at) = (Vec::new(), 0.0);
    loop {
        let uniform = (draw.below(PARTS) + 1) as f64 / PARTS as f64;
        at -= uniform.ln() / WRITES_PER_S;
        if at >= LONGEST.as_secs_f64() {
            return arrivals;
        }
        let (number, host) = (arrivals.len(), draw.below(hosts));
        arrivals.push(Arrival { number, host, at: Duration::from_secs_f64(at) });
    }
}

/// Writes before and while all full stripes are encoded, and the encoding.
fn measure(
    site: &mut Site<'_>,
    load: &Load,
    policy: &str,
    arrivals: &[Arrival],
) -> Result<[(f64, Sample); 3]> {
    let cluster = site.cluster()?;
    load.fill(&cluster, policy)?;
    site.limit()?;
    let (elapsed, ended) = (stop_watch(), AtomicBool::new(false));
    let (encoded, written) = std::thread::scope(|scope| {
        let hosts = 0..site.testbed.hosts().len();
        let (ended, cluster) = (&ended, &cluster);
        let writers: Vec<_> = hosts
            .map(|host| {
                let mine = arrivals.iter().copied().filter(|arrival| arrival.host == host).collect();
                let options = load.options(policy);
                scope.spawn(move || write_all(cluster, host, mine, &options, elapsed, ended))
            })
            .collect();
        std::thread::sleep(ALONE.saturating_sub(elapsed()));
        let encoded = site.encode(cluster, load).map(|sample| (sample, elapsed()));
        ended.store(true, Ordering::Relaxed);
        let mut written: Result<Vec<Written>> = Ok(Vec::new());
        for writer in writers {
            match (writer.join(), &mut written) {
                (Ok(Ok(more)), Ok(all)) => all.extend(more),
                (Ok(Err(error)), _) => written = Err(error),
                (Err(panic), _) => std::panic::resume_unwind(panic),
                _ => {}
            }
        }
        (encoded, written)
    });
    let ((encoded, end), written) = (encoded?, written?);
    cluster.shutdown()?;
    let seconds = encoded.get(SECONDS).copied().unwrap_or_default();
    let begin = end.saturating_sub(Duration::from_secs_f64(seconds));
    let mean = |from: Duration, to: Duration| {
        let taken = written.iter().filter(|(due, _)| (from..to).contains(due));
        let taken: Vec<f64> = taken.map(|(due, end)| end.saturating_sub(*due).as_secs_f64()).collect();
        let count = taken.len() as f64;
        sample([(SECONDS, taken.iter().sum::<f64>() / count.max(1.0)), (WRITES, count)])
    };
    // What is written shortly before is not all written when the encoding starts.
    let alone = ALONE.min(begin).saturating_sub(Duration::from_secs(1));
    Ok([(BEFORE, mean(Duration::ZERO, alone)), (MEANWHILE, mean(begin, end)), (ENCODING, encoded)])
}

/// A host's writes, each when it is due, until the encoding has ended.
fn write_all(
    cluster: &LabCluster,
    host: usize,
    arrivals: Vec<Arrival>,
    options: &PutOptions,
    elapsed: impl Fn() -> Duration + Copy + Send + Sync + 'static,
    ended: &AtomicBool,
) -> Result<Vec<Written>> {
    cluster.with_client(host, async |client| {
        let mut writes = JoinSet::new();
        for arrival in arrivals {
            // Writes go on in other threads meanwhile.
            std::thread::sleep(arrival.at.saturating_sub(elapsed()));
            if ended.load(Ordering::Relaxed) {
                break;
            }
            writes.spawn(write(client.clone(), arrival, options.clone(), elapsed));
        }
        let mut written = Vec::new();
        while let Some(write) = writes.join_next().await {
            written.push(write.map_err(|error| crate::error::bad(format!("a write ended: {error}")))??);
        }
        Ok(written)
    })
}

async fn write(
    client: Client,
    arrival: Arrival,
    options: PutOptions,
    elapsed: impl Fn() -> Duration,
) -> Result<Written> {
    let input = io::Read::take(io::repeat(arrival.number as u8), options.block_bytes);
    client.put(&format!("written/{}", arrival.number), input, options).await?;
    Ok((arrival.at, elapsed()))
}

fn compare(results: &Results) -> Vec<Comparison> {
    let ratio = |x| results.ratio(EAR, RR, x);
    let most = |metric| results.summary(EAR, ENCODING, metric).map(|summary| summary.max);
    vec![
        Comparison::times("ear over random: writes before", ratio(BEFORE)).paper(1.0).at_most(1.05),
        Comparison::saving("ear over random: writes while encoding", ratio(MEANWHILE))
            .paper(0.876)
            .at_most(1.0),
        Comparison::saving("ear over random: the encoding", ratio(ENCODING)).paper(0.684).at_most(1.0),
        Comparison::times("ear: blocks downloaded across racks, per stripe", most(DOWNLOADS)).at_most(0.0),
        Comparison::times("ear: blocks relocated, per stripe", most(RELOCATED)).at_most(0.0),
    ]
}
