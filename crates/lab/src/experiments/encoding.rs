//! What experiments about the encoding of replicas stand on: racks of hosts, and for each encoding a cluster of its own, into
//! which replicas are put by a policy before the links are limited.
//!
//! ```text
//!   links without limits ─▶ a fresh cluster, replicas put ─▶ limits ─▶ archival ─▶ what the links carried, who had what
//! ```
//!
//! What moved is not asked of the coordinator: bytes between racks are those that the kernel counted at the racks' links, blocks
//! that were downloaded those that nodes say their links carried, relocated blocks those that lie where no replica was.

mod moved;

use super::stand::{BUSIEST, PROCESSOR_SHARE};
use super::whole_node::stop_watch;
use super::{Bench, Experiment, TESTBED, why};
use crate::cluster::{ClusterSpec, LabCluster, RepairOutcome};
use crate::error::{LabError, Result};
use crate::report::{Axis, Comparison, Label, Measure, Ratio, Results, Sample, Setup, Unit, sample};
use crate::testbed::{Background, LinkRate, Racks, Spec, Testbed};
use cli::processor::{ProcessorShare, settle};
use client::{Archival, Gather, PutOptions};
use moved::Layout;
pub use moved::busiest_s;

/// Series, by the names of the placement policies: encoding-aware, …
pub const EAR: &str = "ear";
/// … and random replication, the paper's RR.
pub const RR: &str = "random";
/// In the order in which they take turns.
pub const POLICIES: [Label; 2] = [Label::subject(EAR), Label::rival(RR)];

/// Data bytes that were encoded per second, from the order to the answer.
pub const RATE: &str = "encoded_bytes_per_s";
/// The same if the busiest link had carried what it did without a pause.
const BEST: &str = "bound_bytes_per_s";
/// Seconds from the order to the answer.
pub const SECONDS: &str = "encoding_s";
/// Stripes that were encoded.
const STRIPES: &str = "stripes";
/// Bytes over all racks' links for each byte of data, as the kernel counted them.
pub const CROSSED: &str = "cross_rack_bytes_per_byte";
/// Data blocks that encoders fetched from other racks, per stripe.
pub const DOWNLOADS: &str = "downloads_per_stripe";
/// Data blocks that lie where none of their replicas was, per stripe.
pub const RELOCATED: &str = "relocated_per_stripe";
/// Part of the time in which as many flows ran as stripes were to be encoded at once: in the rest stripes were planned, noted and
/// committed, or none was left.
const IN_FLOWS: &str = "in_flows_share";
/// Bytes over racks' links beyond downloads, parities and relocations, per byte of these.
const BEYOND: &str = "beyond_bytes_per_byte";

/// All objects of an experiment.
pub const PREFIX: &str = "data/";

/// An encoding's rate is asked to be at least this part of its bound: ten percent more than the bound's time.
const OF_BOUND: f64 = 1.0 / 1.1;

/// Of the gain that the bytes on racks' links predict, so much is asked.
const OF_PREDICTED: f64 = 0.85;

/// What headers, acknowledgements and what daemons say to each other may come to, beside blocks.
const TALK: f64 = 0.1;

/// Racks of hosts and their links while something is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Network {
    /// Racks.
    pub racks: usize,
    /// Hosts in each, a node on every one.
    pub hosts_per_rack: usize,
    /// Limit of each host's port, in each direction.
    pub port: LinkRate,
    /// Limit of each rack's link, in each direction.
    pub core: LinkRate,
}

/// What is put and encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Of all stripes.
    pub code: &'static str,
    /// Of each block, before.
    pub replicas: u32,
    /// Blocks of a stripe in a rack, at most.
    pub rack_capacity: u32,
    /// Stripes that are full, at least.
    pub stripes: usize,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Stripes that are encoded at once: the paper's map tasks.
    pub tasks: u32,
}

/// A testbed on which encodings are measured.
pub struct Site<'a> {
    /// How to measure.
    pub bench: &'a Bench<'a>,
    /// The hosts.
    pub testbed: Testbed,
    network: Network,
    background: Background,
    /// Limits that were measured already.
    known: Vec<(LinkRate, LinkRate)>,
}

impl Network {
    /// Sets the testbed up, has `work` measure, and takes it down, whatever comes of it.
    ///
    /// # Errors
    /// Of the testbed, or `work`.
    pub fn with<'a, T>(
        self,
        bench: &'a Bench<'a>,
        work: impl FnOnce(&mut Site<'a>) -> Result<T>,
    ) -> Result<T> {
        // What a run left that was killed.
        Testbed::remove(TESTBED)?;
        let hosts = self.racks * self.hosts_per_rack;
        (bench.say)(&format!("{hosts} hosts in {} racks, in network namespaces", self.racks));
        let racks = Some(Racks { count: self.racks, core_rate: LinkRate::UNLIMITED });
        let spec = Spec { racks, ..Spec::flat(TESTBED, hosts, LinkRate::UNLIMITED) };
        let result = Testbed::up(&spec).and_then(|testbed| {
            let (network, background, known) = (self, Background::default(), Vec::new());
            work(&mut Site { bench, testbed, network, background, known })
        });
        let removed = Testbed::remove(TESTBED);
        let result = result?;
        removed.map(|_| result)
    }
}

impl Site<'_> {
    /// From now on racks' links have this limit while something is measured.
    pub fn set_core(&mut self, core: LinkRate) {
        self.network.core = core;
    }

    /// From now on packets are sent beside each encoding.
    pub fn set_background(&mut self, background: Background) {
        self.background = background;
    }

    /// A cluster that nothing was put into, on links without limits.
    ///
    /// # Errors
    /// Of the testbed and the cluster.
    pub fn cluster(&mut self) -> Result<LabCluster> {
        self.testbed.set_rate(LinkRate::UNLIMITED)?;
        self.testbed.set_core_rate(LinkRate::UNLIMITED)?;
        LabCluster::start(
            &self.testbed,
            &ClusterSpec {
                binary: self.bench.program.clone(),
                node_hosts: (0..self.testbed.hosts().len()).collect(),
                block_bytes: flow::limits::DEFAULT_BLOCK_BYTES,
                // Networks are compared, and thousands of blocks are written and thrown away.
                folder: None,
                cache_bytes: 0,
            },
        )
    }

    /// Limits the links as the network has it, and measures them when that is the first time.
    ///
    /// # Errors
    /// As [`Testbed::measure`].
    pub fn limit(&mut self) -> Result<()> {
        let Network { port, core, .. } = self.network;
        self.testbed.set_rate(port)?;
        self.testbed.set_core_rate(core)?;
        if !self.known.contains(&(port, core)) {
            (self.bench.say)(&format!("hosts' links at {port}, racks' at {core}: measuring them"));
            self.testbed.measure()?;
            self.known.push((port, core));
        }
        Ok(())
    }

    /// An empty record of encoding rates on this network.
    pub fn results(&self, experiment: &Experiment, load: &Load, x: Axis, rounds: usize) -> Results {
        let Network { racks, hosts_per_rack, port, core } = self.network;
        let network = format!(
            "network namespaces joined by veth pairs, a bridge in each of {racks} racks of {hosts_per_rack} and one between them"
        );
        let setup = Setup {
            hosts: Some(self.testbed.hosts().len()),
            block_bytes: Some(load.block_bytes),
            ..Setup::here(&network, rounds)
        };
        let y = Measure::new(RATE, "encoding throughput", Unit::MebibytesPerSecond);
        let mut results = self.bench.record(experiment, setup, x, y);
        results.ratios = Ratio::columns(&[], &[RR]);
        results.beside = vec![
            Measure::new(SECONDS, "time", Unit::Seconds),
            Measure::new(DOWNLOADS, "downloads across racks per stripe", Unit::Blocks),
            Measure::new(RELOCATED, "relocated per stripe", Unit::Blocks),
            Measure::new(CROSSED, "between racks per block of data", Unit::Blocks),
            Measure::new(IN_FLOWS, "time in flows", Unit::Percent),
            Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent),
        ];
        results.notes.push(format!(
            "Hosts' links at {port}, racks' links at {core} in each direction, unless it is said otherwise; {} stripes or a few \
             more, {} replicas of each block, at most {} blocks of a stripe in a rack, {} stripes encoded at once by the star \
             (one node reads the data and makes all parities). The paper has blocks of 64 MiB and links of 1 Gb/s.",
            load.stripes, load.replicas, load.rack_capacity, load.tasks
        ));
        results.notes.push(
            "Each sample is of a cluster of its own, with blocks in memory. The time is from the order to the answer: planning, \
             notes in the catalog, verification and commits included. A bound is what the busiest link, of a host or of a rack, \
             allows for the bytes that it did carry. Bytes between racks are those that the kernel counted at the racks' links."
                .to_owned(),
        );
        results
    }

    /// Puts replicas by each policy in turn and encodes them, as often as the record says.
    ///
    /// # Errors
    /// Of the testbed and the cluster; nothing is reported then.
    pub fn take_turns(&mut self, load: &Load, x: f64, results: &mut Results) -> Result<()> {
        for round in 1..=results.setup.runs {
            for label in POLICIES {
                let cluster = self.cluster()?;
                load.fill(&cluster, label.name)?;
                self.limit()?;
                let sample = self.encode(&cluster, load)?;
                cluster.shutdown()?;
                let rate = Unit::MebibytesPerSecond.text(sample.get(RATE).copied().unwrap_or_default());
                let seconds = sample.get(SECONDS).copied().unwrap_or_default();
                let at = results.x.text(x);
                (self.bench.say)(&format!(
                    "round {round} of {}: {} at {at}: {rate} MiB/s, {seconds:.2} s",
                    results.setup.runs, label.name
                ));
                results.add(label, x, sample);
            }
        }
        results.bounds_from(BEST);
        Ok(())
    }

    /// Encodes all full stripes, when the machine has settled.
    ///
    /// # Errors
    /// Of the testbed and the cluster; [`LabError::Daemon`] if not all was encoded.
    pub fn encode(&self, cluster: &LabCluster, load: &Load) -> Result<Sample> {
        let replicas = Layout::of(cluster, PREFIX)?;
        settle()?;
        let background = self.background.start(&self.testbed, stop_watch())?;
        let (processors, before) = (ProcessorShare::start()?, self.testbed.carried()?);
        let elapsed = stop_watch();
        let events = cluster.archive_events(load.archival())?;
        let seconds = elapsed().as_secs_f64();
        let (share, carried) = (processors.so_far()?, self.testbed.carried()?.since(&before));
        drop(background);
        let end = events.last().filter(|end| end.state == "done" && end.failed == 0);
        let said = events.last().map_or("the archival reported nothing", |event| &event.message);
        let end = end.ok_or_else(|| LabError::of_coordinator(said))?;
        let flows: Vec<RepairOutcome> = events.iter().filter_map(RepairOutcome::of).collect();
        if flows.len() as u64 != end.done {
            let told = format!("{} stripes were encoded, and {} flows told", end.done, flows.len());
            return Err(LabError::of_coordinator(told));
        }
        let rack = |node| cluster.host_of(node).map(|host| host.rack);
        let moved = Layout::of(cluster, PREFIX)?.since(&replicas, &flows, rack)?;
        let (data, explained) = (moved.data_bytes as f64, moved.cross_rack_bytes as f64);
        let busiest = busiest_s(&self.testbed, &carried);
        let per_stripe = |blocks: u64| blocks as f64 / moved.stripes.max(1) as f64;
        let in_flows: f64 = flows.iter().map(|flow| flow.durable_s).sum();
        let mut sample = sample([
            (RATE, data / seconds),
            (BEST, data / busiest),
            (SECONDS, seconds),
            (BUSIEST, busiest),
            (STRIPES, moved.stripes as f64),
            (CROSSED, explained / data),
            (DOWNLOADS, per_stripe(moved.downloads)),
            (RELOCATED, per_stripe(moved.relocated)),
            (IN_FLOWS, in_flows / (seconds * f64::from(load.tasks))),
            (PROCESSOR_SHARE, share),
        ]);
        // The kernel's counters do not tell the blocks from other packets.
        if self.background.0.is_empty() {
            let crossed = carried.between_racks() as f64;
            sample.insert(CROSSED.to_owned(), crossed / data);
            let beyond = (crossed - explained) / explained.max(load.block_bytes as f64);
            sample.insert(BEYOND.to_owned(), beyond);
        }
        Ok(sample)
    }
}

impl Load {
    /// Puts blocks until so many stripes are full. With a core rack for each stripe others stay open, and are not encoded.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn fill(&self, cluster: &LabCluster, policy: &str) -> Result<()> {
        let k = codes::Code::parse(self.code).map_err(crate::error::bad)?.k();
        let mut blocks = self.stripes * k;
        for object in 0.. {
            cluster.put_blocks(&format!("{PREFIX}{object}"), blocks, self.options(policy))?;
            if cluster.status()?.sealed_stripes >= self.stripes as u64 {
                break;
            }
            blocks = k;
        }
        Ok(())
    }

    /// How its blocks are put.
    pub fn options(&self, policy: &str) -> PutOptions {
        let gather = Gather {
            policy: policy.to_owned(),
            code: self.code.to_owned(),
            rack_capacity: self.rack_capacity,
            target_racks: 0,
            spread: plan::placement::Spread::default().name().to_owned(),
        };
        let (block_bytes, replicas) = (self.block_bytes, self.replicas);
        PutOptions { block_bytes, replicas, gathers: Some(gather), ..PutOptions::default() }
    }

    fn archival(&self) -> Archival {
        let (name, is_prefix, parallel) = (PREFIX.to_owned(), true, self.tasks);
        Archival { name, is_prefix, parallel, ..Archival::default() }
    }
}

/// How much faster one policy is at `x`, beside the paper's gain, and that it is as much as the bytes on racks' links predict.
pub fn gain(results: &Results, x: f64, paper: Option<f64>, is_asked: bool) -> Comparison {
    let at = results.x.text(x);
    let crossed = |name| Some(results.median_of(name, x, CROSSED)).filter(|bytes| *bytes > 0.0);
    let bound = |name: &str| results.series(name)?.at(x)?.bound;
    let predicted = crossed(RR).zip(crossed(EAR)).map(|(rr, ear)| rr / ear);
    let bounds = bound(EAR).zip(bound(RR)).map(|(ear, rr)| ear / rr);
    let ours = results.ratio(EAR, RR, x);
    let why = match (predicted, bounds) {
        (Some(predicted), Some(bounds)) => format!(
            "the bytes on racks' links predict {predicted:.3} ×, their busiest links {bounds:.3} ×; it is {:.3} of the former; {}; {}",
            ours.unwrap_or_default() / predicted,
            why::rate(results, EAR, x),
            why::rate(results, RR, x),
        ),
        _ => String::new(),
    };
    let compared = Comparison::times(format!("ear over random, {at}"), ours).paper(paper).why(why);
    match predicted.filter(|_| is_asked) {
        Some(predicted) => compared.at_least(OF_PREDICTED * predicted),
        None => compared.at_least(1.0),
    }
}

/// What each policy must show at `x`, whatever the other does.
pub fn own(results: &Results, x: f64) -> Vec<Comparison> {
    let at = results.x.text(x);
    let most = |name: &str, metric| results.summary(name, x, metric).map(|summary| summary.max);
    let mut comparisons = vec![
        Comparison::times(
            format!("ear, {at}: blocks downloaded across racks, per stripe"),
            most(EAR, DOWNLOADS),
        )
        .at_most(0.0),
        Comparison::times(format!("ear, {at}: blocks relocated, per stripe"), most(EAR, RELOCATED))
            .at_most(0.0),
    ];
    comparisons.extend(most(EAR, BEYOND).map(|beyond| {
        let what = format!("ear, {at}: bytes on racks' links beyond its parities, per byte of these");
        Comparison::times(what, Some(beyond)).at_most(TALK)
    }));
    comparisons.extend([EAR, RR].map(|name| {
        let what = format!("{name}, {at}: rate against its own bound");
        Comparison::times(what, results.of_bound(name, x)).at_least(OF_BOUND).why(why::rate(results, name, x))
    }));
    comparisons
}
