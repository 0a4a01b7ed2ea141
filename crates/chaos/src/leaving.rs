//! Decommissioned nodes: what status says of them, and what they still hold.

use crate::catalog::View;
use crate::command::{Deadline, Ran};
use crate::status::nodes;
use crate::violation::Kind;
use crate::world::World;
use anyhow::Result;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time without change after which a node that stays, with nowhere to go or with the product excused, is no longer waited for.
const SAME_FOR: Duration = Duration::from_secs(8);

const POLL: Duration = Duration::from_millis(300);

/// Number of looks in a row after which a contradiction counts. Status and copies are asked for one after another.
const LOOKS: u32 = 4;

/// State in status of a node that may go.
const DECOMMISSIONED: &str = "decommissioned";

/// Part of the violation's text for a node that still has copies.
const HAS_COPIES: &str = "is called decommissioned, and";

/// A node that is leaving or has left.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Leaver {
    node: u32,
    /// State of the node in status.
    state: String,
    /// Number of copies there by status, if it gives one.
    told: Option<u64>,
    /// Number of copies there by `stat`.
    counted: u64,
    /// Whether other machines suffice for everything that it holds.
    may_go: bool,
}

/// Orders a node's decommission. If the command succeeds, nothing may be left there.
pub fn order(world: &World, node: u32) -> Result<Ran> {
    let ran = world.ask(&["node", "decommission", &node.to_string()])?;
    if !ran.is_ok() {
        return Ok(ran);
    }
    let before = world.taken_back.load(Ordering::SeqCst);
    let mut seen = None;
    for _ in 0..LOOKS {
        let leavers = look(world)?.unwrap_or_default();
        seen = leavers.into_iter().find(|leaver| leaver.node == node && leaver.is_untrue());
        if seen.is_none() || world.taken_back.load(Ordering::SeqCst) != before {
            return Ok(ran);
        }
        std::thread::sleep(POLL);
    }
    if let Some(Leaver { counted, .. }) = seen {
        let what =
            format!("node-{node} {HAS_COPIES} {counted} copies there are counted on, as the order ends well");
        world.violated(Kind::UntrueStatus, what);
    }
    Ok(ran)
}

/// Takes a decommissioned node back.
pub fn take_back(world: &World, node: u32) -> Result<Ran> {
    world.taken_back.fetch_add(1, Ordering::SeqCst);
    world.ask(&["node", "recommission", &node.to_string()])
}

impl Leaver {
    fn is_gone(&self) -> bool {
        self.state == DECOMMISSIONED && self.counted == 0
    }

    /// Whether waiting for it has no point: it has left, has nowhere to go, or a switch excuses that it stays.
    fn is_waited_for_in_vain(&self, world: &World) -> bool {
        let stays = (Kind::NotEnded, self.stays());
        self.is_gone() || self.counted > 0 && !self.may_go || world.are_switched_off([&stays])
    }

    fn stays(&self) -> String {
        let Leaver { node, counted, .. } = self;
        format!("node-{node} stays with {counted} copies, though nodes enough are there for them")
    }

    fn is_untrue(&self) -> bool {
        self.state == DECOMMISSIONED && self.counted > 0
    }
}

/// Returns the nodes that are leaving or have left, as status and `stat` show them; `None` if they do not answer.
fn look(world: &World) -> Result<Option<Vec<Leaver>>> {
    let Some(status) = world.ask_json(&["cluster", "status"])? else { return Ok(None) };
    if !nodes(&status).iter().any(|node| node["leaving"] == true) {
        return Ok(Some(Vec::new()));
    }
    Ok(world.view()?.map(|view| leavers(&status, &view)))
}

fn leavers(status: &Value, view: &View) -> Vec<Leaver> {
    let stay: Vec<&Value> =
        nodes(status).iter().filter(|node| node["living"] == true && node["leaving"] != true).collect();
    let number = |node: &Value| node["node"].as_u64().unwrap_or(0) as u32;
    let host = |node: &Value| match node["host"].as_str() {
        None | Some("") => format!("of {}", number(node)),
        Some(host) => host.to_owned(),
    };
    let hosts: BTreeSet<String> = stay.iter().map(|node| host(node)).collect();
    let leaving = nodes(status).iter().filter(|node| node["leaving"] == true);
    let leaver = |said: &Value| {
        let node = number(said);
        // Versions without states call every leaving node decommissioned.
        let state = said["state"].as_str().unwrap_or(DECOMMISSIONED).to_owned();
        let counted: Vec<&str> = view.counted_at(node).collect();
        let may_go = counted.iter().all(|block| view.hosts_needed(block) <= hosts.len());
        Leaver { node, state, told: said["blocks_left"].as_u64(), counted: counted.len() as u64, may_go }
    };
    leaving.map(leaver).collect()
}

/// Waits until every leaving node has left or makes no more progress; then its state must be true. Nobody gives any orders meanwhile.
pub fn settle(world: &World, quiet: Duration) -> Result<()> {
    let deadline = Deadline::after(quiet);
    let mut same = (Vec::new(), Deadline::after(SAME_FOR));
    let mut untrue: BTreeMap<u32, u32> = BTreeMap::new();
    loop {
        let Some(leavers) = look(world)? else {
            if deadline.is_over() {
                world.violated(Kind::NotEnded, "nothing is said of nodes that leave");
                return Ok(());
            }
            std::thread::sleep(POLL);
            continue;
        };
        untrue.retain(|node, _| leavers.iter().any(|leaver| leaver.node == *node && leaver.is_untrue()));
        for leaver in leavers.iter().filter(|leaver| leaver.is_untrue()) {
            let looks = untrue.entry(leaver.node).or_default();
            *looks += 1;
            if *looks == LOOKS {
                let what = format!(
                    "node-{} {HAS_COPIES} {} copies there are counted on",
                    leaver.node, leaver.counted
                );
                world.violated(Kind::UntrueStatus, what);
            }
        }
        if leavers != same.0 {
            same = (leavers.clone(), Deadline::after(SAME_FOR));
        }
        let is_over = leavers.iter().all(Leaver::is_gone);
        let in_vain = same.1.is_over() && leavers.iter().all(|leaver| leaver.is_waited_for_in_vain(world));
        if is_over || in_vain || deadline.is_over() {
            return leavers.iter().try_for_each(|leaver| judge(world, leaver));
        }
        std::thread::sleep(POLL);
    }
}

fn judge(world: &World, leaver: &Leaver) -> Result<()> {
    let Leaver { node, state, told, counted, may_go } = leaver;
    let outcome = match (counted, may_go) {
        (0, _) if leaver.is_gone() => "nothing is left there",
        (0, _) => {
            let what = format!("node-{node} has nothing left that is counted on, and is called '{state}'");
            world.violated(Kind::NotEnded, what);
            "has left, and is not called so"
        }
        (_, true) => {
            world.violated(Kind::NotEnded, leaver.stays());
            "stays"
        }
        (_, false) => "stays: too few nodes",
    };
    world.count("decommissioned at the end", outcome);
    if *counted > 0 && told.is_some_and(|told| told != *counted) {
        let what = format!("status says that {told:?} blocks are left on node-{node}; stat shows {counted}");
        world.violated(Kind::UntrueStatus, what);
    }
    if *counted > 0 && world.ask(&["health"])?.is_ok() {
        let what = format!("node-{node} cannot leave, and health is content");
        world.violated(Kind::UntrueStatus, what);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_left_on_nodes_that_leave_is_seen() {
        let replica = json!({"block": "a", "stored_bytes": 5, "nodes": [1, 2, 3], "living_nodes": [1, 2, 3], "wanted": 3, "stripe": null});
        let mut view = View::default();
        view.add(&json!({"name": "x", "blocks": [replica]}));
        let node = |node: u32, state: Option<&str>| {
            json!({"node": node, "living": true, "leaving": state.is_some(), "host": "", "state": state,
                "blocks_left": if state == Some("leaving") { json!(1) } else { Value::Null }})
        };
        let look = |states: &[Option<&str>]| {
            let all: Vec<Value> = (1..).zip(states).map(|(number, state)| node(number, *state)).collect();
            leavers(&json!({"nodes": all}), &view)
        };
        let stuck = look(&[Some("leaving"), None, None, Some(DECOMMISSIONED)]);
        assert_eq!((stuck.len(), stuck[0].told, stuck[0].counted, stuck[0].may_go), (2, Some(1), 1, false));
        assert!(stuck[1].is_gone() && !stuck[0].is_gone());
        let goes = look(&[Some(DECOMMISSIONED), None, None, None]);
        assert!(goes[0].may_go && goes[0].is_untrue(), "{goes:?}");
    }
}
