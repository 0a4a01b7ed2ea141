//! What experiments about whole nodes stand on: a testbed, a cluster with many stripes, nodes that hold nothing and
//! receive, and recoveries of nodes, measured as often as one likes because their blocks are thrown away.
//!
//! ```text
//!   host 0            hosts 1 … h−1          hosts h … h+r−1
//!   coordinator,      nodes that help,       nodes that hold nothing:
//!   the lost node     all with blocks        the requestors
//! ```
//!
//! Requestors stand beside the helpers, not on them: so one requestor can receive for every stripe. Without hosts for
//! them helpers receive what is of stripes that they hold nothing of.

mod bound;

pub use bound::{Link, beside_bound, rates};

use super::{Bench, Experiment, TESTBED};
use crate::bare;
use crate::cluster::{ClusterSpec, LabCluster, RepairOutcome};
use crate::error::LabError;
use crate::report::{Axis, Kind, Machine, Measure, Results, Sample, Scale, Setup, Shape, Unit};
use crate::testbed::{LinkRate, Spec, Testbed};
use bound::lost_blocks;
use cli::processor::ProcessorShare;
use plan::recovery::LostBlock;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wire::proto::RepairRequest;

/// The coordinator's host, and that of the node that is lost, which nobody else is held up by.
const COORDINATOR_HOST: usize = 0;

/// The node that is lost.
pub const LOST: u32 = 1;

/// What is stored, all stripes of it.
const OBJECT: &str = "stripes";

/// Recovered bytes per second, from the order to the last block's end.
pub const RATE: &str = "recovered_bytes_per_s";
/// Seconds from the order to the last block's end.
pub const TOTAL: &str = "total_s";
/// Processor seconds of all daemons.
pub const CPU: &str = "cpu_s";
/// Share of all processors in use meanwhile, 0 to 1.
pub const PROCESSOR_SHARE: &str = "processor_share";
/// Payload bytes through the busiest side of a node's port.
pub const BUSIEST: &str = "busiest_bytes";
/// Payload bytes over all links.
pub const NETWORK: &str = "network_bytes";
/// Blocks that were recovered.
pub const BLOCKS: &str = "blocks";

/// One plain TCP connection, from the same run.
pub const DIRECT: &str = "direct send";

/// Bytes per write of a direct send: a slice.
const SEND_BYTES: usize = 32 << 10;

/// Blocks' worth of a direct send: long enough that its start does not count.
const SEND_BLOCKS: u64 = 16;

/// What such an experiment stands on.
pub struct NodeSpec {
    /// Hosts of nodes with blocks, the lost one included.
    pub holders: usize,
    /// Hosts of requestors.
    pub requestors: usize,
    /// Limit of their ports while something is measured.
    pub rate: LinkRate,
    /// Of all stripes.
    pub code: &'static str,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// How many stripes.
    pub stripes: usize,
}

/// A testbed with a cluster that holds stripes.
pub struct NodeStand<'a> {
    /// How to measure.
    pub bench: &'a Bench<'a>,
    /// The hosts.
    pub testbed: Testbed,
    /// The daemons.
    pub cluster: LabCluster,
    /// Numbers of the requestors.
    pub requestors: Vec<u32>,
    /// Payload that the slowest link carried, bits per second; `None` without a limit.
    measured_bits_per_s: Option<f64>,
}

/// A recovery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// What is recovered: one node, or several dead ones.
    pub nodes: Vec<u32>,
    /// As `--scheme` takes it.
    pub scheme: &'static str,
    /// As `--assign` takes it.
    pub assign: &'static str,
    /// Who receives; empty: whoever may.
    pub requestors: Vec<u32>,
    /// Bytes of a slice.
    pub slice_bytes: u32,
    /// Stripes at once; 0: the product's default.
    pub parallel: u32,
}

/// A recovery for which everybody has prepared.
pub struct Rehearsed {
    /// Repairs.
    pub repairs: u64,
    /// From the order to the last one's answer.
    pub seconds: f64,
    /// Of the coordinator's processor time, which the kernel counts in hundredths of a second.
    pub coordinator_cpu_s: f64,
}

impl<'a> NodeStand<'a> {
    /// Sets all up, has `work` measure, and takes all down, whatever comes of it.
    ///
    /// # Errors
    /// Of the testbed, the cluster, or `work`.
    pub fn with<T>(
        bench: &'a Bench<'a>,
        spec: &NodeSpec,
        work: impl FnOnce(&mut NodeStand<'a>) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        // What a run left that was killed.
        Testbed::remove(TESTBED)?;
        let result = NodeStand::set_up(bench, spec).and_then(|mut stand| {
            let result = work(&mut stand);
            stand.cluster.shutdown()?;
            result
        });
        let removed = Testbed::remove(TESTBED);
        let result = result?;
        removed.map(|_| result)
    }

    fn set_up(bench: &'a Bench<'a>, spec: &NodeSpec) -> Result<NodeStand<'a>, LabError> {
        let say = |text: String| (bench.say)(&text);
        let hosts = spec.holders + spec.requestors;
        say(format!("{hosts} hosts in network namespaces, a node on each"));
        let mut testbed = Testbed::up(&Spec::flat(TESTBED, hosts, LinkRate::UNLIMITED))?;
        let mut cluster = LabCluster::start(
            &testbed,
            &ClusterSpec {
                binary: bench.program.clone(),
                coordinator_host: COORDINATOR_HOST,
                node_hosts: (0..spec.holders).collect(),
                block_bytes: flow::limits::DEFAULT_BLOCK_BYTES,
                folder: bench.folder.clone(),
                cache_bytes: 0,
            },
        )?;
        say(format!("{} stripes of {}, blocks of {} B", spec.stripes, spec.code, spec.block_bytes));
        store(&cluster, spec)?;
        let added = (spec.holders..hosts).map(|host| cluster.add_node(host));
        let requestors = added.collect::<Result<Vec<u32>, LabError>>()?;
        // Not before: storing is no part of any experiment.
        testbed.set_rate(spec.rate)?;
        say(format!("links at {}: measuring them", spec.rate));
        let links = testbed.measure()?.links;
        let slowest = links.iter().map(|link| link.measured_mbit * 1e6).min_by(f64::total_cmp);
        let measured_bits_per_s = slowest.filter(|_| spec.rate.is_limited());
        Ok(NodeStand { bench, testbed, cluster, requestors, measured_bits_per_s })
    }

    /// An empty record of an experiment on this stand, about recovery rates.
    pub fn results(&self, experiment: &Experiment, spec: &NodeSpec, x: Axis, rounds: usize) -> Results {
        let y = Measure::new(RATE, "recovery rate", Unit::MebibytesPerSecond);
        let setup = Setup {
            machine: Machine::this(),
            network: "network namespaces joined by veth pairs and a bridge".to_owned(),
            hosts: Some(self.testbed.hosts().len()),
            link_bits_per_s: Some(spec.rate.bits_per_s).filter(|_| spec.rate.is_limited()),
            link_measured_bits_per_s: self.measured_bits_per_s,
            code: Some(spec.code.to_owned()),
            block_bytes: Some(spec.block_bytes),
            slice_bytes: None,
            runs: rounds,
        };
        let mut results = Results::new(experiment.id, experiment.title, self.bench.quick, setup, x, y);
        results.beside = vec![
            Measure::new(TOTAL, "total time", Unit::Seconds),
            Measure::new(BUSIEST, "busiest port", Unit::Mebibytes),
            Measure::new(CPU, "processor time", Unit::Seconds),
            Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent),
        ];
        results.notes.push(
            "The rate counts from the order to the last block's end: planning, notes in the catalog, verification and \
             making durable included. Blocks are thrown away afterwards, so that the same ones are lost in every run; \
             a single lost node lives and takes no part."
                .to_owned(),
        );
        results
    }

    /// What is lost with `nodes`, if only `requestors` receive; empty: all others.
    ///
    /// # Errors
    /// [`LabError::Client`]; [`LabError::BadSpec`] if the stripes were not archived.
    pub fn lost(&self, nodes: &[u32], requestors: &[u32]) -> Result<Vec<LostBlock>, LabError> {
        let all: Vec<u32> = self.cluster.node_ids().collect();
        let requestors = if requestors.is_empty() { &all } else { requestors };
        lost_blocks(&self.cluster.lookup(OBJECT)?, nodes, requestors)
    }

    /// Recovers nodes. Who held up the flows of an earlier recovery helps in this one as any other: schemes are compared,
    /// and not what the ones before have left behind.
    ///
    /// # Errors
    /// Of the cluster; [`LabError::Daemon`] if a block was not recovered.
    pub fn recover(&self, order: &Order) -> Result<Sample, LabError> {
        self.cluster.forgive()?;
        let (cpu, processors) = (self.cluster.cpu_seconds(), ProcessorShare::start()?);
        let started = Instant::now();
        let events = self.cluster.repair_events(order.request())?;
        let total_s = started.elapsed().as_secs_f64();
        let (cpu_s, share) = (self.cluster.cpu_seconds() - cpu, processors.so_far()?);
        let failed = |message: String| LabError::Daemon { who: "the coordinator".to_owned(), message };
        let end = events.last().ok_or_else(|| failed("the recovery reported nothing".to_owned()))?;
        let flows: Vec<RepairOutcome> = events.iter().filter_map(RepairOutcome::of).collect();
        if end.failed > 0 || end.done == 0 || end.state != "done" {
            return Err(failed(end.message.clone()));
        }
        let mut ports: BTreeMap<(u32, bool), u64> = BTreeMap::new();
        for link in flows.iter().flat_map(|flow| &flow.links) {
            *ports.entry((link.from, false)).or_default() += link.bytes;
            *ports.entry((link.to, true)).or_default() += link.bytes;
        }
        let network: u64 = flows.iter().map(RepairOutcome::total_bytes).sum();
        let metrics = [
            (RATE, end.total_bytes as f64 / total_s),
            (TOTAL, total_s),
            (CPU, cpu_s),
            (PROCESSOR_SHARE, share),
            (BUSIEST, ports.into_values().max().unwrap_or(0) as f64),
            (NETWORK, network as f64),
            (BLOCKS, end.done as f64),
        ];
        Ok(metrics.into_iter().map(|(metric, value)| (metric.to_owned(), value)).collect())
    }

    /// Has the recovery planned, and everybody who would take part prepare.
    ///
    /// # Errors
    /// Of the cluster; [`LabError::Daemon`] if somebody refused.
    pub fn rehearse(&self, order: &Order) -> Result<Rehearsed, LabError> {
        let request = RepairRequest { dry_run: true, discard: false, ..order.request() };
        let (before, started) = (self.cluster.coordinator_cpu_seconds(), Instant::now());
        let events = self.cluster.repair_events(request)?;
        let seconds = started.elapsed().as_secs_f64();
        let coordinator_cpu_s = self.cluster.coordinator_cpu_seconds() - before;
        match events.last() {
            Some(end) if end.state == "done" && end.failed == 0 => {
                Ok(Rehearsed { repairs: end.done, seconds, coordinator_cpu_s })
            }
            end => Err(LabError::Daemon {
                who: "the coordinator".to_owned(),
                message: end
                    .map_or_else(|| "the dry run reported nothing".to_owned(), |end| end.message.clone()),
            }),
        }
    }

    /// What one link carries: a plain TCP connection between two hosts.
    ///
    /// # Errors
    /// Of the bare program.
    pub fn direct(&self, block_bytes: u64) -> Result<Sample, LabError> {
        let bytes = SEND_BLOCKS * block_bytes;
        let timing = bare::direct_send(&self.testbed, 1, 2, bytes, SEND_BYTES)?;
        let metrics = [
            (RATE, bytes as f64 / timing.seconds),
            (TOTAL, timing.seconds),
            (CPU, timing.cpu_seconds),
            (PROCESSOR_SHARE, timing.processor_share),
        ];
        Ok(metrics.into_iter().map(|(metric, value)| (metric.to_owned(), value)).collect())
    }

    /// Adds a sample and says what it was.
    pub fn note(
        &self,
        results: &mut Results,
        round: usize,
        (name, kind, shape): (&str, Kind, Shape),
        x: f64,
        sample: Sample,
    ) {
        let rate = sample.get(RATE).copied().unwrap_or_default();
        (self.bench.say)(&format!(
            "round {round} of {}: {name} at {}: {} MiB/s, {:.2} s",
            results.setup.runs,
            results.x.text(x),
            Unit::MebibytesPerSecond.text(rate),
            sample.get(TOTAL).copied().unwrap_or_default()
        ));
        results.add(name, kind, shape, x, sample);
    }
}

impl Order {
    fn request(&self) -> RepairRequest {
        RepairRequest {
            node: self.nodes.first().copied().unwrap_or(LOST),
            more_nodes: self.nodes.iter().skip(1).copied().collect(),
            discard: true,
            scheme: self.scheme.to_owned(),
            assign: self.assign.to_owned(),
            requestors: self.requestors.clone(),
            slice_bytes: self.slice_bytes,
            parallel: self.parallel,
            ..RepairRequest::default()
        }
    }
}

/// An axis of names.
pub fn named(label: &str, names: impl IntoIterator<Item = String>) -> Axis {
    Axis { label: label.to_owned(), scale: Scale::Categories(names.into_iter().collect()) }
}

/// Puts the object and archives it.
fn store(cluster: &LabCluster, spec: &NodeSpec) -> Result<(), LabError> {
    let NodeSpec { code, block_bytes, stripes, .. } = *spec;
    let code = codes::Code::parse(code).map_err(|error| LabError::BadSpec(error.to_string()))?;
    cluster.store_stripes(OBJECT, &code, stripes, block_bytes)
}

/// The time since now.
pub fn stop_watch() -> impl Fn() -> Duration {
    let start = Instant::now();
    move || start.elapsed()
}
