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
pub use lineup::{
    CONVENTIONAL, Contender, DIRECT, HELPER_CHAIN, Lineup, PIPELINE, PPR, PPR_SLICED, RELAY_CHAIN, SCHEMES,
    SLICE_BYTES,
};
pub use samples::{BUSIEST, CPU, DURABLE, LEAST, MOST_READ, NETWORK, ORDER, PROCESSOR_SHARE, VERIFIED, mean};
pub use stripe::Stripe;

use super::{Bench, Experiment, TESTBED, timeslots, timeslots_of_several};
use crate::bare;
use crate::cluster::{ClusterSpec, LabCluster, LinkTraffic, RepairOrder, RepairOutcome};
use crate::error::Result;
use crate::report::{Axis, Measure, Results, Sample, Setup, Summary, Unit, sample};
use crate::testbed::{Host, LinkRate, Testbed};
use cli::bare::Timing;
use cli::processor::settle;
use model::NodeId;
use std::collections::BTreeMap;
use std::time::Instant;

/// It reads a block at each of k helpers.
const WARM_UP_SCHEME: &str = PIPELINE;

/// Schemes whose nodes send a sum only when all of it is there.
const FORWARDING: [&str; 2] = [PPR, "pipe-b"];

/// What an experiment stands on.
pub struct StandSpec {
    /// Hosts of the testbed, a node on each; those included that the ground keeps free of blocks.
    pub hosts: usize,
    /// Limit of their ports while something is measured.
    pub rate: LinkRate,
    /// Code and block size of each stripe.
    pub stripes: Vec<(&'static str, u64)>,
    /// Racks, uneven links, and the like.
    pub ground: Ground,
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
    /// Nodes that hold no block, in the order of their hosts: as many as the ground says.
    pub spares: Vec<NodeId>,
    ground: Ground,
    /// Payload that the slowest link carried, bits per second; `None` without a limit.
    measured_bits_per_s: Option<f64>,
}

/// Seconds of all direct sends, by the bytes that they carried.
pub type Sends = BTreeMap<u64, Vec<f64>>;

impl StandSpec {
    /// Enough for a stripe of 16 and its requestor, at a rate in Mb/s unless another one is asked for, on a flat network.
    pub fn usual(bench: &Bench<'_>, mbit: f64, stripes: Vec<(&'static str, u64)>) -> StandSpec {
        StandSpec { hosts: 17, rate: bench.rate_or(mbit), stripes, ground: Ground::default() }
    }
}

impl<'a> Stand<'a> {
    /// Sets all up, has `work` measure, and takes all down, whatever comes of it.
    ///
    /// # Errors
    /// Of the testbed, the cluster, or `work`.
    pub fn with<T>(
        bench: &'a Bench<'a>,
        spec: &StandSpec,
        work: impl FnOnce(&mut Stand<'a>) -> Result<T>,
    ) -> Result<T> {
        let store = |cluster: &LabCluster| {
            let stripes = spec.stripes.iter().enumerate().map(|(index, &(code, block_bytes))| {
                (bench.say)(&format!("a stripe of {code}"));
                Stripe::store(cluster, &format!("stripe-{index}"), code, block_bytes)
            });
            stripes.collect()
        };
        Stand::storing(bench, spec, store, work)
    }

    /// The same with whatever `store` stores, and the stripes of it that are measured one by one.
    ///
    /// # Errors
    /// As [`Stand::with`]; of `store`.
    pub fn storing<T>(
        bench: &'a Bench<'a>,
        spec: &StandSpec,
        store: impl FnOnce(&LabCluster) -> Result<Vec<Stripe>>,
        work: impl FnOnce(&mut Stand<'a>) -> Result<T>,
    ) -> Result<T> {
        // What a run left that was killed.
        Testbed::remove(TESTBED)?;
        let result = Stand::set_up(bench, spec, store).and_then(|mut stand| {
            let result = work(&mut stand);
            stand.cluster.shutdown()?;
            result
        });
        let removed = Testbed::remove(TESTBED);
        let result = result?;
        removed.map(|_| result)
    }

    fn set_up(
        bench: &'a Bench<'a>,
        spec: &StandSpec,
        store: impl FnOnce(&LabCluster) -> Result<Vec<Stripe>>,
    ) -> Result<Stand<'a>> {
        (bench.say)(&format!("{} hosts in network namespaces, a node on each", spec.hosts));
        let ground = spec.ground.clone();
        let mut testbed = Testbed::up(&ground.unlimited(TESTBED, spec.hosts))?;
        let holders = spec.hosts.saturating_sub(ground.spares);
        let mut cluster = LabCluster::start(
            &testbed,
            &ClusterSpec {
                binary: bench.program.clone(),
                node_hosts: (0..holders).collect(),
                block_bytes: flow::limits::DEFAULT_BLOCK_BYTES,
                folder: bench.folder.clone(),
                cache_bytes: ground.cache_bytes,
            },
        )?;
        let mut stripes = store(&cluster)?;
        let spares = (holders..spec.hosts).map(|host| cluster.add_node(host)).collect::<Result<_, _>>()?;
        for stripe in &mut stripes {
            stripe.find_requestor(&cluster)?;
        }
        // Not before: storing is no part of any experiment.
        ground.limit(&mut testbed, spec)?;
        let mut stand = Stand { bench, testbed, cluster, stripes, spares, ground, measured_bits_per_s: None };
        (bench.say)(&format!("links at {}: measuring them", spec.rate));
        stand.measure_links()?;
        Ok(stand)
    }

    /// Measures all links: after their limits were changed.
    ///
    /// # Errors
    /// [`crate::error::LabError::LinkDeviates`], [`crate::error::LabError::ProcessorBound`], [`crate::error::LabError::Unsteady`] if the network is not what it is said to be.
    pub fn measure_links(&mut self) -> Result<()> {
        let links = self.testbed.measure()?.links;
        let limited = links.iter().filter(|link| link.claimed.is_limited());
        self.measured_bits_per_s = limited.map(|link| link.measured_mbit * 1e6).min_by(f64::total_cmp);
        Ok(())
    }

    /// Limits all ports, and measures all links again.
    ///
    /// # Errors
    /// As [`Stand::measure_links`].
    pub fn set_rate(&mut self, rate: LinkRate) -> Result<()> {
        self.testbed.set_rate(rate)?;
        (self.bench.say)(&format!("links at {rate}: measuring them"));
        self.measure_links()
    }

    /// An empty record of an experiment on this stand, about repair times with slices of [`SLICE_BYTES`].
    pub fn results(&self, experiment: &Experiment, x: Axis, rounds: usize) -> Results {
        let y = Measure::new(VERIFIED, "time to the last verified byte", Unit::Seconds);
        let setup = Setup { slice_bytes: Some(SLICE_BYTES.into()), ..self.setup(rounds) };
        let mut results = self.bench.record(experiment, setup, x, y);
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
        let shared = |same: bool| self.stripes.first().filter(|_| same);
        let one_code = self.stripes.windows(2).all(|pair| pair[0].code.name() == pair[1].code.name());
        let one_size = self.stripes.windows(2).all(|pair| pair[0].block_bytes == pair[1].block_bytes);
        let rate = self.testbed.limits().between(0, 1).bits_per_s;
        Setup {
            hosts: Some(self.testbed.hosts().len()),
            link_bits_per_s: (rate > 0 && self.ground.is_even()).then_some(rate),
            link_measured_bits_per_s: self.measured_bits_per_s,
            code: shared(one_code).map(|stripe| stripe.code.name().to_owned()),
            block_bytes: shared(one_size).map(|stripe| stripe.block_bytes),
            ..Setup::here(&self.ground.text(), rounds)
        }
    }

    /// Measures every contender once a round, and says how each bound comes out.
    ///
    /// # Errors
    /// Of the repairs and sends; nothing is reported if one fails.
    pub fn take(&self, lineup: &Lineup, mut results: Results) -> Result<Results> {
        self.warm_up()?;
        self.take_turns(lineup, &mut results)?;
        Ok(results)
    }

    /// The same on a stand that is warm. Every second round goes backwards: connections that were just used are faster, so
    /// that nobody is to come after the same one always.
    ///
    /// # Errors
    /// As [`Stand::take`].
    pub fn take_turns(&self, lineup: &Lineup, results: &mut Results) -> Result<()> {
        let note = "Before each turn the blocks of its stripe are read, so that none comes from the disk.";
        if !results.notes.iter().any(|known| known == note) {
            results.notes.push(note.to_owned());
        }
        let mut sends = Sends::new();
        for round in 1..=results.setup.runs {
            let mut turns: Vec<_> = lineup.entries.iter().collect();
            if round % 2 == 0 {
                turns.reverse();
            }
            for &(label, x, ref contender) in turns {
                self.recall(contender)?;
                let sample = self.measure(contender)?;
                let seconds = sample.get(VERIFIED).copied().unwrap_or_default();
                let at = results.x.text(x);
                self.say_round(round, results, &format!(": {} at {at}: {seconds:.3} s", label.name));
                if let Contender::Direct { bytes } = contender {
                    sends.entry(*bytes).or_default().push(seconds);
                }
                results.add(label, x, sample);
            }
        }
        self.bounds(lineup, &sends, results);
        Ok(())
    }

    /// Tells in which round this is, and `what` goes on.
    pub fn say_round(&self, round: usize, results: &Results, what: &str) {
        (self.bench.say)(&format!("round {round} of {}{what}", results.setup.runs));
    }

    /// The bound of each repair: its timeslots × the median of direct sends of one block.
    pub fn bounds(&self, lineup: &Lineup, sends: &Sends, results: &mut Results) {
        for (label, x, contender) in &lineup.entries {
            let Some((stripe, timeslots)) = self.timeslots(contender) else { continue };
            let slot = sends.get(&stripe.block_bytes).and_then(|sends| Summary::of(sends.iter().copied()));
            if let Some(slot) = slot {
                results.bound(label.name, *x, timeslots * slot.median);
            }
        }
    }

    /// What the timeslot model allows a repair of k blocks on equal links.
    fn timeslots(&self, contender: &Contender) -> Option<(&Stripe, f64)> {
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

    /// Reads the blocks that a repair will read, so that they do not come from the disk.
    fn recall(&self, contender: &Contender) -> Result<()> {
        match *contender {
            Contender::Repair { stripe, .. } | Contender::Several { stripe, .. } => {
                self.cluster.recall_files(&self.stripes[stripe].files)
            }
            _ => Ok(()),
        }
    }

    /// One turn of one contender, whatever the operating system has of its blocks.
    ///
    /// # Errors
    /// Of the cluster or the bare program.
    pub fn measure(&self, contender: &Contender) -> Result<Sample> {
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
            Contender::Relay { stripe, slice_bytes } => self.chain(bare::relay_chain, stripe, slice_bytes),
            Contender::Helpers { stripe, slice_bytes } => self.chain(bare::helper_chain, stripe, slice_bytes),
        }
    }

    /// A block along a stripe's chain of bare programs, when the machine has settled.
    fn chain(&self, run: bare::Chain, stripe: usize, slice_bytes: u32) -> Result<Sample> {
        settle()?;
        let Stripe { chain, block_bytes, .. } = &self.stripes[stripe];
        let timing = run(&self.testbed, chain, *block_bytes, slice_bytes as usize)?;
        Ok(samples::bare(&timing))
    }

    /// One plain TCP connection between two hosts without a coordinator, when the machine has settled.
    ///
    /// # Errors
    /// Of the bare program.
    pub fn direct(&self, bytes: u64) -> Result<Sample> {
        settle()?;
        Ok(samples::bare(&self.send([1, 2], bytes)?))
    }

    /// One plain TCP connection from a host to another, at once.
    ///
    /// # Errors
    /// Of the bare program.
    pub fn send(&self, ends: [usize; 2], bytes: u64) -> Result<Timing> {
        bare::relay_chain(&self.testbed, &ends, bytes, SLICE_BYTES as usize)
    }

    /// The time alone of one block of the first stripe over one plain TCP connection, at once.
    ///
    /// # Errors
    /// Of the bare program.
    pub fn send_between(&self, from: usize, to: usize) -> Result<Sample> {
        let timing = self.send([from, to], self.stripes[0].block_bytes)?;
        Ok(sample([(VERIFIED, timing.seconds)]))
    }

    /// One repair, when the machine has settled, and what is kept of it.
    ///
    /// # Errors
    /// Of the cluster.
    pub fn repair(&self, order: &RepairOrder) -> Result<(RepairOutcome, Sample)> {
        settle()?;
        let started = Instant::now();
        let outcome = self.cluster.repair(order)?;
        let mut sample = samples::repair(&outcome, started.elapsed().as_secs_f64());
        let ends = outcome.links.iter().map(|link| self.ends(link));
        let moved = ends.map(|ends| ends.map(|(from, to, bytes)| (from.index, to.index, bytes)));
        let moved = moved.collect::<Result<Vec<_>>>()?;
        let network = Capacities::of(&self.testbed);
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
    /// [`crate::error::LabError::BadSpec`] for a node that is not there.
    pub fn cross_rack_bytes(&self, outcome: &RepairOutcome) -> Result<u64> {
        let crossing = |link| self.ends(link).map(|(a, b, bytes)| if a.rack == b.rack { 0 } else { bytes });
        outcome.links.iter().map(crossing).sum()
    }

    /// The hosts at both ends of a link, and what it carried.
    fn ends(&self, link: &LinkTraffic) -> Result<(&Host, &Host, u64)> {
        let [from, to] = [link.from, link.to].map(|end| self.cluster.host_of(NodeId(end.number())));
        Ok((from?, to?, link.bytes))
    }

    /// Repairs every stripe as often as it takes until each of its blocks has helped: the first read of a block, the
    /// first connection between two nodes and the first flow of a daemon are not measured.
    ///
    /// # Errors
    /// Of the repairs.
    pub fn warm_up(&self) -> Result<()> {
        (self.bench.say)("warming up");
        for (index, stripe) in self.stripes.iter().enumerate() {
            for _ in 0..stripe.code.n().div_ceil(stripe.code.k()) {
                self.measure(&Contender::repair(index, WARM_UP_SCHEME, SLICE_BYTES))?;
            }
        }
        Ok(())
    }
}
