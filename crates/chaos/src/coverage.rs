//! The coverage of schedules, as a document: the documents of many runs can be added up, and each lists what no schedule did.

use crate::plan::{Fault, Work, codes};
use crate::violation::Kind;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Version of the document.
const FORMAT: u32 = 1;

/// Prefix of a code's name in the tally.
pub const CODE: &str = "code ";

/// Prefix in the tally of two operators' simultaneous work.
pub const OPERATORS: &str = "operators: ";

/// Policies by which puts place the replicas for a code.
const POLICIES: [&str; 4] = ["random", "ear-preliminary", "ear", "rapidraid"];

/// Encoding schemes besides the star, the default.
const ENCODINGS: [&str; 3] = ["pipeline", "pipeline-lanes", "star-lanes"];

/// Orders of two operators that should coincide.
const TOGETHER: [&str; 7] = [
    "decommission beside decommission",
    "decommission beside repair node",
    "repair node beside repair node",
    "archive all beside archive all",
    "change all codes beside compact",
    "archive all beside decommission",
    "decommission beside repair object",
];

/// Outcomes that mean that nothing was done.
const NOT_DONE: [&str; 4] = ["failed", "archive failed", "put failed", "a stop stood in"];

/// Number of occurrences, by kind of work or fault and by outcome.
pub type Tally = BTreeMap<String, BTreeMap<String, u64>>;

/// Violations of one kind.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// Number of violations.
    pub times: u64,
    /// Seeds in which they occurred.
    pub seeds: BTreeSet<u64>,
}

/// Coverage of schedules.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    /// [`FORMAT`].
    pub format: u32,
    /// Versions of the programs that were run.
    pub builds: BTreeSet<String>,
    /// Seeds that were run.
    pub seeds: BTreeSet<u64>,
    /// Number of schedules; more than seeds if some were run again.
    pub schedules: u64,
    /// Total duration.
    pub seconds: f64,
    /// Work and faults, by outcome.
    pub tally: Tally,
    /// Violations, by kind.
    pub failures: BTreeMap<Kind, Seen>,
    /// Violations that switches let pass, by switch.
    pub switched_off: BTreeMap<String, Seen>,
    /// Schedules that the harness could not run.
    pub not_run: Vec<String>,
    /// Kinds that no schedule did. Derived from the tally.
    #[serde(default)]
    pub never: BTreeSet<String>,
}

impl Coverage {
    /// Returns the coverage of no schedules.
    pub fn new() -> Coverage {
        Coverage { format: FORMAT, ..Coverage::default() }
    }

    /// Reads a document.
    ///
    /// # Errors
    /// If the file is missing or has another version.
    pub fn read(path: &Path) -> Result<Coverage> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let read: Coverage = serde_json::from_str(&text)
            .with_context(|| format!("{} says not what a run covered", path.display()))?;
        ensure!(read.format == FORMAT, "{} is of version {}", path.display(), read.format);
        Ok(read)
    }

    /// Writes the document.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(&self, path: &Path) -> Result<()> {
        let whole = Coverage { never: self.never(), ..self.clone() };
        let text = serde_json::to_string_pretty(&whole)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Adds `times` occurrences of an outcome.
    pub fn count(&mut self, what: &str, outcome: &str, times: u64) {
        *self.tally.entry(what.to_owned()).or_default().entry(outcome.to_owned()).or_default() += times;
    }

    /// Adds another run.
    pub fn add(&mut self, other: &Coverage) {
        self.builds.extend(other.builds.iter().cloned());
        self.seeds.extend(&other.seeds);
        self.schedules += other.schedules;
        self.seconds += other.seconds;
        for (what, outcomes) in &other.tally {
            outcomes.iter().for_each(|(outcome, times)| self.count(what, outcome, *times));
        }
        for (kind, seen) in &other.failures {
            self.failures.entry(*kind).or_default().add(seen);
        }
        for (switch, seen) in &other.switched_off {
            self.switched_off.entry(switch.clone()).or_default().add(seen);
        }
        self.not_run.extend(other.not_run.iter().cloned());
    }

    /// Returns everything that seeds draw and these schedules never did: faults, work, codes, policies, encodings, and pairs of operators'
    /// orders.
    pub fn never(&self) -> BTreeSet<String> {
        let is_done = |what: &str| {
            let outcomes = self.tally.get(what).into_iter().flatten();
            outcomes
                .into_iter()
                .any(|(outcome, _)| !outcome.starts_with("left out") && !NOT_DONE.contains(&&**outcome))
        };
        all().into_iter().filter(|what| !is_done(what)).collect()
    }
}

impl Seen {
    fn add(&mut self, other: &Seen) {
        self.times += other.times;
        self.seeds.extend(&other.seeds);
    }
}

/// Returns everything that seeds draw, by its names in the tally.
fn all() -> BTreeSet<String> {
    let plain = Fault::KINDS.iter().chain(Work::KINDS).map(|kind| (*kind).to_owned());
    let codes = codes::all().map(|code| format!("{CODE}{}", code.name));
    let policies = POLICIES.iter().map(|policy| format!("policy {policy}"));
    let encodings = ENCODINGS.iter().map(|scheme| format!("encoding by {scheme}"));
    let together = TOGETHER.iter().map(|orders| format!("{OPERATORS}{orders}"));
    plain.chain(codes).chain(policies).chain(encodings).chain(together).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn one(seed: u64, what: &str, outcome: &str) -> Coverage {
        let mut one = Coverage { schedules: 1, seconds: 1.5, ..Coverage::new() };
        one.seeds.insert(seed);
        one.count(what, outcome, 2);
        one
    }

    #[test]
    fn parts_are_added_up_and_survive_being_written() {
        let mut sum = one(1, "stop node", "done");
        let mut other = one(2, "stop node", "done");
        other.failures.entry(Kind::Lost).or_default().add(&Seen { times: 3, seeds: BTreeSet::from([2]) });
        sum.add(&other);
        sum.add(&other);
        assert_eq!((sum.schedules, sum.seeds.len(), sum.tally["stop node"]["done"]), (3, 2, 6));
        assert_eq!(sum.failures[&Kind::Lost].times, 6);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("coverage.json");
        sum.write(&path).unwrap();
        let read = Coverage::read(&path).unwrap();
        assert_eq!(read.never, sum.never());
        assert_eq!(Coverage { never: BTreeSet::new(), ..read }, sum);
        fs::write(&path, "{}").unwrap();
        assert!(Coverage::read(&path).is_err());
    }

    #[test]
    fn what_was_left_out_or_failed_was_never_done() {
        let never = |outcome| one(1, "stop node", outcome).never().contains("stop node");
        assert!(!never("done") && never("left out: no margin") && never("failed"));
        assert!(!one(1, "code xcode-5", "archived").never().contains("code xcode-5"));
    }
}
