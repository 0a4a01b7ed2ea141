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

pub use bound::{beside_bound, rates};

use super::stand::{BUSIEST, CPU, DIRECT, Ground, NETWORK, PROCESSOR_SHARE, SLICE_BYTES, Stand, StandSpec};
use super::{Bench, Experiment};
use crate::cluster::{LabCluster, RepairOutcome, busiest_bytes};
use crate::error::{LabError, Result, bad};
use crate::report::{Axis, Label, Measure, Results, Sample, Setup, Unit, sample};
use crate::testbed::LinkRate;
use bound::{Link, lost_blocks, most_data};
use cli::processor::ProcessorShare;
use model::NodeId;
use plan::recovery::LostBlock;
use std::time::{Duration, Instant};
use wire::proto::{JobEvent, RepairRequest};

/// The node that is lost. It is on the coordinator's host, where nobody else is held up by it.
pub const LOST: NodeId = NodeId(1);

/// What is stored, all stripes of it.
const OBJECT: &str = "stripes";

/// Recovered bytes per second, from the order to the last block's end.
pub const RATE: &str = "recovered_bytes_per_s";
/// Seconds from the order to the last block's end.
pub const TOTAL: &str = "total_s";
/// Blocks that were recovered.
const BLOCKS: &str = "blocks";

/// Blocks' worth of a direct send: long enough that its start does not count.
const SEND_BLOCKS: u64 = 16;

/// What such an experiment stands on.
pub struct NodeSpec {
    /// Hosts of nodes with blocks, the lost one included.
    pub holders: usize,
    /// Hosts of requestors: the stand's spare nodes.
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

/// A recovery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// What is recovered: one node, or several dead ones.
    pub nodes: Vec<NodeId>,
    /// As `--scheme` takes it.
    pub scheme: &'static str,
    /// As `--assign` takes it.
    pub assign: &'static str,
    /// Who receives; empty: whoever may.
    pub requestors: Vec<NodeId>,
    /// Bytes of a slice.
    pub slice_bytes: u32,
    /// Stripes at once; 0: the product's default.
    pub parallel: u32,
    /// The node lives and leaves: its blocks may be copied from it.
    pub leaves: bool,
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

impl NodeSpec {
    /// Sets all up, has `work` measure, and takes all down, whatever comes of it.
    ///
    /// # Errors
    /// Of the testbed, the cluster, or `work`.
    pub fn stand<'a, T>(
        &self,
        bench: &'a Bench<'a>,
        work: impl FnOnce(&mut Stand<'a>) -> Result<T>,
    ) -> Result<T> {
        let store = |cluster: &LabCluster| {
            let NodeSpec { code, block_bytes, stripes, .. } = *self;
            (bench.say)(&format!("{stripes} stripes of {code}, blocks of {block_bytes} B"));
            cluster.store_stripes(OBJECT, &codes::Code::parse(code).map_err(bad)?, stripes, block_bytes)?;
            Ok(Vec::new())
        };
        let ground = Ground { spares: self.requestors, ..Ground::default() };
        let hosts = self.holders + self.requestors;
        Stand::storing(bench, &StandSpec { hosts, rate: self.rate, stripes: Vec::new(), ground }, store, work)
    }

    /// An empty record of an experiment on such a stand, about recovery rates.
    pub fn results(&self, stand: &Stand<'_>, experiment: &Experiment, x: Axis, rounds: usize) -> Results {
        let y = Measure::new(RATE, "recovery rate", Unit::MebibytesPerSecond);
        let setup = Setup {
            code: Some(self.code.to_owned()),
            block_bytes: Some(self.block_bytes),
            slice_bytes: Some(SLICE_BYTES.into()),
            ..stand.setup(rounds)
        };
        let mut results = stand.bench.record(experiment, setup, x, y);
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
}

impl Stand<'_> {
    /// What is lost with `nodes`, if only `requestors` receive; empty: all others.
    ///
    /// # Errors
    /// [`LabError::Client`]; [`LabError::BadSpec`] if the stripes were not archived.
    pub fn lost(&self, nodes: &[NodeId], requestors: &[NodeId]) -> Result<Vec<LostBlock>> {
        let all: Vec<NodeId> = self.cluster.nodes().collect();
        let requestors = if requestors.is_empty() { &all } else { requestors };
        lost_blocks(&self.cluster.lookup(OBJECT)?, nodes, requestors)
    }

    /// The node that holds the most data blocks: how many, and how many blocks in all.
    ///
    /// # Errors
    /// [`LabError::Client`]; [`LabError::BadSpec`] if the stripes were not archived.
    pub fn most_data(&self) -> Result<(NodeId, usize, usize)> {
        most_data(&self.cluster.lookup(OBJECT)?)
    }

    /// Recovers nodes. Who held up the flows of an earlier recovery helps in this one as any other: schemes are compared,
    /// and not what the ones before have left behind.
    ///
    /// # Errors
    /// Of the cluster; [`LabError::Daemon`] if a block was not recovered.
    pub fn recover(&self, order: &Order) -> Result<Sample> {
        self.cluster.forgive()?;
        let (cpu, processors) = (self.cluster.cpu_seconds(), ProcessorShare::start()?);
        let started = Instant::now();
        let events = self.cluster.repair_events(order.request())?;
        let total_s = started.elapsed().as_secs_f64();
        let (cpu_s, share) = (self.cluster.cpu_seconds() - cpu, processors.so_far()?);
        let end = ended(&events, "recovery")?;
        if end.done == 0 {
            return Err(LabError::of_coordinator(&end.message));
        }
        let flows: Vec<RepairOutcome> = events.iter().filter_map(RepairOutcome::of).collect();
        let network: u64 = flows.iter().map(RepairOutcome::total_bytes).sum();
        Ok(sample([
            (RATE, end.total_bytes as f64 / total_s),
            (TOTAL, total_s),
            (CPU, cpu_s),
            (PROCESSOR_SHARE, share),
            (BUSIEST, busiest_bytes(flows.iter().flat_map(|flow| &flow.links)) as f64),
            (NETWORK, network as f64),
            (BLOCKS, end.done as f64),
        ]))
    }

    /// Has the recovery planned, and everybody who would take part prepare.
    ///
    /// # Errors
    /// Of the cluster; [`LabError::Daemon`] if somebody refused.
    pub fn rehearse(&self, order: &Order) -> Result<Rehearsed> {
        let request = RepairRequest { dry_run: true, discard: false, ..order.request() };
        let (before, started) = (self.cluster.coordinator_cpu_seconds(), Instant::now());
        let events = self.cluster.repair_events(request)?;
        let seconds = started.elapsed().as_secs_f64();
        let coordinator_cpu_s = self.cluster.coordinator_cpu_seconds() - before;
        Ok(Rehearsed { repairs: ended(&events, "dry run")?.done, seconds, coordinator_cpu_s })
    }

    /// Measures every recovery once a round, each round after a direct send of so many blocks' bytes: what one link carries.
    /// The first connections, those of `warm_up`, are not measured.
    ///
    /// # Errors
    /// Of the recoveries and sends; nothing is reported if one fails.
    pub fn take_recoveries(
        &self,
        warm_up: &Order,
        (direct, place): (Label, f64),
        block_bytes: u64,
        turns: &[(Label, f64, Order)],
        results: &mut Results,
    ) -> Result<()> {
        (self.bench.say)("warming up");
        self.recover(warm_up)?;
        for round in 1..=results.setup.runs {
            self.note(results, round, direct, place, self.send_rate(block_bytes)?);
            for (label, x, order) in turns {
                self.note(results, round, *label, *x, self.recover(order)?);
            }
        }
        Ok(())
    }

    fn send_rate(&self, block_bytes: u64) -> Result<Sample> {
        let bytes = SEND_BLOCKS * block_bytes;
        let timing = self.send([1, 2], bytes)?;
        Ok(sample([
            (RATE, bytes as f64 / timing.seconds),
            (TOTAL, timing.seconds),
            (CPU, timing.cpu_seconds),
            (PROCESSOR_SHARE, timing.processor_share),
        ]))
    }

    /// Adds a sample and says what it was.
    fn note(&self, results: &mut Results, round: usize, label: Label, x: f64, sample: Sample) {
        let rate = Unit::MebibytesPerSecond.text(sample.get(RATE).copied().unwrap_or_default());
        let (at, seconds) = (results.x.text(x), sample.get(TOTAL).copied().unwrap_or_default());
        self.say_round(round, results, &format!(": {} at {at}: {rate} MiB/s, {seconds:.2} s", label.name));
        results.add(label, x, sample);
    }
}

/// Bounds of series at `x`: how fast, or in which time, `lost` can be recovered at best over links as fast as the direct send.
pub fn bound(results: &mut Results, series: &[&str], x: f64, lost: &[LostBlock]) {
    bound_by(results, series, x, lost, Link::best);
}

/// The same if the node lives, and its blocks may be copied from it as well.
pub fn bound_leaving(results: &mut Results, series: &[&str], x: f64, lost: &[LostBlock]) {
    bound_by(results, series, x, lost, Link::best_leaving);
}

fn bound_by(
    results: &mut Results,
    series: &[&str],
    x: f64,
    lost: &[LostBlock],
    best: fn(Link, &[LostBlock]) -> f64,
) {
    let Some(link) = results.summary(DIRECT, x, RATE).map(|summary| Link(summary.median)) else { return };
    let bytes: u64 = lost.iter().map(|block| block.bytes).sum();
    let best = best(link, lost);
    let best = if results.y.metric == RATE { best } else { bytes as f64 / best };
    for name in series {
        results.bound(name, x, best);
    }
}

/// The last event of a job in which nothing failed.
fn ended<'e>(events: &'e [JobEvent], job: &str) -> Result<&'e JobEvent> {
    let nothing = || LabError::of_coordinator(format!("the {job} reported nothing"));
    let end = events.last().ok_or_else(nothing)?;
    match end.state.as_str() {
        "done" if end.failed == 0 => Ok(end),
        _ => Err(LabError::of_coordinator(&end.message)),
    }
}

impl Order {
    /// The recovery of the lost node, received by whoever may.
    pub fn new(scheme: &'static str, assign: &'static str) -> Order {
        let (nodes, requestors) = (vec![LOST], Vec::new());
        Order { nodes, scheme, assign, requestors, slice_bytes: SLICE_BYTES, parallel: 0, leaves: false }
    }

    fn request(&self) -> RepairRequest {
        RepairRequest {
            node: self.nodes.first().unwrap_or(&LOST).0,
            more_nodes: self.nodes.iter().skip(1).map(|node| node.0).collect(),
            discard: true,
            scheme: self.scheme.to_owned(),
            assign: self.assign.to_owned(),
            requestors: self.requestors.iter().map(|node| node.0).collect(),
            slice_bytes: self.slice_bytes,
            parallel: self.parallel,
            decommission: self.leaves,
            ..RepairRequest::default()
        }
    }
}

/// The time since now.
pub fn stop_watch() -> impl Fn() -> Duration + Copy {
    let start = Instant::now();
    move || start.elapsed()
}
