//! What a schedule came to, and many of them together.

use crate::switches::SWITCHES;
use crate::violation::{Kind, Violation};
use crate::world::{Tally, World};
use comfy_table::{Table, presets};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// What a schedule came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// What went wrong, switched off or not.
    pub violations: Vec<Violation>,
    /// What was done, and how it went.
    pub tally: Tally,
    /// All that happened, line by line.
    pub story: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    pub(crate) fn of(world: &World, took: Duration) -> Report {
        let (violations, tally, story) = world.seen();
        Report { seed: world.plan.seed, violations, tally, story, took }
    }

    /// The violations that no switch keeps from failing the run.
    pub fn failures(&self) -> impl Iterator<Item = &Violation> {
        self.violations.iter().filter(|violation| violation.switch.is_none())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {:.1} s", self.seed, self.took.as_secs_f64())?;
        for Violation { kind, at_ms, what, switch } in &self.violations {
            let switch = switch.map_or(String::new(), |switch| format!(" (switched off: {switch})"));
            let what: String = what.chars().take(400).collect();
            write!(f, "\n  {kind} at {at_ms} ms{switch}: {what}")?;
        }
        Ok(())
    }
}

/// Many schedules together.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    runs: u64,
    took: Duration,
    tally: Tally,
    /// By kind: how many violations, in which seeds.
    failures: BTreeMap<Kind, (u64, BTreeSet<u64>)>,
    /// By switch: how many violations it let pass, in which seeds.
    passed: BTreeMap<&'static str, (u64, BTreeSet<u64>)>,
    /// Schedules that the harness could not run.
    broken: Vec<String>,
}

impl Summary {
    /// Adds a schedule.
    pub fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.took += report.took;
        for (what, outcomes) in &report.tally {
            for (outcome, times) in outcomes {
                *self.tally.entry(what.clone()).or_default().entry(outcome).or_default() += times;
            }
        }
        for violation in &report.violations {
            let (count, seeds) = match violation.switch {
                Some(switch) => self.passed.entry(switch).or_default(),
                None => self.failures.entry(violation.kind).or_default(),
            };
            *count += 1;
            seeds.insert(report.seed);
        }
    }

    /// Adds one that could not be run.
    pub fn add_broken(&mut self, seed: u64, why: &anyhow::Error) {
        self.broken.push(format!("seed {seed}: {why:#}"));
    }

    /// Whether nothing went wrong that is held against the product, or the harness.
    pub fn is_good(&self) -> bool {
        self.failures.is_empty() && self.broken.is_empty()
    }
}

fn listed(seeds: &BTreeSet<u64>) -> String {
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    seeds.join(",")
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(["WHAT", "TIMES", "OUTCOMES"]);
        for (what, outcomes) in &self.tally {
            let times: u64 = outcomes.values().sum();
            let parts: Vec<String> = outcomes.iter().map(|(how, times)| format!("{how} {times}")).collect();
            table.add_row([what.clone(), times.to_string(), parts.join(", ")]);
        }
        writeln!(f, "{table}\n")?;
        writeln!(f, "{} schedules, {:.0} s of them", self.runs, self.took.as_secs_f64())?;
        for kind in Kind::ALL {
            match self.failures.get(&kind) {
                None => writeln!(f, "{kind:<14} 0", kind = kind.name())?,
                Some((count, seeds)) => {
                    writeln!(f, "{:<14} {count}, in seeds {}", kind.name(), listed(seeds))?;
                }
            }
        }
        for switch in SWITCHES {
            let (count, seeds) = self.passed.get(switch.name).cloned().unwrap_or_default();
            let seeds_text = if seeds.is_empty() { String::new() } else { format!(" ({})", listed(&seeds)) };
            let name = switch.name;
            writeln!(
                f,
                "switched off: {name}: would have failed in {} seeds{seeds_text}, {count} times",
                seeds.len()
            )?;
        }
        for broken in &self.broken {
            writeln!(f, "not run: {broken}")?;
        }
        Ok(())
    }
}
