//! What links really carry.

use super::Host;
use super::shape::Limits;
use super::spec::{LinkRate, Spec};
use super::traffic::{connect, drain, pour};
use crate::error::{LabError, Result};
use cli::processor::{ProcessorShare, settle};
use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Buckets start full, windows start small: nothing is counted before this, or before a bucket's content has passed twice.
const WARM_UP: Duration = Duration::from_millis(120);

/// What is counted: at 1 Gbit/s, 30 times what queues hold. On slow links longer, for some packets to arrive.
const SPAN: Duration = Duration::from_millis(300);

/// The most that the kernel sends at once. What arrives comes in such packets.
const PACKET_BYTES: f64 = 65536.0;

/// So many on the slowest link are counted, at least.
const PACKETS: f64 = 8.0;

/// A link that is off alone is counted twice as long each time, up to so many times as long: who counts may be late himself.
const MAX_STRETCH: u32 = 8;

/// Further off than this, a link is not what it is said to be. Buckets and timers are exact to one or two percent.
const TOLERANCE: f64 = 0.05;

/// When this much of the processors is in use, a slow link is their fault.
const BUSY: f64 = 0.9;

/// Links that are measured at once when all at once were too many.
const FEW: usize = 4;

/// A link that is off when measured alone is refused once so many figures agree: a limit that is wrong stays wrong, and a
/// virtual machine whose host does something else carries something else each time …
const AGREEING: usize = 4;

/// … within this of each other …
const AGREEMENT: f64 = 0.02;

/// … or once it has been measured for so long: hosts are busy for seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// One link, or the sum of several flows over one.
#[derive(Clone, PartialEq, Debug)]
pub struct MeasuredLink {
    /// `host 3`, `rack 0`.
    pub from: String,
    /// The same.
    pub to: String,
    /// The limit in force.
    pub claimed: LinkRate,
    /// Payload of TCP that came through, Mbit/s.
    pub measured_mbit: f64,
}

/// What links carried, each within 5 % of its claim.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkReport {
    /// Every link that was measured.
    pub links: Vec<MeasuredLink>,
    /// Fraction of all processors in use meanwhile, at the busiest measurement.
    pub processor_share: f64,
}

impl MeasuredLink {
    /// Payload that the limit lets through, Mbit/s; `None` without a limit.
    pub fn expected_mbit(&self) -> Option<f64> {
        self.claimed.payload_bytes_per_s().map(|bytes| bytes * 8.0 / 1e6)
    }

    fn deviates(&self) -> bool {
        self.expected_mbit().is_some_and(|expected| (self.measured_mbit / expected - 1.0).abs() > TOLERANCE)
    }
}

/// Flows that share a limit, and what they may carry together.
struct Probe {
    from: String,
    to: String,
    /// (from, to) of each flow.
    flows: Vec<(usize, usize)>,
    limit: LinkRate,
}

pub fn measure(hosts: &[Host], spec: &Spec, limits: &Limits) -> Result<LinkReport> {
    let mut report = LinkReport { links: Vec::new(), processor_share: 0.0 };
    for round in rounds(spec, limits) {
        let (mut links, share) = run(hosts, &round, 1)?;
        report.processor_share = report.processor_share.max(share);
        // On a busy machine all at once may be too much: what was off gets another chance with few others, then alone.
        for few in deviating(&links).chunks(FEW) {
            let (again, _) = run(hosts, few.iter().map(|&at| &round[at]), 1)?;
            few.iter().zip(again).for_each(|(&at, link)| links[at] = link);
        }
        for at in deviating(&links) {
            links[at] = measure_alone(hosts, &round[at])?;
        }
        report.links.extend(links);
    }
    Ok(report)
}

fn deviating(links: &[MeasuredLink]) -> Vec<usize> {
    (0..links.len()).filter(|&at| links[at].deviates()).collect()
}

/// Finds out whether a link is off, or the machine is.
fn measure_alone(hosts: &[Host], probe: &Probe) -> Result<MeasuredLink> {
    let started = Instant::now();
    let (mut figures, mut stretch) = (Vec::new(), 1);
    loop {
        settle()?;
        let (alone, busy) = run(hosts, [probe], stretch)?;
        stretch = (2 * stretch).min(MAX_STRETCH);
        let Some(link) = alone.into_iter().next() else { continue };
        if !link.deviates() {
            return Ok(link);
        }
        figures.push(link.measured_mbit);
        if agree(&figures) || started.elapsed() > PATIENCE {
            return Err(refusal(link, &figures, busy));
        }
    }
}

fn agree(figures: &[f64]) -> bool {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures.windows(AGREEING).any(|some| some[AGREEING - 1] <= some[0] * (1.0 + AGREEMENT))
}

fn refusal(link: MeasuredLink, figures: &[f64], busy: f64) -> LabError {
    if busy > BUSY && link.measured_mbit < link.expected_mbit().unwrap_or_default() {
        LabError::ProcessorBound { link, busy }
    } else if agree(figures) {
        LabError::LinkDeviates(link)
    } else {
        let least_mbit = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let most_mbit = figures.iter().copied().fold(0.0, f64::max);
        LabError::Unsteady { link, least_mbit, most_mbit }
    }
}

/// What can be measured at the same time, because no two probes share a port or a core link.
fn rounds(spec: &Spec, limits: &Limits) -> Vec<Vec<Probe>> {
    let flow = |from: usize, to: usize| Probe {
        from: format!("host {from}"),
        to: format!("host {to}"),
        flows: vec![(from, to)],
        limit: limits.between(from, to),
    };
    let count = spec.racks.map_or(1, |racks| racks.count);
    let racks: Vec<Vec<usize>> =
        (0..count).map(|rack| (0..spec.hosts).filter(|&host| spec.rack_of(host) == rack).collect()).collect();

    let rings = racks.iter().filter(|rack| rack.len() > 1);
    let within = rings.flat_map(|rack| (0..rack.len()).map(|i| flow(rack[i], rack[(i + 1) % rack.len()])));
    let mut rounds = vec![within.collect::<Vec<_>>()];
    if count > 1 {
        rounds.push((0..count).map(|rack| between_racks(rack, &racks, limits)).collect());
    }
    // Each shift of the hosts uses every port at most once in each direction.
    for shift in 1..spec.hosts {
        let pairs = (0..spec.hosts).map(|from| (from, (from + shift) % spec.hosts));
        let same_rack = |&(from, to): &(usize, usize)| spec.rack_of(from) == spec.rack_of(to);
        let limited = pairs.filter(same_rack).filter(|&(from, to)| limits.pair(from, to).is_limited());
        let in_ring = |pair: &(usize, usize)| rounds[0].iter().any(|probe| probe.flows.contains(pair));
        let round = limited.filter(|pair| !in_ring(pair)).map(|(from, to)| flow(from, to)).collect();
        rounds.push(round);
    }
    rounds.retain(|round| !round.is_empty());
    rounds
}

/// Every host of a rack to one of the next.
fn between_racks(rack: usize, racks: &[Vec<usize>], limits: &Limits) -> Probe {
    let next = (rack + 1) % racks.len();
    let flows: Vec<(usize, usize)> =
        racks[rack].iter().enumerate().map(|(i, &from)| (from, racks[next][i % racks[next].len()])).collect();
    let mut into: BTreeMap<usize, Vec<LinkRate>> = BTreeMap::new();
    for &(from, to) in &flows {
        into.entry(to).or_default().push(limits.ports[from].narrower(limits.pair(from, to)));
    }
    let sum = |rates: &[LinkRate]| {
        let limited = rates.iter().all(|rate| rate.is_limited());
        LinkRate { bits_per_s: if limited { rates.iter().map(|rate| rate.bits_per_s).sum() } else { 0 } }
    };
    let received: Vec<LinkRate> =
        into.iter().map(|(&to, from)| sum(from).narrower(limits.ports[to])).collect();
    Probe {
        from: format!("rack {rack}"),
        to: format!("rack {next}"),
        flows,
        limit: sum(&received).narrower(limits.core),
    }
}

/// Runs all flows of all probes at once, for `stretch` times the usual time; what each probe's carried, and how busy the
/// processors were.
fn run<'a>(
    hosts: &[Host],
    probes: impl IntoIterator<Item = &'a Probe> + Clone,
    stretch: u32,
) -> Result<(Vec<MeasuredLink>, f64)> {
    let mut wires = Vec::new();
    for (at, probe) in probes.clone().into_iter().enumerate() {
        for &(from, to) in &probe.flows {
            wires.push((at, connect(&hosts[from], &hosts[to])?));
        }
    }
    let arrivals: Vec<Mutex<Arrival>> = wires.iter().map(|_| Mutex::new(Arrival::none())).collect();
    let slowest = probes.clone().into_iter().filter_map(|p| p.limit.payload_bytes_per_s()).reduce(f64::min);
    let (rates, share) = std::thread::scope(|scope| {
        for ((_, (sender, receiver)), arrived) in wires.iter().zip(&arrivals) {
            // Both end when the sockets are shut down.
            scope.spawn(move || pour(sender));
            scope.spawn(move || drain(receiver, |bytes| Arrival::note(arrived, bytes)));
        }
        let counted = count(&arrivals, slowest, stretch);
        for (_, (sender, receiver)) in &wires {
            let _ = sender.shutdown(Shutdown::Both);
            let _ = receiver.shutdown(Shutdown::Both);
        }
        counted
    })?;
    let link = |(at, probe): (usize, &Probe)| MeasuredLink {
        from: probe.from.clone(),
        to: probe.to.clone(),
        claimed: probe.limit,
        measured_mbit: wires.iter().zip(&rates).filter(|((of, _), _)| *of == at).map(|(_, rate)| rate).sum(),
    };
    Ok((probes.into_iter().enumerate().map(link).collect(), share))
}

/// All that a flow has brought so far, and when the last of it came.
#[derive(Clone, Copy)]
struct Arrival {
    bytes: u64,
    at: Instant,
}

impl Arrival {
    fn none() -> Arrival {
        Arrival { bytes: 0, at: Instant::now() }
    }

    fn note(arrived: &Mutex<Arrival>, bytes: usize) {
        let mut arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.bytes += bytes as u64;
        arrived.at = Instant::now();
    }

    /// Mbit/s between two arrivals: packets are large, and counting them in a fixed time is off by one.
    fn rate_since(self, before: Arrival) -> f64 {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        if seconds > 0.0 { (self.bytes - before.bytes) as f64 * 8.0 / 1e6 / seconds } else { 0.0 }
    }
}

/// The rate of each flow, Mbit/s, and how busy the processors were.
fn count(arrivals: &[Mutex<Arrival>], slowest: Option<f64>, stretch: u32) -> Result<(Vec<f64>, f64)> {
    let read =
        || arrivals.iter().map(|a| *a.lock().unwrap_or_else(PoisonError::into_inner)).collect::<Vec<_>>();
    let packets =
        |count: f64| Duration::from_secs_f64(slowest.map_or(0.0, |rate| count * PACKET_BYTES / rate));
    std::thread::sleep(WARM_UP.max(packets(2.0)));
    let (processors, before) = (ProcessorShare::start()?, read());
    std::thread::sleep(SPAN.max(packets(PACKETS)) * stretch);
    let rates = read().into_iter().zip(before).map(|(after, before)| after.rate_since(before)).collect();
    Ok((rates, processors.so_far()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_limit_is_told_from_a_machine_that_is_disturbed() {
        let link = |measured_mbit| MeasuredLink {
            from: "host 0".to_owned(),
            to: "host 1".to_owned(),
            claimed: LinkRate::mbit(200.0),
            measured_mbit,
        };
        assert!(!agree(&[143.0, 143.1, 143.2]), "too few");
        assert!(!agree(&[180.0, 132.0, 160.0, 171.0]));
        let wrong = [180.0, 143.0, 120.0, 144.0, 143.2, 143.1];
        assert!(agree(&wrong));
        assert!(matches!(refusal(link(143.1), &wrong, 0.3), LabError::LinkDeviates(_)));
        assert!(matches!(refusal(link(143.1), &wrong, 0.95), LabError::ProcessorBound { .. }));
        let LabError::Unsteady { least_mbit, most_mbit, .. } =
            refusal(link(171.0), &[180.0, 132.0, 171.0], 0.3)
        else {
            panic!("nothing agrees");
        };
        assert_eq!((least_mbit, most_mbit), (132.0, 180.0));
    }
}
