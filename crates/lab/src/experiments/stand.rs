//! What experiments about repairs stand on: a testbed, a cluster on it, archived stripes; and the turns in which
//! contenders are measured.
//!
//! Contenders take turns, round by round, so that whatever drifts on the machine hits all alike.

mod lineup;
mod samples;
mod stripe;

pub use lineup::{Contender, DIRECT, HELPER_CHAIN, Label, Lineup, RELAY_CHAIN};
pub use samples::{CPU, PROCESSOR_SHARE, VERIFIED};
use samples::{DURABLE, ORDER};
pub use stripe::Stripe;

use super::{Bench, Experiment, TESTBED, timeslots};
use crate::bare;
use crate::cluster::{ClusterSpec, LabCluster, RepairOrder};
use crate::error::LabError;
use crate::report::{Axis, Machine, Measure, Results, Sample, Scale, Setup, Summary, Unit};
use crate::testbed::{LinkRate, Spec, Testbed};
use std::collections::BTreeMap;
use std::time::Instant;

/// The coordinator's host, from which repairs are ordered. It is a node's too: a stripe of 16 and its requestor need all
/// of 17.
const COORDINATOR_HOST: usize = 0;

/// Bytes per write of a direct send: a slice.
const SEND_BYTES: usize = 32 << 10;

/// It reads a block at each of k helpers.
const WARM_UP_SCHEME: &str = "pipeline";

/// What an experiment stands on.
pub struct StandSpec {
    /// Hosts of the testbed, a node on each.
    pub hosts: usize,
    /// Limit of their ports while something is measured.
    pub rate: LinkRate,
    /// Code and block size of each stripe.
    pub stripes: Vec<(&'static str, u64)>,
}

/// A testbed with a cluster that holds stripes.
pub struct Stand<'a> {
    /// How to measure.
    pub bench: &'a Bench<'a>,
    /// The hosts.
    pub testbed: Testbed,
    /// The daemons.
    pub cluster: LabCluster,
    /// As asked for.
    pub stripes: Vec<Stripe>,
    /// Payload that the slowest link carried, bits per second; `None` without a limit.
    measured_bits_per_s: Option<f64>,
}

impl<'a> Stand<'a> {
    /// Sets all up, has `work` measure, and takes all down, whatever comes of it.
    ///
    /// # Errors
    /// Of the testbed, the cluster, or `work`.
    pub fn with<T>(
        bench: &'a Bench<'a>,
        spec: &StandSpec,
        work: impl FnOnce(&mut Stand<'a>) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        // What a run left that was killed.
        Testbed::remove(TESTBED)?;
        let result = Stand::set_up(bench, spec).and_then(|mut stand| {
            let result = work(&mut stand);
            stand.cluster.shutdown()?;
            result
        });
        let removed = Testbed::remove(TESTBED);
        let result = result?;
        removed.map(|_| result)
    }

    fn set_up(bench: &'a Bench<'a>, spec: &StandSpec) -> Result<Stand<'a>, LabError> {
        let say = |text: String| (bench.say)(&text);
        say(format!("{} hosts in network namespaces, a node on each", spec.hosts));
        let mut testbed = Testbed::up(&Spec::flat(TESTBED, spec.hosts, LinkRate::UNLIMITED))?;
        let cluster = LabCluster::start(
            &testbed,
            &ClusterSpec {
                binary: bench.program.clone(),
                coordinator_host: COORDINATOR_HOST,
                node_hosts: (0..spec.hosts).collect(),
                block_bytes: wire::limits::DEFAULT_BLOCK_BYTES,
                folder: bench.folder.clone(),
            },
        )?;
        let mut stripes = Vec::new();
        for (index, &(code, block_bytes)) in spec.stripes.iter().enumerate() {
            say(format!("a stripe of {code}"));
            stripes.push(Stripe::store(&cluster, &format!("stripe-{index}"), code, block_bytes)?);
        }
        // Not before: storing is no part of any experiment.
        testbed.set_rate(spec.rate)?;
        say(format!("links at {}: measuring them", spec.rate));
        let links = testbed.measure()?.links;
        let slowest = links.iter().map(|link| link.measured_mbit * 1e6).min_by(f64::total_cmp);
        let measured_bits_per_s = slowest.filter(|_| spec.rate.is_limited());
        Ok(Stand { bench, testbed, cluster, stripes, measured_bits_per_s })
    }

    /// An empty record of an experiment on this stand, about repair times.
    pub fn results(&self, experiment: &Experiment, x: &str, scale: Scale, rounds: usize) -> Results {
        let x = Axis { label: x.to_owned(), scale };
        let y = Measure::new(VERIFIED, "time to the last verified byte", Unit::Seconds);
        let setup = self.setup(rounds);
        let mut results = Results::new(experiment.id, experiment.title, self.bench.quick, setup, x, y);
        results.beside = vec![
            Measure::new(DURABLE, "durable", Unit::Seconds),
            Measure::new(ORDER, "order to answer", Unit::Seconds),
            Measure::new(CPU, "processor time", Unit::Seconds),
            Measure::new(PROCESSOR_SHARE, "processors busy", Unit::Percent),
        ];
        let place = match &self.bench.folder {
            Some(_) => {
                "Blocks are files on disk, which the page cache holds once they were read; durable means synced."
            }
            None => "Blocks are in memory: a sync costs nothing.",
        };
        results.notes.push(place.to_owned());
        results
    }

    /// What is measured on. Code and block size are told if all stripes share them.
    pub fn setup(&self, rounds: usize) -> Setup {
        let rate = self.testbed.spec().rate.bits_per_s;
        let shared = |same: bool| self.stripes.first().filter(|_| same);
        let one_code = self.stripes.windows(2).all(|pair| pair[0].code.name() == pair[1].code.name());
        let one_size = self.stripes.windows(2).all(|pair| pair[0].block_bytes == pair[1].block_bytes);
        let rate = self.testbed.rate_between(0, 1).map_or(rate, |rate| rate.bits_per_s);
        Setup {
            machine: Machine::this(),
            network: "network namespaces joined by veth pairs and a bridge".to_owned(),
            hosts: Some(self.testbed.hosts().len()),
            link_bits_per_s: (rate > 0).then_some(rate),
            link_measured_bits_per_s: self.measured_bits_per_s,
            code: shared(one_code).map(|stripe| stripe.code.name().to_owned()),
            block_bytes: shared(one_size).map(|stripe| stripe.block_bytes),
            slice_bytes: None,
            runs: rounds,
        }
    }

    /// Measures every contender once a round, and says how each bound comes out.
    ///
    /// # Errors
    /// Of the repairs and sends; nothing is reported if one fails.
    pub fn take(&mut self, lineup: &Lineup, results: &mut Results) -> Result<(), LabError> {
        self.warm_up()?;
        let mut direct: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for round in 1..=results.setup.runs {
            for (label, x, contender) in &lineup.entries {
                let sample = self.measure(contender)?;
                let seconds = sample.get(VERIFIED).copied().unwrap_or_default();
                (self.bench.say)(&format!(
                    "round {round} of {}: {} at {}: {seconds:.3} s",
                    results.setup.runs,
                    label.name,
                    results.x.text(*x)
                ));
                if let Contender::Direct { bytes } = contender {
                    direct.entry(*bytes).or_default().push(seconds);
                }
                results.add(label.name, label.kind, label.shape, *x, sample);
            }
        }
        for (label, x, contender) in &lineup.entries {
            let Contender::Repair { stripe, scheme, slice_bytes, .. } = contender else { continue };
            let stripe = &self.stripes[*stripe];
            let Some(slot) = direct.get(&stripe.block_bytes).and_then(|s| Summary::of(s.iter().copied()))
            else {
                continue;
            };
            let slices = stripe.block_bytes.div_ceil(u64::from(*slice_bytes));
            if let Some(timeslots) = timeslots(scheme, stripe.code.k(), slices) {
                results.bound(label.name, *x, timeslots * slot.median);
            }
        }
        Ok(())
    }

    /// One turn of one contender.
    ///
    /// # Errors
    /// Of the cluster or the bare program.
    pub fn measure(&self, contender: &Contender) -> Result<Sample, LabError> {
        match *contender {
            Contender::Repair { stripe, scheme, slice_bytes, verify } => {
                let stripe = &self.stripes[stripe];
                let order = RepairOrder {
                    slice_bytes,
                    requestor: stripe.requestor,
                    verify,
                    ..RepairOrder::discarded(&stripe.object, 0, scheme)
                };
                let started = Instant::now();
                let outcome = self.cluster.repair(&order)?;
                Ok(samples::repair(&outcome, started.elapsed().as_secs_f64()))
            }
            Contender::Direct { bytes } => {
                // Two hosts without a coordinator.
                Ok(samples::bare(&bare::direct_send(&self.testbed, 1, 2, bytes, SEND_BYTES)?))
            }
            Contender::Relay { stripe, slice_bytes } => {
                let Stripe { chain, block_bytes, .. } = &self.stripes[stripe];
                Ok(samples::bare(&bare::relay_chain(
                    &self.testbed,
                    chain,
                    *block_bytes,
                    slice_bytes as usize,
                )?))
            }
            Contender::Helpers { stripe, slice_bytes } => {
                let Stripe { chain, block_bytes, .. } = &self.stripes[stripe];
                Ok(samples::bare(&bare::helper_chain(
                    &self.testbed,
                    chain,
                    *block_bytes,
                    slice_bytes as usize,
                )?))
            }
        }
    }

    /// Repairs every stripe as often as it takes until each of its blocks has helped: the first read of a block, the
    /// first connection between two nodes and the first flow of a daemon are not measured.
    ///
    /// # Errors
    /// Of the repairs.
    pub fn warm_up(&self) -> Result<(), LabError> {
        (self.bench.say)("warming up");
        for (index, stripe) in self.stripes.iter().enumerate() {
            for _ in 0..stripe.code.n().div_ceil(stripe.code.k()) {
                self.measure(&Contender::repair(index, WARM_UP_SCHEME, wire::limits::DEFAULT_SLICE_BYTES))?;
            }
        }
        Ok(())
    }
}
