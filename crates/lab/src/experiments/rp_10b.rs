//! RP Figure 10(b): unmodified HDFS 3 loses a DataNode, and gets its blocks back in one new DataNode.

use super::own_latency::round_trip_s;
use super::stand::{DIRECT, PROCESSOR_SHARE, SLICE_BYTES};
use super::{Bench, Experiment, TESTBED, timeslots};
use crate::bare;
use crate::error::Result;
use crate::hdfs::{HdfsProgram, RecoverySpec, Said, class_path};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Setup, Summary, Unit, sample};
use crate::scratch::Scratch;
use crate::testbed::{LinkRate, Spec, Testbed};
use cli::processor::ProcessorShare;

pub const EXPERIMENT: Experiment = Experiment {
    id: "rp-10b",
    title: "Recovery of a DataNode of unmodified HDFS 3 into a new one, over (n,k)",
    paper: "repair pipelining, Figure 10(b); 64 stripes of 64 MiB blocks over all DataNodes at 1 Gb/s, those of one DataNode are erased \
            and rebuilt in a new one; a changed Hadoop 3.1.1. Repair pipelining 5.1 to 16.0 × the rate of HDFS-3's own repair, conventional \
            repair under ECPipe better than that only at large k.",
    must_show: "at (14,10) ≥ 5 × the rate of HDFS's own reconstruction, as shipped; a cell of a lost block is read within 1.5 × of a healthy \
                one and a round trip per hop.",
    run,
    compare,
};

const RATE: &str = "recovered_bytes_per_s";
const TOTAL: &str = "total_s";
const LOST_READ: &str = "lost_read_s";
const HEALTHY_READ: &str = "healthy_read_s";
const ROUND_TRIP: &str = "round_trip_s";

const ORIGINAL: &str = "HDFS's own";
const CONVENTIONAL: &str = "conventional";
const PPR: &str = "ppr";
const PIPELINE: &str = "pipeline";
const ORIGINAL_MANY: &str = "HDFS's own, 8 streams";
const PIPELINE_MANY: &str = "pipeline, 8 streams";

/// Blocks that a DataNode is given to rebuild at once, and who recovers so, in turn: its series, and its scheme. 2 are what HDFS is
/// shipped with, 8 as many as a DataNode has threads for. The first of all reads cells, too.
const SESSIONS: [(usize, &[(Label, &str)]); 2] = [
    (
        2,
        &[
            (Label::subject(PIPELINE), "pipeline"),
            (Label::rival(PPR), "ppr"),
            (Label::rival(CONVENTIONAL), "conventional"),
            (Label::rival(ORIGINAL), "original"),
        ],
    ),
    (8, &[(Label::subject(PIPELINE_MANY), "pipeline"), (Label::rival(ORIGINAL_MANY), "original")]),
];

/// Data and parity units, the paper's: Hadoop's own policies, and two that are added to them.
const CODES: &[(usize, usize)] = &[(6, 3), (8, 4), (10, 4), (12, 4)];

/// Hosts beyond the members': the NameNode's, and of each turn's new DataNode.
const FURTHER: usize = 1 + SESSIONS[0].1.len();

/// Of a direct send: long enough that its start does not count.
const SEND_BLOCKS: u64 = 16;

/// One flow over the links that are not limited yet.
const LINK_MBIT: f64 = 200.0;

fn run(bench: &Bench<'_>) -> Result<Results> {
    class_path()?;
    let size = (bench.sized(8 << 20, 1 << 20), bench.sized(24, 4));
    let codes = bench.sized(CODES, &CODES[..1]);
    let mut results = empty(bench, codes, size);
    let runs = results.setup.runs;
    for (x, &code) in (0..).map(f64::from).zip(codes) {
        for session in (0..runs).flat_map(|_| &SESSIONS) {
            Testbed::remove(TESTBED)?;
            let measured = measure(bench, (x, code), size, session, &mut results);
            let removed = Testbed::remove(TESTBED);
            measured?;
            removed?;
        }
    }
    Ok(results)
}

fn empty(bench: &Bench<'_>, codes: &[(usize, usize)], (block_bytes, groups): (u64, usize)) -> Results {
    let setup = Setup {
        link_bits_per_s: Some(bench.rate_or(LINK_MBIT).bits_per_s),
        block_bytes: Some(block_bytes),
        ..Setup::here(
            "network namespaces joined by veth pairs and a bridge; a NameNode, n DataNodes and a new one",
            bench.rounds(2, 1),
        )
    };
    let axis = Axis::named("(n,k)", codes.iter().map(|(k, m)| format!("({},{k})", k + m)));
    let mut results =
        bench.record(&EXPERIMENT, setup, axis, Measure::new(RATE, "recovery rate", Unit::MebibytesPerSecond));
    results.beside = vec![
        Measure::new(TOTAL, "total time", Unit::Seconds),
        Measure::new(LOST_READ, "1 MiB of a lost block", Unit::Milliseconds),
        Measure::new(HEALTHY_READ, "1 MiB of a healthy one", Unit::Milliseconds),
        Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent),
    ];
    results.ratios = Ratio::columns(&[], &[ORIGINAL]);
    results.notes.push(format!(
        "Hadoop 3.5.0 from Maven Central, unmodified; each DataNode a process with a helper beside it. {groups} groups (the paper: 64) \
         with a block on every DataNode; one dies, and all of its blocks are rebuilt in a new one, the only target that there is, whose \
         configuration names the scheme, or no plugin at all. The rate counts from the moment at which the NameNode may give orders to \
         that at which it knows of the last block; then all block files are compared by their SHA-256. As shipped, HDFS orders no more \
         than two blocks of a DataNode in answer to its heartbeat (dfs.namenode.replication.max-streams); with 8 streams, as many as it \
         has threads for. Heartbeats come each second instead of each third: so blocks of 8 MiB at 200 Mb/s are to them what blocks \
         of 128 MiB, HDFS's default, are at 1 Gb/s."
    ));
    results.notes.push(
        "Bounds: all blocks pass the new DataNode's link, once by a chain, k times by a star, and as often as PPR's requestor takes a sum."
            .to_owned(),
    );
    results
}

/// Starts HDFS, has it lose a DataNode for each of a session's contenders, and takes it down.
fn measure(
    bench: &Bench<'_>,
    (x, (k, m)): (f64, (usize, usize)),
    (block_bytes, groups): (u64, usize),
    &(streams, contenders): &(usize, &[(Label, &str)]),
    results: &mut Results,
) -> Result<()> {
    let hosts = k + m + FURTHER;
    results.setup.hosts = results.setup.hosts.max(Some(hosts));
    let mut testbed = Testbed::up(&Spec::flat(TESTBED, hosts, LinkRate::UNLIMITED))?;
    let folder = Scratch::new(bench.folder.as_deref())?;
    let turns: Vec<&str> = contenders.iter().map(|(_, scheme)| *scheme).collect();
    let reads = if streams == SESSIONS[0].0 { bench.sized(20, 3) } else { 0 };
    let (program, folder_path) = (&bench.program, folder.path());
    let spec = RecoverySpec {
        program,
        folder: folder_path,
        code: (k, m),
        block_bytes,
        groups,
        reads,
        streams,
        turns: &turns,
    };
    (bench.say)(&format!("RS-{k}-{m}, {streams} streams: starting HDFS on {hosts} hosts"));
    let mut hdfs = spec.start(&testbed)?;
    while hdfs.hear()? != Said::Ready {}
    let send_rate = limit(bench, &mut testbed, x, block_bytes, results)?;
    hdfs.go_on()?;
    listen(bench, &mut hdfs, (x, contenders), results)?;
    for (label, scheme) in contenders {
        results.bound(label.name, x, send_rate / passes(scheme, k));
    }
    drop(hdfs);
    folder.close()
}

/// How often a lost block's bytes pass the link of the DataNode that gets it, when stripes follow each other.
fn passes(scheme: &str, k: usize) -> f64 {
    match scheme {
        PIPELINE => 1.0,
        // Slices without number: what is left is the largest in-degree.
        PPR => timeslots("ppr-sliced", k, u64::MAX).unwrap_or(k as f64),
        _ => k as f64,
    }
}

/// Limits the links, and measures what they carry; bytes per second of a bare send.
fn limit(
    bench: &Bench<'_>,
    testbed: &mut Testbed,
    x: f64,
    block_bytes: u64,
    results: &mut Results,
) -> Result<f64> {
    let rate = bench.rate_or(LINK_MBIT);
    testbed.set_rate(rate)?;
    (bench.say)(&format!("links at {rate}: measuring them"));
    let links = testbed.measure()?.links;
    let slowest = links.iter().map(|link| link.measured_mbit * 1e6).min_by(f64::total_cmp);
    let so_far = results.setup.link_measured_bits_per_s;
    results.setup.link_measured_bits_per_s = [slowest, so_far].into_iter().flatten().min_by(f64::total_cmp);
    let bytes = SEND_BLOCKS * block_bytes;
    let timing = bare::relay_chain(testbed, &[1, 2], bytes, SLICE_BYTES as usize)?;
    let send_rate = bytes as f64 / timing.seconds;
    let round_trip = round_trip_s(testbed)?;
    results.add(Label::bare(DIRECT), x, sample([(RATE, send_rate), (ROUND_TRIP, round_trip)]));
    Ok(send_rate)
}

/// Writes down what HDFS's program says, to its end.
fn listen(
    bench: &Bench<'_>,
    hdfs: &mut HdfsProgram,
    (x, contenders): (f64, &[(Label, &str)]),
    results: &mut Results,
) -> Result<()> {
    let label = |of: &str| contenders.iter().find(|(_, scheme)| *scheme == of).map(|(label, _)| *label);
    let mut processors = ProcessorShare::start()?;
    loop {
        match hdfs.hear()? {
            Said::Done => return Ok(()),
            Said::Ready => {}
            Said::Begin => processors = ProcessorShare::start()?,
            Said::Read { scheme, is_lost, seconds } => {
                let metric = if is_lost { LOST_READ } else { HEALTHY_READ };
                if let Some(label) = label(&scheme) {
                    results.add(label, x, sample([(metric, seconds)]));
                }
            }
            Said::End { scheme, seconds, blocks, bytes } => {
                let share = processors.so_far()?;
                let busy = share * 100.0;
                (bench.say)(&format!(
                    "{scheme}: {blocks} blocks in {seconds:.1} s, processors {busy:.0} % busy"
                ));
                if let Some(label) = label(&scheme) {
                    let metrics = [(RATE, bytes / seconds), (TOTAL, seconds), (PROCESSOR_SHARE, share)];
                    results.add(label, x, sample(metrics));
                }
            }
        }
    }
}

fn compare(results: &Results) -> Vec<Comparison> {
    let points = results.series(PIPELINE).map_or(&[][..], |series| &series.points);
    points.iter().flat_map(|point| at_one_code(results, point.x)).collect()
}

fn at_one_code(results: &Results, x: f64) -> Vec<Comparison> {
    let code = results.x.text(x);
    let is_ten = code.ends_with(",10)");
    let over = |series: &str, against: &str| {
        let what = format!("{series} over {against} at {code}");
        let rate = |name: &str| results.median_of(name, x, RATE) / f64::from(1 << 20);
        let compared = Comparison::times(what, results.ratio(series, against, x));
        compared.why(format!("{:.2} and {:.2} MiB/s", rate(series), rate(against)))
    };
    let demanded =
        |compared: Comparison| if is_ten { compared.at_least(5.0) } else { compared.at_least(1.0) };
    let mut comparisons = vec![
        demanded(over(PIPELINE, ORIGINAL)).paper((!is_ten).then_some(5.1)),
        demanded(over(PIPELINE_MANY, ORIGINAL_MANY)),
        over(PIPELINE, PPR).at_least(1.0),
        over(PIPELINE, CONVENTIONAL).at_least(1.0),
        over(CONVENTIONAL, ORIGINAL),
    ];
    for name in [PIPELINE_MANY, PIPELINE, ORIGINAL_MANY, ORIGINAL] {
        let what = format!("{name} beside its bound at {code}");
        comparisons.push(Comparison::times(what, results.of_bound(name, x)));
    }
    comparisons.extend([PIPELINE, ORIGINAL].map(|name| read_beside_healthy(results, name, x)));
    comparisons
}

/// A lost cell's read over that of a healthy cell and a round trip per hop.
fn read_beside_healthy(results: &Results, name: &str, x: f64) -> Comparison {
    let code = results.x.text(x);
    let median =
        |series: &str, metric: &str| results.summary(series, x, metric).map(|Summary { median, .. }| median);
    let hops = code.trim_end_matches(')').rsplit(',').next().and_then(|k| k.parse::<f64>().ok());
    let ratio = || {
        let allowed = median(name, HEALTHY_READ)? + hops? * median(DIRECT, ROUND_TRIP)?;
        Some(median(name, LOST_READ)? / allowed)
    };
    let compared = Comparison::times(
        format!("1 MiB of a lost block by {name} over a healthy one and round trips at {code}"),
        ratio(),
    );
    let ms = |metric| median(name, metric).unwrap_or_default() * 1e3;
    let compared = compared.why(format!("{:.1} ms, healthy {:.1} ms", ms(LOST_READ), ms(HEALTHY_READ)));
    if name == PIPELINE { compared.at_most(1.5) } else { compared }
}
