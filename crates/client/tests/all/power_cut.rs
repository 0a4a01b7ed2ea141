//! The power of a whole cluster is cut after every durable call of put, overwrite, put coded, archive, node recovery and delete.
//! Afterwards what was acknowledged must be there, what was not must be there whole or not at all, and all work can go on.

use crate::archive::stripes;
use crate::coded::put_coded;
use crate::rig::{BLOCK, PATIENCE, Rig, Settings, content};
use crate::succession::kept;
use client::ClientError;
use disk::{CrashDisk, PowerSwitch, SyncPoint};
use model::BlockId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wire::proto::ObjectInfo;

const CODE: &str = "rs-2+1";

/// One that stores no data as they are.
const PIPELINE: &str = "rapidraid-2+1";

/// Clusters under test at once: they mostly wait.
const AT_ONCE: usize = 8;

const SETTINGS: Settings = Settings {
    nodes: 5,
    dead_after_ms: 1_500,
    expects_nodes: false,
    garbage_grace_ms: 100,
    put_lease_ms: 60_000,
    block_bytes: BLOCK as u64,
    replicas: 2,
    recovery_grace_ms: 3_600_000,
    cache_bytes: 0,
    waits_for_holders: false,
    compare_every_ms: None,
    lookup_bytes: None,
};

/// Puts that a cut interrupted are given up soon where a test waits for it.
const SHORT_LEASE_MS: u64 = 2_500;

/// What clients do, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The bytes are told by seed and length.
    Put(&'static str, Bytes),
    /// Coded as it is written.
    PutCoded(&'static str, Bytes),
    Archive(&'static str),
    /// A node that holds a member of that object dies.
    Lose(&'static str),
    Recover,
    Delete(&'static str),
}

type Bytes = (u64, usize);

const B: Bytes = (2, 2 * BLOCK + 40_000);

/// `b` becomes two stripes, the second one of a single, short data block; so does `a` when it is put for the last time.
pub const STEPS: [Step; 10] = [
    Step::Put("a", (1, BLOCK + 1)),
    Step::Put("b", B),
    Step::Put("a", (3, BLOCK / 2)),
    Step::PutCoded("a", (5, 2 * BLOCK + 30_000)),
    Step::Put("empty", (4, 0)),
    Step::Archive("b"),
    Step::Delete("a"),
    Step::Lose("b"),
    Step::Recover,
    Step::Delete("b"),
];

/// The same object, archived by a pipeline over its replicas.
pub const CONVERSION: [Step; 5] =
    [Step::Put("b", B), Step::Archive("b"), Step::Lose("b"), Step::Recover, Step::Delete("b")];

/// When the power goes.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// During the durable call that follows so many.
    Calls(u64),
    /// As soon as so many steps were acknowledged.
    Steps(usize),
}

/// What clients know.
#[derive(Default)]
struct Known {
    /// What objects are archived with.
    code: &'static str,
    /// What each name may hold: what was acknowledged last, and what has been under way since. `None`: nothing.
    objects: BTreeMap<&'static str, Vec<Option<Bytes>>>,
    acknowledged: Vec<Step>,
    under_way: Option<Step>,
    dead: BTreeSet<u32>,
}

impl Known {
    fn begins(&mut self, step: Step) {
        self.under_way = Some(step);
        match step {
            Step::Put(name, bytes) | Step::PutCoded(name, bytes) => {
                self.objects.entry(name).or_insert(vec![None]).push(Some(bytes))
            }
            Step::Delete(name) => self.objects.entry(name).or_insert(vec![None]).push(None),
            _ => {}
        }
    }

    fn ended(&mut self, step: Step) {
        self.under_way = None;
        self.acknowledged.push(step);
        if let Step::Put(name, _) | Step::PutCoded(name, _) | Step::Delete(name) = step {
            let held = self.objects.get_mut(name).unwrap();
            *held = held.split_off(held.len() - 1);
        }
    }

    fn is_acknowledged(&self, step: Step) -> bool {
        self.acknowledged.contains(&step)
    }
}

/// Carries out steps until the power is cut, if it is. Errors while it is on are the cluster's.
async fn work(
    rig: &mut Rig,
    known: &mut Known,
    steps: &[Step],
    lie: Option<(Step, SyncPoint)>,
) -> Result<(), String> {
    for &step in steps {
        known.begins(step);
        if let Some((_, point)) = lie.filter(|lie| lie.0 == step) {
            // What other nodes keep of the catalog would make up for it, if it went out in time. A step that has begun ends.
            rig.control_task("records", "pause").await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            rig.power.ignore(point);
        }
        let power = Arc::clone(&rig.power);
        let is_cut = async {
            while !power.is_cut() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = carry_out(rig, known, step) => outcome,
            () = is_cut => return Ok(()),
        };
        match outcome {
            Ok(()) => known.ended(step),
            Err(_) if rig.power.is_cut() => return Ok(()),
            Err(error) => return Err(format!("{step:?} with the power on: {error}")),
        }
    }
    Ok(())
}

async fn carry_out(rig: &mut Rig, known: &mut Known, step: Step) -> Result<(), ClientError> {
    match step {
        Step::Put(name, (seed, bytes)) => rig.put(name, &content(seed, bytes)).await.map(drop),
        Step::PutCoded(name, (seed, bytes)) => {
            put_coded(rig, name, &content(seed, bytes), CODE).await.map(drop)
        }
        Step::Archive(name) => rig.archive(name, known.code).await.map(drop),
        Step::Delete(name) => rig.client.delete(name).await,
        Step::Lose(name) => {
            // Replicas that an archival left would be counted on again, and nothing would be lost.
            rig.no_garbage().await;
            let info = rig.client.lookup(name, true).await?;
            let stripe = &info.blocks[0].stripe.as_ref().unwrap().stripe;
            let node = stripes(&info)[stripe][0].1;
            known.dead.insert(node);
            rig.lose([node]).await;
            Ok(())
        }
        Step::Recover => rig.repair_node(*known.dead.first().unwrap()).await.map(drop),
    }
}

/// A trial: when the power goes, and what else.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    pub when: When,
    /// What is done.
    pub steps: &'static [Step],
    /// What objects are archived with.
    pub code: &'static str,
    /// During the restart it goes a second time, after so many calls.
    pub again: Option<u64>,
    /// While that step runs, the disks lie about one sync.
    pub lie: Option<(Step, SyncPoint)>,
    /// All garbage is waited for: then nothing is stored that the catalog does not know.
    pub to_the_end: bool,
    /// The coordinator's disk is lost with the power, and whatever is acknowledged is on two other nodes.
    pub loses_catalog: bool,
}

impl Trial {
    pub fn new(when: When) -> Trial {
        Trial {
            when,
            steps: &STEPS,
            code: CODE,
            again: None,
            lie: None,
            to_the_end: false,
            loses_catalog: false,
        }
    }

    /// Runs the steps, cuts the power, restarts on what survived, and looks. What is wrong, or how many durable calls the
    /// steps had made. `configure` tells the switch what to do from the cluster's very beginning.
    pub async fn run(self, configure: impl Fn(&PowerSwitch)) -> Result<u64, String> {
        let power = PowerSwitch::new();
        configure(&power);
        let put_lease_ms = if self.to_the_end { SHORT_LEASE_MS } else { SETTINGS.put_lease_ms };
        let waits_for_holders = self.loses_catalog;
        let mut rig = Rig::on(Settings { put_lease_ms, waits_for_holders, ..SETTINGS }, power).await;
        if self.loses_catalog {
            // Before anything is acknowledged it may be that nobody keeps the catalog, and an operator is to be asked.
            kept(&rig).await;
        }
        let mut known = Known { code: self.code, ..Known::default() };
        let before = rig.power.calls();
        let steps = match self.when {
            When::Calls(calls) => {
                rig.power.cut_after(calls);
                self.steps
            }
            When::Steps(steps) => &self.steps[..steps],
        };
        work(&mut rig, &mut known, steps, self.lie).await?;
        let calls = rig.power.calls() - before;
        rig.power.cut();
        if self.loses_catalog {
            rig.disk = CrashDisk::new(&rig.power);
        }
        let looked = self.look(&mut rig, &known).await;
        looked.map(|()| calls).map_err(|wrong| format!("{self:?}, {:?} under way: {wrong}", known.under_way))
    }

    /// On a runtime of this thread's own.
    pub fn run_here(self, configure: impl Fn(&PowerSwitch)) -> Result<u64, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.run(configure))
    }

    async fn look(&self, rig: &mut Rig, known: &Known) -> Result<(), String> {
        if self.again.is_some() {
            // How far it comes is a matter of the number of calls.
            let _ = rig.power_cycle(&known.dead, self.again).await;
            rig.power.cut();
        }
        rig.power_cycle(&known.dead, None).await?;
        check(rig, known).await?;
        complete(rig, known).await?;
        if self.to_the_end {
            rig.bring_back(known.dead.iter().copied()).await;
            nothing_is_left(rig).await?;
        }
        Ok(())
    }
}

/// All that must hold after the restart.
async fn check(rig: &Rig, known: &Known) -> Result<(), String> {
    let names: BTreeSet<String> =
        rig.client.list("").await.map_err(|e| e.to_string())?.into_iter().map(|object| object.name).collect();
    for (&name, may_hold) in &known.objects {
        let got = match rig.get(name).await {
            Ok(bytes) => Some(bytes),
            Err(ClientError::NotFound(_)) => None,
            Err(error) => return Err(format!("{name}: {error}")),
        };
        let is = |held: &&Option<Bytes>| got == held.map(|(seed, bytes)| content(seed, bytes));
        let Some(held) = may_hold.iter().find(is) else {
            return Err(format!("{name} holds {:?} bytes, none of {may_hold:?}", got.map(|b| b.len())));
        };
        if names.contains(name) != held.is_some() {
            return Err(format!("{name} is listed, or read, but not both"));
        }
        if let Some(bytes) = *held {
            check_blocks(rig, known, name, bytes).await?;
        }
    }
    match rig.client.lookup("b", false).await {
        Ok(object) if known.is_acknowledged(Step::Archive("b")) && object.code != known.code => {
            return Err(format!("the archived object is {:?} now", object.code));
        }
        _ => {}
    }
    // What is damaged is found and made again by itself: had there been anything, this tells.
    let tasks = rig.status().await.tasks;
    let mended = tasks.iter().find(|task| task.name == "healer").map_or(0, |task| task.total);
    if mended > 0 {
        return Err(format!("{mended} damaged blocks were found"));
    }
    rig.damages().into_iter().next().map_or(Ok(()), Err)
}

/// As [`check_copies`], for an object that a resumed job may be moving.
async fn check_blocks(rig: &Rig, known: &Known, name: &str, bytes: Bytes) -> Result<(), String> {
    let lookup = async || rig.client.lookup(name, true).await.map_err(|e| format!("{name}: {e}"));
    let mut info = lookup().await?;
    loop {
        let wrong = match check_copies(rig, known, &info, bytes).await {
            Ok(()) => return Ok(()),
            Err(wrong) => wrong,
        };
        let now = lookup().await?;
        if copies(&now) == copies(&info) {
            return Err(format!("{name}: {wrong}"));
        }
        info = now;
    }
}

/// Every copy that the catalog refers to is where it says, and whole; every stripe outlives the loss of any member.
async fn check_copies(rig: &Rig, known: &Known, info: &ObjectInfo, bytes: Bytes) -> Result<(), String> {
    let recovered = known.is_acknowledged(Step::Recover);
    for (block, node) in copies(info) {
        match known.dead.contains(&node) {
            true if recovered => return Err(format!("{block} is still sought on node-{node}")),
            true => {}
            false => rig.damage(node, block).map_or(Ok(()), Err)?,
        }
    }
    if info.blocks.iter().any(|block| block.stripe.is_none() && block.nodes.len() < 2) {
        return Err(format!("a replica is missing: {:?}", info.blocks));
    }
    let running = rig.running();
    let is_whole = |members: &Vec<(BlockId, u32)>| members.iter().all(|m| running.contains(&m.1));
    if stripes(info).values().all(is_whole) { tolerates(rig, info, bytes).await } else { Ok(()) }
}

/// Copies that the catalog places somewhere.
fn copies(info: &ObjectInfo) -> BTreeSet<(BlockId, u32)> {
    let id = |block: &[u8]| BlockId::from_slice(block).unwrap();
    let data = info.blocks.iter().flat_map(|b| b.nodes.iter().map(|&node| (id(&b.block), node)));
    data.chain(stripes(info).into_values().flatten()).collect()
}

/// Each block of a stripe can be had without the node that holds it; no two members share a node.
async fn tolerates(rig: &Rig, info: &ObjectInfo, (seed, bytes): Bytes) -> Result<(), String> {
    let content = content(seed, bytes);
    for members in stripes(info).values() {
        let nodes: BTreeSet<u32> = members.iter().map(|member| member.1).collect();
        if nodes.len() < members.len() {
            return Err(format!("two members of a stripe on a node: {members:?}"));
        }
    }
    for block in &info.blocks {
        let Some(stripe) = &block.stripe else { continue };
        // Of a virtual block any member of the codeword.
        let members = stripes(info).remove(&stripe.stripe).unwrap_or_default();
        let without: Vec<Vec<u32>> = match block.nodes.is_empty() {
            true => members.iter().map(|member| vec![member.1]).collect(),
            false => vec![block.nodes.clone()],
        };
        for nodes in without {
            let got = rig.read_around(block, &nodes).await;
            let start = block.offset as usize;
            if got.as_deref() != Ok(&content[start..start + block.stored_bytes as usize]) {
                return Err(format!("block {} without node-{nodes:?}: {:?}", block.index, got.err()));
            }
        }
    }
    Ok(())
}

/// What was interrupted can be done again, and all goes on.
async fn complete(rig: &Rig, known: &Known) -> Result<(), String> {
    let failed = |error: ClientError| format!("afterwards: {error}");
    let again = match known.under_way {
        Some(step @ Step::Archive(name)) => rig.archive(name, known.code).await.map(|_| Some(step)),
        Some(Step::Recover) => recover(rig, known).await.map(|()| Some(Step::Recover)),
        _ => Ok(None),
    };
    if let Some(step) = again.map_err(failed)? {
        let objects = BTreeMap::from([("b", vec![Some(B)])]);
        let (code, dead) = (known.code, known.dead.clone());
        let known = Known { code, acknowledged: vec![step], objects, under_way: None, dead };
        check(rig, &known).await?;
    }
    let bytes = content(9, BLOCK + 5);
    rig.put("new", &bytes).await.map_err(failed)?;
    let got = rig.get("new").await.map_err(failed)?;
    if got == bytes { Ok(()) } else { Err("a new object holds other bytes".to_owned()) }
}

async fn recover(rig: &Rig, known: &Known) -> Result<(), ClientError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match rig.repair_node(*known.dead.first().unwrap()).await {
            // The coordinator gives the node some time to show up.
            Err(e) if e.to_string().contains("just started") && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            outcome => return outcome.map(drop),
        }
    }
}

/// Once the garbage is collected and unfinished puts have ended, the nodes hold what the catalog places there, no more and
/// no less.
async fn nothing_is_left(rig: &Rig) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let garbage = rig.status().await.garbage;
        let mut placed = BTreeSet::new();
        for object in rig.client.list("").await.map_err(|e| e.to_string())? {
            placed.extend(copies(&rig.client.lookup(&object.name, true).await.map_err(|e| e.to_string())?));
        }
        let on = |node: u32| rig.stored(node).into_iter().map(move |block| (block, node));
        let stored: BTreeSet<(BlockId, u32)> = rig.running().into_iter().flat_map(on).collect();
        if garbage == 0 && stored == placed {
            return Ok(());
        }
        if Instant::now() > deadline {
            let left: Vec<_> = stored.difference(&placed).collect();
            return Err(format!("{garbage} copies are garbage for ever, {left:?} are nobody's"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Runs several trials at a time: what each said, in their order.
pub fn outcomes(
    trials: &[Trial],
    configure: impl Fn(&PowerSwitch, usize) + Sync,
) -> Vec<Result<u64, String>> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut outcomes = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(trial) = trials.get(number) else { return outcomes };
            outcomes.push((number, trial.run_here(|power| configure(power, number))));
        }
    };
    let mut outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    outcomes.sort_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// All that went wrong.
fn try_all(trials: Vec<Trial>, configure: impl Fn(&PowerSwitch, usize) + Sync) -> Vec<String> {
    outcomes(&trials, configure).into_iter().filter_map(Result::err).collect()
}

/// Durable calls of all steps. Another run may make some more or fewer: threads race, and the garbage has times of its own.
fn calls_of_all_steps() -> u64 {
    Trial::new(When::Steps(STEPS.len())).run_here(|_| {}).unwrap()
}

/// A seed to print and repeat.
fn seed() -> u64 {
    let seed = std::env::var("STRIPELINE_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("STRIPELINE_SEED={seed}");
    seed
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_there() {
    let calls = calls_of_all_steps();
    assert!(calls > 400, "{calls}");
    // At every second call: STRIPELINE_SEED decides whether at the odd ones.
    let trials = (seed() % 2..calls).step_by(2).map(|call| Trial::new(When::Calls(call)));
    assert_eq!(try_all(trials.collect(), |_, _| {}), [""; 0]);
}

/// Replicas or a whole codeword, at any moment.
#[test]
fn a_conversion_by_a_pipeline_loses_nothing_whenever_the_power_goes() {
    let conversion = |when| Trial { steps: &CONVERSION, code: PIPELINE, ..Trial::new(when) };
    let calls_of = |steps| conversion(When::Steps(steps)).run_here(|_| {}).unwrap();
    // Cuts of puts are those of the test above.
    let (put, calls) = (calls_of(1), calls_of(CONVERSION.len()));
    assert!(calls > put + 80, "{put} and {calls}");
    let cut = |step| (put..calls).step_by(step).map(|call| conversion(When::Calls(call)));
    // At every second call: the test above cuts at each.
    assert_eq!(try_all(cut(2).collect(), |_, _| {}), [""; 0]);
    let to_the_end = cut(29).map(|trial| Trial { to_the_end: true, ..trial });
    assert_eq!(try_all(to_the_end.collect(), |_, _| {}), [""; 0]);
    let seed = seed();
    let wrong =
        try_all(cut(9).collect(), |power, number| power.survive_at_random(seed << 32 | number as u64));
    assert_eq!(wrong, [""; 0]);
}

/// Coordinator, holders and stores lose their power at one moment, and the coordinator its disk.
#[test]
fn with_holders_awaited_nothing_acknowledged_is_lost_with_the_power_and_the_catalog() {
    let calls = calls_of_all_steps();
    let trials =
        (0..calls).step_by(6).map(|call| Trial { loses_catalog: true, ..Trial::new(When::Calls(call)) });
    assert_eq!(try_all(trials.collect(), |_, _| {}), [""; 0]);
}

#[test]
fn the_same_holds_whatever_else_survives() {
    let (seed, calls) = (seed(), calls_of_all_steps());
    let trials = (0..calls).step_by(5).map(|call| Trial::new(When::Calls(call)));
    let wrong =
        try_all(trials.collect(), |power, number| power.survive_at_random(seed << 32 | number as u64));
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_second_cut_during_the_restart_is_no_worse_than_the_first() {
    let (seed, calls) = (seed(), calls_of_all_steps());
    let trials = (0..calls).step_by(12).map(|call| {
        // The coordinator comes first; most of its calls are within these.
        let again = Some(call.wrapping_mul(seed | 1) % 60);
        Trial { again, ..Trial::new(When::Calls(call)) }
    });
    assert_eq!(try_all(trials.collect(), |_, _| {}), [""; 0]);
}

#[test]
fn nothing_is_left_behind_on_the_nodes() {
    let calls = calls_of_all_steps();
    let trials =
        (0..calls).step_by(31).map(|call| Trial { to_the_end: true, ..Trial::new(When::Calls(call)) });
    assert_eq!(try_all(trials.collect(), |_, _| {}), [""; 0]);
}

/// An archival that was interrupted and asked for again is over when it is over: at a later restart it must not seize
/// another object of that name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_was_asked_for_again_does_not_come_back() {
    let mut rig = Rig::with(SETTINGS).await;
    rig.put("b", &content(B.0, B.1)).await.unwrap();
    rig.power.cut_after(30);
    assert!(rig.archive("b", CODE).await.is_err() && rig.power.is_cut());
    rig.power_cycle(&BTreeSet::new(), None).await.unwrap();

    // So slow that it still runs when the coordinator resumes what its former life left.
    rig.client.throttle(40_000, 40_000).await.unwrap();
    let slow = rig.archive("b", CODE);
    let resumed = tokio::time::sleep(Duration::from_millis(2 * SETTINGS.dead_after_ms));
    let lift = async {
        resumed.await;
        rig.client.throttle(0, 0).await.unwrap();
    };
    tokio::join!(slow, lift).0.unwrap();
    rig.client.delete("b").await.unwrap();
    rig.put("b", b"another object").await.unwrap();
    rig.stop_coordinator().await;
    let disk = rig.disk.clone();
    rig.start_coordinator(disk).await;
    tokio::time::sleep(Duration::from_millis(2 * SETTINGS.dead_after_ms)).await;
    assert_eq!(rig.client.lookup("b", false).await.unwrap().code, "rep-2");
}
