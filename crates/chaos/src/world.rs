//! One schedule while it runs: the cluster, what is known of each name, and what was seen.

use crate::Settings;
use crate::catalog::{Place, View};
use crate::cluster::{Cluster, Daemon, Started, records_of};
use crate::command::{PATIENCE, Ran};
use crate::coverage::{CODE, OPERATORS};
use crate::disks::{self, Hurt};
use crate::numbers;
use crate::oracle::{Name, Names};
use crate::plan::Plan;
use crate::switches::{GOES_ON, SWITCHES, passing};
use crate::violation::{Kind, Violation};
use anyhow::Result;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// What was done and how it went, and how often.
pub type Tally = BTreeMap<String, BTreeMap<&'static str, u64>>;

/// An object of a schedule.
#[derive(Debug, Default)]
pub struct Object {
    /// What it stands for.
    pub name: Mutex<Name>,
    /// Held by whoever changes it: changes of one name follow each other.
    pub changing: Mutex<()>,
}

/// A schedule that runs.
pub struct World {
    /// What it does.
    pub plan: Plan,
    /// Its daemons.
    pub cluster: Cluster,
    /// Its objects.
    pub objects: Vec<Object>,
    /// Files that were changed for good.
    pub hurt: Hurt,
    /// Read by every client while it works; written by what needs silence.
    pub working: RwLock<()>,
    /// Held by the fault that has a daemon, 0 being the coordinator.
    held: Vec<Mutex<()>>,
    /// Held while something is destroyed: margins are looked at one after another.
    pub destroying: Mutex<()>,
    /// Held while what the catalog could be made of again is hurt (`Fault::hurts_history`).
    pub history: Mutex<()>,
    /// Read-locked by disk faults that run beside other faults; write-locked by trials, which need the disks to stay as they are.
    pub disks: RwLock<()>,
    /// Number of times that a node was taken back; it invalidates earlier answers about a leaving node.
    pub taken_back: AtomicU64,
    /// Commands whose answers contained too large numbers.
    large: Mutex<BTreeSet<String>>,
    /// The current kind of work of each operator.
    busy: Mutex<BTreeMap<usize, &'static str>>,
    /// Milliseconds of the schedule are counted from here.
    started: Mutex<Instant>,
    files: AtomicU64,
    violations: Mutex<Vec<Violation>>,
    tally: Mutex<Tally>,
    story: Mutex<Vec<String>>,
    speaks: bool,
    /// Switches that are on again.
    on: Vec<String>,
}

/// Holds daemons for a fault.
pub type Holds<'a> = Vec<MutexGuard<'a, ()>>;

impl World {
    /// A schedule over a cluster that is laid out.
    pub fn new(plan: Plan, cluster: Cluster, settings: &Settings) -> World {
        World {
            objects: (0..plan.objects()).map(|_| Object::default()).collect(),
            held: (0..=plan.shape.nodes).map(|_| Mutex::default()).collect(),
            plan,
            cluster,
            hurt: Hurt::default(),
            working: RwLock::default(),
            destroying: Mutex::default(),
            history: Mutex::default(),
            disks: RwLock::default(),
            taken_back: AtomicU64::new(0),
            large: Mutex::default(),
            busy: Mutex::default(),
            started: Mutex::new(Instant::now()),
            files: AtomicU64::new(0),
            violations: Mutex::default(),
            tally: Mutex::default(),
            story: Mutex::default(),
            speaks: settings.speaks,
            on: settings.on.clone(),
        }
    }

    /// The schedule begins now: until here the cluster was started.
    pub fn begins(&self) {
        *locked(&self.started) = Instant::now();
    }

    /// Milliseconds since it began.
    pub fn now_ms(&self) -> u64 {
        u64::try_from(locked(&self.started).elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits until that time of the schedule.
    pub fn wait_until(&self, at_ms: u64) {
        std::thread::sleep(Duration::from_millis(at_ms.saturating_sub(self.now_ms())));
    }

    /// Notes what happens, for whoever looks into what went wrong.
    pub fn tell(&self, what: impl AsRef<str>) {
        let line = format!("{:>6} ms  {}", self.now_ms(), what.as_ref());
        if self.speaks {
            eprintln!("{line}");
        }
        locked(&self.story).push(line);
    }

    /// Counts how something went.
    pub fn count(&self, what: &str, outcome: &'static str) {
        self.count_many(what, outcome, 1);
    }

    /// Adds `times` occurrences to the tally.
    pub fn count_many(&self, what: &str, outcome: &'static str, times: u64) {
        *locked(&self.tally).entry(what.to_owned()).or_default().entry(outcome).or_default() += times;
    }

    /// Marks an operator as busy until the result is dropped, and counts what other operators are doing at that time.
    pub fn is_busy(&self, operator: usize, kind: &'static str) -> Busy<'_> {
        let mut busy = locked(&self.busy);
        for other in busy.values() {
            let mut both = [kind, *other];
            both.sort_unstable();
            self.count(&format!("{OPERATORS}{} beside {}", both[0], both[1]), "at once");
        }
        busy.insert(operator, kind);
        Busy { world: self, operator }
    }

    /// Notes that something went wrong.
    pub fn violated(&self, kind: Kind, what: impl Into<String>) {
        let what = what.into();
        let switch = passing(kind, &what, &self.faults(), &self.on);
        let violation = Violation { kind, at_ms: self.now_ms(), what, switch };
        self.tell(format!("VIOLATION {kind}: {}", violation.what));
        locked(&self.violations).push(violation);
    }

    /// Returns the plan's faults, its codes and its end, for switches.
    fn faults(&self) -> Vec<&'static str> {
        let faults = self.plan.faults.iter().map(|step| step.does.kind());
        let named: BTreeSet<&str> = self.plan.steps().filter_map(|step| step.does.code()).collect();
        let of_switches = SWITCHES.iter().flat_map(|switch| switch.faults).copied();
        let codes =
            of_switches.filter(|what| what.strip_prefix(CODE).is_some_and(|code| named.contains(code)));
        faults.chain(codes).chain(self.plan.goes_on.then_some(GOES_ON)).collect()
    }

    /// Whether all of this would be let pass.
    pub fn are_switched_off<'a>(&self, findings: impl IntoIterator<Item = &'a (Kind, String)>) -> bool {
        let faults = self.faults();
        findings.into_iter().all(|(kind, what)| passing(*kind, what, &faults, &self.on).is_some())
    }

    /// What went wrong, how often what was done, and the story.
    pub fn seen(&self) -> (Vec<Violation>, Tally, Vec<String>) {
        (locked(&self.violations).clone(), locked(&self.tally).clone(), locked(&self.story).clone())
    }

    /// The daemons for a fault, once others have let go of them; all of them for `None`.
    pub fn hold(&self, daemons: Option<Vec<u32>>) -> Holds<'_> {
        // Those of one process are had together. In the order of numbers, so that two never wait for each other.
        let leader = |number: u32| self.cluster.daemon(number).leader();
        let daemons: BTreeSet<usize> = match daemons {
            Some(some) => some.into_iter().map(|number| leader(number) as usize).collect(),
            None => (0..self.held.len()).collect(),
        };
        daemons.into_iter().map(|number| locked(&self.held[number])).collect()
    }

    /// What names stand for.
    pub fn names(&self) -> Names {
        self.objects.iter().map(|object| locked(&object.name).clone()).enumerate().collect()
    }

    /// Names stand for what they stood for.
    pub fn set_back_names(&self, names: Names) {
        for (number, name) in names {
            if let Some(object) = self.objects.get(number) {
                locked(&object.name).set_back(name);
            }
        }
    }

    /// A path that nobody else uses.
    pub fn scratch(&self) -> PathBuf {
        self.cluster.folder.join(format!("scratch-{}", self.files.fetch_add(1, Ordering::Relaxed)))
    }

    /// Runs a command within its bound; one that hangs or panics is a violation.
    pub fn ask(&self, arguments: &[&str]) -> Result<Ran> {
        let ran = self.ask_quietly(arguments)?;
        if ran.stderr.contains("panicked") {
            self.violated(Kind::Panic, format!("{arguments:?}: {}", ran.stderr));
        }
        Ok(ran)
    }

    /// Does the same without looking for panics; the caller finds those.
    pub fn ask_quietly(&self, arguments: &[&str]) -> Result<Ran> {
        let patience = PATIENCE + self.plan.slowed_by();
        let ran = self.cluster.ask(arguments, patience)?;
        if ran.status.is_none() {
            self.violated(Kind::Hang, format!("{arguments:?} did not end in {} s", patience.as_secs()));
        }
        self.look_at_numbers(arguments, &ran.stdout);
        Ok(ran)
    }

    /// Reports a too large number once per command, because the same answer recurs.
    fn look_at_numbers(&self, arguments: &[&str], answer: &[u8]) {
        let Some(number) = numbers::beyond(answer) else { return };
        let command: Vec<&str> = arguments.iter().take(2).copied().collect();
        if locked(&self.large).insert(command.join(" ")) {
            let what = format!("{command:?} answers {} {number}", numbers::TOO_LARGE);
            self.violated(Kind::UntrueStatus, what);
        }
    }

    /// The same for an answer in JSON; `None` if the command failed.
    pub fn ask_json(&self, arguments: &[&str]) -> Result<Option<Value>> {
        Ok(self.ask(arguments)?.json())
    }

    /// What the catalog says; `None` if it cannot be asked about everything.
    pub fn view(&self) -> Result<Option<View>> {
        let Some(Value::Array(objects)) = self.ask_json(&["ls"])? else { return Ok(None) };
        let mut view = View::default();
        for object in objects {
            let Some(name) = object["name"].as_str() else { return Ok(None) };
            match self.ask(&["stat", name])? {
                ran if ran.is_ok() => view.add(&ran.json().unwrap_or_default()),
                // Deleted since it was listed.
                ran if is_absent(&ran) => {}
                _ => return Ok(None),
            }
        }
        Ok(Some(view))
    }

    /// Copies that lie on disks with both files whole, by block and node, wherever the node's files are at the moment.
    pub fn whole_copies(&self) -> Result<BTreeSet<Place>> {
        let mut whole = BTreeSet::new();
        for node in self.cluster.nodes() {
            let files = disks::find(&node.folder)?.files;
            let sound = files.iter().filter(|file| !self.hurt.has(&file.path));
            let mut halves: BTreeMap<&str, u32> = BTreeMap::new();
            for file in sound {
                *halves.entry(&file.copy).or_default() |= if file.is_sidecar { 1 } else { 2 };
            }
            let pairs = halves.into_iter().filter(|(_, halves)| *halves == 3);
            whole.extend(
                pairs.map(|(copy, _)| (copy.split('.').next().unwrap_or(copy).to_owned(), node.number)),
            );
        }
        Ok(whole)
    }

    /// What nodes keep of the catalog: files and their lengths.
    pub fn kept_records(&self) -> Result<Vec<(PathBuf, u64)>> {
        let kept: Result<Vec<_>> = self.cluster.nodes().iter().map(records_of).collect();
        Ok(kept?.concat())
    }

    /// Starts a daemon; whatever keeps it from starting is told. Whether it listens.
    pub fn start(&self, daemon: &Daemon, second: bool) -> Result<bool> {
        let name = daemon.folder.file_name().unwrap_or_default().to_string_lossy();
        match self.cluster.start(daemon, second)? {
            Started::Ready => {
                self.tell(format!("{name} runs"));
                Ok(true)
            }
            Started::Ended(why) => {
                self.tell(format!("{name} does not start: {why}"));
                Ok(false)
            }
            Started::Silent => {
                self.violated(Kind::Hang, format!("{name} neither listens nor ends"));
                Ok(false)
            }
        }
    }
}

/// A busy operator.
pub struct Busy<'a> {
    world: &'a World,
    operator: usize,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        locked(&self.world.busy).remove(&self.operator);
    }
}

/// Whether a command failed because there is no such object.
pub fn is_absent(ran: &Ran) -> bool {
    ran.status.is_some() && !ran.is_ok() && ran.stderr.contains("there is no object")
}

/// The name of an object.
pub fn object_name(object: usize) -> String {
    format!("object-{object}")
}

/// Locks; a thread that panicked has told of it, and what it held is still true.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
