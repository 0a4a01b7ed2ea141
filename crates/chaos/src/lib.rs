//! Chaos: seeded schedules over real processes of the product. Clients put, overwrite, read, archive, repair and delete, while
//! daemons are killed, stopped, cut off, starved, cloned and set back; afterwards everything is put right, and what was
//! acknowledged must be there, what was deleted must be gone, and every byte must be accounted for.
//!
//! ```text
//!   seed ──▶ Plan ──▶ run: clients ∥ faults, over the program's own commands ──▶ settle ──▶ Report
//!                        │                    │
//!                        └── oracle: what each name may stand for
//! ```
//!
//! Absent: any crate of the product. What is driven is the built program, what is judged are its answers and its files. Not
//! shipped. `docs/chaos.md` says what is covered, and what is not.

mod catalog;
mod cluster;
mod command;
pub mod coverage;
mod damage;
mod disks;
mod faults;
mod leaving;
mod network;
mod numbers;
pub mod oracle;
pub mod plan;
mod report;
mod settle;
mod shim;
mod status;
pub mod switches;
pub mod violation;
mod work;
mod world;

use plan::Budgets;
pub use plan::Plan;
pub use report::{Report, Summary};

use anyhow::{Context, Result};
use cluster::Cluster;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use world::World;

/// Files here outlive processes as they do on a disk, and no schedule waits for a disk's syncs. What a power cut would do is
/// tested elsewhere, over a disk that forgets.
const MEMORY: &str = "/dev/shm";

/// Bytes that schedules may need.
const ROOM: u64 = 1 << 30;

/// Folders of schedules begin so; the number of the process follows.
const PREFIX: &str = "stripeline-chaos-";

/// Folders that are kept begin so; the seed follows.
const KEPT: &str = "stripeline-kept-";

/// How schedules run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program `stripeline`.
    pub program: PathBuf,
    /// How long a cluster that was put right may take until everything is as it should be.
    pub quiet: Duration,
    /// Switches that are on again (see [`switches`]), `all` for all.
    pub on: Vec<String>,
    /// Keep the folder of a schedule that failed.
    pub keep: bool,
    /// Tell the story while it happens.
    pub speaks: bool,
}

impl Settings {
    /// The usual ones: a minute to become quiet.
    pub fn new(program: impl Into<PathBuf>) -> Settings {
        let quiet = Duration::from_secs(60);
        Settings { program: program.into(), quiet, on: Vec::new(), keep: false, speaks: false }
    }
}

/// Removes what killed runs left behind: processes, mounts, folders, namespaces.
///
/// # Errors
/// What cannot be removed.
pub fn sweep() -> Result<()> {
    network::sweep();
    cluster::sweep(&place(), PREFIX)
}

fn place() -> PathBuf {
    let memory = Path::new(MEMORY);
    let room = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    if room >= ROOM { memory.to_owned() } else { std::env::temp_dir() }
}

/// Runs one plan from its beginning to its end.
///
/// # Errors
/// What the harness could not do; the product's faults are in the report.
pub fn run(plan: &Plan, settings: &Settings) -> Result<Report> {
    let began = Instant::now();
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(place())?;
    let name = plan.seed.to_string();
    let mut cluster = Cluster::lay_out(&name, &plan.shape, folder.path(), &settings.program, true)?;
    if plan.needs_shim() {
        cluster.shim = shim::Shim::build(folder.path())?;
    }
    let world = World::new(plan.clone(), cluster, settings);
    begin(&world)?;
    perform(&world).with_context(|| format!("seed {}", plan.seed))?;
    settle::settle(&world, settings.quiet + plan.slowed_by())
        .with_context(|| format!("seed {}", plan.seed))?;
    settle::panics(&world);
    let report = Report::of(&world, began.elapsed());
    drop(world);
    if settings.keep && !report.violations.is_empty() {
        fs::write(folder.path().join("story"), report.story.join("\n") + "\n")?;
        // Under another name, or the next run would sweep it away.
        let kept = place().join(format!("{KEPT}{}-{}", plan.seed, std::process::id()));
        fs::rename(folder.keep(), &kept)?;
        eprintln!("seed {}: everything is kept in {}", plan.seed, kept.display());
    }
    Ok(report)
}

fn begin(world: &World) -> Result<()> {
    for daemon in world.cluster.daemons() {
        anyhow::ensure!(world.start(daemon, false)?, "a daemon does not start: {}", daemon.log());
    }
    anyhow::ensure!(faults::folders::all_live(world)?, "nodes do not register");
    if let Some(Budgets { healing_kbit, archival_kbit }) = world.plan.budgets {
        let [healing, archival] = [healing_kbit, archival_kbit].map(|kbit| format!("{kbit}kbit"));
        let ran = world.ask(&["throttle", "--healing", &healing, "--archival", &archival])?;
        anyhow::ensure!(ran.is_ok(), "budgets are refused: {}", ran.stderr);
        world.count(&format!("healing at {healing_kbit} kbit/s"), "set");
        world.count(&format!("archival at {archival_kbit} kbit/s"), "set");
    }
    Ok(())
}

/// Runs clients, operators and faults, each in its own thread.
fn perform(world: &World) -> Result<()> {
    world.begins();
    std::thread::scope(|scope| {
        let clients: Vec<_> =
            world.plan.clients.iter().map(|steps| scope.spawn(move || work::client(world, steps))).collect();
        let faults: Vec<_> =
            world.plan.faults.iter().map(|step| scope.spawn(move || faults::happen(world, step))).collect();
        let operators: Vec<_> = (0..world.plan.operators.len())
            .map(|number| scope.spawn(move || work::operator(world, number)))
            .collect();
        for thread in clients.into_iter().chain(operators).chain(faults) {
            match thread.join() {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(())
    })
}
