//! What experiments have a cluster do.

use super::LabCluster;
use crate::error::{LabError, Result};
use cli::processor::ProcessorShare;
use client::{Archival, JobEvents, PutOptions};
use codes::Code;
use model::{NodeId, Peer};
use std::collections::BTreeMap;
use std::io::{self, Read};
use wire::proto::{BudgetChange, JobEvent, ObjectInfo, RepairRequest, StageStats, TaskControl};

/// Which block to rebuild, and how: verified at its end, made durable, then thrown away. It stays lost, for the next run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepairOrder {
    /// Name of the object, whose first block is repaired.
    pub object: String,
    /// As `stripeline repair --scheme` takes it.
    pub scheme: String,
    /// 0: the product's default.
    pub slice_bytes: u32,
    /// Node that rebuilds; `None`: the coordinator chooses.
    pub requestor: Option<NodeId>,
    /// Check slices hop by hop.
    pub verify: bool,
    /// Rebuild these members of the block's stripe in one pass, each on a node of its own; empty: only the block.
    pub members: Vec<u32>,
    /// Nodes that help, in the order of a chain, as far as the repair needs them; empty: the coordinator chooses.
    pub helpers: Vec<NodeId>,
    /// Wait for helpers that are slow: what is measured is the scheme that was asked for.
    pub patient: bool,
}

/// Payload bytes that a flow moved between two of those who take part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkTraffic {
    /// Who sent.
    pub from: Peer,
    /// Who received.
    pub to: Peer,
    /// Bytes.
    pub bytes: u64,
}

/// What a repair took.
#[derive(Clone, PartialEq, Debug)]
pub struct RepairOutcome {
    /// The scheme that ran.
    pub scheme: String,
    /// From the driver's first message to the last verified byte at the requestor.
    pub verified_s: f64,
    /// … to the block durable under its final name.
    pub durable_s: f64,
    /// What moved over each link.
    pub links: Vec<LinkTraffic>,
    /// What each stage says of itself.
    pub stages: Vec<StageStats>,
    /// Processor time of all daemons, from before the request to after its answer; counted in hundredths of a second
    /// per daemon.
    pub cpu_s: f64,
    /// Fraction of all processors of the machine in use meanwhile.
    pub processor_share: f64,
}

impl RepairOrder {
    /// A verified repair with the product's defaults.
    pub fn discarded(object: &str, scheme: &str) -> RepairOrder {
        RepairOrder {
            object: object.to_owned(),
            scheme: scheme.to_owned(),
            slice_bytes: 0,
            requestor: None,
            verify: true,
            members: Vec::new(),
            helpers: Vec::new(),
            patient: true,
        }
    }

    fn request(&self) -> RepairRequest {
        RepairRequest {
            object: self.object.clone(),
            scheme: self.scheme.clone(),
            slice_bytes: self.slice_bytes,
            requestor: self.requestor.map_or(0, |node| node.0),
            discard: true,
            no_verify: !self.verify,
            stripe: !self.members.is_empty(),
            members: self.members.clone(),
            helpers: self.helpers.iter().map(|node| node.0).collect(),
            patient: self.patient,
            ..RepairRequest::default()
        }
    }
}

/// Payload through the busiest side of a port.
pub fn busiest_bytes<'l>(links: impl IntoIterator<Item = &'l LinkTraffic>) -> u64 {
    let mut ports: BTreeMap<(Peer, bool), u64> = BTreeMap::new();
    for link in links {
        *ports.entry((link.from, false)).or_default() += link.bytes;
        *ports.entry((link.to, true)).or_default() += link.bytes;
    }
    ports.into_values().max().unwrap_or(0)
}

impl RepairOutcome {
    /// Bytes over the network in all.
    pub fn total_bytes(&self) -> u64 {
        self.links.iter().map(|link| link.bytes).sum()
    }

    /// What one event of a job says about its flow, if one ended with it. Processor figures are left at 0.
    pub fn of(event: &JobEvent) -> Option<RepairOutcome> {
        let flow = event.flow.as_ref()?;
        let node = |site: u32| event.participants.iter().find(|p| p.site == site).map_or(0, |p| p.node);
        let peer = |site: u32| Peer::from_number(node(site));
        let links =
            flow.links.iter().map(|l| LinkTraffic { from: peer(l.from), to: peer(l.to), bytes: l.bytes });
        Some(RepairOutcome {
            scheme: event.scheme.clone(),
            verified_s: flow.verified_us as f64 / 1e6,
            durable_s: flow.durable_us as f64 / 1e6,
            links: links.collect(),
            stages: flow.stages.clone(),
            cpu_s: 0.0,
            processor_share: 0.0,
        })
    }
}

impl LabCluster {
    /// Stores an object from a client on the coordinator's host: lift the testbed's limits before if it is large.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn put(
        &self,
        name: &str,
        input: impl Read + Send + 'static,
        options: PutOptions,
    ) -> Result<ObjectInfo> {
        self.at_coordinator(async |client| Ok(client.put(name, input, options).await?))
    }

    /// Puts an object of so many full stripes, one replica of each block (how it got there is no experiment's question),
    /// and archives it.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn store_stripes(&self, name: &str, code: &Code, stripes: usize, block_bytes: u64) -> Result<()> {
        let options = PutOptions { block_bytes, replicas: 1, ..PutOptions::default() };
        self.put_blocks(name, code.k() * stripes, options)?;
        self.archive(name, code.name())
    }

    /// Puts an object of so many whole blocks as `options` have it.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn put_blocks(&self, name: &str, blocks: usize, options: PutOptions) -> Result<()> {
        let left = options.block_bytes * blocks as u64;
        self.put(name, Noise { state: NOISE_SEED, left }, options).map(drop)
    }

    /// Turns an object's replicas into an erasure code.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn archive(&self, name: &str, code: &str) -> Result<()> {
        let (name, code) = (name.to_owned(), code.to_owned());
        self.archive_events(Archival { name, code, short: true, ..Archival::default() }).map(drop)
    }

    /// Archives whatever the request names; everything that the coordinator says meanwhile.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn archive_events(&self, request: Archival) -> Result<Vec<JobEvent>> {
        self.at_coordinator(async |client| all(client.archive(request).await?).await)
    }

    /// The names of all objects that begin so.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let objects = self.at_coordinator(async |client| Ok(client.list(prefix).await?))?;
        Ok(objects.into_iter().map(|object| object.name).collect())
    }

    /// An object with its blocks, and where they are.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn lookup(&self, name: &str) -> Result<ObjectInfo> {
        self.at_coordinator(async |client| Ok(client.lookup(name, true).await?))
    }

    /// Replaces the coordinator's table of links: JSON, as `stripeline links set` takes it.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn set_links(&self, table: &str) -> Result<()> {
        let table = table.to_owned();
        self.at_coordinator(async |client| Ok(client.set_links(table).await?)).map(drop)
    }

    /// Repairs one block, or several of its stripe.
    ///
    /// # Errors
    /// [`LabError::Client`]; [`LabError::Daemon`] if nothing was repaired.
    pub fn repair(&self, order: &RepairOrder) -> Result<RepairOutcome> {
        let (cpu_before, processors) = (self.cpu_seconds(), ProcessorShare::start()?);
        let events = self.repair_events(order.request())?;
        let (cpu_s, processor_share) = (self.cpu_seconds() - cpu_before, processors.so_far()?);
        let outcome = events.iter().rev().find_map(RepairOutcome::of);
        let outcome = outcome.map(|outcome| RepairOutcome { cpu_s, processor_share, ..outcome });
        let said = events.last().map_or("the repair reported nothing", |event| &event.message);
        outcome.ok_or_else(|| LabError::of_coordinator(said))
    }

    /// Repairs whatever the request names, a whole node for example; everything that the coordinator says meanwhile.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn repair_events(&self, request: RepairRequest) -> Result<Vec<JobEvent>> {
        self.at_coordinator(async |client| all(client.repair(request).await?).await)
    }

    /// Rebuilds all that is lost of an object.
    ///
    /// # Errors
    /// [`LabError::Client`]; [`LabError::Daemon`] if not all was rebuilt.
    pub fn repair_object(&self, name: &str) -> Result<()> {
        let object = name.to_owned();
        let events =
            self.repair_events(RepairRequest { object, whole_object: true, ..Default::default() })?;
        let said = events.last().map_or("the repair reported nothing", |event| &event.message);
        let end = events.last().filter(|end| end.state == "done" && end.failed == 0);
        end.map(drop).ok_or_else(|| LabError::of_coordinator(said))
    }

    /// Has the coordinator use all nodes alike again, whatever it remembers of them.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn forgive(&self) -> Result<()> {
        let resume =
            TaskControl { name: "quarantine".to_owned(), action: "resume".to_owned(), ..Default::default() };
        self.at_coordinator(async |client| Ok(client.control_task(resume).await?)).map(drop)
    }

    /// Recovers all blocks of a node, and throws them away. Returns what each flow told.
    ///
    /// # Errors
    /// [`LabError::Client`]; [`LabError::Daemon`] if not all was recovered.
    pub fn recover_all(&self, node: NodeId) -> Result<Vec<RepairOutcome>> {
        let request = RepairRequest { node: node.0, discard: true, ..RepairRequest::default() };
        told(&self.repair_events(request)?)
    }

    /// Turns an object's replicas into full stripes of an erasure code. Returns what each flow told.
    ///
    /// # Errors
    /// [`LabError::Client`]; [`LabError::Daemon`] if not all was encoded.
    pub fn encode(&self, name: &str, code: &str) -> Result<Vec<RepairOutcome>> {
        let (name, code) = (name.to_owned(), code.to_owned());
        told(&self.archive_events(Archival { name, code, ..Archival::default() })?)
    }

    /// Sets what each node may carry for repairs and for archival, in bytes per second and direction; 0 is unlimited.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn set_budgets(&self, healing_bytes_per_s: u64, archival_bytes_per_s: u64) -> Result<()> {
        let wanted = BudgetChange {
            client_bytes_per_s: None,
            healing_bytes_per_s: Some(healing_bytes_per_s),
            archival_bytes_per_s: Some(archival_bytes_per_s),
        };
        self.at_coordinator(async |client| Ok(client.budgets(wanted).await?)).map(drop)
    }

    /// Removes an object.
    ///
    /// # Errors
    /// [`LabError::Client`].
    pub fn delete(&self, name: &str) -> Result<()> {
        self.at_coordinator(async |client| Ok(client.delete(name).await?))
    }

    fn at_coordinator<T: Send>(
        &self,
        work: impl AsyncFnOnce(client::Client) -> Result<T> + Send,
    ) -> Result<T> {
        self.with_client(self.coordinator.host.index, work)
    }
}

/// Returns the outcomes of a job's flows. An error unless the job did everything.
fn told(events: &[JobEvent]) -> Result<Vec<RepairOutcome>> {
    let end = events.last().filter(|end| end.state == "done" && end.failed == 0 && end.done > 0);
    let said = events.last().map_or("it reported nothing", |event| &event.message);
    end.ok_or_else(|| LabError::of_coordinator(said))?;
    Ok(events.iter().filter_map(RepairOutcome::of).collect())
}

async fn all(mut events: JobEvents) -> Result<Vec<JobEvent>> {
    let mut seen = Vec::new();
    while let Some(event) = events.next().await? {
        seen.push(event);
    }
    Ok(seen)
}

/// Any number but 0.
const NOISE_SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// So many bytes without a pattern, the same in every run (xorshift64, Marsaglia 2003).
struct Noise {
    state: u64,
    left: u64,
}

impl Read for Noise {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        for piece in buffer[..wanted].chunks_mut(8) {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            piece.copy_from_slice(&self.state.to_le_bytes()[..piece.len()]);
        }
        self.left -= wanted as u64;
        Ok(wanted)
    }
}
