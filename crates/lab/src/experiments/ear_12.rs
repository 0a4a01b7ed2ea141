//! EAR figure 12: jobs that read and write replicated data, before anything is encoded.

use super::ear_10a::{CODE, load, network};
use super::encoding::{EAR, Load, Network, POLICIES, RR, SECONDS, Site};
use super::stand::PROCESSOR_SHARE;
use super::whole_node::stop_watch;
use super::{Bench, Experiment};
use crate::cluster::LabCluster;
use crate::error::Result;
use crate::report::{Axis, Comparison, Measure, Ratio, Results, Unit, sample};
use cli::processor::{ProcessorShare, settle};
use client::{GetOptions, PutOptions};
use plan::Draw;
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    id: "ear-12",
    title: "Jobs that read and write replicated data before it is encoded",
    paper: "EAR, figure 12: twelve racks of one host, two replicas; 50 MapReduce jobs from a trace read their input and write their output. The \
            numbers of jobs that are done over time are very similar with EAR and RR.",
    must_show: "all jobs done with ear in at most 1.05 of the time with random.",
    run,
    compare,
};

const JOBS: usize = 50;

/// Points of the curve: so many jobs are done.
const DONE: [usize; 5] = [10, 20, 30, 40, 50];

/// Blocks of a job's input: most are small, some large. Its output has half as many, or one.
const INPUT_BLOCKS: [usize; 8] = [1, 1, 1, 2, 2, 4, 8, 16];

/// Jobs that run at once on each host.
const AT_ONCE: usize = 2;

/// Hosts' links: jobs move more bytes than encodings with ear, and calculate nothing.
const PORT_MBIT: f64 = 100.0;

fn run(bench: &Bench<'_>) -> Result<Results> {
    let network = Network { port: bench.rate_or(PORT_MBIT), ..network(bench) };
    network.with(bench, |site| {
        let axis = Axis::named("jobs done", DONE);
        let load = Load { block_bytes: bench.sized(2 << 20, 256 << 10), ..load(bench, CODE) };
        let rounds = bench.rounds(5, 1);
        let mut results = site.results(&EXPERIMENT, &load, axis, rounds);
        results.y = Measure::new(SECONDS, "time since the start", Unit::Seconds);
        results.ratios = Ratio::columns(&[], &[RR]);
        results.beside = vec![Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent)];
        results.notes = vec![format!(
            "Hosts' links at {}; two replicas of each block, nothing is encoded. A job reads its input, of 1 to 16 blocks, and writes half as \
             many, from any host; {AT_ONCE} jobs run on each host at once. The trace of the paper is not to be had: most of these jobs \
             are small and some large, and they are the same for both policies and in every round. Each sample is of a cluster of its \
             own, with blocks in memory.",
            network.port
        )];
        for round in 1..=rounds {
            for label in POLICIES {
                let (ends, share) = measure(site, &load, label.name)?;
                for (x, done) in (0..).map(f64::from).zip(DONE) {
                    let seconds = ends.get(done - 1).copied().unwrap_or_default();
                    results.add(label, x, sample([(SECONDS, seconds), (PROCESSOR_SHARE, share)]));
                }
                let seconds = ends.last().copied().unwrap_or_default();
                (bench.say)(&format!("round {round} of {rounds}: {JOBS} jobs with {}: {seconds:.2} s", label.name));
            }
        }
        Ok(results)
    })
}

/// Input blocks of each job.
fn jobs() -> Vec<usize> {
    let mut draw = Draw::seeded(0x0012);
    (0..JOBS).map(|_| draw.pick(&INPUT_BLOCKS).copied().unwrap_or(1)).collect()
}

/// When each job was done, in seconds from the start, in the order in which they were; and how busy processors were.
fn measure(site: &mut Site<'_>, load: &Load, policy: &str) -> Result<(Vec<f64>, f64)> {
    let (cluster, jobs) = (site.cluster()?, jobs());
    for (job, &blocks) in jobs.iter().enumerate() {
        cluster.put_blocks(&format!("input/{job}"), blocks, load.options(policy))?;
    }
    site.limit()?;
    settle()?;
    let hosts = site.testbed.hosts().len();
    let (next, elapsed, processors) = (AtomicUsize::new(0), stop_watch(), ProcessorShare::start()?);
    let ended: Vec<Result<Vec<f64>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..hosts * AT_ONCE)
            .map(|worker| {
                let (next, cluster, jobs) = (&next, &cluster, &jobs[..]);
                let options = load.options(policy);
                scope.spawn(move || work(cluster, worker % hosts, jobs, next, &options, elapsed))
            })
            .collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| match worker.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().map(join).collect()
    });
    let share = processors.so_far()?;
    let mut ends: Vec<f64> = ended.into_iter().collect::<Result<Vec<_>>>()?.concat();
    ends.sort_by(f64::total_cmp);
    cluster.shutdown()?;
    Ok((ends, share))
}

/// Takes one job after the other as long as there are any; when each was done.
fn work(
    cluster: &LabCluster,
    host: usize,
    jobs: &[usize],
    next: &AtomicUsize,
    options: &PutOptions,
    elapsed: impl Fn() -> Duration + Send + Sync,
) -> Result<Vec<f64>> {
    cluster.with_client(host, async |client| {
        let mut ends = Vec::new();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            let Some(&blocks) = jobs.get(job) else { return Ok(ends) };
            client.get(&format!("input/{job}"), io::sink(), GetOptions::default()).await?;
            let output = io::repeat(job as u8).take(options.block_bytes * (blocks as u64).div_ceil(2));
            client.put(&format!("output/{job}"), output, options.clone()).await?;
            ends.push(elapsed().as_secs_f64());
        }
    })
}

fn compare(results: &Results) -> Vec<Comparison> {
    let at = (0..).map(f64::from).zip(DONE);
    at.map(|(x, done)| {
        let what = format!("ear over random: time until {done} jobs are done");
        let compared = Comparison::times(what, results.ratio(EAR, RR, x)).paper(1.0);
        if done == JOBS { compared.at_most(1.05) } else { compared }
    })
    .collect()
}
