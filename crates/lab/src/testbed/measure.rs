//! What links really carry.

use super::Host;
use super::shape::Limits;
use super::spec::{LinkRate, Spec};
use crate::error::LabError;
use crate::processor::ProcessorShare;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Buckets start full, windows start small: nothing is counted before this.
const WARM_UP: Duration = Duration::from_millis(120);

/// What is counted: at 1 Gbit/s, 30 times what queues hold.
const SPAN: Duration = Duration::from_millis(300);

/// Further off than this, a link is not what it is said to be. Buckets and timers are exact to one or two percent.
const TOLERANCE: f64 = 0.05;

/// When this much of the processors is in use, a slow link is their fault.
const BUSY: f64 = 0.9;

/// Links that were off are measured once more, so many at a time: on a busy machine all at once may be too much.
const FEW: usize = 4;

const PIECE_BYTES: usize = 256 << 10;

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

impl LinkReport {
    /// Slowest and fastest link with a limit, as measured payload over the payload that the limit lets through.
    pub fn spread(&self) -> Option<(f64, f64)> {
        let ratios: Vec<f64> =
            self.links.iter().filter_map(|link| Some(link.measured_mbit / link.expected_mbit()?)).collect();
        let slowest = ratios.iter().copied().reduce(f64::min)?;
        Some((slowest, ratios.iter().copied().fold(slowest, f64::max)))
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

pub fn measure(hosts: &[Host], spec: &Spec, limits: &Limits) -> Result<LinkReport, LabError> {
    let mut report = LinkReport { links: Vec::new(), processor_share: 0.0 };
    for round in rounds(spec, limits) {
        let (links, share) = run(hosts, &round)?;
        report.processor_share = report.processor_share.max(share);
        let (sound, off): (Vec<_>, Vec<_>) = round.iter().zip(links).partition(|(_, link)| !link.deviates());
        report.links.extend(sound.into_iter().map(|(_, link)| link));
        for few in off.chunks(FEW) {
            let probes: Vec<&Probe> = few.iter().map(|(probe, _)| *probe).collect();
            let (links, share) = run(hosts, probes.iter().copied())?;
            if let Some(link) = links.iter().find(|link| link.deviates()) {
                return Err(refusal(link, share));
            }
            report.links.extend(links);
        }
    }
    Ok(report)
}

fn refusal(link: &MeasuredLink, busy: f64) -> LabError {
    let (from, to, claimed) = (link.from.clone(), link.to.clone(), link.claimed);
    let (measured_mbit, expected_mbit) = (link.measured_mbit, link.expected_mbit().unwrap_or_default());
    if busy > BUSY && measured_mbit < expected_mbit {
        LabError::ProcessorBound { from, to, claimed, expected_mbit, measured_mbit, busy }
    } else {
        LabError::LinkDeviates { from, to, claimed, expected_mbit, measured_mbit }
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
        rounds.push(limited.map(|(from, to)| flow(from, to)).collect());
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

/// Runs all flows of all probes at once; what each probe's carried, and how busy the processors were.
fn run<'a>(
    hosts: &[Host],
    probes: impl IntoIterator<Item = &'a Probe> + Clone,
) -> Result<(Vec<MeasuredLink>, f64), LabError> {
    let mut wires = Vec::new();
    for (at, probe) in probes.clone().into_iter().enumerate() {
        for &(from, to) in &probe.flows {
            wires.push((at, connect(&hosts[from], &hosts[to])?));
        }
    }
    let counters: Vec<AtomicU64> = wires.iter().map(|_| AtomicU64::new(0)).collect();
    let (bytes, took, share) = std::thread::scope(|scope| {
        for ((_, (sender, receiver)), counter) in wires.iter().zip(&counters) {
            // Both end when the sockets are shut down.
            scope.spawn(move || pour(sender));
            scope.spawn(move || drain(receiver, counter));
        }
        let counted = count(&counters);
        for (_, (sender, receiver)) in &wires {
            let _ = sender.shutdown(Shutdown::Both);
            let _ = receiver.shutdown(Shutdown::Both);
        }
        counted
    })?;
    let mut sums: Vec<u64> = Vec::new();
    for ((at, _), bytes) in wires.iter().zip(bytes) {
        sums.resize(sums.len().max(at + 1), 0);
        sums[*at] += bytes;
    }
    let link = |(probe, bytes): (&Probe, u64)| MeasuredLink {
        from: probe.from.clone(),
        to: probe.to.clone(),
        claimed: probe.limit,
        measured_mbit: bytes as f64 * 8.0 / 1e6 / took.as_secs_f64(),
    };
    Ok((probes.into_iter().zip(sums).map(link).collect(), share))
}

fn count(counters: &[AtomicU64]) -> Result<(Vec<u64>, Duration, f64), LabError> {
    let read = || counters.iter().map(|counter| counter.load(Ordering::Relaxed)).collect::<Vec<u64>>();
    std::thread::sleep(WARM_UP);
    let (processors, before, started) = (ProcessorShare::start()?, read(), Instant::now());
    std::thread::sleep(SPAN);
    let (after, took) = (read(), started.elapsed());
    let bytes = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    Ok((bytes, took, processors.so_far()?))
}

/// Both ends of a connection between two hosts.
fn connect(from: &Host, to: &Host) -> Result<(TcpStream, TcpStream), LabError> {
    let wrong = |e: io::Error| LabError::io(format!("connect host {} to host {}", from.index, to.index))(e);
    let listener = to.inside(|| TcpListener::bind((to.addr, 0)))?.map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    let sender =
        from.inside(|| TcpStream::connect_timeout(&address, Duration::from_secs(5)))?.map_err(wrong)?;
    let (receiver, _) = listener.accept().map_err(wrong)?;
    Ok((sender, receiver))
}

fn pour(mut to: &TcpStream) {
    let piece = vec![0; PIECE_BYTES];
    while to.write_all(&piece).is_ok() {}
}

fn drain(mut from: &TcpStream, counter: &AtomicU64) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(bytes @ 1..) = from.read(&mut piece) {
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
