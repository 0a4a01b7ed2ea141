//! What a schedule came to, and many of them together.

use crate::coverage::Coverage;
use crate::switches::SWITCHES;
use crate::violation::{Kind, Violation};
use crate::world::{Tally, World};
use comfy_table::{Table, presets};
use std::collections::BTreeSet;
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
#[derive(Clone, Debug)]
pub struct Summary(Coverage);

impl Default for Summary {
    fn default() -> Summary {
        Summary(Coverage::new())
    }
}

impl Summary {
    /// Returns an empty summary of runs of this build.
    pub fn of_build(build: String) -> Summary {
        let mut summary = Summary::default();
        summary.0.builds.insert(build);
        summary
    }

    /// Returns the summary of a given coverage.
    pub fn of(coverage: Coverage) -> Summary {
        Summary(coverage)
    }

    /// Returns the coverage.
    pub fn coverage(&self) -> &Coverage {
        &self.0
    }

    /// Adds a schedule.
    pub fn add(&mut self, report: &Report) {
        let Summary(sum) = self;
        sum.schedules += 1;
        sum.seeds.insert(report.seed);
        sum.seconds += report.took.as_secs_f64();
        for (what, outcomes) in &report.tally {
            outcomes.iter().for_each(|(outcome, times)| sum.count(what, outcome, *times));
        }
        for violation in &report.violations {
            let seen = match violation.switch {
                Some(switch) => sum.switched_off.entry(switch.to_owned()).or_default(),
                None => sum.failures.entry(violation.kind).or_default(),
            };
            seen.times += 1;
            seen.seeds.insert(report.seed);
        }
    }

    /// Adds one that could not be run.
    pub fn add_broken(&mut self, seed: u64, why: &anyhow::Error) {
        self.0.not_run.push(format!("seed {seed}: {why:#}"));
    }

    /// Whether nothing went wrong that is held against the product, or the harness.
    pub fn is_good(&self) -> bool {
        self.0.failures.is_empty() && self.0.not_run.is_empty()
    }
}

fn listed(seeds: &BTreeSet<u64>) -> String {
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    seeds.join(",")
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary(sum) = self;
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(["WHAT", "TIMES", "OUTCOMES"]);
        for (what, outcomes) in &sum.tally {
            let times: u64 = outcomes.values().sum();
            let parts: Vec<String> = outcomes.iter().map(|(how, times)| format!("{how} {times}")).collect();
            table.add_row([what.clone(), times.to_string(), parts.join(", ")]);
        }
        writeln!(f, "{table}\n")?;
        let never = sum.never();
        let never: Vec<&str> = never.iter().map(String::as_str).collect();
        writeln!(
            f,
            "never done: {}",
            if never.is_empty() { "nothing".to_owned() } else { never.join("; ") }
        )?;
        let builds: Vec<&str> = sum.builds.iter().map(String::as_str).collect();
        writeln!(f, "{} schedules, {:.0} s of them; {}", sum.schedules, sum.seconds, builds.join(", "))?;
        for kind in Kind::ALL {
            match sum.failures.get(&kind) {
                None => writeln!(f, "{kind:<14} 0", kind = kind.name())?,
                Some(seen) => {
                    writeln!(f, "{:<14} {}, in seeds {}", kind.name(), seen.times, listed(&seen.seeds))?;
                }
            }
        }
        for switch in SWITCHES {
            let seen = sum.switched_off.get(switch.name).cloned().unwrap_or_default();
            let seeds =
                if seen.seeds.is_empty() { String::new() } else { format!(" ({})", listed(&seen.seeds)) };
            let (name, count) = (switch.name, seen.seeds.len());
            writeln!(
                f,
                "switched off: {name}: would have failed in {count} seeds{seeds}, {} times",
                seen.times
            )?;
        }
        for broken in &sum.not_run {
            writeln!(f, "not run: {broken}")?;
        }
        Ok(())
    }
}
