//! After a schedule: everything is put right and started again, and then, within a bound, all must be as it should be.

mod accounting;
mod scrub;

use crate::catalog::View;
use crate::coverage::CODE;
use crate::faults::folders::all_live;
use crate::faults::trial;
use crate::leaving;
use crate::plan::Fault;
use crate::status::{nodes, running_jobs};
use crate::violation::Kind;
use crate::work::get;
use crate::world::{World, locked, object_name};
use anyhow::Result;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

/// What was acknowledged can be read within this time after everything was put right.
const READ_PATIENCE: Duration = Duration::from_secs(30);

/// … and again after that.
const READ_AGAIN_PATIENCE: Duration = Duration::from_secs(10);

/// Where all that is found is switched off and stays the same for so long, nothing more is waited for: so long takes every
/// grace, lease and recovery of these clusters.
const SAME_FOR: Duration = Duration::from_secs(6);

/// Between looks.
const POLL: Duration = Duration::from_millis(300);

/// Safe mode is to end by itself before an operator steps in, where that may be needed.
const OPERATOR_AFTER: Duration = Duration::from_secs(8);

/// Times in which all was whole again, from the first look after everything was started again and read, are told as the first of
/// these that is longer, in seconds.
const TOLD: [(u64, &str); 5] =
    [(3, "in 3 s"), (6, "in 6 s"), (12, "in 12 s"), (30, "in 30 s"), (60, "in 60 s")];

/// A damaged file of the catalog that was replaced; a number follows.
const DAMAGED_CATALOG: &str = "catalog.redb.damaged-";

/// Fields of `health` that change with time.
const CHANGING: [&str; 3] = ["at_unix_ms", "healed_bytes_per_s", "left_s"];

/// What is said of blocks begins with this.
const LACKING: &str = "copies are lacking of";

/// What is not as it should be, with the words for it.
type Findings = BTreeSet<(Kind, String)>;

/// Puts everything right, waits for quiet for at most `quiet`, and judges what is there.
pub fn settle(world: &World, quiet: Duration) -> Result<()> {
    if world.plan.goes_on {
        world.tell("everything is put right, and goes on");
        go_on(world)?;
    } else {
        world.tell("everything is put right and started again");
        restart(world)?;
    }
    if !all_live(world)? {
        let status = world.ask(&["cluster", "status"])?;
        let why = String::from_utf8_lossy(&status.stdout).into_owned() + &status.stderr;
        world.violated(Kind::NotEnded, format!("not every node comes back: {why}"));
    }
    read_all(world, READ_PATIENCE.min(quiet))?;
    leaving::settle(world, quiet)?;
    recommission(world, READ_PATIENCE.min(quiet))?;
    become_quiet(world, quiet)?;
    scrub::settle(world, quiet)?;
    count_codes(world)?;
    if let Some((taking, draw)) = world.plan.trial {
        trial::at_the_end(world, taking, draw)?;
    }
    // Repairs and deletions went on meanwhile.
    read_all(world, READ_AGAIN_PATIENCE.min(quiet))?;
    listed(world)?;
    kept_aside(world)?;
    end(world)
}

/// Counts the stripes at the end by code.
fn count_codes(world: &World) -> Result<()> {
    let Some(view) = world.view()? else { return Ok(()) };
    for (code, stripes) in view.stripes_by_code() {
        world.count_many(&format!("{CODE}{code}"), "stripes at the end", stripes);
    }
    Ok(())
}

/// Counts the damaged files of the catalog that were replaced.
fn kept_aside(world: &World) -> Result<()> {
    for entry in fs::read_dir(world.cluster.daemon(0).data())? {
        if entry?.file_name().to_string_lossy().starts_with(DAMAGED_CATALOG) {
            world.count("the catalog's file was made again", "the damaged one kept");
        }
    }
    Ok(())
}

/// Starts only the daemons that ended by themselves.
fn go_on(world: &World) -> Result<()> {
    world.count("the end", "all goes on");
    for daemon in world.cluster.daemons() {
        daemon.signal(Signal::CONT);
        if daemon.runs() {
            continue;
        }
        world.count("the end", "a daemon had ended, and is started");
        if !world.start(daemon, false)? {
            world.violated(Kind::NotEnded, format!("{} does not start again", daemon.folder.display()));
        }
    }
    Ok(())
}

fn restart(world: &World) -> Result<()> {
    world.count("the end", "all is started again");
    for daemon in world.cluster.daemons() {
        daemon.signal(Signal::CONT);
    }
    end(world)?;
    for daemon in world.cluster.daemons() {
        if !world.start(daemon, false)? {
            world.violated(Kind::NotEnded, format!("{} does not start again", daemon.folder.display()));
        }
    }
    Ok(())
}

/// Ends all daemons; a panic in a log counts wherever it came from.
fn end(world: &World) -> Result<()> {
    for daemon in world.cluster.daemons().iter().rev() {
        if !world.cluster.end(daemon)? {
            world.violated(Kind::Hang, format!("{} does not end when asked", daemon.folder.display()));
        }
    }
    Ok(())
}

/// Looks for panics in all logs.
pub fn panics(world: &World) {
    for daemon in world.cluster.daemons() {
        if let Some(line) = daemon.log().lines().find(|line| line.contains("panicked")) {
            world.violated(Kind::Panic, format!("{}: {line}", daemon.folder.display()));
        }
    }
}

/// Takes decommissioned nodes back. While the catalog's file is damaged that is refused, and tried again.
fn recommission(world: &World, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let mut refused = None;
        match world.ask_json(&["cluster", "status"])? {
            None => refused = Some("the coordinator does not answer 'cluster status'".to_owned()),
            Some(status) => {
                for node in nodes(&status).iter().filter(|node| node["leaving"] == true) {
                    let ran = world.ask(&["node", "recommission", &node["node"].to_string()])?;
                    refused = refused.or((!ran.is_ok()).then_some(ran.stderr));
                }
            }
        }
        let Some(why) = refused else { return Ok(()) };
        if Instant::now() > deadline {
            world.violated(Kind::NotEnded, format!("nodes are not taken back: {}", why.trim()));
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
}

/// Reads every object, whole and in part.
fn read_all(world: &World, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    for object in 0..world.objects.len() {
        loop {
            let outcome = get(world, object, None)?;
            if outcome != "failed" {
                world.count("read at the end", outcome);
                break;
            }
            if Instant::now() > deadline {
                let possible = locked(&world.objects[object].name).possible();
                let what =
                    format!("{} cannot be read any more; it stands for {possible:?}", object_name(object));
                world.violated(Kind::Lost, what);
                break;
            }
            std::thread::sleep(POLL);
        }
        if Instant::now() > deadline {
            continue;
        }
        for range in [(0, 1), (333, 667), (999, 1000)] {
            let outcome = get(world, object, Some(range))?;
            world.count("range at the end", outcome);
        }
    }
    Ok(())
}

/// `ls` names what can be read, and nothing else.
fn listed(world: &World) -> Result<()> {
    let Some(Value::Array(listed)) = world.ask_json(&["ls"])? else {
        world.violated(Kind::NotEnded, "objects cannot be listed");
        return Ok(());
    };
    let listed: BTreeSet<&str> = listed.iter().filter_map(|object| object["name"].as_str()).collect();
    for (number, object) in world.objects.iter().enumerate() {
        let (name, possible) = (object_name(number), locked(&object.name).possible());
        match listed.contains(name.as_str()) {
            true if possible.iter().all(Option::is_none) => {
                world.violated(Kind::Resurrected, format!("{name} was deleted, and is listed"));
            }
            false if !possible.contains(&None) => {
                world.violated(Kind::Lost, format!("{name} is not listed; it stands for {possible:?}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Looks until nothing is found any more, or the time is up; then what is still found is a violation each.
fn become_quiet(world: &World, quiet: Duration) -> Result<()> {
    let began = Instant::now();
    let deadline = began + quiet;
    let mut is_whole = false;
    let mut same: (Findings, Instant) = (Findings::new(), Instant::now());
    let mut operator = Operator::default();
    loop {
        let findings = look(world)?;
        if !is_whole && !findings.iter().any(|(_, what)| what.starts_with(LACKING)) {
            is_whole = true;
            world.count("whole again, nobody asking", within(began.elapsed()));
        }
        if findings.is_empty() {
            world.tell("quiet");
            return Ok(());
        }
        if findings != same.0 {
            same = (findings.clone(), Instant::now());
        }
        let in_vain = same.1.elapsed() > SAME_FOR && world.are_switched_off(&findings);
        if in_vain || Instant::now() > deadline {
            for (kind, what) in findings {
                world.violated(kind, what);
            }
            return Ok(());
        }
        operator.look(world, &findings)?;
        std::thread::sleep(POLL);
    }
}

fn within(time: Duration) -> &'static str {
    TOLD.iter().find(|(told_s, _)| time.as_secs() < *told_s).map_or("later", |(_, told)| told)
}

/// Where two coordinators led the nodes, what one of them removed is for people to decide: somebody who does what status says.
#[derive(Default)]
struct Operator {
    since: Option<Instant>,
    done: usize,
}

impl Operator {
    /// In this order, each once.
    const COMMANDS: [[&str; 2]; 2] = [["catalog", "recover"], ["catalog", "end-safe-mode"]];

    fn look(&mut self, world: &World, findings: &Findings) -> Result<()> {
        let has_two =
            world.plan.faults.iter().any(|step| matches!(step.does, Fault::SecondCoordinator { .. }));
        let is_safe = findings.iter().any(|(_, what)| what.starts_with("safe mode:"));
        if !(has_two && is_safe) {
            self.since = None;
            return Ok(());
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let Some(command) = Operator::COMMANDS.get(self.done) else { return Ok(()) };
        if since.elapsed() > OPERATOR_AFTER {
            (self.since, self.done) = (None, self.done + 1);
            let ran = world.ask(command)?;
            world.tell(format!(
                "an operator: {command:?}: {}{}",
                String::from_utf8_lossy(&ran.stdout),
                ran.stderr
            ));
            world.count("an operator decides", if ran.is_ok() { command[1] } else { "failed" });
        }
        Ok(())
    }
}

/// What is not as it should be now.
fn look(world: &World) -> Result<Findings> {
    let mut findings = Findings::new();
    let Some(status) = world.ask_json(&["cluster", "status"])? else {
        findings.insert((Kind::NotEnded, "the coordinator does not answer 'cluster status'".to_owned()));
        return Ok(findings);
    };
    let Some(view) = world.view()? else {
        findings.insert((Kind::NotEnded, "the coordinator does not answer 'stat'".to_owned()));
        return Ok(findings);
    };
    let number = |key: &str| status[key].as_u64().unwrap_or(0);
    if number("in_flight") > 0 {
        findings.insert((Kind::NotEnded, format!("{} copies are in flight", number("in_flight"))));
    }
    let waiting = number("garbage") + number("candidates");
    if waiting > 0 {
        let why = status["waits"].as_str().unwrap_or_default();
        findings.insert((Kind::NotEnded, format!("{waiting} copies wait to be deleted: {why}")));
    }
    if let Some(why) = status["safe_mode"].as_str().filter(|why| !why.is_empty()) {
        let tasks = world.ask_json(&["tasks", "list"])?.unwrap_or_default();
        let mut tasks = tasks.as_array().into_iter().flatten();
        let task = tasks.find(|task| task["name"] == "safe-mode");
        let detail = task.and_then(|task| task["detail"].as_str()).unwrap_or_default();
        findings.insert((Kind::NotEnded, format!("safe mode: {why} ({detail})")));
    }
    if number("missing_blocks") != view.missing {
        let what = format!(
            "status says that {} blocks are missing, stat shows {}",
            number("missing_blocks"),
            view.missing
        );
        findings.insert((Kind::UntrueStatus, what));
    }
    let living = nodes(&status).iter().filter(|node| node["living"] == true).count();
    if living != world.plan.shape.nodes as usize {
        findings.insert((Kind::UntrueStatus, format!("status says that {living} nodes live; all run")));
    }
    for node in
        nodes(&status).iter().filter(|node| node["state"].as_str().is_some_and(|state| state != "living"))
    {
        findings.insert((
            Kind::UntrueStatus,
            format!("node-{} lives, and is called {}", node["node"], node["state"]),
        ));
    }
    let jobs = running_jobs(world)?.into_iter();
    findings.extend(jobs.map(|job| (Kind::NotEnded, job)));
    accounting::disks(world, &status, &view, &mut findings)?;
    whole(world, &view, &mut findings)?;
    spread(&status, &view, &mut findings);
    Ok(findings)
}

/// Replicas of a block are in two racks, as there are, and no two on a host that has others.
fn spread(status: &Value, view: &View, findings: &mut Findings) {
    let place = |key: &str| -> Vec<(u32, String)> {
        let text = |node: &Value| node[key].as_str().unwrap_or_default().to_owned();
        nodes(status).iter().map(|node| (node["node"].as_u64().unwrap_or(0) as u32, text(node))).collect()
    };
    let racks: BTreeMap<u32, String> = place("rack").into_iter().collect();
    // A node that names no host has one of its own.
    let alone = |node: u32, host: String| if host.is_empty() { format!("of {node}") } else { host };
    let hosts = place("host").into_iter().map(|(node, host)| (node, alone(node, host)));
    let hosts: BTreeMap<u32, String> = hosts.collect();
    let count = |of: &BTreeMap<u32, String>, nodes: &[u32]| {
        nodes.iter().filter_map(|node| of.get(node)).collect::<BTreeSet<_>>().len()
    };
    let all: Vec<u32> = racks.keys().copied().collect();
    let lies_badly = |nodes: &&Vec<u32>| {
        count(&hosts, nodes) < nodes.len().min(count(&hosts, &all))
            || count(&racks, nodes) < nodes.len().min(count(&racks, &all)).min(2)
    };
    let badly = view.replicas.values().filter(lies_badly).count();
    if badly > 0 {
        let what = format!("the replicas of {badly} blocks share a rack or a host, though there are others");
        findings.insert((Kind::NotEnded, what));
    }
}

/// Everything has all of its copies again, though nobody asked for repairs, and `health` says so.
fn whole(world: &World, view: &View, findings: &mut Findings) -> Result<()> {
    let ran = world.ask(&["health"])?;
    let mut health: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
    // These fields would make equal findings differ.
    if let Some(said) = health.as_object_mut() {
        said.retain(|what, _| !CHANGING.contains(&what.as_str()));
    }
    if view.short > 0 || view.missing > 0 {
        let (short, missing) = (view.short, view.missing);
        findings.insert((
            Kind::NotEnded,
            format!("{LACKING} {short} blocks, {missing} of all of them: {health}"),
        ));
    } else if health["whole"] != true {
        findings.insert((Kind::UntrueStatus, format!("stat shows all copies; health does not: {health}")));
    } else if !ran.is_ok() {
        // As it does while the catalog's file is damaged, or not looked through yet.
        findings.insert((Kind::NotEnded, format!("health is not content: {}", ran.stderr.trim())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn replicas_that_share_a_rack_or_a_host_are_found() {
        let node =
            |node: u32, host: &str| json!({"node": node, "rack": format!("rack-{}", node % 2), "host": host});
        let status = json!({"nodes": [node(1, ""), node(2, ""), node(3, ""), node(4, "h"), node(5, "h")]});
        let found = |on: &[u32]| {
            let (mut view, mut findings) = (View::default(), Findings::new());
            view.replicas.insert("07".to_owned(), on.to_vec());
            spread(&status, &view, &mut findings);
            !findings.is_empty()
        };
        assert!(found(&[1, 3]) && found(&[1, 4, 5]), "one rack, one host");
        assert!(!found(&[1, 2]) && !found(&[1, 3, 4]) && !found(&[1]));
    }
}
