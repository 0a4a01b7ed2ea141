//! Trials of what `health` says. After as many nodes are taken away as its margin allows, everything that it calls readable must be read; what it
//! calls unreadable must not be read. Nothing else happens meanwhile.

use super::files::{give_blocks_back, take_blocks};
use super::folders::{all_live, start_all};
use super::unread::{self, Begun};
use super::{DONE, NO_MARGIN, NOTHING, Outcome, catalog, last};
use crate::cluster::Daemon;
use crate::command::{Deadline, Ran};
use crate::plan::{Taking, Unread};
use crate::status::{nodes, probes, running_jobs};
use crate::violation::Kind;
use crate::work::get;
use crate::world::{World, locked, object_name};
use anyhow::Result;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::Duration;

/// Longest wait for running jobs to end before a trial.
const JOBS_PATIENCE: Duration = Duration::from_secs(6);

/// Time after which the coordinator knows what a scrub found: some heartbeats.
const KNOWN_MS: u64 = 1_000;

/// Longest time until `health` tells of unreadable copies: nodes try them several times first.
const TOLD_PATIENCE: Duration = Duration::from_secs(60);

/// Time after the grace of a dead node in which unreadable copies come to count as away: nodes look again, and replacements are made.
const UNREAD_MS: u64 = 2_500;

/// Longest time in which readable objects are read after nodes were taken away. Their death must be noticed and avoided.
const READ_PATIENCE: Duration = Duration::from_secs(15);

/// Number of nodes whose loss nothing that is drawn survives, if it lies on them.
const FAR_TOO_MANY: u64 = 4;

/// Time in which returning nodes are compared and their copies count again.
const CONTENT_PATIENCE: Duration = Duration::from_secs(15);

/// Longest time until a killed node counts as dead.
const DEATH_PATIENCE: Duration = Duration::from_secs(10);

/// Largest number of nodes that are taken away, whatever `health` allows.
const MOST: u64 = 4;

/// Number of steps of a node's probe in which each of its 256 folders has its turn: every second one may be out of turn.
const PROBES_OF_A_ROUND: u64 = 2 * 256 + 16;

const POLL: Duration = Duration::from_millis(200);

/// Names in the tally for the number of nodes that were taken away.
const TAKEN: [&str; MOST as usize + 1] = ["none", "one", "two", "three", "four"];

/// Runs a trial during the schedule.
pub(super) fn in_the_middle(world: &World, unread: Option<&Unread>, taking: Taking, draw: u64) -> Outcome {
    // The order of these locks avoids deadlocks: faults that take daemons and silence in the opposite order hurt the history (`catalog.rs`), and
    // a holder of `disks` holds no daemon.
    let _alone = locked(&world.history);
    let _disks = world.disks.write().unwrap_or_else(PoisonError::into_inner);
    let _held = world.hold(None);
    let _silence = world.working.write().unwrap_or_else(PoisonError::into_inner);
    start_all(world)?;
    if !all_live(world)? {
        return Ok(NOTHING);
    }
    if !catalog::is_soon_believed(world)? || !jobs_end(world)? {
        return Ok(NO_MARGIN);
    }
    let Some(unread) = unread else { return try_health(world, None, taking, draw) };
    let begun = match unread::begin(world, unread, draw)? {
        Ok(begun) => begun,
        Err(outcome) => return Ok(outcome),
    };
    let outcome = try_health(world, Some((unread, &begun)), taking, draw);
    unread::end(world, begun)?;
    outcome
}

/// Runs a trial on a cluster that should be in perfect order.
pub fn at_the_end(world: &World, taking: Taking, draw: u64) -> Result<()> {
    let outcome = try_health(world, None, taking, draw)?;
    world.count("trial of health, at the end", outcome);
    if outcome == DONE {
        try_too_few(world, draw)?;
    }
    if !all_live(world)? {
        world.violated(Kind::NotEnded, "nodes that were taken away for a trial of health do not come back");
    }
    Ok(())
}

/// Kills more nodes than anything survives, and checks that `health` is right then too.
fn try_too_few(world: &World, draw: u64) -> Result<()> {
    // The returned nodes are compared first, and their copies count again.
    if !becomes_content(world)? {
        world.count("health without too many nodes", "left out: not whole in time");
        return Ok(());
    }
    let victims = victims(world, FAR_TOO_MANY, &[], !draw);
    victims.iter().try_for_each(|daemon| world.cluster.kill(daemon))?;
    let is_seen = is_death_seen(world, world.cluster.nodes().len() - victims.len())?;
    let claim = Claim::ask(world)?.filter(|_| is_seen);
    let result = claim.map_or(Ok(()), |claim| {
        world.tell(format!("health without {} nodes: {claim:?}", victims.len()));
        world.count(
            "health without too many nodes",
            if claim.unreadable > 0 { "not all readable" } else { "readable" },
        );
        claim.judge(world);
        unreadable_is_not_read(world, &claim)?;
        read_all(world, &claim, "with those nodes killed")
    });
    victims.iter().try_for_each(|daemon| world.start(daemon, false).map(|_| ()))?;
    result
}

/// Waits, within a limit, until `health` reports no problem.
fn becomes_content(world: &World) -> Result<bool> {
    let deadline = Deadline::after(CONTENT_PATIENCE);
    while !world.ask(&["health"])?.is_ok() {
        if deadline.is_over() {
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
    Ok(true)
}

/// Waits, within a limit, until exactly `living` nodes live.
fn is_death_seen(world: &World, living: usize) -> Result<bool> {
    let deadline = Deadline::after(DEATH_PATIENCE);
    while !deadline.is_over() {
        let status = world.ask_json(&["cluster", "status"])?.unwrap_or_default();
        if nodes(&status).iter().filter(|node| node["living"] == true).count() == living {
            return Ok(true);
        }
        std::thread::sleep(POLL);
    }
    Ok(false)
}

fn jobs_end(world: &World) -> Result<bool> {
    let deadline = Deadline::after(JOBS_PATIENCE);
    while !running_jobs(world)?.is_empty() {
        if deadline.is_over() {
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
    Ok(true)
}

fn try_health(world: &World, unread: Option<(&Unread, &Begun)>, taking: Taking, draw: u64) -> Outcome {
    // Two scrubs find silent damage and try unreadable copies twice.
    world.ask(&["scrub"])?;
    world.ask(&["scrub"])?;
    last(KNOWN_MS);
    if let Some((unread, begun)) = unread {
        are_tried(world, &unread.nodes)?;
        is_told(world, unread, draw, begun)?;
        last(world.plan.shape.recovery_grace_s * 1000 + UNREAD_MS);
        is_told(world, unread, draw, begun)?;
    }
    let Some(claim) = Claim::ask(world)? else { return Ok(NOTHING) };
    world.tell(format!("health: {claim:?}"));
    claim.judge(world);
    unreadable_is_not_read(world, &claim)?;
    let kept = unread.map_or("", |(unread, _)| unread.why.marker());
    read_all(world, &claim, &format!("with nothing taken away ({kept})"))?;
    // Asks again, because surplus copies may have been deleted meanwhile.
    let Some(again) = Claim::ask(world)? else { return Ok(NOTHING) };
    let margin = claim.margin.min(again.margin).min(MOST);
    let avoid = unread.map(|(unread, _)| &unread.nodes[..]).unwrap_or_default();
    let victims = victims(world, margin, avoid, draw);
    world.count("nodes that health lets be taken away", TAKEN[victims.len().min(TAKEN.len() - 1)]);
    if victims.is_empty() {
        return Ok(DONE);
    }
    victims.iter().try_for_each(|daemon| take(world, daemon, taking))?;
    let numbers: Vec<u32> = victims.iter().map(|daemon| daemon.number).collect();
    let result = read_all(world, &claim, &format!("without nodes {numbers:?} ({taking:?}; {kept})"));
    victims.iter().try_for_each(|daemon| give_back(world, daemon, taking))?;
    result?;
    Ok(DONE)
}

/// Waits, within a limit, until these nodes have tried their copies once more. Until then margins count those that cannot be read.
fn are_tried(world: &World, nodes: &[u32]) -> Result<()> {
    let before = probes(world)?;
    let is_over = |now: &BTreeMap<u32, u64>| {
        let tried = |node: &u32| Some(now.get(node)?.saturating_sub(*before.get(node)?));
        nodes.iter().all(|node| tried(node).is_some_and(|tried| tried >= PROBES_OF_A_ROUND))
    };
    let deadline = Deadline::after(TOLD_PATIENCE);
    while !is_over(&probes(world)?) && !deadline.is_over() {
        std::thread::sleep(POLL);
    }
    last(KNOWN_MS);
    Ok(())
}

/// Checks that `health` tells of counted copies that cannot be read, once their nodes have had time to try them often enough.
fn is_told(world: &World, unread: &Unread, draw: u64, begun: &Begun) -> Result<()> {
    let counted = || -> Result<usize> {
        let Some(view) = world.view()? else { return Ok(0) };
        Ok(unread::places(world, unread, draw, begun)?.intersection(&view.places).count())
    };
    let deadline = Deadline::after(TOLD_PATIENCE);
    loop {
        let before = counted()?;
        let ran = world.ask(&["health"])?;
        let copies = before.min(counted()?);
        if copies == 0 || tells_of_copies(&ran) {
            world.count("health over unread copies", if copies == 0 { "none counted on" } else { "told" });
            return Ok(());
        }
        if deadline.is_over() {
            let said = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
            let what = format!(
                "{copies} copies that are counted on cannot be read ({}), and health says nothing of them: {said}",
                unread.why.marker()
            );
            world.count("health over unread copies", "untold");
            world.violated(Kind::UntrueStatus, what);
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
}

/// Whether `health` reports a problem with copies, as opposed to a stuck order.
fn tells_of_copies(ran: &Ran) -> bool {
    let said: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
    match said["attention"].as_array() {
        Some(attention) => attention.iter().any(|told| OF_COPIES.contains(&code_of(told).as_str())),
        None => !ran.is_ok(),
    }
}

/// Answer of `health` about objects.
#[derive(Clone, Debug)]
struct Claim {
    /// Number of losses that every currently readable object survives.
    margin: u64,
    unreadable: u64,
    /// Names of unreadable objects, or of some of them.
    names: BTreeSet<String>,
    broken_stripes: u64,
    exit_code: Option<i32>,
    /// Codes of the reported problems; absent in versions that have none.
    attention: Option<Vec<String>>,
}

impl Claim {
    /// Asks `health`. Returns `None` if it does not answer, or if there are no objects.
    fn ask(world: &World) -> Result<Option<Claim>> {
        let ran = world.ask(&["health"])?;
        let exit_code = ran.status.and_then(|status| status.code());
        Ok(serde_json::from_slice(&ran.stdout).ok().and_then(|said| Claim::of(&said, exit_code)))
    }

    fn of(said: &Value, exit_code: Option<i32>) -> Option<Claim> {
        let number = |key: &str| said[key].as_u64().unwrap_or(0);
        let objects = said["objects"].as_array()?;
        let margins = objects.iter().filter_map(|counted| counted["losses"].as_u64());
        let names = said["unreadable_names"].as_array().into_iter().flatten();
        let unreadable = number("unreadable_objects");
        let margin = margins.min();
        (margin.is_some() || unreadable > 0).then(|| Claim {
            margin: margin.unwrap_or(0),
            unreadable,
            names: names.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            broken_stripes: number("broken_stripes"),
            exit_code,
            attention: said["attention"].as_array().map(|all| all.iter().map(code_of).collect()),
        })
    }

    /// Checks that the exit code and the reasons match the rest of the answer.
    fn judge(&self, world: &World) {
        if let Some(what) = self.contradiction() {
            world.violated(Kind::UntrueStatus, format!("{what}: {self:?}"));
        }
    }

    fn contradiction(&self) -> Option<&'static str> {
        let is_broken = self.unreadable > 0 || self.broken_stripes > 0;
        if is_broken != (self.exit_code == Some(UNREADABLE)) {
            return Some("health ends with another code than it says");
        }
        let attention = self.attention.as_ref()?;
        let names_objects = attention.iter().any(|code| code == "UNREADABLE_OBJECTS");
        let exit_codes: Option<Vec<i32>> = attention.iter().map(|code| exit_code_of(code)).collect();
        let Some(exit_codes) = exit_codes else {
            return Some("health gives a reason that it does not document");
        };
        let gravest = exit_codes.into_iter().max().unwrap_or(0);
        let is_other = self.exit_code != Some(gravest) || names_objects != (self.unreadable > 0);
        is_other.then_some("health gives other reasons than it says")
    }

    /// Whether this object can be read. `None` if it may be unreadable but not named.
    fn is_readable(&self, name: &str) -> Option<bool> {
        match self.names.contains(name) {
            true => Some(false),
            false if self.names.len() as u64 == self.unreadable => Some(true),
            false => None,
        }
    }
}

fn code_of(attention: &Value) -> String {
    attention["code"].as_str().unwrap_or_default().to_owned()
}

/// Codes about copies that are away or cannot be read.
const OF_COPIES: [&str; 4] = ["UNREADABLE_OBJECTS", "BROKEN_STRIPES", "SHORT_BLOCKS", "UNREAD_COPIES"];

/// All codes that `health` may report, each with its exit code.
const ATTENTION: [(&str, i32); 9] = [
    ("UNREADABLE_OBJECTS", UNREADABLE),
    ("BROKEN_STRIPES", UNREADABLE),
    ("SHORT_BLOCKS", SHORT),
    ("UNREAD_COPIES", SHORT),
    ("STUCK_WISH", SHORT),
    ("STUCK_HEALING", 0),
    ("SLOW_HEALING", SHORT),
    ("SAFE_MODE", SHORT),
    ("UNCHECKED_CATALOG", SHORT),
];

/// The exit code of `health` for a code that it reports. `None` if it is not documented.
fn exit_code_of(code: &str) -> Option<i32> {
    ATTENTION.iter().find(|(known, _)| *known == code).map(|&(_, exit_code)| exit_code)
}

/// Exit code of `health` when all can be read and something needs attention.
const SHORT: i32 = 3;

/// Exit code of `health` when something cannot be read.
const UNREADABLE: i32 = 4;

fn unreadable_is_not_read(world: &World, claim: &Claim) -> Result<()> {
    for object in 0..world.objects.len() {
        let name = object_name(object);
        if claim.is_readable(&name) != Some(false) {
            continue;
        }
        let outcome = get(world, object, None)?;
        world.count("read what health calls unreadable", outcome);
        if outcome == "failed" {
            continue;
        }
        // Missing copies may have been re-created just now.
        let still = Claim::ask(world)?.and_then(|again| again.is_readable(&name));
        if still == Some(false) {
            world.violated(
                Kind::UntrueStatus,
                format!("health calls {name} unreadable, and it is read: {outcome}"),
            );
        }
    }
    Ok(())
}

fn read_all(world: &World, claim: &Claim, how: &str) -> Result<()> {
    let deadline = Deadline::after(READ_PATIENCE);
    for object in 0..world.objects.len() {
        let name = object_name(object);
        if claim.is_readable(&name) != Some(true) {
            continue;
        }
        let mut outcome = get(world, object, None)?;
        while outcome == "failed" && !deadline.is_over() {
            std::thread::sleep(POLL);
            outcome = get(world, object, None)?;
        }
        world.count("read what health calls readable", outcome);
        if outcome == "failed" {
            let what = format!(
                "health says that all that can be read survives {} losses; {how} {name} cannot be read: {claim:?}",
                claim.margin
            );
            world.violated(Kind::UntrueStatus, what);
        }
    }
    Ok(())
}

/// Chooses nodes to take away: at most `margin`, and all nodes of a process together.
fn victims<'a>(world: &'a World, margin: u64, avoid: &[u32], draw: u64) -> Vec<&'a Daemon> {
    let mut leaders: Vec<&Daemon> =
        world.cluster.nodes().iter().filter(|daemon| daemon.leader() == daemon.number).collect();
    leaders.shuffle(&mut StdRng::seed_from_u64(draw));
    let mut victims = Vec::new();
    for leader in leaders {
        let of_it = || world.cluster.nodes().iter().filter(|daemon| daemon.leader() == leader.number);
        let is_lost = of_it().any(|daemon| avoid.contains(&daemon.number));
        if !is_lost && victims.len() + of_it().count() <= margin as usize {
            victims.extend(of_it());
        }
    }
    victims
}

fn take(world: &World, daemon: &Daemon, taking: Taking) -> Result<()> {
    match taking {
        Taking::Stop => daemon.signal(Signal::STOP),
        Taking::Kill => world.cluster.kill(daemon)?,
        Taking::Hide => take_blocks(world, daemon)?,
    }
    Ok(())
}

fn give_back(world: &World, daemon: &Daemon, taking: Taking) -> Result<()> {
    match taking {
        Taking::Stop => daemon.signal(Signal::CONT),
        Taking::Kill => _ = world.start(daemon, false)?,
        Taking::Hide => give_blocks_back(world, daemon)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_is_what_every_object_survives() {
        let said = json!({"objects": [{"losses": 2, "count": 5}, {"losses": 1, "count": 1}, {"losses": null, "count": 1}],
            "unreadable_objects": 1, "unreadable_names": ["x"], "broken_stripes": 0});
        let claim = Claim::of(&said, Some(4)).unwrap();
        assert_eq!(
            (claim.margin, claim.is_readable("x"), claim.is_readable("y")),
            (1, Some(false), Some(true))
        );
        let more = json!({"objects": [], "unreadable_objects": 2, "unreadable_names": ["x"]});
        assert_eq!(Claim::of(&more, Some(4)).unwrap().is_readable("y"), None);
        assert!(Claim::of(&json!({"objects": [], "unreadable_objects": 0}), Some(0)).is_none());
        assert!(claim.contradiction().is_none());
        let contradicts = |codes: &[&str], exit_code| {
            let attention: Vec<Value> = codes.iter().map(|code| json!({"code": code})).collect();
            let said = json!({"objects": [{"losses": 2, "count": 5}], "unreadable_objects": 0, "attention": attention});
            Claim::of(&said, Some(exit_code)).unwrap().contradiction().is_some()
        };
        assert!(!contradicts(&[], 0) && !contradicts(&["UNREAD_COPIES"], 3));
        assert!(contradicts(&["UNREAD_COPIES"], 0) && contradicts(&[], 3) && contradicts(&[], 4));
        assert!(contradicts(&["UNREADABLE_OBJECTS"], 3) && contradicts(&["WHATEVER"], 3));
    }
}
