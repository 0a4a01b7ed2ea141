//! EAR in unmodified HDFS 3: replicated files become erasure-coded ones, placed by EAR and by HDFS's default, and copied.

use super::encoding::{CROSSED, EAR, RATE, RR, SECONDS, busiest_s, gain};
use super::stand::{DIRECT, PROCESSOR_SHARE, SLICE_BYTES};
use super::{Bench, Experiment, TESTBED, why};
use crate::bare;
use crate::error::Result;
use crate::hdfs::{EncodingsSpec, HdfsProgram, Said, class_path};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Setup, Unit, sample};
use crate::scratch::Scratch;
use crate::testbed::{LinkRate, Racks, Spec, Testbed};
use cli::processor::ProcessorShare;

pub const EXPERIMENT: Experiment = Experiment {
    id: "hdfs-ear",
    title: "Encoding of replicated files in unmodified HDFS 3, over (n,k)",
    paper: "EAR, figure 10(a), a changed HDFS-RAID: twelve racks of one host at 1 Gb/s, n = k + 2, two replicas, 96 stripes, 12 map tasks. \
            EAR over RR +19.9 % at k = 4, +59.7 % at k = 10.",
    must_show: "placed by EAR: parities and nothing else between racks, within a tenth; faster than placed by HDFS's default, and than \
                a copy as distcp makes it.",
    run,
    compare,
};

/// Copied into a folder with a policy.
const COPY: &str = "copy";

/// In the order in which they take turns.
const WAYS: [Label; 3] = [Label::subject(EAR), Label::rival(RR), Label::rival(COPY)];

/// What the busiest link allows.
const BEST: &str = "bound_bytes_per_s";

/// Codes, and the paper's gain of EAR over RR where its text has it.
const CODES: &[((usize, usize), &str, Option<f64>)] =
    &[((6, 3), "(9,6)", None), ((10, 2), "(12,10)", Some(1.597))];

/// A DataNode on a host in a rack each, and the NameNode in one of its own.
const MACHINES: usize = 12;

/// Files that are encoded at once, and copiers: the paper's map tasks.
const AT_ONCE: usize = 12;

/// As in ear-10a: with EAR only parities leave, and two cores are to keep up with all the data.
const LINK_MBIT: f64 = 50.0;

/// Of a direct send: long enough that its start does not count.
const SEND_BLOCKS: u64 = 8;

/// What verification, and what daemons say to each other, may come to beside parities.
const TALK: f64 = 1.1;

fn run(bench: &Bench<'_>) -> Result<Results> {
    class_path()?;
    let codes = bench.sized(CODES, &CODES[..1]);
    let mut results = empty(bench, codes);
    for (x, &(code, ..)) in (0..).map(f64::from).zip(codes) {
        Testbed::remove(TESTBED)?;
        let measured = measure(bench, (x, code), &mut results);
        let removed = Testbed::remove(TESTBED);
        measured?;
        removed?;
    }
    results.bounds_from(BEST);
    Ok(results)
}

/// Bytes of a block, and stripes.
fn size(bench: &Bench<'_>) -> (u64, usize) {
    (bench.sized(4 << 20, 1 << 20), bench.sized(24, 12))
}

fn empty(bench: &Bench<'_>, codes: &[((usize, usize), &str, Option<f64>)]) -> Results {
    let (block_bytes, stripes) = size(bench);
    let rate = bench.rate_or(LINK_MBIT);
    let setup = Setup {
        hosts: Some(MACHINES + 1),
        link_bits_per_s: Some(rate.bits_per_s),
        block_bytes: Some(block_bytes),
        ..Setup::here(
            "network namespaces joined by veth pairs, a bridge in each of 13 racks of one and one between them; a NameNode and 12 DataNodes",
            bench.rounds(2, 1),
        )
    };
    let axis = Axis::named("(n,k)", codes.iter().map(|(_, name, _)| name));
    let y = Measure::new(RATE, "encoding throughput", Unit::MebibytesPerSecond);
    let mut results = bench.record(&EXPERIMENT, setup, axis, y);
    results.ratios = Ratio::columns(&[], &[RR, COPY]);
    results.beside = vec![
        Measure::new(SECONDS, "time", Unit::Seconds),
        Measure::new(CROSSED, "between racks per block of data", Unit::Blocks),
        Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent),
    ];
    results.notes.push(format!(
        "Hadoop 3.5.0 from Maven Central, unmodified; each DataNode a process with a helper beside it, and replicas written by a client \
         outside of their racks before links are limited. Hosts' and racks' links at {rate} each way. {stripes} files of one stripe each, two \
         replicas of each block; {AT_ONCE} files at once. random is HDFS's own placement, the paper's RR; both are encoded by \
         EncodeCommand, which verifies each file by samples before it takes the original's place, with the scheme conventional: one \
         DataNode reads the data and makes all parities, as in the paper. copy is what distcp does: a copier on each machine, {AT_ONCE} \
         at once, reads its files and writes them into a folder with a policy of the same code, with cells of 1 MiB."
    ));
    results.notes.push(
        "The time is from the order to the last file's commit; programs are started before. Afterwards every file is erasure-coded, and has \
         the composite CRC that it had. A bound is what the busiest link, of a host or of a rack, allows for the bytes that it did carry. \
         Bytes between racks are those that the kernel counted at the racks' links."
            .to_owned(),
    );
    results
}

/// Starts HDFS, has files encoded and copied, and takes it down.
fn measure(bench: &Bench<'_>, (x, code): (f64, (usize, usize)), results: &mut Results) -> Result<()> {
    let racks = Some(Racks { count: MACHINES + 1, core_rate: LinkRate::UNLIMITED });
    let spec = Spec { racks, ..Spec::flat(TESTBED, MACHINES + 1, LinkRate::UNLIMITED) };
    let mut testbed = Testbed::up(&spec)?;
    let folder = Scratch::new(bench.folder.as_deref())?;
    let (block_bytes, stripes) = size(bench);
    let spec = EncodingsSpec {
        program: &bench.program,
        folder: folder.path(),
        code,
        block_bytes,
        stripes,
        at_once: AT_ONCE,
        rounds: results.setup.runs,
    };
    (bench.say)(&format!("RS-{}-{}: starting HDFS on {} hosts", code.0, code.1, MACHINES + 1));
    set_rates(&mut testbed, bench.rate_or(LINK_MBIT))?;
    bare_send(bench, &testbed, x, results)?;
    set_rates(&mut testbed, LinkRate::UNLIMITED)?;
    let mut hdfs = spec.start(&testbed)?;
    listen(bench, (&mut hdfs, &mut testbed), x, results)?;
    drop(hdfs);
    folder.close()
}

fn set_rates(testbed: &mut Testbed, rate: LinkRate) -> Result<()> {
    testbed.set_rate(rate)?;
    testbed.set_core_rate(rate)
}

/// Measures the links, and what a bare send from rack to rack gets of them.
fn bare_send(bench: &Bench<'_>, testbed: &Testbed, x: f64, results: &mut Results) -> Result<()> {
    (bench.say)("measuring links");
    let links = testbed.measure()?.links;
    let slowest = links.iter().map(|link| link.measured_mbit * 1e6).min_by(f64::total_cmp);
    let so_far = results.setup.link_measured_bits_per_s;
    results.setup.link_measured_bits_per_s = [slowest, so_far].into_iter().flatten().min_by(f64::total_cmp);
    let bytes = SEND_BLOCKS * size(bench).0;
    let timing = bare::relay_chain(testbed, &[1, 2], bytes, SLICE_BYTES as usize)?;
    results.add(Label::bare(DIRECT), x, sample([(RATE, bytes as f64 / timing.seconds)]));
    Ok(())
}

/// Limits links for each way, and writes down what it came to, to the end of all.
fn listen(
    bench: &Bench<'_>,
    (hdfs, testbed): (&mut HdfsProgram, &mut Testbed),
    x: f64,
    results: &mut Results,
) -> Result<()> {
    let (mut processors, mut before) = (ProcessorShare::start()?, testbed.carried()?);
    loop {
        match hdfs.hear()? {
            Said::Done => return Ok(()),
            Said::Ready | Said::Read { .. } => {}
            Said::Begin => {
                set_rates(testbed, bench.rate_or(LINK_MBIT))?;
                (processors, before) = (ProcessorShare::start()?, testbed.carried()?);
                hdfs.go_on()?;
            }
            Said::End { scheme, seconds, blocks, bytes } => {
                let (share, carried) = (processors.so_far()?, testbed.carried()?.since(&before));
                let (crossed, best) =
                    (carried.between_racks() as f64 / bytes, bytes / busiest_s(testbed, &carried));
                (bench.say)(&format!(
                    "{scheme}: {blocks} stripes in {seconds:.1} s, {crossed:.2} bytes between racks for each of data, processors {:.0} % busy",
                    share * 100.0
                ));
                if let Some(label) = WAYS.iter().find(|label| label.name == scheme) {
                    let (rate, cores) = (bytes / seconds, (PROCESSOR_SHARE, share));
                    let metrics = [(RATE, rate), (BEST, best), (SECONDS, seconds), (CROSSED, crossed), cores];
                    results.add(*label, x, sample(metrics));
                }
                set_rates(testbed, LinkRate::UNLIMITED)?;
                hdfs.go_on()?;
            }
        }
    }
}

fn compare(results: &Results) -> Vec<Comparison> {
    let at = (0..).map(f64::from).zip(CODES);
    at.filter(|(x, _)| results.series(EAR).is_some_and(|series| series.at(*x).is_some()))
        .flat_map(|(x, &((k, m), name, paper))| at_one_code(results, x, (k, m), (name, paper)))
        .collect()
}

fn at_one_code(
    results: &Results,
    x: f64,
    (k, m): (usize, usize),
    (name, paper): (&str, Option<f64>),
) -> Vec<Comparison> {
    let parities = m as f64 / k as f64;
    let crossed = results.summary(EAR, x, CROSSED).map(|summary| summary.max / parities);
    let what = format!("ear, {name}: bytes between racks over those of parities");
    let mut comparisons =
        vec![gain(results, x, paper, false), Comparison::times(what, crossed).at_most(TALK)];
    let over_copy = Comparison::times(format!("ear over copy, {name}"), results.ratio(EAR, COPY, x));
    comparisons.push(over_copy.at_least(1.0).why(why::rate(results, COPY, x)));
    comparisons.extend([EAR, RR, COPY].map(|way| {
        let what = format!("{way}, {name}: rate against its own bound");
        Comparison::times(what, results.of_bound(way, x)).why(why::rate(results, way, x))
    }));
    comparisons
}
