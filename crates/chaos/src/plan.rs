//! A plan: what a schedule does, and when. It is a pure function of its seed, and is written and read as JSON, so that a seed
//! that found something replays, and can be cut down by hand.

pub mod codes;
mod draw;
mod extend;
mod fault;
mod work;

pub use fault::{CatalogDamage, Fault, Files, RecordsDamage, Taking, Unread, Unreadable};
pub use work::Work;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Version of the JSON.
pub const FORMAT: u32 = 1;

/// Every block has three replicas or members of a stripe, and is moved or made again a few times.
const TIMES_CARRIED: u64 = 9;

/// One schedule.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`FORMAT`].
    pub format: u32,
    /// What it was drawn from; it also makes the contents of objects.
    pub seed: u64,
    /// The cluster.
    pub shape: Shape,
    /// What clients do, each one thing after the other. A step begins at its time, or when the one before has ended.
    pub clients: Vec<Vec<Step<Work>>>,
    /// Orders of each operator, one after another, concurrent with the clients and the other operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<Vec<Step<Work>>>,
    /// What happens to the cluster meanwhile; each begins at its time, whatever else goes on.
    pub faults: Vec<Step<Fault>>,
    /// After this time clients begin nothing, milliseconds.
    pub ends_ms: u64,
    /// Whether daemons keep running when all faults are undone, instead of restarting.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
    /// Budgets of repairs and archival, set when the cluster starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Budgets>,
    /// Trial at the end: how nodes are taken away, as far as `health` allows, and its draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<(Taking, u64)>,
}

/// Limits of what each node sends, and receives, in kbit/s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budgets {
    /// Limit on repairs, recoveries and moves.
    pub healing_kbit: u64,
    /// Limit on encodings.
    pub archival_kbit: u64,
}

/// Something at its time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Step<T> {
    /// Milliseconds after the start.
    pub at_ms: u64,
    /// What.
    #[serde(flatten)]
    pub does: T,
}

/// A cluster, and its waits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Nodes, numbered from 1.
    pub nodes: u32,
    /// Racks that they are dealt out to.
    pub racks: u32,
    /// Length of blocks, bytes.
    pub block_bytes: u64,
    /// Code of archivals.
    pub code: String,
    /// Nodes that are one process, with a store each: they live and die together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<u32>,
    /// Nodes whose disk is small, and can be filled.
    pub small_disks: Vec<u32>,
    /// Between heartbeats.
    pub heartbeat_ms: u64,
    /// Silence after which a node is dead.
    pub dead_after_ms: u64,
    /// For which a copy that is not counted on is kept.
    pub garbage_grace_ms: u64,
    /// For which a put may be idle.
    pub put_lease_ms: u64,
    /// From a node's death to its recovery unasked, seconds.
    pub recovery_grace_s: u64,
}

impl Plan {
    /// Whether blocks wait in stripes that they are placed for: in every second seed whose racks suffice for that.
    pub fn gathers(&self) -> bool {
        let Some((data, parities)) = self.code() else { return false };
        self.seed % 2 == 1 && self.shape.racks * parities >= data + parities
    }

    /// As many blocks of a stripe in one rack as the stripe can lose.
    pub fn rack_capacity(&self) -> u32 {
        self.code().map_or(1, |(_, parities)| parities)
    }

    /// Returns the rack capacity for this code.
    pub fn rack_capacity_of(&self, code: &str) -> u32 {
        codes::known(code).map_or(1, |code| code.tolerance)
    }

    /// Data blocks and parities of the code, which is `rs-K+M`.
    fn code(&self) -> Option<(u32, u32)> {
        let (data, parities) = self.shape.code.strip_prefix("rs-")?.split_once('+')?;
        Some((data.parse().ok()?, parities.parse().ok()?))
    }

    /// The code of archivals by a pipeline, which survives as many losses as the other one.
    pub fn pipeline(&self) -> String {
        self.shape.code.replacen("rs-", "rapidraid-", 1)
    }

    /// The plan of a seed.
    pub fn of(seed: u64) -> Plan {
        extend::plan(seed)
    }

    /// The same schedule with nothing going wrong: what fails then is the harness, or the product at its plainest.
    #[must_use]
    pub fn without_faults(mut self) -> Plan {
        self.faults.clear();
        for step in self.steps_mut() {
            if let Work::Put { killed_after_ms, .. } = &mut step.does {
                *killed_after_ms = None;
            }
        }
        self
    }

    /// How many objects it names. Some may never be put: they are absent, rightly.
    pub fn objects(&self) -> usize {
        let named = self.steps().filter_map(|step| step.does.object());
        named.map(|object| object + 1).max().unwrap_or(0)
    }

    /// Returns the longest delay that the budgets can cause. It assumes that one node carries every byte that clients put, as often as
    /// the byte is stored and moved.
    pub fn slowed_by(&self) -> Duration {
        let Some(Budgets { healing_kbit, archival_kbit }) = self.budgets else { return Duration::ZERO };
        let put = |step: &Step<Work>| match step.does {
            Work::Put { bytes, .. } => bytes as u64,
            _ => 0,
        };
        let bytes: u64 = self.steps().map(put).sum();
        let bytes_per_s = healing_kbit.min(archival_kbit) * 1_000 / 8;
        Duration::from_secs(TIMES_CARRIED * bytes / bytes_per_s.max(1))
    }

    /// Returns all steps of clients and operators.
    pub fn steps(&self) -> impl Iterator<Item = &Step<Work>> {
        self.clients.iter().chain(&self.operators).flatten()
    }

    fn steps_mut(&mut self) -> impl Iterator<Item = &mut Step<Work>> {
        self.clients.iter_mut().chain(&mut self.operators).flatten()
    }

    /// Whether a fault needs the library that daemons are started with.
    pub fn needs_shim(&self) -> bool {
        self.faults.iter().any(|step| step.does.is_by_shim())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { nodes, racks, block_bytes, code, host, .. } = &self.shape;
        write!(
            f,
            "seed {}: {nodes} nodes in {racks} racks, blocks of {block_bytes} bytes, {code}",
            self.seed
        )?;
        let one_process: Vec<String> = host.iter().map(|node| format!("node-{node}")).collect();
        let host = if host.is_empty() {
            String::new()
        } else {
            format!("; one process: {}", one_process.join(", "))
        };
        writeln!(f, "{host}")?;
        if let Some(Budgets { healing_kbit, archival_kbit }) = &self.budgets {
            writeln!(f, "  budgets: healing {healing_kbit} kbit/s, archival {archival_kbit} kbit/s")?;
        }
        for (number, client) in self.clients.iter().enumerate() {
            for Step { at_ms, does } in client {
                writeln!(f, "  {at_ms:>6} ms  client {number}  {does:?}")?;
            }
        }
        for (number, operator) in self.operators.iter().enumerate() {
            for Step { at_ms, does } in operator {
                writeln!(f, "  {at_ms:>6} ms  operator {number}  {does:?}")?;
            }
        }
        for Step { at_ms, does } in &self.faults {
            writeln!(f, "  {at_ms:>6} ms  {:<22}  {does:?}", does.kind())?;
        }
        let end = if self.goes_on { "all goes on" } else { "all is started again" };
        write!(f, "  at the end {end}")?;
        match &self.trial {
            Some((taking, _)) => writeln!(f, "; then {taking:?} as much as health allows"),
            None => writeln!(f),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_plan_depends_on_its_seed_alone_and_survives_being_written() {
        for seed in 0..200 {
            let plan = Plan::of(seed);
            assert_eq!(plan, Plan::of(seed));
            assert_eq!(serde_json::from_str::<Plan>(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
        }
        assert_ne!(Plan::of(1), Plan::of(2));
    }

    #[test]
    fn a_thousand_seeds_draw_every_fault_and_all_work() {
        let (mut faults, mut work) = (BTreeSet::new(), BTreeSet::new());
        for seed in 0..1000 {
            let plan = Plan::of(seed);
            faults.extend(plan.faults.iter().map(|step| step.does.kind()));
            work.extend(plan.steps().map(|step| step.does.kind()));
        }
        assert_eq!(faults, Fault::KINDS.iter().copied().collect());
        assert_eq!(work, Work::KINDS.iter().copied().collect());
    }

    #[test]
    fn every_plan_names_only_objects_and_nodes_that_it_has() {
        for seed in 0..2_000 {
            let plan = Plan::of(seed);
            let (objects, nodes) = (plan.objects(), 1..=plan.shape.nodes);
            for Step { does, .. } in plan.steps() {
                assert!(does.object().is_none_or(|object| object < objects), "{plan}");
                assert!(does.node().is_none_or(|node| nodes.contains(&node)), "{plan}");
            }
        }
        // Nobody ever puts object 5 of this one, and somebody asks for it.
        let is_put = |step: &Step<Work>| matches!(step.does, Work::Put { object: 5, .. });
        let plan = draw::plan(442);
        assert!(!plan.steps().any(is_put) && plan.objects() == 6, "{plan}");
    }

    #[test]
    fn what_the_shim_does_and_hosts_are_drawn_beside_the_rest() {
        let (mut with, mut hosts, mut puts, mut piped_ones, mut beside_blocks) = (0, 0, 0, 0, 0);
        for seed in 0..200 {
            let mut plan = draw::plan(seed);
            with += u32::from(plan.needs_shim());
            beside_blocks += u32::from(plan.faults.iter().any(|step| step.does.is_beside_blocks()));
            plan.faults.retain(|step| !step.does.is_by_shim() && !step.does.is_beside_blocks());
            hosts += u32::from(plan.shape.host.len() == 2);
            plan.shape.host.clear();
            for steps in &mut plan.clients {
                steps.retain(|step| !matches!(step.does, Work::Change { .. } | Work::Compact));
                for step in steps {
                    match &mut step.does {
                        Work::Put { coded, .. } => puts += u32::from(std::mem::take(coded)),
                        Work::Archive { piped, .. } => piped_ones += u32::from(std::mem::take(piped)),
                        _ => {}
                    }
                }
            }
            assert_eq!(plan, draw::without_shim(seed), "{plan}");
        }
        assert!((50..150).contains(&with) && (10..80).contains(&hosts), "{with} and {hosts} of 200");
        assert!((50..150).contains(&beside_blocks), "{beside_blocks} of 200");
        assert!((1_000..3_000).contains(&puts), "{puts}");
        assert!((300..3_000).contains(&piped_ones), "{piped_ones}");
    }

    /// Two of the three nodes that keep records suffice to make the catalog of; with only one left there must be its file.
    #[test]
    fn the_catalog_is_hurt_only_as_far_as_it_can_be_made_again() {
        let (mut killed, mut two_nodes) = (0, 0);
        for seed in 0..2_000 {
            let plan = Plan::of(seed);
            let has = |is: fn(&Fault) -> bool| plan.faults.iter().filter(|step| is(&step.does)).count();
            let records = has(|fault| matches!(fault, Fault::HurtRecords { .. }));
            let catalogs = has(|fault| matches!(fault, Fault::HurtCatalog { .. }));
            let branches = has(|fault| matches!(fault, Fault::SecondCoordinator { .. }));
            assert!(catalogs == 0 || branches == 0, "{plan}");
            for step in &plan.faults {
                match &step.does {
                    Fault::HurtRecords { nodes, count, .. } => {
                        let different: BTreeSet<&u32> = nodes.iter().collect();
                        assert_eq!(different.len(), plan.shape.nodes as usize, "{plan}");
                        two_nodes += usize::from(*count == 2);
                        assert!(*count == 1 || *count == 2 && has(Fault::hurts_history) == 1, "{plan}");
                    }
                    Fault::HurtCatalog { is_killed: true, .. } => {
                        killed += 1;
                        assert_eq!(records, 0, "{plan}");
                    }
                    _ => {}
                }
            }
        }
        assert!(killed > 50 && two_nodes > 50, "{killed} {two_nodes}");
    }

    #[test]
    fn no_two_faults_of_a_plan_need_one_daemon_at_once_by_much() {
        for seed in 0..200 {
            let plan = Plan::of(seed);
            for step in &plan.faults {
                let daemons = step.does.has().unwrap_or_default();
                assert!(daemons.iter().all(|node| *node <= plan.shape.nodes), "{plan}");
                assert!(step.at_ms < plan.ends_ms, "{plan}");
            }
        }
    }
}
