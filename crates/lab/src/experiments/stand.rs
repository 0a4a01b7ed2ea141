//! What experiments about repairs stand on: a testbed, a cluster on it, archived stripes; and the turns in which
//! contenders are measured.
//!
//! Contenders take turns, round by round, so that whatever drifts on the machine hits all alike.

mod ground;
mod least;
mod lineup;
mod samples;
mod stripe;

pub use ground::Ground;
use least::Capacities;
pub use lineup::{Contender, DIRECT, HELPER_CHAIN, Label, Lineup, RELAY_CHAIN};
use samples::DURABLE;
pub use samples::{CPU, LEAST, MOST_READ, NETWORK, ORDER, PROCESSOR_SHARE, VERIFIED, mean};
pub use stripe::Stripe;

use super::{Bench, Experiment, TESTBED, timeslots, timeslots_of_several};
use crate::bare;
use crate::cluster::{ClusterSpec, LabCluster, RepairOrder, RepairOutcome};
use crate::error::LabError;
use crate::report::{Axis, Machine, Measure, Results, Sample, Scale, Setup, Summary, Unit};
use crate::testbed::{LinkRate, Testbed};
use cli::processor::settle;
use std::collections::BTreeMap;
use std::time::Instant;

/// Bytes per write of a direct send: a slice.
pub const SEND_BYTES: usize = 32 << 10;

/// It reads a block at each of k helpers.
const WARM_UP_SCHEME: &str = "pipeline";

/// Schemes whose nodes send a sum only when all of it is there.
const FORWARDING: [&str; 2] = ["ppr", "pipe-b"];

/// What an experiment stands on.
pub struct StandSpec {
    /// Hosts of the testbed, a node on each; those included that a [`Ground`] keeps free of blocks.
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
    ground: Ground,
    /// Payload that the slowest link carried, bits per second; `None` without a limit.
    measured_bits_per_s: Option<f64>,
}

impl<'a> Stand<'a> {
    /// The coordinator's host, from which repairs are ordered. It is a node's too: a stripe of 16 and its requestor need
    /// all of 17.
    pub const COORDINATOR_HOST: usize = 0;

    /// Sets all up on a flat network, has `work` measure, and takes all down, whatever comes of it.
    ///
    /// # Errors
    /// Of the testbed, the cluster, or `work`.
    pub fn with<T>(
        bench: &'a Bench<'a>,
        spec: &StandSpec,
        work: impl FnOnce(&mut Stand<'a>) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        Stand::on(bench, spec, Ground::default(), work)
    }

    /// The same on a network of racks or uneven links.
    ///
    /// # Errors
    /// As [`Stand::with`].
    pub fn on<T>(
        bench: &'a Bench<'a>,
        spec: &StandSpec,
        ground: Ground,
        work: impl FnOnce(&mut Stand<'a>) -> Result<T, LabError>,
    ) -> Result<T, LabError> {
        // What a run left that was killed.
        Testbed::remove(TESTBED)?;
        let result = Stand::set_up(bench, spec, ground).and_then(|mut stand| {
            let result = work(&mut stand);
            stand.cluster.shutdown()?;
            result
        });
        let removed = Testbed::remove(TESTBED);
        let result = result?;
        removed.map(|_| result)
    }

    fn set_up(bench: &'a Bench<'a>, spec: &StandSpec, ground: Ground) -> Result<Stand<'a>, LabError> {
        let say = |text: String| (bench.say)(&text);
        say(format!("{} hosts in network namespaces, a node on each", spec.hosts));
        let mut testbed = Testbed::up(&ground.unlimited(TESTBED, spec.hosts))?;
        let holders = spec.hosts.saturating_sub(ground.spares);
        let mut cluster = LabCluster::start(
            &testbed,
            &ClusterSpec {
                binary: bench.program.clone(),
                coordinator_host: Stand::COORDINATOR_HOST,
                node_hosts: (0..holders).collect(),
                block_bytes: flow::limits::DEFAULT_BLOCK_BYTES,
                folder: bench.folder.clone(),
                cache_bytes: ground.cache_bytes,
            },
        )?;
        let mut stripes = Vec::new();
        for (index, &(code, block_bytes)) in spec.stripes.iter().enumerate() {
            say(format!("a stripe of {code}"));
            stripes.push(Stripe::store(&cluster, &format!("stripe-{index}"), code, block_bytes)?);
        }
        for host in holders..spec.hosts {
            cluster.add_node(host)?;
        }
        for stripe in &mut stripes {
            stripe.find_requestor(&cluster)?;
        }
        // Not before: storing is no part of any experiment.
        ground.limit(&mut testbed, spec)?;
        let mut stand = Stand { bench, testbed, cluster, stripes, ground, measured_bits_per_s: None };
        say(format!("links at {}: measuring them", spec.rate));
        stand.measure_links()?;
        Ok(stand)
    }

    /// Measures all links: after their limits were changed.
    ///
    /// # Errors
    /// [`LabError::LinkDeviates`], [`LabError::ProcessorBound`], [`LabError::Unsteady`] if the network is not what it is said to be.
    pub fn measure_links(&mut self) -> Result<(), LabError> {
        let links = self.testbed.measure()?.links;
        let limited = links.iter().filter(|link| link.claimed.is_limited());
        self.measured_bits_per_s = limited.map(|link| link.measured_mbit * 1e6).min_by(f64::total_cmp);
        Ok(())
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
            network: self.ground.text(),
            hosts: Some(self.testbed.hosts().len()),
            link_bits_per_s: (rate > 0 && self.ground.is_even()).then_some(rate),
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
        self.take_turns(lineup, results)
    }

    /// The same on a stand that is warm. Every second round goes backwards: connections that were just used are faster, so
    /// that nobody is to come after the same one always.
    ///
    /// # Errors
    /// As [`Stand::take`].
    pub fn take_turns(&self, lineup: &Lineup, results: &mut Results) -> Result<(), LabError> {
        let note = "Before each turn the blocks of its stripe are read, so that none comes from the disk.";
        if !results.notes.iter().any(|known| known == note) {
            results.notes.push(note.to_owned());
        }
        let mut direct: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for round in 1..=results.setup.runs {
            let mut turns: Vec<_> = lineup.entries.iter().collect();
            if round % 2 == 0 {
                turns.reverse();
            }
            for (label, x, contender) in turns {
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
            let Some((stripe, timeslots)) = self.timeslots(contender) else { continue };
            let slot = direct.get(&stripe.block_bytes).and_then(|s| Summary::of(s.iter().copied()));
            if let Some(slot) = slot {
                results.bound(label.name, *x, timeslots * slot.median);
            }
        }
        Ok(())
    }

    /// What the timeslot model allows a repair of k blocks on equal links.
    pub fn timeslots(&self, contender: &Contender) -> Option<(&Stripe, f64)> {
        let (Contender::Repair { stripe, scheme, slice_bytes, .. }
        | Contender::Several { stripe, scheme, slice_bytes, .. }) = *contender
        else {
            return None;
        };
        let stripe = &self.stripes[stripe];
        let (k, slices) = (stripe.code.k(), stripe.block_bytes.div_ceil(u64::from(slice_bytes)));
        let timeslots = match *contender {
            Contender::Several { blocks, .. } => timeslots_of_several(scheme, k, blocks as usize, slices),
            _ => timeslots(scheme, k, slices),
        };
        Some((stripe, timeslots?))
    }

    /// One turn of one contender.
    ///
    /// # Errors
    /// Of the cluster or the bare program.
    pub fn measure(&self, contender: &Contender) -> Result<Sample, LabError> {
        if let Contender::Repair { stripe, .. } | Contender::Several { stripe, .. } = *contender {
            self.cluster.recall_files(&self.stripes[stripe].files)?;
        }
        match *contender {
            Contender::Repair { stripe, scheme, slice_bytes, verify } => {
                let order = self.stripes[stripe].order(scheme, slice_bytes);
                Ok(self.repair(&RepairOrder { verify, ..order })?.1)
            }
            Contender::Several { stripe, blocks, scheme, slice_bytes } => {
                let order = self.stripes[stripe].order(scheme, slice_bytes);
                Ok(self.repair(&RepairOrder { members: (0..blocks).collect(), ..order })?.1)
            }
            Contender::Direct { bytes } => self.direct(bytes),
            Contender::Relay { stripe, slice_bytes } => {
                settle()?;
                let Stripe { chain, block_bytes, .. } = &self.stripes[stripe];
                Ok(samples::bare(&bare::relay_chain(
                    &self.testbed,
                    chain,
                    *block_bytes,
                    slice_bytes as usize,
                )?))
            }
            Contender::Helpers { stripe, slice_bytes } => {
                settle()?;
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

    /// One plain TCP connection between two hosts without a coordinator, when the machine has settled.
    ///
    /// # Errors
    /// Of the bare program.
    pub fn direct(&self, bytes: u64) -> Result<Sample, LabError> {
        settle()?;
        Ok(samples::bare(&bare::direct_send(&self.testbed, 1, 2, bytes, SEND_BYTES)?))
    }

    /// One repair, when the machine has settled, and what is kept of it.
    ///
    /// # Errors
    /// Of the cluster.
    pub fn repair(&self, order: &RepairOrder) -> Result<(RepairOutcome, Sample), LabError> {
        settle()?;
        let started = Instant::now();
        let outcome = self.cluster.repair(order)?;
        let mut sample = samples::repair(&outcome, started.elapsed().as_secs_f64());
        let host = |node: u32| self.cluster.host_of(node).map(|host| host.index);
        let moved = outcome.links.iter().map(|link| Ok((host(link.from)?, host(link.to)?, link.bytes)));
        let moved = moved.collect::<Result<Vec<_>, LabError>>()?;
        let network = Capacities::of(&self.testbed)?;
        let least = match FORWARDING.contains(&outcome.scheme.as_str()) {
            true => network.forwarded(&moved),
            false => network.streamed(&moved, order.slice_bytes.into()),
        };
        sample.insert(LEAST.to_owned(), least);
        Ok((outcome, sample))
    }

    /// Bytes that a repair moved between racks.
    ///
    /// # Errors
    /// [`LabError::BadSpec`] for a node that is not there.
    pub fn cross_rack_bytes(&self, outcome: &RepairOutcome) -> Result<u64, LabError> {
        let rack = |node: u32| self.cluster.host_of(node).map(|host| host.rack);
        let bytes = outcome.links.iter().map(|link| {
            let crosses = rack(link.from)? != rack(link.to)?;
            Ok(if crosses { link.bytes } else { 0 })
        });
        bytes.sum()
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
                self.measure(&Contender::repair(index, WARM_UP_SCHEME, flow::limits::DEFAULT_SLICE_BYTES))?;
            }
        }
        Ok(())
    }
}
