//! The coordinator: it knows what is stored where, which nodes live, and plans every flow; it never carries block data.
//!
//! ```text
//!   service ─▶ objects    put, read, lookup          ┐
//!             jobs        archive, repair, recover   ├─▶ plan::decide  nodes chosen, flows built, proved, priced
//!             membership  register, heartbeat        ├─▶ records   the catalog: one transaction per change of state
//!             operator    status, backup, recovering ├─▶ cluster   who lives, whom flows suspect, calls to the nodes
//!             explain     plans without running them ┘
//! ```
//!
//! What holds: before a plan that writes is handed out, the copies that it will write are durable in the catalog; a copy
//! becomes a location, or a candidate, in one transaction; a candidate goes only after a grace, and on proof that nothing rests on it.
//! So whatever dies, nothing that was acknowledged is lost and nothing that was written is forgotten.
//!
//! Absent: block data, and any socket to a data port. Internal: the program and tests start it; others talk to it through
//! `client`.

mod assigning;
mod attempt;
mod audit;
mod background;
mod branches;
mod checker;
mod clock;
mod cluster;
mod coded;
mod collector;
mod comparison;
pub mod config;
mod damaged;
mod error;
mod explain;
mod forgetting;
mod garbage;
mod gathering;
mod healer;
mod holders;
mod job;
mod jobs;
mod leaving;
mod lives;
mod looks;
mod membership;
mod objects;
mod operator;
mod rate;
mod reads;
mod records;
mod recovering;
mod renewer;
mod service;
mod settings;
mod settler;
mod succession;
mod totals;
mod under_way;
mod unknown;
mod unnoted;
mod unread;
mod written;

pub use catalog::backend::quiet_panics;
pub use catalog::{Examined, FileKind, RESERVE_BYTES, Touched, examine, restore};
pub use cluster::{Call, Check, Fleet, Grpc, Held, Listed, Looked, Order, Over, Seen};
pub use config::Config;
pub use error::CoordinatorError;

use attempt::{Attempts, UsualTimes};
use audit::Audit;
use background::PutReaper;
use checker::Checker;
use clock::Clock;
use cluster::Cluster;
use coded::Coded;
use collector::Collector;
use comparison::{Comparer, Comparison};
use damaged::Damaged;
use forgetting::{Forgetter, Forgetting};
use garbage::Garbage;
use gathering::{Gathering, Sealer};
use healer::Healer;
use holders::{Holders, Keeper};
use jobs::{AgedArchivals, Balancer, Compactor, Jobs, Leaver, Recoverer};
use lives::{Ends, Lives, Slot};
use looks::{Looker, Looks};
use membership::Membership;
use objects::Objects;
use operator::Operator;
use plan::decide::Planner;
use reads::Reads;
use records::Records;
use recovering::Adopter;
use renewer::Renewer;
use service::Service;
use settings::Settings;
use settler::Settler;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use succession::{Found, Round, Succession};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use unnoted::Unnoted;
use wire::net::ControlPort;
use worker::{Group, Tasks, Worker};

/// Open calls get this long to end when the coordinator shuts down; every one can be repeated.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(2);

/// A running coordinator. Dropping it without [`shutdown`](Self::shutdown) ends it at an arbitrary point, as a crash does.
#[derive(Debug)]
pub struct Coordinator {
    local_addr: SocketAddr,
    /// `None` while the catalog is compared.
    serving: Slot,
    lives: JoinHandle<()>,
    /// Why it cannot go on.
    end: mpsc::Receiver<CoordinatorError>,
}

#[derive(Debug)]
struct Serving {
    records: Records,
    cluster: Arc<Cluster>,
    holders: Arc<Holders>,
    group: Arc<Group>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

/// Compares the catalog with what nodes keep of it, and serves. What an earlier life left unfinished is given up or, for
/// archivals and node recoveries, begun again.
///
/// If there is nobody yet to compare it with, that goes on after the return, bounded by [`Config::catch_up_ms`]; meanwhile
/// every call is answered that it does.
///
/// # Errors
/// [`CoordinatorError::CatalogInUse`], [`CoordinatorError::CatalogFormat`], [`CoordinatorError::Malformed`],
/// [`CoordinatorError::Listen`], [`CoordinatorError::Invalid`] for settings out of bounds, [`CoordinatorError::Branched`].
pub async fn start(config: Config) -> Result<Coordinator, CoordinatorError> {
    check(&config)?;
    let addr = config.listen;
    let succession = Succession::new(config.clone());
    let first = succession.round().await?;
    let port = ControlPort::bind(addr).await.map_err(|source| CoordinatorError::Listen { addr, source })?;
    let local_addr = port.addr();
    let ((ends, end), (renewed, renewals)) = (mpsc::channel(1), mpsc::channel(1));
    let serving: Slot = Arc::default();
    let mut lives =
        Lives { config, port, serving: Arc::clone(&serving), ends: Ends { failed: ends, renewed }, renewals };
    let waits = match first {
        Round::Over(found) => lives.serve(*found).await?,
        Round::Wait(why) => {
            tracing::info!(%local_addr, "{why}");
            Some((succession, why))
        }
    };
    let lives = tokio::spawn(async move {
        if let Err(error) = lives.run(waits).await {
            let _ = lives.ends.failed.send(error).await;
        }
    });
    Ok(Coordinator { local_addr, serving, lives, end })
}

/// A new term begins, and whoever calls is served from this catalog.
async fn serve(
    config: Config,
    found: Found,
    port: &ControlPort,
    ends: Ends,
) -> Result<Serving, CoordinatorError> {
    let (wall_ms, addr, waits_for_holders) = (config.wall_ms, config.listen, config.waits_for_holders);
    let reserve = (Arc::clone(&config.disk), config.reserve_bytes);
    let opened = tokio::task::spawn_blocking(move || {
        let clock = Clock::of(&found.catalog, wall_ms)?;
        if let Err(error) = catalog::reserve(reserve.0.as_ref(), reserve.1) {
            tracing::warn!(%error, "no room could be kept for starts on a full disk");
        }
        match begin_life(&found, waits_for_holders, clock.now_ms()) {
            Err(error @ catalog::CatalogError::NoRoom { .. }) => {
                tracing::error!(%error, "the coordinator's disk is full: reads are served");
            }
            // It reads, in the term of the life before, and changes nothing until the file is made anew.
            Err(error) if error.waits_for_renewal() => {
                tracing::error!(%error, "the catalog's file is damaged: reads are served, changes wait");
            }
            begun => begun?,
        }
        let term = found.catalog.position()?.stamp.term;
        Ok::<_, CoordinatorError>((found.catalog, clock, term))
    });
    let (catalog, clock, term) = opened.await.map_err(|_| CoordinatorError::ShuttingDown)??;
    let records = Records::of(catalog);
    let (service, cluster, group) = build(config, &records, clock, &ends).await?;
    let (holders, failing) = (Arc::clone(&service.holders), records.clone());
    group.spawn(async move {
        let _ = ends.failed.send(failing.failed().await).await;
    });
    let (stop, stopped) = oneshot::channel();
    let serving = port.serve(service.server(), async {
        let _ = stopped.await;
    });
    let serving = serving.map_err(|source| CoordinatorError::Listen { addr, source })?;
    let server = tokio::spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(%error, "the coordinator's server failed");
        }
    });
    tracing::info!(%addr, %term, "coordinator serves");
    Ok(Serving { records, cluster, holders, group, stop: Some(stop), server })
}

/// A new term, and what the start has found out.
fn begin_life(found: &Found, waits_for_holders: bool, now_ms: u64) -> catalog::Result<()> {
    let Found { catalog, heard, holes, doubt } = found;
    catalog.begin_term(model::Term::drawn(rand::random(), waits_for_holders), *heard)?;
    for &(node, stamp) in holes {
        catalog.hear(node, stamp, now_ms)?;
    }
    if let Some(why) = doubt {
        catalog.doubt(*why, now_ms)?;
    }
    catalog.give_up_flows(now_ms)
}

/// Puts the parts together, and starts what runs in the background.
async fn build(
    config: Config,
    records: &Records,
    clock: Clock,
    ends: &Ends,
) -> Result<(Service, Arc<Cluster>, Arc<Group>), CoordinatorError> {
    let (config, group) = (Arc::new(config), Arc::new(Group::default()));
    let (tasks, cluster, settings, next_audit) = remembered(&config, records, clock).await?;
    let holders = Arc::new(Holders::new(records.clone(), Arc::clone(&cluster), config.waits_for_holders));
    let (planner, reads) = (Arc::new(Planner::new(config.slice_bytes)), Arc::new(Reads::default()));
    let Care { damaged, garbage, comparison, looks } = care(&config, records, &cluster, &holders, &group);
    let attempts = Arc::new(Attempts {
        records: records.clone(),
        cluster: Arc::clone(&cluster),
        planner: Arc::clone(&planner),
        usual: Arc::new(UsualTimes::new()),
        healed: Arc::default(),
        looks: Arc::clone(&looks),
        comparison: Arc::clone(&comparison),
        audit: Arc::new(Audit::new(next_audit, records.clone(), &tasks, config.wall_ms)),
        settings: Arc::clone(&settings),
    });
    let (common, settled) = ((&tasks, &group), Arc::clone(&settings));
    let Orders { operator, gathering, jobs } =
        orders(&config, attempts, (&reads, &holders), settled, common).await?;
    let forgetting = Arc::new(Forgetting::new(Arc::clone(&jobs), Arc::clone(&settings), config.parallel));

    let work = Work {
        holders: Arc::clone(&holders),
        garbage,
        looks,
        comparison: Arc::clone(&comparison),
        jobs: Arc::clone(&jobs),
        forgetting: Arc::clone(&forgetting),
        gathering: Arc::clone(&gathering),
        operator: Arc::clone(&operator),
    };
    work.begin(&config, &group, &tasks, records, &cluster);
    group.spawn(background::notice_successors(records.clone(), Arc::clone(&cluster), ends.failed.clone()));
    let (disk, renewed) = (Arc::clone(&config.disk), ends.renewed.clone());
    begin(&group, &tasks, Checker::new(records.clone(), Arc::clone(&cluster), config.check_every_ms));
    begin(&group, &tasks, Renewer::new(records.clone(), Arc::clone(&cluster), disk, renewed));

    let membership = Arc::new(Membership {
        records: records.clone(),
        cluster: Arc::clone(&cluster),
        comparison: Arc::clone(&comparison),
        holders: Arc::clone(&holders),
        damaged,
        unnoted: Unnoted::default(),
        settings,
        heartbeat_ms: u32::try_from(config.heartbeat_ms).unwrap_or(u32::MAX),
        founds: config.founds,
    });
    let (usual, records) = ((config.parallel, config.assign), records.clone());
    let (cluster_too, comparison_too) = (Arc::clone(&cluster), Arc::clone(&comparison));
    let coded =
        Coded { records: records.clone(), cluster: Arc::clone(&cluster_too), planner: Arc::clone(&planner) };
    let objects = Objects {
        records,
        cluster: cluster_too,
        planner,
        coded,
        reads,
        gathering,
        comparison: comparison_too,
        config,
    };
    let (objects, calls) = (Arc::new(objects), Arc::clone(&group));
    let service =
        Service { objects, holders, membership, comparison, operator, forgetting, jobs, group: calls, usual };
    Ok((service, cluster, group))
}

/// What operators order, and what carries it out.
struct Orders {
    operator: Arc<Operator>,
    gathering: Arc<Gathering>,
    jobs: Arc<Jobs>,
}

async fn orders(
    config: &Config,
    attempts: Arc<Attempts>,
    (reads, holders): (&Arc<Reads>, &Arc<Holders>),
    settings: Arc<Settings>,
    (tasks, group): (&Arc<Tasks>, &Arc<Group>),
) -> Result<Orders, CoordinatorError> {
    let operator = Operator::new(&attempts, settings, Arc::clone(tasks), Arc::clone(group), config);
    let operator = Arc::new(operator);
    // Only a start keeps a catalog aside.
    if operator.branches.are_any().await? {
        begin(group, tasks, Adopter::new(Arc::clone(&operator)));
    }
    let Attempts { records, cluster, planner, .. } = &*attempts;
    let gathering = Gathering::new(records.clone(), Arc::clone(cluster), Arc::clone(planner));
    let gathering = Arc::new(gathering);
    let (reads, kept) = (Arc::clone(reads), (Arc::clone(holders), Arc::clone(&operator.leaving)));
    let jobs = Jobs::new(attempts, reads, Arc::clone(&gathering), kept, Arc::clone(tasks), Arc::clone(group));
    Ok(Orders { operator, gathering, jobs: Arc::new(jobs) })
}

/// What finds out about copies: which are there, damaged, superfluous.
struct Care {
    damaged: Arc<Damaged>,
    garbage: Arc<Garbage>,
    comparison: Arc<Comparison>,
    looks: Arc<Looks>,
}

fn care(
    config: &Config,
    records: &Records,
    cluster: &Arc<Cluster>,
    holders: &Arc<Holders>,
    group: &Arc<Group>,
) -> Care {
    let damaged = Arc::new(Damaged::new(records.clone(), Arc::clone(&cluster.clock)));
    let garbage = Arc::new(Garbage::new(
        records.clone(),
        Arc::clone(cluster),
        Arc::clone(holders),
        config.garbage_grace_ms,
    ));
    let comparison = Arc::new(Comparison::new(
        records.clone(),
        Arc::clone(cluster),
        Arc::clone(&garbage),
        Arc::clone(group),
        config.compare_every_ms,
    ));
    let looks = Arc::new(Looks::new(
        records.clone(),
        Arc::clone(cluster),
        Arc::clone(&damaged),
        Arc::clone(&comparison),
    ));
    Care { damaged, garbage, comparison, looks }
}

/// What the catalog knows of tasks, nodes, settings, and the number of the next repair's record.
async fn remembered(
    config: &Config,
    records: &Records,
    clock: Clock,
) -> Result<(Arc<Tasks>, Arc<Cluster>, Arc<Settings>, u64), CoordinatorError> {
    let fleet = Arc::clone(&config.fleet);
    let (dead_after_ms, expects_nodes) = (config.dead_after_ms, config.expects_nodes);
    let read = records.decide(move |catalog| {
        let cluster = Cluster::new(fleet, dead_after_ms, expects_nodes, clock, catalog)?;
        Ok((catalog.switches()?, cluster, Settings::of(catalog)?, catalog.audit_end()?))
    });
    let (switches, cluster, settings, next_audit) = read.await?;
    let settings = Arc::new(settings(records.clone()));
    Ok((Arc::new(Tasks::after(switches)), Arc::new(cluster), settings, next_audit))
}

/// What runs in the background works on these.
struct Work {
    holders: Arc<Holders>,
    garbage: Arc<Garbage>,
    looks: Arc<Looks>,
    comparison: Arc<Comparison>,
    jobs: Arc<Jobs>,
    forgetting: Arc<Forgetting>,
    gathering: Arc<Gathering>,
    operator: Arc<Operator>,
}

impl Work {
    fn begin(self, config: &Config, group: &Group, tasks: &Tasks, records: &Records, cluster: &Arc<Cluster>) {
        let Work { holders, garbage, looks, comparison, jobs, forgetting, gathering, operator } = self;
        begin(group, tasks, Keeper::new(holders));
        begin(group, tasks, Collector::new(garbage, Arc::clone(&looks)));
        let Config { put_lease_ms: lease_ms, wall_ms, .. } = *config;
        let (records_too, cluster_too) = (records.clone(), Arc::clone(cluster));
        begin(group, tasks, PutReaper { records: records_too, cluster: cluster_too, lease_ms, wall_ms });
        begin(group, tasks, Sealer::new(gathering, config.open_for_ms));
        let aged = AgedArchivals::new(Arc::clone(&jobs), wall_ms, config.archive_look_ms);
        begin(group, tasks, aged);
        begin(group, tasks, Looker(looks));
        begin(group, tasks, Comparer::new(comparison));
        let (task, healing) = (tasks.add(healer::NAME), Arc::clone(&operator.healing));
        let (attempts, reads) = (Arc::clone(&jobs.attempts), Arc::clone(&jobs.reads));
        let unread = Arc::clone(&operator.unread);
        group.spawn(unread::follow_reports(Arc::clone(&unread), records.clone(), Arc::clone(cluster)));
        let healer = Healer::new(attempts, reads, (healing, unread), config, &task);
        group.spawn(worker::run(healer, task));
        let (task, healing) = (tasks.add(jobs::BALANCE), Arc::clone(&operator.healing));
        let Config { balance_threshold, balance_every_ms, .. } = *config;
        let balancer = Balancer::new(Arc::clone(&jobs), healing, balance_threshold, balance_every_ms, &task);
        group.spawn(worker::run(balancer, task));
        begin(group, tasks, Compactor::new(Arc::clone(&jobs)));
        begin(group, tasks, Recoverer::new(Arc::clone(&jobs), config));
        begin(group, tasks, Forgetter::new(forgetting));
        begin(group, tasks, Leaver::new(Arc::clone(&jobs), (config.parallel, config.assign)));
        let settler = Settler::new(operator, records.clone(), Arc::clone(cluster), config.compare_every_ms);
        begin(group, tasks, settler);
        group.spawn(jobs.resume());
        group.spawn(background::notice_own_pauses(Arc::clone(cluster)));
        group.spawn(background::call_nodes(Arc::clone(cluster)));
        group.spawn(background::keep_time(records.clone(), Arc::clone(cluster), config.clock_note_ms));
    }
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

    /// Why it cannot go on: its catalog failed, or another one took over. For most, never. To be awaited once.
    pub async fn ended(&mut self) -> CoordinatorError {
        self.end.recv().await.unwrap_or(CoordinatorError::ShuttingDown)
    }

    /// Ends all work and closes the catalog, so that another coordinator can open it. Jobs go on when one does.
    pub async fn shutdown(mut self) {
        self.lives.abort();
        let _ = (&mut self.lives).await;
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(serving) = serving {
            serving.shut_down().await;
        }
    }
}

impl Serving {
    async fn shut_down(mut self) {
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
        // Nothing is missing then wherever the next one starts.
        match tokio::time::timeout(SHUTDOWN_PATIENCE, self.holders.catch_up()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "not everything is kept by other nodes"),
            Err(_) => tracing::warn!("not everything is kept by other nodes: they do not answer"),
        }
        self.records.close().await;
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.lives.abort();
    }
}

impl Drop for Serving {
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
    if !(flow::limits::MIN_BLOCK_BYTES..=flow::limits::MAX_BLOCK_BYTES).contains(&config.block_bytes) {
        return invalid("block length: from 1 KiB to 4 GiB");
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
