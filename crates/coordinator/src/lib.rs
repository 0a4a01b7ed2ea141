//! The coordinator: it knows what is stored where, which nodes live, and plans every flow; it never carries block data.
//!
//! ```text
//!   service ─▶ objects    put, read, lookup          ┐
//!             jobs        archive, repair, recover   ├─▶ plan::decide  nodes chosen, flows built, proved, priced
//!             membership  register, heartbeat        ├─▶ records   the catalog: one transaction per change of state
//!             operator    status, backup, rebuild    ├─▶ cluster   who lives, whom flows suspect, calls to the nodes
//!             explain     plans without running them ┘
//! ```
//!
//! What holds: before a plan that writes is handed out, the copies that it will write are durable in the catalog; a copy
//! becomes a location, or a candidate, in one transaction; a candidate goes only after a grace, and on proof that nothing rests on it.
//! So whatever dies, nothing that was acknowledged is lost and nothing that was written is forgotten.
//!
//! Absent: block data, and any socket to a data port. Internal: the program and tests start it; others talk to it through
//! `client`.

mod attempt;
mod audit;
mod background;
mod clock;
mod cluster;
mod collector;
mod comparison;
pub mod config;
mod damaged;
mod error;
mod explain;
mod job;
mod jobs;
mod looks;
mod membership;
mod objects;
mod operator;
mod reads;
mod records;
mod service;
mod settings;

pub use catalog::restore;
pub use cluster::{Check, Fleet, Grpc, Listed, Order, Seen};
pub use config::Config;
pub use error::CoordinatorError;

use attempt::{Attempts, UsualTimes};
use audit::Audit;
use background::PutReaper;
use catalog::Catalog;
use clock::Clock;
use cluster::Cluster;
use collector::{Collector, Garbage};
use comparison::{Comparer, Comparison};
use damaged::Damaged;
use jobs::{DamagedRepairs, Jobs, Recoverer};
use looks::{Looker, Looks};
use membership::Membership;
use model::ClusterId;
use objects::Objects;
use operator::Operator;
use plan::decide::Planner;
use reads::Reads;
use records::Records;
use service::Service;
use settings::Settings;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::server::TcpIncoming;
use worker::{Group, Tasks, Worker};

/// Open calls get this long to end when the coordinator shuts down; every one can be repeated.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(2);

/// Signs of life on clients' connections, so that a job's listener that died is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A running coordinator. Dropping it without [`shutdown`](Self::shutdown) ends it at an arbitrary point, as a crash does.
#[derive(Debug)]
pub struct Coordinator {
    records: Records,
    cluster: Arc<Cluster>,
    group: Arc<Group>,
    local_addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

/// Opens the catalog and serves. What an earlier life left unfinished is given up or, for archivals and node recoveries,
/// begun again.
///
/// # Errors
/// [`CoordinatorError::CatalogInUse`], [`CoordinatorError::CatalogFormat`], [`CoordinatorError::Malformed`],
/// [`CoordinatorError::Listen`], [`CoordinatorError::Invalid`] for settings out of bounds.
pub async fn start(config: Config) -> Result<Coordinator, CoordinatorError> {
    check(&config)?;
    let (disk, wall_ms) = (Arc::clone(&config.disk), config.wall_ms);
    let opened = tokio::task::spawn_blocking(move || {
        let catalog = Catalog::open(&disk, ClusterId(rand::random()))?;
        let term = catalog.begin_term(rand::random(), 0)?;
        let clock = Clock::of(&catalog, wall_ms)?;
        catalog.give_up_flows(clock.now_ms())?;
        Ok::<_, CoordinatorError>((catalog, clock, term))
    });
    let (catalog, clock, term) = opened.await.map_err(|_| CoordinatorError::ShuttingDown)??;
    let addr = config.listen;
    let listen = |source| CoordinatorError::Listen { addr, source };
    let listener = tokio::net::TcpListener::bind(addr).await.map_err(listen)?;
    let local_addr = listener.local_addr().map_err(listen)?;
    let (service, records, cluster, group) = build(config, catalog, clock)?;

    let (stop, stopped) = oneshot::channel();
    let serving = tonic::transport::Server::builder()
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .add_service(service.server())
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), async {
            let _ = stopped.await;
        });
    let server = tokio::spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(%error, "the coordinator's server failed");
        }
    });
    tracing::info!(%local_addr, %term, "coordinator serves");
    Ok(Coordinator { records, cluster, group, local_addr, stop: Some(stop), server })
}

/// Puts the parts together, and starts what runs in the background.
fn build(
    config: Config,
    catalog: Catalog,
    clock: Clock,
) -> Result<(Service, Records, Arc<Cluster>, Arc<Group>), CoordinatorError> {
    let (config, group) = (Arc::new(config), Arc::new(Group::default()));
    let tasks = Arc::new(Tasks::after(catalog.switches()?));
    let cluster = Arc::new(Cluster::new(Arc::clone(&config.fleet), config.dead_after_ms, clock, &catalog)?);
    let settings = Settings::of(&catalog)?;
    let next_audit = catalog.audit_end()?;
    let records = Records::of(catalog);
    let settings = Arc::new(settings(records.clone()));
    let (planner, reads) = (Arc::new(Planner::new(config.slice_bytes)), Arc::new(Reads::default()));
    let damaged = Arc::new(Damaged::new(records.clone()));
    let garbage = Arc::new(Garbage::new(records.clone(), Arc::clone(&cluster), config.garbage_grace_ms));
    let comparison = Arc::new(Comparison::new(
        records.clone(),
        Arc::clone(&cluster),
        Arc::clone(&garbage),
        Arc::clone(&damaged),
        Arc::clone(&group),
        config.compare_every_ms,
    ));
    let looks = Arc::new(Looks::new(
        records.clone(),
        Arc::clone(&cluster),
        Arc::clone(&damaged),
        Arc::clone(&comparison),
    ));
    let attempts = Arc::new(Attempts {
        records: records.clone(),
        cluster: Arc::clone(&cluster),
        planner: Arc::clone(&planner),
        usual: Arc::new(UsualTimes::new()),
        damaged: Arc::clone(&damaged),
        looks: Arc::clone(&looks),
        audit: Arc::new(Audit::new(next_audit, records.clone(), &tasks, config.wall_ms)),
    });
    let operator =
        Operator::new(&attempts, Arc::clone(&settings), Arc::clone(&tasks), Arc::clone(&group), &config);
    let jobs = Arc::new(Jobs::new(attempts, Arc::clone(&reads), Arc::clone(&tasks), Arc::clone(&group)));

    begin(&group, &tasks, Collector::new(garbage));
    begin(
        &group,
        &tasks,
        PutReaper {
            records: records.clone(),
            clock: Arc::clone(&cluster.clock),
            lease_ms: config.put_lease_ms,
        },
    );
    begin(&group, &tasks, Looker(looks));
    begin(&group, &tasks, Comparer::new(Arc::clone(&comparison)));
    begin(&group, &tasks, DamagedRepairs(Arc::clone(&jobs)));
    begin(&group, &tasks, Recoverer::new(Arc::clone(&jobs), config.recovery_grace_ms, config.parallel));
    group.spawn(Arc::clone(&jobs).resume());
    group.spawn(background::notice_own_pauses(Arc::clone(&cluster)));
    group.spawn(background::keep_time(records.clone(), Arc::clone(&cluster), config.clock_note_ms));

    let membership = Arc::new(Membership {
        records: records.clone(),
        cluster: Arc::clone(&cluster),
        comparison: Arc::clone(&comparison),
        damaged,
        settings,
        heartbeat_ms: u32::try_from(config.heartbeat_ms).unwrap_or(u32::MAX),
    });
    let parallel = config.parallel;
    let objects =
        Arc::new(Objects { records: records.clone(), cluster: Arc::clone(&cluster), planner, reads, config });
    let service =
        Service { objects, membership, comparison, operator, jobs, group: Arc::clone(&group), parallel };
    Ok((service, records, cluster, group))
}

fn begin(group: &Group, tasks: &Tasks, worker: impl Worker + 'static) {
    let task = tasks.add(worker.name());
    group.spawn(worker::run(worker, task));
}

impl Coordinator {
    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Ends all work and closes the catalog, so that another coordinator can open it. Jobs go on when one does.
    pub async fn shutdown(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        // Streams end with the work that feeds them, so that the server need not wait for their receivers.
        self.group.abort();
        let patience = tokio::time::timeout(SHUTDOWN_PATIENCE, &mut self.server).await;
        if patience.is_err() {
            self.server.abort();
        }
        self.group.shut_down().await;
        if let Err(error) = background::note_time(&self.records, &self.cluster).await {
            tracing::warn!(%error, "the time cannot be noted: a minute of graces counts again");
        }
        self.records.close().await;
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.group.abort();
        self.server.abort();
    }
}

fn check(config: &Config) -> Result<(), CoordinatorError> {
    let invalid = |what: &str| Err(CoordinatorError::Invalid(what.to_owned()));
    if !flow::limits::slice_bytes_ok(config.slice_bytes) {
        return invalid("slice length: it must divide 32 KiB or be a multiple of it, from 1 KiB to 256 MiB");
    }
    if !(1..=flow::limits::MAX_BLOCK_BYTES).contains(&config.block_bytes) {
        return invalid("block length: from 1 byte to 4 GiB");
    }
    if !(1..=config::MAX_REPLICAS).contains(&config.replicas) {
        return invalid("replicas: from 1 to 16");
    }
    if config.clock_note_ms == 0 {
        return invalid("the clock is noted at intervals of at least a millisecond");
    }
    if config.heartbeat_ms == 0 || config.dead_after_ms <= config.heartbeat_ms {
        return invalid("a node must be silent for longer than a heartbeat before it is dead");
    }
    if !(1..=config::MAX_PARALLEL_REPAIRS).contains(&config.parallel) {
        return invalid("stripes repaired at once: from 1 to 256");
    }
    Ok(())
}
